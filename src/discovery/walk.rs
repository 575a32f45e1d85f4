//! Lists the files below the folders that may declare something. Serves the control flow: scan.
//!
//! Everything below a folder that cannot be listed is a value beside the files; only when no folder can be listed there is no
//! listing. Each directory and each file is listed once, under its real place where it has one, so a loop of symbolic links
//! ends, a link beside its target is no second declaration, and folders may overlap: the innermost has the file, as in
//! Airflow. The order is that of the names, so two scans of the same folders agree. Names that begin with a dot are not
//! looked at: they are editors', `git`'s and volume mounts' own. What `.airflowignore` leaves out is not looked at either.

use std::collections::{HashSet, VecDeque};
use std::ffi::{OsStr, OsString};
use std::fs::{self, DirEntry, FileType, Metadata};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::file::{Identity, Stamp};
use super::ignore_rules::{Cache, FILE_NAME, Rule, Rules};
use super::name::escaped;
use crate::config::dags::{DagRoot, IgnoreSyntax};
use crate::domain::declaration::{FileProblem, FileProblemKind};

/// What a file's name says it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Python,
    Archive,
    Yaml,
}

/// A file below one of the folders.
#[derive(Debug)]
pub(super) struct Found {
    /// Where it is.
    pub(super) path: PathBuf,
    /// Of which root it is.
    pub(super) root: usize,
    /// How it looked when it was listed.
    pub(super) stamp: Stamp,
    pub(super) kind: Kind,
}

/// What is below the folders.
#[derive(Debug, Default)]
pub(super) struct Listing {
    /// In the order in which they were met.
    pub(super) files: Vec<Found>,
    /// Sorted by name.
    pub(super) problems: Vec<FileProblem>,
    /// Every directory that was listed.
    pub(super) directories: Vec<PathBuf>,
    /// What was left out, where that was asked for: its name, and the rule.
    pub(super) left_out: Vec<(String, String)>,
    /// What was left out while the syntax of the rules is not known: files, and directories with all below them.
    pub(super) undecided: Vec<String>,
}

/// How to list.
#[derive(Clone, Copy, Debug)]
pub(super) struct Manner {
    /// `None` where it is not known.
    pub(super) syntax: Option<IgnoreSyntax>,
    /// Whether to note what is left out.
    pub(super) explain: bool,
}

/// Names of files in origins: relative to their folder, `/` between their parts; with several folders the bundle's name and a
/// colon stand before.
#[derive(Clone, Copy, Debug)]
pub(super) struct Names<'a>(pub(super) &'a [DagRoot]);

impl<'a> Names<'a> {
    /// The bundles that stand before names, as they stand there.
    pub(super) fn bundles(self) -> Vec<String> {
        let roots = if self.0.len() > 1 { self.0 } else { &[] };
        roots.iter().map(|root| escaped(OsStr::new(&root.bundle))).collect()
    }

    /// The place of a file's root.
    pub(super) fn root(self, found: &Found) -> &'a Path {
        self.0.get(found.root).map_or(Path::new(""), |root| &root.path)
    }

    /// A file's name below its root.
    pub(super) fn below_root(self, found: &Found) -> String {
        escaped(found.path.strip_prefix(self.root(found)).unwrap_or(&found.path).as_os_str())
    }

    pub(super) fn of(self, found: &Found) -> String {
        self.below(found.root, &found.path)
    }

    fn below(self, root: usize, path: &Path) -> String {
        let Some(root) = self.0.get(root) else { return escaped(path.as_os_str()) };
        let name = escaped(path.strip_prefix(&root.path).unwrap_or(path).as_os_str());
        if self.0.len() > 1 { format!("{}:{name}", escaped(OsStr::new(&root.bundle))) } else { name }
    }
}

/// Lists the folders and everything below them.
///
/// # Errors
/// No folder can be listed: the first of them, and why.
pub(super) fn list<'a>(
    roots: &'a [DagRoot],
    manner: Manner,
    cache: &mut Cache,
) -> Result<Listing, (&'a DagRoot, io::Error)> {
    let mut walk = Walk {
        roots,
        manner,
        cache,
        directories: VecDeque::new(),
        links: VecDeque::new(),
        seen: HashSet::new(),
        listing: Listing::default(),
    };
    let mut failures = Vec::new();
    for index in innermost_first(roots) {
        if let Err(error) = walk.begin(index) {
            failures.push((index, error));
        }
        // Links wait until everything real has its place.
        while let Some(place) = walk.directories.pop_front() {
            walk.enter(&place);
        }
    }
    loop {
        if let Some(place) = walk.directories.pop_front() {
            walk.enter(&place);
        } else if let Some(link) = walk.links.pop_front() {
            walk.follow(link);
        } else {
            break;
        }
    }
    let is_outage = failures.len() == roots.len();
    failures.sort_by_key(|(index, _)| *index);
    for (index, error) in failures {
        if is_outage {
            return Err((&roots[index], error));
        }
        walk.report_directory(index, &roots[index].path, &error);
    }
    let mut listing = walk.listing;
    listing.problems.sort_by(|a, b| a.file.cmp(&b.file));
    Ok(listing)
}

fn innermost_first(roots: &[DagRoot]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..roots.len()).collect();
    order.sort_by_key(|index| std::cmp::Reverse(roots[*index].path.components().count()));
    order
}

/// Something that is still to be looked at, and what holds there.
struct Place {
    path: PathBuf,
    root: usize,
    rules: Rules,
}

struct Walk<'a> {
    roots: &'a [DagRoot],
    manner: Manner,
    cache: &'a mut Cache,
    directories: VecDeque<Place>,
    links: VecDeque<Place>,
    seen: HashSet<Identity>,
    listing: Listing,
}

impl Walk<'_> {
    fn begin(&mut self, root: usize) -> io::Result<()> {
        let path = self.roots[root].path.clone();
        let metadata = fs::metadata(&path)?;
        if self.seen.insert(Identity::of(&metadata)) {
            self.list_directory(&Place { path, root, rules: Rules::default() })?;
        }
        Ok(())
    }

    fn list_directory(&mut self, place: &Place) -> io::Result<()> {
        let mut entries: Vec<(OsString, DirEntry, FileType)> = Vec::new();
        let mut has_rules = false;
        for entry in fs::read_dir(&place.path)? {
            let entry = entry?;
            let name = entry.file_name();
            has_rules |= name == FILE_NAME;
            if is_looked_at(&name) {
                let kind = entry.file_type()?;
                if !kind.is_file() || kind_of(&name).is_some() {
                    entries.push((name, entry, kind));
                }
            }
        }
        let rules = if has_rules { self.rules(place)? } else { place.rules.clone() };
        self.listing.directories.push(place.path.clone());
        // The order decides under which name something that is linked twice is found.
        entries.sort_by(|(a, ..), (b, ..)| a.cmp(b));
        for (_, entry, kind) in entries {
            let found = Place { path: entry.path(), root: place.root, rules: rules.clone() };
            if kind.is_symlink() {
                self.links.push_back(found);
            } else if kind.is_dir() {
                if !self.is_left_out(&found, true) {
                    self.directories.push_back(found);
                }
            } else if kind.is_file() && !self.is_left_out(&found, false) {
                match entry.metadata() {
                    Ok(metadata) => self.add_file(found, &metadata),
                    Err(error) => self.report_file(&found, &error),
                }
            }
        }
        Ok(())
    }

    fn rules(&mut self, place: &Place) -> io::Result<Rules> {
        let loaded = self
            .cache
            .load(&place.path, self.manner.syntax, &place.rules)
            .map_err(|error| io::Error::new(error.kind(), format!("its {FILE_NAME}: {error}")))?;
        let Some(loaded) = loaded else { return Ok(place.rules.clone()) };
        let path = place.path.join(FILE_NAME);
        for (line, text) in loaded.bad {
            self.report(place.root, &path, Some(line), FileProblemKind::IgnoreRule, text);
        }
        Ok(loaded.rules)
    }

    fn is_left_out(&mut self, place: &Place, is_directory: bool) -> bool {
        let root = &self.roots[place.root].path;
        let Some(Rule { file, line }) = place.rules.ignores(root, &place.path, is_directory) else { return false };
        let names = Names(self.roots);
        if self.manner.syntax.is_none() {
            self.listing.undecided.push(names.below(place.root, &place.path));
        }
        if self.manner.explain {
            let name = names.below(place.root, &place.path);
            let rule = format!("{}:{line}", names.below(place.root, &file));
            self.listing.left_out.push((if is_directory { format!("{name}/") } else { name }, rule));
        }
        true
    }

    fn enter(&mut self, place: &Place) {
        let listed = fs::metadata(&place.path).and_then(|metadata| {
            if self.seen.insert(Identity::of(&metadata)) { self.list_directory(place) } else { Ok(()) }
        });
        if let Err(error) = listed
            && error.kind() != io::ErrorKind::NotFound
        {
            self.report_directory(place.root, &place.path, &error);
        }
    }

    fn follow(&mut self, link: Place) {
        let name = link.path.file_name().unwrap_or_default();
        let (is_file, has_extension) = (kind_of(name).is_some(), link.path.extension().is_some());
        match fs::metadata(&link.path) {
            Ok(metadata) if metadata.is_dir() => {
                if !self.is_left_out(&link, true) {
                    self.directories.push_back(link);
                }
            }
            Ok(metadata) if metadata.is_file() && is_file => {
                if !self.is_left_out(&link, false) {
                    self.add_file(link, &metadata);
                }
            }
            Ok(_) => {}
            Err(error) if is_file && !self.is_left_out(&link, false) => self.report_file(&link, &error),
            // A link without an extension is most likely one to a directory, whose files are now unknown.
            Err(error) if !has_extension && !self.is_left_out(&link, true) => {
                self.report_directory(link.root, &link.path, &error);
            }
            Err(_) => {}
        }
    }

    fn add_file(&mut self, place: Place, metadata: &Metadata) {
        let stamp = Stamp::of(metadata);
        let Some(kind) = place.path.file_name().and_then(kind_of) else { return };
        if self.seen.insert(stamp.identity) {
            self.listing.files.push(Found { path: place.path, root: place.root, stamp, kind });
        }
    }

    fn report_file(&mut self, place: &Place, error: &io::Error) {
        let text = format!("cannot be read ({error})");
        self.report(place.root, &place.path, None, FileProblemKind::Unreadable, text);
    }

    fn report_directory(&mut self, root: usize, path: &Path, error: &io::Error) {
        let text = format!("cannot be listed ({error}), so the subscriptions below it are unknown");
        self.report(root, path, None, FileProblemKind::DirectoryUnreadable, text);
    }

    fn report(&mut self, root: usize, path: &Path, line: Option<u32>, kind: FileProblemKind, text: String) {
        let file = Names(self.roots).below(root, path);
        self.listing.problems.push(FileProblem { file, line, kind, text });
    }
}

/// Whether a name is one that people give.
pub(super) fn is_looked_at(name: &OsStr) -> bool {
    !name.as_bytes().starts_with(b".") && name != "__pycache__"
}

/// What a file of that name would be.
pub(super) fn kind_of(name: &OsStr) -> Option<Kind> {
    let name = name.as_bytes();
    if name.ends_with(b".py") {
        Some(Kind::Python)
    } else if name.ends_with(b".zip") {
        Some(Kind::Archive)
    } else if name == b"rmq_triggers.yaml" || name == b"rmq_triggers.yml" {
        Some(Kind::Yaml)
    } else {
        None
    }
}
