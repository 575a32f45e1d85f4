//! Texts of the state in a form that a terminal can show, and times in words.

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// A text whose every character can be seen. Names and errors come from outside: a line break would tear a table, a control
/// sequence would rule the terminal, and marks of direction would show another name than there is.
pub(crate) fn plain(text: &str) -> String {
    let is_unseen = |c: char| {
        c.is_control()
            || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
    };
    let mut seen = String::with_capacity(text.len());
    for c in text.chars() {
        if is_unseen(c) {
            seen.extend(c.escape_default());
        } else {
            seen.push(c);
        }
    }
    seen
}

/// How many columns a text takes.
pub(super) fn width(text: &str) -> usize {
    text.width()
}

/// A text of at most that many columns: what is too long loses its middle, since names differ at both ends.
pub(super) fn cut(text: &str, most: usize) -> String {
    if width(text) <= most {
        return text.to_owned();
    }
    let Some(room) = most.checked_sub(1) else { return String::new() };
    let head = taken(text.chars(), room.div_ceil(2));
    let tail = taken(text.chars().rev(), room / 2);
    format!("{head}…{}", tail.chars().rev().collect::<String>())
}

/// The first characters that fit.
fn taken(chars: impl Iterator<Item = char>, most: usize) -> String {
    let mut used = 0;
    chars
        .take_while(|c| {
            used += c.width().unwrap_or(0);
            used <= most
        })
        .collect()
}

/// A text in lines of at most `most` columns, broken between words where there are any.
pub(super) fn wrap(text: &str, most: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let last = lines.len() - 1;
        let gap = usize::from(!lines[last].is_empty());
        if width(&lines[last]) + gap + width(word) <= most {
            if gap == 1 {
                lines[last].push(' ');
            }
            lines[last].push_str(word);
            continue;
        }
        let mut rest = word;
        if gap == 1 {
            lines.push(String::new());
        }
        while width(rest) > most {
            let head = taken(rest.chars(), most.max(2));
            let at = lines.len() - 1;
            rest = &rest[head.len()..];
            lines[at] = head;
            lines.push(String::new());
        }
        let at = lines.len() - 1;
        rest.clone_into(&mut lines[at]);
    }
    lines
}

/// A time span in its two largest units.
pub(super) fn span(secs: u64) -> String {
    let (mins, hours, days) = (secs / 60, secs / 3600, secs / 86_400);
    match (days, hours, mins) {
        (0, 0, 0) => format!("{secs} s"),
        (0, 0, _) => format!("{mins} min"),
        (0, _, _) => format!("{hours} h {} min", mins % 60),
        (_, _, _) => format!("{days} d {} h", hours % 24),
    }
}

/// How long a moment lies back.
pub(super) fn since(at_ms: i64, now_ms: i64) -> String {
    span(u64::try_from(now_ms.saturating_sub(at_ms) / 1000).unwrap_or(0))
}

/// A moment, UTC, to the second.
pub(crate) fn instant(at_ms: i64) -> String {
    let at = jiff::Timestamp::from_second(at_ms.div_euclid(1000));
    at.map_or_else(|_| format!("{at_ms} ms"), |at| at.to_string())
}
