//! The Python files in a zip file: those at its top level, as Airflow reads them. Serves the control flow: scan.
//!
//! Bounded in everything: the file, its number of members, each text, and all texts together. Nothing is unpacked to disk.
//!
//! Source: Airflow 2.11.2 and 3.3.2, `_load_modules_from_zip`.

use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use zip::ZipArchive;
use zip::result::ZipError;

use super::file::{self, MAX_FILE_BYTES, Opened, Stamp, Trouble};
use crate::domain::declaration::FileProblemKind;

/// The largest zip file that is read, in bytes.
const MAX_ZIP_BYTES: u64 = 256 * 1024 * 1024;

/// What the texts of one zip file may hold together, in bytes.
const MAX_TEXT_BYTES: u64 = 64 * 1024 * 1024;

/// The record at the end of a zip file without its comment, and the longest comment.
const END_BYTES: usize = 22;
const MAX_COMMENT_BYTES: u64 = 65_535;

/// A Python file at the top level.
pub(super) struct Member {
    pub(super) name: String,
    pub(super) bytes: Result<Vec<u8>, Trouble>,
}

/// Reads the Python files of a zip file, and how it looked meanwhile.
pub(super) fn read(path: &Path) -> Result<(Vec<Member>, Stamp), Trouble> {
    let mut opened = file::open(path, MAX_ZIP_BYTES)?;
    let members = check_end(&mut opened).and_then(|()| members(&opened));
    // What looks broken may have been written meanwhile.
    opened.confirm()?;
    Ok((members?, opened.stamp))
}

fn members(opened: &Opened) -> Result<Vec<Member>, Trouble> {
    let mut archive = ZipArchive::new(&opened.file).map_err(broken)?;
    let mut left = MAX_TEXT_BYTES;
    let mut members = Vec::new();
    for index in 0..archive.len() {
        let name = archive.name_for_index(index).transpose().map_err(broken)?.unwrap_or_default().into_owned();
        if name.ends_with(".py") && !name.contains('/') && name != ".py" {
            let bytes = text(&mut archive, index, left);
            left = left.saturating_sub(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64));
            members.push(Member { name, bytes });
        }
    }
    Ok(members)
}

fn text<R: Read + Seek>(archive: &mut ZipArchive<R>, index: usize, left: u64) -> Result<Vec<u8>, Trouble> {
    let member = archive.by_index(index).map_err(broken)?;
    let limit = MAX_FILE_BYTES.min(left);
    if member.size() > limit {
        return Err(file::too_large(member.size(), limit));
    }
    let mut bytes = Vec::new();
    // The size that a member claims is no promise.
    member.take(limit + 1).read_to_end(&mut bytes).map_err(|error| archive_trouble(&error.to_string()))?;
    if bytes.len() as u64 > limit {
        return Err(file::too_large(bytes.len() as u64, limit));
    }
    Ok(bytes)
}

fn broken(error: ZipError) -> Trouble {
    if let ZipError::Io(error) = error {
        return file::unreadable(error);
    }
    if matches!(error, ZipError::UnsupportedArchive(ZipError::PASSWORD_REQUIRED)) {
        return archive_trouble("it is encrypted, and Airflow cannot read it either");
    }
    archive_trouble(&error.to_string())
}

fn archive_trouble(what: &str) -> Trouble {
    Trouble::new(FileProblemKind::Archive, format!("cannot be unpacked ({what}); stored and deflated files can"))
}

/// Looks for the record at the end before the list of members is read, which takes memory for each.
fn check_end(opened: &mut Opened) -> Result<(), Trouble> {
    let reach = opened.size().min(MAX_COMMENT_BYTES + END_BYTES as u64);
    let mut tail = Vec::new();
    opened.file.seek(SeekFrom::Start(opened.size() - reach)).map_err(file::unreadable)?;
    (&opened.file).take(reach).read_to_end(&mut tail).map_err(file::unreadable)?;
    let at = tail.windows(END_BYTES).rposition(|record| record.starts_with(b"PK\x05\x06"));
    let Some(at) = at else { return Err(archive_trouble("it is no zip file, or its end is missing")) };
    if tail[at + 10..at + 12] == [0xff, 0xff] {
        return Err(Trouble::new(FileProblemKind::TooLarge, "holds more than 65,534 files; split it"));
    }
    Ok(())
}
