//! Where the socket is, for the kernel: its path, also one that is longer than the kernel takes.
//!
//! The address of a socket holds 107 bytes. A longer path is named through an open descriptor of its directory
//! (`/proc/self/fd/N/control.sock`), which both sides do for themselves; so the file is where everybody looks for it.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// Source: unix(7), `sun_path` is 108 bytes with its end.
const LONGEST: usize = 107;

/// A path that fits; good as long as this value lives.
pub(super) struct Address {
    path: PathBuf,
    _directory: Option<File>,
}

impl Address {
    pub(super) fn of(path: &Path) -> io::Result<Self> {
        if path.as_os_str().as_bytes().len() <= LONGEST {
            return Ok(Self { path: path.to_owned(), _directory: None });
        }
        let directory = File::open(path.parent().unwrap_or(Path::new("/")))?;
        let name = path.file_name().unwrap_or(OsStr::new(super::FILE_NAME));
        let path = Path::new("/proc/self/fd").join(directory.as_raw_fd().to_string()).join(name);
        Ok(Self { path, _directory: Some(directory) })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}
