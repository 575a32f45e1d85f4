//! Reads the bytes of one file. Serves the control flow: scan.
//!
//! Bounded in size, never blocking on something that is not a file (a pipe called `x.py`), and never a mixture of two
//! versions: a file that changes while it is read is reported and read again by the next scan.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use crate::domain::declaration::FileProblemKind;

/// The largest file that is read, in bytes. Real DAG files, generated ones included, are far below it.
pub(super) const MAX_FILE_BYTES: u64 = 4 * 1024 * 1024;

/// What tells two names of one file from two files: device and inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Identity(u64, u64);

impl Identity {
    pub(super) fn of(metadata: &fs::Metadata) -> Self {
        Self(metadata.dev(), metadata.ino())
    }
}

/// What tells a changed file from an unchanged one. The change time notices a rewrite whose modification time was set back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    pub(super) identity: Identity,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    pub(super) fn of(metadata: &fs::Metadata) -> Self {
        Self {
            identity: Identity::of(metadata),
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

/// A file that was opened, and how it looked then.
pub(super) struct Opened {
    pub(super) file: File,
    pub(super) stamp: Stamp,
}

/// Opens a file of at most `limit` bytes.
pub(super) fn open(path: &Path, limit: u64) -> Result<Opened, Trouble> {
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path).map_err(unreadable)?;
    let metadata = file.metadata().map_err(unreadable)?;
    if !metadata.is_file() {
        return Err(Trouble::new(FileProblemKind::Unreadable, "is not a file any more"));
    }
    if metadata.size() > limit {
        return Err(too_large(metadata.size(), limit));
    }
    Ok(Opened { file, stamp: Stamp::of(&metadata) })
}

impl Opened {
    /// How large it is, in bytes.
    pub(super) fn size(&self) -> u64 {
        self.stamp.size
    }

    /// To be called once everything was read.
    ///
    /// # Errors
    /// What was read may be a mixture of two versions.
    pub(super) fn confirm(&self) -> Result<(), Trouble> {
        if Stamp::of(&self.file.metadata().map_err(unreadable)?) == self.stamp { Ok(()) } else { Err(changed()) }
    }
}

/// Reads the bytes of a file and how it looked while they were read.
pub(super) fn read(path: &Path) -> Result<(Vec<u8>, Stamp), Trouble> {
    let mut opened = open(path, MAX_FILE_BYTES)?;
    let size = opened.size();
    let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or(0));
    Read::by_ref(&mut opened.file).take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    opened.confirm()?;
    if bytes.len() as u64 != size {
        return Err(changed());
    }
    Ok((bytes, opened.stamp))
}

pub(super) fn unreadable(error: io::Error) -> Trouble {
    Trouble::new(FileProblemKind::Unreadable, format!("cannot be read ({error})"))
}

fn changed() -> Trouble {
    Trouble::new(FileProblemKind::Unreadable, "changed while it was read; the next scan reads it again")
}

pub(super) fn too_large(size: u64, limit: u64) -> Trouble {
    Trouble::new(FileProblemKind::TooLarge, format!("is {size} bytes large, and at most {limit} are read; split it"))
}
