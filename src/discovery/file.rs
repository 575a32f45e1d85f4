//! Reads one DAG file as text. Serves the control flow: scan.
//!
//! Bounded in size, never blocking on something that is not a file (a pipe called `x.py`), and never a mixture of two
//! versions: a file that changes while it is read is reported and read again by the next scan.

use std::fs::{self, File, OpenOptions};
use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use crate::domain::declaration::FileProblemKind;

/// The largest file that is read, in bytes. Real DAG files, generated ones included, are far below it.
pub(super) const MAX_FILE_BYTES: u64 = 4 * 1024 * 1024;

/// What tells a changed file from an unchanged one. The change time notices a rewrite whose modification time was set back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    pub(super) fn of(metadata: &fs::Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.size(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}

/// A file that cannot be used, without its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Trouble {
    pub(super) line: Option<u32>,
    pub(super) kind: FileProblemKind,
    pub(super) text: String,
}

impl Trouble {
    pub(super) fn new(kind: FileProblemKind, text: impl Into<String>) -> Self {
        Self { line: None, kind, text: text.into() }
    }
}

/// Reads the bytes of a file and how it looked while they were read.
pub(super) fn read(path: &Path) -> Result<(Vec<u8>, Stamp), Trouble> {
    let unreadable = |error| Trouble::new(FileProblemKind::Unreadable, format!("cannot be read ({error})"));
    let mut file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path).map_err(unreadable)?;
    let before = file.metadata().map_err(unreadable)?;
    if !before.is_file() {
        return Err(Trouble::new(FileProblemKind::Unreadable, "is not a file any more"));
    }
    if before.size() > MAX_FILE_BYTES {
        return Err(too_large(before.size()));
    }
    let mut bytes = Vec::with_capacity(usize::try_from(before.size()).unwrap_or(0));
    Read::by_ref(&mut file).take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    let stamp = Stamp::of(&before);
    if stamp_now(&file).map_err(unreadable)? != stamp || bytes.len() as u64 != before.size() {
        return Err(Trouble::new(
            FileProblemKind::Unreadable,
            "changed while it was read; the next scan reads it again",
        ));
    }
    Ok((bytes, stamp))
}

fn stamp_now(file: &File) -> std::io::Result<Stamp> {
    Ok(Stamp::of(&file.metadata()?))
}

fn too_large(size: u64) -> Trouble {
    Trouble::new(
        FileProblemKind::TooLarge,
        format!("is {size} bytes large, and at most {MAX_FILE_BYTES} are read; split it"),
    )
}

/// The text of a Python file: UTF-8, with or without a byte order mark.
pub(super) fn decode(bytes: &[u8]) -> Result<&str, Trouble> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let before = &bytes[..error.valid_up_to()];
        let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
        Trouble {
            line: u32::try_from(line).ok(),
            kind: FileProblemKind::Encoding,
            text: "is not UTF-8; save it as UTF-8".to_owned(),
        }
    })?;
    match declared_encoding(text) {
        Some(name) if !text.is_ascii() && !is_utf8(name) => Err(Trouble::new(
            FileProblemKind::Encoding,
            format!("says that it is in {name:?}, and only UTF-8 is read; save it as UTF-8"),
        )),
        Some(_) | None => Ok(text),
    }
}

/// The encoding a comment on one of the first two lines names. Source: PEP 263.
fn declared_encoding(text: &str) -> Option<&str> {
    text.lines().take(2).find_map(|line| {
        let comment = line.trim_start_matches([' ', '\t', '\x0c']).strip_prefix('#')?;
        let (_, after) = comment.split_once("coding")?;
        let name = after.strip_prefix([':', '='])?.trim_start();
        let end =
            name.find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))).unwrap_or(name.len());
        (end > 0).then_some(&name[..end])
    })
}

fn is_utf8(name: &str) -> bool {
    let name = name.to_ascii_lowercase().replace('_', "-");
    matches!(name.as_str(), "utf-8" | "utf8" | "utf-8-sig" | "u8")
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]
mod tests {
    use super::*;

    #[test]
    fn decode_drops_the_byte_order_mark() {
        assert_eq!(decode(b"\xef\xbb\xbfx = 1").unwrap(), "x = 1");
        assert_eq!(decode("x = 'ä'".as_bytes()).unwrap(), "x = 'ä'");
    }

    #[test]
    fn decode_names_the_line_that_is_not_utf8() {
        let trouble = decode(b"a\nb\nc = '\xe4'\n").unwrap_err();
        assert_eq!(trouble.kind, FileProblemKind::Encoding);
        assert_eq!(trouble.line, Some(3));
    }

    #[test]
    fn decode_believes_a_declared_encoding() {
        for line in ["# -*- coding: latin-1 -*-", "# vim: set fileencoding=cp1252 :"] {
            let text = format!("#!/usr/bin/python\n{line}\nx = 'ä'\n");
            let trouble = decode(text.as_bytes()).unwrap_err();
            assert_eq!(trouble.kind, FileProblemKind::Encoding);
            let ascii = format!("{line}\nx = 'a'\n");
            assert!(decode(ascii.as_bytes()).is_ok());
        }
        for line in ["# coding: UTF_8", "x = 'coding: latin-1'", "# encoding things"] {
            let text = format!("{line}\nx = 'ä'\n");
            assert!(decode(text.as_bytes()).is_ok(), "{line}");
        }
    }
}
