//! Names of files as they stand in origins and in log lines: one line of text, and never one name for two files.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// The name as text. Bytes that are not UTF-8, control characters and the backslash are written as in Rust (`\xff`, `\n`,
/// `\\`), so that two names stay two.
pub(super) fn escaped(name: &OsStr) -> String {
    if let Some(text) = name.to_str()
        && !text.contains(|c: char| c.is_control() || c == '\\')
    {
        return text.to_owned();
    }
    let mut out = String::new();
    for chunk in name.as_bytes().utf8_chunks() {
        for c in chunk.valid().chars() {
            if c.is_control() || c == '\\' {
                out.extend(c.escape_default());
            } else {
                out.push(c);
            }
        }
        for byte in chunk.invalid() {
            out.extend(std::ascii::escape_default(*byte).map(char::from));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_names_are_one_line_and_stay_different() {
        for (name, shown) in [
            (&b"team/\xd0\xb6.py"[..], "team/ж.py"),
            (b"a\xff.py", "a\\xff.py"),
            (b"a\xfe.py", "a\\xfe.py"),
            (b"a\\xff.py", "a\\\\xff.py"),
            (b"a\nb\x1b[1m.py", "a\\nb\\u{1b}[1m.py"),
        ] {
            assert_eq!(escaped(OsStr::from_bytes(name)), shown);
        }
    }
}
