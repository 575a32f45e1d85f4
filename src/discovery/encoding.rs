//! The text of a Python file from its bytes, as Python itself finds it. Serves the control flow: scan.
//!
//! UTF-8, with or without a byte order mark, unless a comment on one of the first two lines names another encoding.
//!
//! Source: PEP 263; CPython 3.13, `tokenize.detect_encoding`.

use std::borrow::Cow;

use encoding_rs::Encoding;

use super::file::Trouble;
use crate::domain::declaration::FileProblemKind;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// What Python calls an encoding and the Encoding Standard does not, or means another one by.
const OTHER_NAMES: [(&str, &str); 12] = [
    ("utf-8-sig", "utf-8"),
    ("u8", "utf-8"),
    ("utf", "utf-8"),
    ("cp65001", "utf-8"),
    ("cp932", "shift_jis"),
    ("ms932", "shift_jis"),
    ("s-jis", "shift_jis"),
    ("cp936", "gbk"),
    ("cp949", "euc-kr"),
    ("cp950", "big5"),
    ("eucjp", "euc-jp"),
    ("euckr", "euc-kr"),
];

/// The text of a Python file.
pub(super) fn decode(bytes: &[u8]) -> Result<Cow<'_, str>, Trouble> {
    let (text, marked) = match bytes.strip_prefix(BYTE_ORDER_MARK) {
        Some(text) => (text, true),
        None => (bytes, false),
    };
    let Some(name) = declared(text) else { return utf8(text) };
    match normal(&name).as_str() {
        "utf-8" => utf8(text),
        _ if marked => Err(trouble(format!("begins with a UTF-8 mark and says that it is in {name:?}"))),
        "iso-8859-1" => Ok(encoding_rs::mem::decode_latin1(text)),
        "ascii" if text.is_ascii() => utf8(text),
        "ascii" => Err(trouble("says that it is in ASCII, and is not".to_owned())),
        label => by_table(&name, label, text),
    }
}

fn by_table<'a>(name: &str, label: &str, text: &'a [u8]) -> Result<Cow<'a, str>, Trouble> {
    let label = OTHER_NAMES.iter().find(|(python, _)| *python == label).map_or(label, |(_, standard)| standard);
    match Encoding::for_label_no_replacement(label.as_bytes()) {
        Some(encoding) if encoding == encoding_rs::UTF_8 => utf8(text),
        // Python refuses these for source files, since nothing in them looks like ASCII.
        Some(encoding) if encoding.is_ascii_compatible() => encoding
            .decode_without_bom_handling_and_without_replacement(text)
            .ok_or_else(|| trouble(format!("says that it is in {name:?}, and is not"))),
        Some(_) | None => Err(trouble(format!("says that it is in {name:?}, which is no encoding that is read here"))),
    }
}

fn utf8(bytes: &[u8]) -> Result<Cow<'_, str>, Trouble> {
    std::str::from_utf8(bytes).map(Cow::Borrowed).map_err(|error| {
        let before = &bytes[..error.valid_up_to()];
        let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
        let text = "is not UTF-8; save it as UTF-8, or name its encoding in the first line".to_owned();
        Trouble { line: u32::try_from(line).ok(), kind: FileProblemKind::Encoding, text }
    })
}

fn trouble(text: String) -> Trouble {
    Trouble::new(FileProblemKind::Encoding, text)
}

/// Python's normal form of a name, and one name for each encoding that Python and the Encoding Standard see differently.
fn normal(name: &str) -> String {
    let name = name.to_ascii_lowercase().replace('_', "-");
    let begins = |stem: &str| name == stem || name.strip_prefix(stem).is_some_and(|rest| rest.starts_with('-'));
    if begins("utf-8") || name == "utf8" {
        return "utf-8".to_owned();
    }
    if begins("latin-1") || begins("iso-8859-1") || begins("iso-latin-1") {
        return "iso-8859-1".to_owned();
    }
    match name.as_str() {
        "latin1" | "latin" | "l1" | "iso8859-1" | "iso8859" | "8859" | "cp819" => "iso-8859-1".to_owned(),
        "ascii" | "us-ascii" | "646" | "ansi-x3.4-1968" => "ascii".to_owned(),
        "shift-jis" | "shiftjis" | "sjis" => "shift_jis".to_owned(),
        _ => name,
    }
}

/// The encoding a comment on one of the first two lines names; on the second only where the first is blank or a comment.
fn declared(text: &[u8]) -> Option<String> {
    let mut lines = text.split(|byte| *byte == b'\n' || *byte == b'\r');
    let first = lines.next()?;
    // A line end of two bytes looks like an empty line here.
    let second = if text.get(first.len()..first.len() + 2) == Some(b"\r\n") { lines.nth(1) } else { lines.next() };
    named(first).or_else(|| if is_blank(first) { named(second?) } else { None })
}

fn named(line: &[u8]) -> Option<String> {
    let line = String::from_utf8_lossy(line);
    let comment = line.trim_start_matches([' ', '\t', '\x0c']).strip_prefix('#')?;
    comment.match_indices("coding").find_map(|(at, word)| {
        let name = comment[at + word.len()..].strip_prefix([':', '='])?.trim_start_matches([' ', '\t']);
        let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        let end = name.find(|c: char| !is_part(c)).unwrap_or(name.len());
        (end > 0).then(|| name[..end].to_owned())
    })
}

fn is_blank(line: &[u8]) -> bool {
    let rest = line.iter().find(|byte| !matches!(byte, b' ' | b'\t' | b'\x0c'));
    rest.is_none_or(|byte| *byte == b'#')
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]
mod tests {
    use super::*;

    #[test]
    fn decode_drops_the_byte_order_mark() {
        assert_eq!(decode(b"\xef\xbb\xbfx = 1").unwrap(), "x = 1");
        assert_eq!(decode("x = 'ä'".as_bytes()).unwrap(), "x = 'ä'");
        assert_eq!(decode("\u{feff}# coding: utf8\nx = 'ä'".as_bytes()).unwrap(), "# coding: utf8\nx = 'ä'");
    }

    #[test]
    fn decode_names_the_line_that_is_not_utf8() {
        let trouble = decode(b"a\nb\nc = '\xe4'\n").unwrap_err();
        assert_eq!((trouble.kind, trouble.line), (FileProblemKind::Encoding, Some(3)));
    }

    #[test]
    fn decode_believes_a_declared_encoding() {
        for (line, byte, read) in [
            ("# -*- coding: latin-1 -*-", &b"\xe4\x80"[..], "ä\u{80}"),
            ("# vim: set fileencoding=cp1252 :", b"\x80", "€"),
            ("# coding: cp1251", b"\xe6", "ж"),
            ("# coding: koi8-r", b"\xd6", "ж"),
            ("# coding: shift_jis", b"\x93\xfa", "日"),
            ("# coding=euc_jp", b"\xc6\xfc", "日"),
            ("# coding: gbk", b"\xc8\xd5", "日"),
            ("# coding: iso8859-15", b"\xa4", "€"),
            ("# encoding encoding: UTF_8", "ä".as_bytes(), "ä"),
        ] {
            for (before, newline) in [("", "\n"), ("#!/usr/bin/python\n", "\n"), ("\r\n", "\r\n"), ("\x0c\n", "\n")] {
                let bytes = [before.as_bytes(), line.as_bytes(), newline.as_bytes(), b"x = '", byte, b"'"].concat();
                assert_eq!(decode(&bytes).unwrap(), format!("{before}{line}{newline}x = '{read}'"), "{line}");
            }
        }
    }

    #[test]
    fn decode_refuses_what_python_refuses() {
        for (text, said) in [
            (&b"# coding: utf-16\nx"[..], "no encoding that is read here"),
            (b"# coding: klingon\nx", "no encoding that is read here"),
            (b"# coding: shift_jis\nx = '\x80\xff'", "and is not"),
            (b"# coding: ascii\nx = '\xe4'", "ASCII"),
            (b"\xef\xbb\xbf# coding: latin-1\nx", "UTF-8 mark"),
            (b"\xff\xfex\0=\0", "not UTF-8"),
        ] {
            let trouble = decode(text).unwrap_err();
            assert_eq!(trouble.kind, FileProblemKind::Encoding);
            assert!(trouble.text.contains(said), "{}", trouble.text);
        }
    }

    #[test]
    fn decode_takes_no_encoding_from_the_wrong_place() {
        for line in [
            "x = 'coding: latin-1'",
            "x = 1\n# coding: latin-1",
            "# coding\n# x\n# coding: latin-1",
            "# encoding things",
        ] {
            let text = format!("{line}\nx = 'ä'\n");
            assert_eq!(decode(text.as_bytes()).unwrap(), text);
        }
    }
}
