//! Files that people and programs replace while the process runs: their state, their text, the secret in their first line.
//!
//! Everything here blocks, for ever where a file system hangs: call it off the loop thread, within a bound.

use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::domain::connection::Secret;

/// A file is refused above this many bytes.
const LONGEST_FILE: u64 = 4 * 1024 * 1024;

/// What tells one state of a file from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    device: u64,
    inode: u64,
    size: u64,
    modified_ns: i128,
    changed_ns: i128,
}

impl Stamp {
    /// The state of a file now.
    ///
    /// # Errors
    /// The file cannot be seen.
    pub fn of(path: &Path) -> io::Result<Self> {
        let meta = fs::metadata(path)?;
        let nanoseconds = |secs: i64, nsec: i64| i128::from(secs) * 1_000_000_000 + i128::from(nsec);
        Ok(Self {
            device: meta.dev(),
            inode: meta.ino(),
            size: meta.size(),
            modified_ns: nanoseconds(meta.mtime(), meta.mtime_nsec()),
            changed_ns: nanoseconds(meta.ctime(), meta.ctime_nsec()),
        })
    }
}

/// Reads a regular file as UTF-8, up to a bound. Anything else (a FIFO would block for ever) is refused.
pub(crate) fn read_text(path: &Path) -> io::Result<String> {
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let mut text = String::new();
    let read = fs::File::open(path)?.take(LONGEST_FILE + 1).read_to_string(&mut text)?;
    if u64::try_from(read).unwrap_or(u64::MAX) > LONGEST_FILE {
        return Err(io::Error::other("it is longer than 4 MiB"));
    }
    Ok(text)
}

/// The secret in a file: its first line without the line's end, blanks kept, since a password may begin or end with one.
///
/// # Errors
/// The file cannot be read, or its first line is empty.
pub fn first_line(path: &Path) -> io::Result<Secret> {
    let text = read_text(path)?;
    match text.lines().next() {
        None | Some("") => Err(io::Error::other("its first line is empty")),
        Some(line) => Ok(Secret::new(line)),
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]
mod tests {
    use super::*;

    #[test]
    fn first_line_loses_its_end_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret");
        for (text, line) in [("a", "a"), (" a \n", " a "), ("a\r\nb\n", "a"), ("\t\n", "\t")] {
            fs::write(&path, text).unwrap();
            assert_eq!(first_line(&path).unwrap().expose(), line, "{text:?}");
        }
        for text in ["", "\n", "\r\na\n"] {
            fs::write(&path, text).unwrap();
            assert_eq!(first_line(&path).unwrap_err().to_string(), "its first line is empty", "{text:?}");
        }
    }

    #[test]
    fn what_is_no_file_is_refused_without_opening_it() {
        let folder = tempfile::tempdir().unwrap();
        // Reading this device would never end.
        for path in [Path::new("/dev/zero"), folder.path()] {
            assert_eq!(first_line(path).unwrap_err().to_string(), "it is not a regular file");
        }
    }

    #[test]
    fn a_file_put_in_anothers_place_has_another_stamp() {
        let folder = tempfile::tempdir().unwrap();
        let (path, other) = (folder.path().join("secret"), folder.path().join("other"));
        fs::write(&path, "one").unwrap();
        fs::write(&other, "two").unwrap();
        let before = Stamp::of(&path).unwrap();
        assert_eq!(Stamp::of(&path).unwrap(), before);
        fs::rename(&other, &path).unwrap();
        assert_ne!(Stamp::of(&path).unwrap(), before);
    }
}
