//! Byte offsets → lines and columns as an editor shows them.

use ruff_text_size::TextSize;

/// Where the lines of a text begin.
#[derive(Debug)]
pub(super) struct Lines<'a> {
    text: &'a str,
    starts: Vec<usize>,
}

impl<'a> Lines<'a> {
    /// Finds the lines of a text. `\n`, `\r\n` and a lone `\r` end one, as in Python.
    pub(super) fn of(text: &'a str) -> Self {
        let bytes = text.as_bytes();
        let mut starts = vec![0];
        for (at, byte) in bytes.iter().enumerate() {
            let ends_line = match byte {
                b'\n' => true,
                b'\r' => bytes.get(at + 1) != Some(&b'\n'),
                _ => false,
            };
            if ends_line {
                starts.push(at + 1);
            }
        }
        Self { text, starts }
    }

    /// Line and column of an offset, both counted from 1, the column in characters.
    pub(super) fn position(&self, offset: TextSize) -> (u32, u32) {
        let offset = offset.to_usize().min(self.text.len());
        let line = self.starts.partition_point(|start| *start <= offset);
        let start = self.starts[line - 1];
        let column = self.text.get(start..offset).map_or(0, |before| before.chars().count());
        let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        (number(line), number(column + 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn position_counts_lines_of_every_kind_and_characters() {
        let text = "a\nb\r\nc\räx@\n";
        let lines = Lines::of(text);
        let at = |what: char| {
            let offset = text.find(what).unwrap_or(0);
            lines.position(TextSize::new(u32::try_from(offset).unwrap_or(0)))
        };
        assert_eq!(at('a'), (1, 1));
        assert_eq!(at('b'), (2, 1));
        assert_eq!(at('c'), (3, 1));
        assert_eq!(at('x'), (4, 2));
        assert_eq!(at('@'), (4, 3));
        assert_eq!(lines.position(TextSize::new(10_000)), (5, 1));
    }
}
