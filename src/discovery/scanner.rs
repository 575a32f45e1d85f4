//! Some folders, scanned again and again: list → read what changed → put together. Serves the control flow: scan.
//!
//! A file whose [`Stamp`] is the one it was read under is not opened again. What could not be read for a reason outside
//! its text is tried again each time.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread;

use super::content::{self, Content, File};
use super::explain::{self, FileVerdict};
use super::file::{Identity, Stamp, Trouble};
use super::ignore_rules::Cache;
use super::links;
use super::modules::{RootModules, is_as_it_was};
use super::python::{Library, Reading};
use super::walk::{self, Found, Listing, Manner, Names};
use super::watch::Places;
use super::{READER_STACK_BYTES, Scan, ScanError};
use crate::config::dags::{DagFolders, IgnoreSyntax};
use crate::domain::declaration::{FileProblem, FileProblemKind, keep_first};

/// Scans folders again and again, reading only the files that changed.
#[derive(Debug)]
pub struct Scanner {
    folders: DagFolders,
    default_syntax: DefaultSyntax,
    read: HashMap<Identity, Read>,
    memory: Memory,
    ignore_files: Cache,
    places: Places,
    /// The number of the scan, so that what was not listed this time can be told and forgotten.
    round: u64,
}

/// How `.airflowignore` is meant where Airflow's settings leave it to Airflow's version: that of Airflow 3 until told
/// otherwise. Clones share one value.
#[derive(Clone, Debug, Default)]
pub struct DefaultSyntax(Arc<AtomicU8>);

const GLOB: u8 = 0;
const REGEXP: u8 = 1;
const NOT_KNOWN: u8 = 2;

impl DefaultSyntax {
    /// Takes the default of a version from the next scan on; `None` where the version is not known: what either would leave out is
    /// left out, and [`Scan::undecided`]. Returns whether that is new.
    pub fn set(&self, syntax: Option<IgnoreSyntax>) -> bool {
        let value = match syntax {
            Some(IgnoreSyntax::Glob) => GLOB,
            Some(IgnoreSyntax::Regexp) => REGEXP,
            None => NOT_KNOWN,
        };
        self.0.swap(value, Ordering::Relaxed) != value
    }

    fn get(&self) -> Option<IgnoreSyntax> {
        match self.0.load(Ordering::Relaxed) {
            GLOB => Some(IgnoreSyntax::Glob),
            REGEXP => Some(IgnoreSyntax::Regexp),
            _ => None,
        }
    }
}

/// What is remembered of a file.
#[derive(Clone, Debug)]
struct Read {
    /// How the file looked; `None` where it has to be read again whatever it looks like.
    stamp: Option<Stamp>,
    content: Content,
    /// The files whose constants it uses, and how they looked, where they were there.
    asked: Vec<(String, Option<Stamp>)>,
    /// The name that stands in the content's origins, where it has any.
    named: Option<Box<str>>,
    /// The last scan that listed the file.
    round: u64,
}

impl Read {
    fn is_of(&self, found: &Found, names: Names<'_>) -> bool {
        self.stamp == Some(found.stamp)
            && self.named.as_deref().is_none_or(|named| *named == names.of(found))
            && is_as_it_was(names.root(found), &self.asked)
    }
}

impl Scanner {
    /// A scanner of one folder that has read nothing yet.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self::of(DagFolders::one(folder))
    }

    /// A scanner of these folders that has read nothing yet.
    pub fn of(folders: DagFolders) -> Self {
        Self {
            folders,
            default_syntax: DefaultSyntax::default(),
            read: HashMap::new(),
            memory: Memory::default(),
            ignore_files: Cache::default(),
            places: Places::default(),
            round: 0,
        }
    }

    /// What decides how `.airflowignore` is read where Airflow's settings do not.
    pub fn default_syntax(&self) -> DefaultSyntax {
        self.default_syntax.clone()
    }

    /// Where a change could change what a scan finds: the directories that the last scan listed, and the links that led there.
    pub fn places(&self) -> &Places {
        &self.places
    }

    /// Scans the folders as they are now. Blocks: a listing, and the reading of what changed since the last scan.
    ///
    /// # Errors
    /// [`ScanError`]: nothing is known, so keep the last good scan.
    pub fn scan(&mut self) -> Result<Scan, ScanError> {
        self.look(false).map(|(scan, _)| scan)
    }

    /// Scans the folders as [`Scanner::scan`] does, and says of every file what was found.
    ///
    /// # Errors
    /// [`ScanError`]: nothing is known.
    pub fn explain(&mut self) -> Result<(Scan, Vec<FileVerdict>), ScanError> {
        let (scan, listing) = self.look(true)?;
        let names = Names(&self.folders.roots);
        let mut files = Vec::with_capacity(listing.files.len());
        for found in &listing.files {
            match self.read.get(&found.stamp.identity).map(|known| &known.content) {
                Some(Content::Members(members)) if !members.is_empty() => {
                    files.extend(members.iter().map(|(name, _)| name.clone()));
                }
                Some(Content::Members(_) | Content::Nothing | Content::Reading(_) | Content::Trouble(_)) | None => {
                    files.push(names.of(found));
                }
            }
        }
        let verdicts = explain::verdicts(&scan, files, listing.left_out);
        Ok((scan, verdicts))
    }

    fn look(&mut self, explain: bool) -> Result<(Scan, Listing), ScanError> {
        if let Some(reason) = &self.folders.fault {
            return Err(ScanError::NoFolder { reason: reason.clone() });
        }
        let roots = &self.folders.roots;
        if roots.is_empty() {
            return Err(ScanError::NoFolder { reason: "no DAG folder is named".to_owned() });
        }
        // Taken first: a link that is switched during the scan is news after it, also where the scan fails.
        self.places.links = roots.iter().flat_map(|root| links::on_the_way(&root.path)).collect();
        let syntax = self.folders.ignore_syntax.or_else(|| self.default_syntax.get());
        let mut listing = walk::list(roots, Manner { syntax, explain }, &mut self.ignore_files)
            .map_err(|(root, source)| ScanError::ListFolder { folder: root.path.clone(), source })?;
        self.places.directories = std::mem::take(&mut listing.directories);
        let names = Names(roots);
        self.round += 1;
        let round = self.round;
        let mut changed: Vec<Changed<'_>> = Vec::new();
        // Most files say nothing and stay so: they take one look-up.
        let mut telling: Vec<&Found> = Vec::new();
        for found in &listing.files {
            match self.read.get_mut(&found.stamp.identity) {
                Some(known) if known.is_of(found, names) => {
                    known.round = round;
                    if known.content.is_told() {
                        telling.push(found);
                    }
                }
                Some(_) | None => {
                    changed.push(Changed { found, name: names.of(found), before: self.memory.of(&found.path) });
                    telling.push(found);
                }
            }
        }
        self.read.extend(read_on_own_thread(&changed, names, round)?);
        self.read.retain(|_, known| known.round == round);
        let mut parts = Parts::default();
        for found in telling {
            if let Some(known) = self.read.get(&found.stamp.identity) {
                self.memory.keep(&found.path, &known.content, round);
                parts.add(&|| names.of(found), &known.content);
            }
        }
        self.memory.forget(round);
        let scan = parts.into_scan(&listing, names.bundles());
        Ok((scan, listing))
    }
}

/// What files said when they were last read, those only that said something: a file may be replaced by a text that was cut
/// off, and may be unreadable or gone in between.
#[derive(Debug, Default)]
struct Memory(HashMap<PathBuf, (Content, u64)>);

impl Memory {
    /// For how many scans a file that is gone is remembered.
    const SCANS: u64 = 10;

    fn of(&self, path: &Path) -> Content {
        self.0.get(path).map_or(Content::Nothing, |(content, _)| content.clone())
    }

    fn keep(&mut self, path: &Path, content: &Content, round: u64) {
        if let Some((before, seen)) = self.0.get_mut(path) {
            *seen = round;
            match content {
                Content::Trouble(_) => {}
                Content::Nothing | Content::Reading(_) | Content::Members(_) => *before = content.clone(),
            }
        } else if content.says_something() {
            self.0.insert(path.to_owned(), (content.clone(), round));
        }
    }

    fn forget(&mut self, round: u64) {
        self.0.retain(|_, (content, seen)| content.says_something() && *seen + Self::SCANS > round);
    }
}

/// A file that is to be read.
struct Changed<'a> {
    found: &'a Found,
    name: String,
    before: Content,
}

/// Reads files on a thread whose stack is large enough for the deepest text that is let through.
fn read_on_own_thread(
    changed: &[Changed<'_>],
    names: Names<'_>,
    round: u64,
) -> Result<Vec<(Identity, Read)>, ScanError> {
    if changed.is_empty() {
        return Ok(Vec::new());
    }
    let read_all = || {
        // Each root is a place of its own that Python imports from.
        let modules: Vec<RootModules<'_>> = names.0.iter().map(|root| RootModules::new(&root.path)).collect();
        let libraries: Vec<Library<'_>> = modules.iter().map(|modules| Library::new(modules)).collect();
        let read = |changed: &Changed<'_>| {
            let root = changed.found.root;
            (changed.found.stamp.identity, read_one(changed, names, &modules[root], &libraries[root], round))
        };
        changed.iter().map(read).collect()
    };
    thread::scope(|scope| {
        let start =
            |stack| thread::Builder::new().name("dag-files".to_owned()).stack_size(stack).spawn_scoped(scope, read_all);
        // Where address space is limited, a stack that is enough for every honest file is better than no scan.
        let reader =
            start(READER_STACK_BYTES).or_else(|_| start(READER_STACK_BYTES / 16)).map_err(ScanError::StartThread)?;
        match reader.join() {
            Ok(read) => Ok(read),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

fn read_one(
    Changed { found, name, before }: &Changed<'_>,
    names: Names<'_>,
    modules: &RootModules<'_>,
    library: &Library<'_>,
    round: u64,
) -> Read {
    let file = File { kind: found.kind, path: &found.path, name, below: &names.below_root(found) };
    match content::read(file, before, library) {
        Ok((content, asked, stamp)) => {
            // A name that was found under another one when it was opened is looked at again by the next scan.
            let stamp = (stamp.identity == found.stamp.identity).then_some(stamp);
            let named = matches!(content, Content::Reading(_) | Content::Members(_)).then(|| name.as_str().into());
            let asked = asked.into_iter().map(|file| (file.clone(), modules.stamp(&file))).collect();
            Read { stamp, content, asked, named, round }
        }
        Err(trouble) => Read {
            stamp: is_of_the_text(&trouble).then_some(found.stamp),
            content: Content::Trouble(Arc::new(trouble)),
            asked: Vec::new(),
            named: None,
            round,
        },
    }
}

/// Whether a file is in trouble as long as it looks the same.
fn is_of_the_text(trouble: &Trouble) -> bool {
    match trouble.kind {
        FileProblemKind::TooLarge | FileProblemKind::Archive => true,
        FileProblemKind::DirectoryUnreadable
        | FileProblemKind::Unreadable
        | FileProblemKind::Encoding
        | FileProblemKind::Syntax
        | FileProblemKind::TooDeep
        | FileProblemKind::IgnoreRule
        | FileProblemKind::ParserFailed => false,
    }
}

/// What the files of one scan hold, before it is put in order.
#[derive(Default)]
struct Parts {
    readings: Vec<Arc<Reading>>,
    problems: Vec<FileProblem>,
    /// Files, those in zip files not counted by themselves, with a problem.
    troubled: usize,
}

impl Parts {
    fn add(&mut self, name: &dyn Fn() -> String, content: &Content) {
        let problems = self.problems.len();
        self.add_content(name, content);
        self.troubled += usize::from(self.problems.len() > problems);
    }

    fn add_content(&mut self, name: &dyn Fn() -> String, content: &Content) {
        match content {
            Content::Nothing => {}
            Content::Reading(reading) => self.readings.push(Arc::clone(reading)),
            Content::Trouble(trouble) => self.problems.push(FileProblem {
                file: name(),
                line: trouble.line,
                kind: trouble.kind,
                text: trouble.text.clone(),
            }),
            Content::Members(members) => {
                members.iter().for_each(|(name, content)| self.add_content(&|| name.clone(), content));
            }
        }
    }

    fn into_scan(self, listing: &Listing, bundles: Vec<String>) -> Scan {
        let declared = self.readings.iter().flat_map(|reading| reading.declarations.iter().cloned()).collect();
        let (declarations, duplicates) = keep_first(declared);
        let mut refusals: Vec<_> =
            self.readings.iter().flat_map(|reading| reading.refusals.iter().cloned()).chain(duplicates).collect();
        refusals.sort_by(|a, b| a.origin.cmp(&b.origin));
        let unlisted = listing.problems.iter().filter(|problem| problem.kind == FileProblemKind::Unreadable).count();
        let readable = listing.files.len() - self.troubled;
        let mut unreadable = self.problems;
        unreadable.extend(listing.problems.iter().cloned());
        unreadable.sort_by(|a, b| (&a.file, a.line).cmp(&(&b.file, b.line)));
        let undecided = listing.undecided.clone();
        Scan {
            declarations,
            refusals,
            unreadable,
            undecided,
            bundles,
            listed: listing.files.len() + unlisted,
            readable,
        }
    }
}

/// Scans a folder once. For repeated scans a [`Scanner`] remembers what has not changed.
///
/// # Errors
/// [`ScanError`]: nothing is known, so keep the last good scan.
pub fn scan(folder: &Path) -> Result<Scan, ScanError> {
    Scanner::new(folder).scan()
}
