//! One folder, scanned again and again: list → read what changed → put together. Serves the control flow: scan.
//!
//! A file whose [`Stamp`] is the one it was read under is not opened again. What could not be read for a reason outside
//! its text is tried again each time.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use super::file::{self, Stamp, Trouble};
use super::python::{self, Library, ModuleText, Modules, Reading, SourceFile};
use super::walk::{self, Found};
use super::{READER_STACK_BYTES, Scan, ScanError};
use crate::domain::declaration::{FileProblem, FileProblemKind, keep_first};

/// Scans one folder again and again, reading only the files that changed.
#[derive(Debug)]
pub struct Scanner {
    folder: PathBuf,
    read: HashMap<PathBuf, Read>,
    /// The number of the scan, so that what was not listed this time can be told and forgotten.
    round: u64,
}

/// What was read from a file. Most files declare nothing, which takes no memory.
#[derive(Clone, Debug)]
enum Content {
    Nothing,
    Reading(Arc<Reading>),
    Trouble(Arc<Trouble>),
}

#[derive(Clone, Debug)]
struct Read {
    /// How the file looked; `None` where it has to be read again whatever it looks like.
    stamp: Option<Stamp>,
    content: Content,
    /// The files whose constants it uses, and how they looked, where they were there.
    asked: Vec<(String, Option<Stamp>)>,
    /// The last scan that listed the file.
    round: u64,
}

impl Scanner {
    /// A scanner that has read nothing yet.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into(), read: HashMap::new(), round: 0 }
    }

    /// Scans the folder as it is now. Blocks: a listing, and the reading of what changed since the last scan.
    ///
    /// # Errors
    /// [`ScanError`]: nothing is known, so keep the last good scan.
    pub fn scan(&mut self) -> Result<Scan, ScanError> {
        let listing =
            walk::list(&self.folder).map_err(|source| ScanError::ListFolder { folder: self.folder.clone(), source })?;
        self.round += 1;
        let round = self.round;
        let mut changed: Vec<&Found> = Vec::new();
        for found in &listing.files {
            match self.read.get_mut(&found.path) {
                Some(known) if known.stamp == Some(found.stamp) && is_as_it_was(&self.folder, &known.asked) => {
                    known.round = round;
                }
                Some(_) | None => changed.push(found),
            }
        }
        self.read.extend(read_on_own_thread(&self.folder, &changed, round)?);
        self.read.retain(|_, known| known.round == round);
        let mut parts = Parts::default();
        for found in &listing.files {
            if let Some(known) = self.read.get(&found.path) {
                parts.add(&found.name, &known.content);
            }
        }
        let unlisted = listing.problems;
        let unlisted_files = unlisted.iter().filter(|problem| problem.kind == FileProblemKind::Unreadable).count();
        let files = listing.files.len() + unlisted_files;
        Ok(parts.into_scan(unlisted, files))
    }
}

/// Reads files on a thread whose stack is large enough for the deepest text that is let through.
fn read_on_own_thread(folder: &Path, changed: &[&Found], round: u64) -> Result<Vec<(PathBuf, Read)>, ScanError> {
    if changed.is_empty() {
        return Ok(Vec::new());
    }
    let read_all = || {
        let modules = FolderModules { folder, stamps: RefCell::default() };
        let library = Library::new(&modules);
        changed.iter().map(|found| (found.path.clone(), read_one(found, &modules, &library, round))).collect()
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

fn read_one(found: &Found, modules: &FolderModules<'_>, library: &Library<'_>, round: u64) -> Read {
    match file::read(&found.path) {
        Ok((bytes, stamp)) => {
            let (content, asked) = content(&found.name, &bytes, library);
            let asked = asked.into_iter().map(|file| (file.clone(), modules.stamp(&file))).collect();
            Read { stamp: Some(stamp), content, asked, round }
        }
        Err(trouble) => Read {
            stamp: (trouble.kind == FileProblemKind::TooLarge).then_some(found.stamp),
            content: Content::Trouble(Arc::new(trouble)),
            asked: Vec::new(),
            round,
        },
    }
}

/// The folder as the place that Python imports from.
struct FolderModules<'a> {
    folder: &'a Path,
    /// How each file looked when it was read; `None` where it was not there.
    stamps: RefCell<HashMap<String, Option<Stamp>>>,
}

impl FolderModules<'_> {
    fn stamp(&self, file: &str) -> Option<Stamp> {
        self.stamps.borrow().get(file).copied().flatten()
    }
}

impl Modules for FolderModules<'_> {
    fn text(&self, file: &str) -> ModuleText {
        let path = self.folder.join(file);
        let stamp_now = stamp_of(&path);
        let (text, stamp) = match (stamp_now, file::read(&path)) {
            (None, _) => (ModuleText::Absent, None),
            (Some(_), Ok((bytes, stamp))) => {
                let text = file::decode(&bytes).map_or(ModuleText::Unreadable, |text| ModuleText::Text(text.into()));
                (text, Some(stamp))
            }
            (Some(stamp), Err(_)) => (ModuleText::Unreadable, Some(stamp)),
        };
        self.stamps.borrow_mut().insert(file.to_owned(), stamp);
        text
    }
}

fn stamp_of(path: &Path) -> Option<Stamp> {
    fs::metadata(path).ok().map(|metadata| Stamp::of(&metadata))
}

/// Whether the files that a reading asked for look as they did then.
fn is_as_it_was(folder: &Path, asked: &[(String, Option<Stamp>)]) -> bool {
    asked.iter().all(|(file, stamp)| stamp_of(&folder.join(file)) == *stamp)
}

/// What a file declares, and the other files it asked for.
fn content(name: &str, bytes: &[u8], library: &Library<'_>) -> (Content, Vec<String>) {
    if !mentions(bytes, python::WORD) {
        return (Content::Nothing, Vec::new());
    }
    let read = file::decode(bytes).and_then(|text| {
        let file = SourceFile { name, path: name, text };
        catch_unwind(AssertUnwindSafe(|| python::read(file, library))).unwrap_or_else(|_| {
            Err(Trouble::new(
                FileProblemKind::ParserFailed,
                "makes this program's Python parser fail; please report it with the file",
            ))
        })
    });
    match read {
        Ok(reading) if reading == Reading::default() => (Content::Nothing, Vec::new()),
        Ok(mut reading) => {
            let asked = std::mem::take(&mut reading.asked);
            (Content::Reading(Arc::new(reading)), asked)
        }
        Err(trouble) => (Content::Trouble(Arc::new(trouble)), Vec::new()),
    }
}

/// Whether the bytes hold the word, whatever their encoding.
fn mentions(bytes: &[u8], word: &str) -> bool {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.contains(word),
        Err(_) => bytes.windows(word.len()).any(|window| window == word.as_bytes()),
    }
}

/// What the files of one scan hold, before it is put in order.
#[derive(Default)]
struct Parts {
    readings: Vec<Arc<Reading>>,
    problems: Vec<FileProblem>,
}

impl Parts {
    fn add(&mut self, name: &str, content: &Content) {
        match content {
            Content::Nothing => {}
            Content::Reading(reading) => self.readings.push(Arc::clone(reading)),
            Content::Trouble(trouble) => self.problems.push(FileProblem {
                file: name.to_owned(),
                line: trouble.line,
                kind: trouble.kind,
                text: trouble.text.clone(),
            }),
        }
    }

    fn into_scan(self, unlisted: Vec<FileProblem>, files: usize) -> Scan {
        let declared = self.readings.iter().flat_map(|reading| reading.declarations.iter().cloned()).collect();
        let (declarations, duplicates) = keep_first(declared);
        let mut refusals: Vec<_> =
            self.readings.iter().flat_map(|reading| reading.refusals.iter().cloned()).chain(duplicates).collect();
        refusals.sort_by(|a, b| a.origin.cmp(&b.origin));
        let mut unreadable = self.problems;
        unreadable.extend(unlisted);
        unreadable.sort_by(|a, b| a.file.cmp(&b.file));
        Scan { declarations, refusals, unreadable, files }
    }
}
