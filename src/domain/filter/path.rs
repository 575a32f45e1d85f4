//! The way to a value inside a JSON body, as it is written behind `body.` in a filter.

use std::fmt;

/// The most parts of a path; no body that is read is deeper.
pub(super) const MAX_PARTS: usize = 256;

/// The parts of a path, at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Path(Vec<Part>);

/// One step down: the key of an object, and, where it is a whole number, the place in a list as well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) key: Box<str>,
    pub(super) place: Option<usize>,
}

impl Path {
    /// Reads a path: parts between dots; `\.` is a dot and `\\` a backslash inside a part.
    ///
    /// # Errors
    /// A backslash before anything else.
    pub(super) fn parse(text: &str) -> Result<Self, &'static str> {
        let mut parts = Vec::new();
        let mut key = String::new();
        let mut chars = text.chars();
        while let Some(c) = chars.next() {
            match c {
                '.' => parts.push(Part::new(std::mem::take(&mut key))),
                '\\' => match chars.next() {
                    Some(escaped @ ('.' | '\\')) => key.push(escaped),
                    Some(_) | None => {
                        return Err("a backslash stands before a dot or a backslash only; write `\\\\` for itself");
                    }
                },
                c => key.push(c),
            }
        }
        parts.push(Part::new(key));
        Ok(Self(parts))
    }

    pub(super) fn parts(&self) -> &[Part] {
        &self.0
    }
}

impl Part {
    fn new(key: String) -> Self {
        let is_plain = key == "0" || !key.starts_with('0') && key.bytes().all(|b| b.is_ascii_digit());
        let place = if is_plain { key.parse().ok() } else { None };
        Self { key: key.into(), place }
    }
}

/// As it is written, without `body.`.
impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, part) in self.0.iter().enumerate() {
            if at > 0 {
                f.write_str(".")?;
            }
            f.write_str(&part.key.replace('\\', "\\\\").replace('.', "\\."))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(text: &str) -> Vec<String> {
        let path = Path::parse(text).expect("a path");
        assert_eq!(path.to_string(), text);
        path.parts().iter().map(|part| part.key.to_string()).collect()
    }

    #[test]
    fn dots_part_and_escaped_dots_do_not() {
        assert_eq!(keys("a.b"), ["a", "b"]);
        assert_eq!(keys(""), [""]);
        assert_eq!(keys("a."), ["a", ""]);
        assert_eq!(keys(r"a\.b.c\\d"), ["a.b", r"c\d"]);
        assert!(Path::parse(r"a\b").is_err());
        assert!(Path::parse(r"a\").is_err());
    }

    #[test]
    fn whole_numbers_are_places_too() {
        let path = Path::parse("0.12.01.-1.99999999999999999999.").expect("a path");
        let places: Vec<_> = path.parts().iter().map(|part| part.place).collect();
        assert_eq!(places, [Some(0), Some(12), None, None, None, None]);
    }
}
