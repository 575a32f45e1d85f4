//! Lists the Python files below a folder. Serves the control flow: scan.
//!
//! Everything below the folder that cannot be listed is a value beside the files; only the folder itself is an error. Each
//! directory and each file is listed once, under its real place where it has one in the folder, so a loop of symbolic
//! links ends and a link beside its target is no second declaration. The order is that of the names, so two scans of the
//! same folder agree. Names that begin with a dot are not looked at: they are editors', `git`'s and volume mounts' own.

use std::collections::{HashSet, VecDeque};
use std::ffi::OsStr;
use std::fs::{self, DirEntry, FileType};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::file::Stamp;
use crate::domain::declaration::{FileProblem, FileProblemKind};

/// A Python file below the folder.
#[derive(Debug)]
pub(super) struct Found {
    /// Where it is.
    pub(super) path: PathBuf,
    /// Its name in origins: relative to the folder, `/` between its parts.
    pub(super) name: String,
    /// How it looked when it was listed.
    pub(super) stamp: Stamp,
}

/// What is below the folder, sorted by name.
#[derive(Debug, Default)]
pub(super) struct Listing {
    pub(super) files: Vec<Found>,
    pub(super) problems: Vec<FileProblem>,
}

/// Lists the folder and everything below it.
///
/// # Errors
/// The folder itself cannot be listed.
pub(super) fn list(folder: &Path) -> io::Result<Listing> {
    let mut walk = Walk {
        folder,
        directories: VecDeque::new(),
        links: VecDeque::new(),
        seen: HashSet::new(),
        listing: Listing::default(),
    };
    walk.seen.insert(identity(&fs::metadata(folder)?));
    walk.list_directory(folder)?;
    // Links wait until everything real has its place.
    loop {
        if let Some(directory) = walk.directories.pop_front() {
            walk.enter(&directory);
        } else if let Some(link) = walk.links.pop_front() {
            walk.follow(link);
        } else {
            break;
        }
    }
    let mut listing = walk.listing;
    listing.files.sort_by(|a, b| a.name.cmp(&b.name));
    listing.problems.sort_by(|a, b| a.file.cmp(&b.file));
    Ok(listing)
}

/// What tells two names of one file from two files.
type Identity = (u64, u64);

fn identity(metadata: &fs::Metadata) -> Identity {
    (metadata.dev(), metadata.ino())
}

struct Walk<'a> {
    folder: &'a Path,
    directories: VecDeque<PathBuf>,
    links: VecDeque<PathBuf>,
    seen: HashSet<Identity>,
    listing: Listing,
}

impl Walk<'_> {
    fn list_directory(&mut self, directory: &Path) -> io::Result<()> {
        let mut entries: Vec<(DirEntry, FileType)> = Vec::new();
        for entry in fs::read_dir(directory)? {
            let entry = entry?;
            let kind = entry.file_type()?;
            let name = entry.file_name();
            if is_looked_at(&name) && (!kind.is_file() || is_python(Path::new(&name))) {
                entries.push((entry, kind));
            }
        }
        // The order decides under which name something that is linked twice is found.
        entries.sort_by_cached_key(|(entry, _)| entry.file_name());
        for (entry, kind) in entries {
            let path = entry.path();
            if kind.is_symlink() {
                self.links.push_back(path);
            } else if kind.is_dir() {
                self.directories.push_back(path);
            } else if kind.is_file() {
                match entry.metadata() {
                    Ok(metadata) => self.add_file(path, &metadata),
                    Err(error) => self.report_file(&path, &error),
                }
            }
        }
        Ok(())
    }

    fn enter(&mut self, directory: &Path) {
        let listed = fs::metadata(directory).and_then(|metadata| {
            if self.seen.insert(identity(&metadata)) { self.list_directory(directory) } else { Ok(()) }
        });
        if let Err(error) = listed
            && error.kind() != io::ErrorKind::NotFound
        {
            self.report_directory(directory, &error);
        }
    }

    fn follow(&mut self, link: PathBuf) {
        match fs::metadata(&link) {
            Ok(metadata) if metadata.is_dir() => self.directories.push_back(link),
            Ok(metadata) if metadata.is_file() && is_python(&link) => {
                self.add_file(link, &metadata);
            }
            Ok(_) => {}
            Err(error) if is_python(&link) => self.report_file(&link, &error),
            // A link without an extension is most likely one to a directory, whose files are now unknown.
            Err(error) if link.extension().is_none() => self.report_directory(&link, &error),
            Err(_) => {}
        }
    }

    fn add_file(&mut self, path: PathBuf, metadata: &fs::Metadata) {
        if self.seen.insert(identity(metadata)) {
            self.listing.files.push(Found { name: self.name(&path), stamp: Stamp::of(metadata), path });
        }
    }

    fn report_file(&mut self, path: &Path, error: &io::Error) {
        self.report(path, FileProblemKind::Unreadable, format!("cannot be read ({error})"));
    }

    fn report_directory(&mut self, path: &Path, error: &io::Error) {
        self.report(
            path,
            FileProblemKind::DirectoryUnreadable,
            format!("cannot be listed ({error}), so the subscriptions below it are unknown"),
        );
    }

    fn report(&mut self, path: &Path, kind: FileProblemKind, text: String) {
        let file = self.name(path);
        self.listing.problems.push(FileProblem { file, line: None, kind, text });
    }

    fn name(&self, path: &Path) -> String {
        path.strip_prefix(self.folder).unwrap_or(path).to_string_lossy().into_owned()
    }
}

fn is_looked_at(name: &OsStr) -> bool {
    !name.as_bytes().starts_with(b".") && name != "__pycache__"
}

fn is_python(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "py")
}
