//! The texts that Python files import their constants from. Serves the control flow: scan.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs;
use std::path::Path;

use super::archive::Member;
use super::python::{ModuleText, Modules};
use super::{encoding, file, file::Stamp};

/// A root as the place that Python imports from.
pub(super) struct RootModules<'a> {
    root: &'a Path,
    /// How each file looked when it was read; `None` where it was not there.
    stamps: RefCell<HashMap<String, Option<Stamp>>>,
}

impl<'a> RootModules<'a> {
    pub(super) fn new(root: &'a Path) -> Self {
        Self { root, stamps: RefCell::default() }
    }

    /// How a file looked when it was asked for.
    pub(super) fn stamp(&self, file: &str) -> Option<Stamp> {
        self.stamps.borrow().get(file).copied().flatten()
    }
}

impl Modules for RootModules<'_> {
    fn text(&self, file: &str) -> ModuleText {
        let path = self.root.join(file);
        let stamp_now = stamp_of(&path);
        let (text, stamp) = match (stamp_now, file::read(&path)) {
            (None, _) => (ModuleText::Absent, None),
            (Some(_), Ok((bytes, stamp))) => (decoded(&bytes), Some(stamp)),
            (Some(stamp), Err(_)) => (ModuleText::Unreadable, Some(stamp)),
        };
        self.stamps.borrow_mut().insert(file.to_owned(), stamp);
        text
    }
}

/// A zip file as the place that the files in it import from. What is not at its top level is not known: Python would go on to
/// look below, and then elsewhere.
pub(super) struct ZipModules<'a>(pub(super) &'a [Member]);

impl Modules for ZipModules<'_> {
    fn text(&self, file: &str) -> ModuleText {
        let member = self.0.iter().find(|member| member.name == file);
        match member.map(|member| &member.bytes) {
            Some(Ok(bytes)) => decoded(bytes),
            Some(Err(_)) | None => ModuleText::Unreadable,
        }
    }
}

fn decoded(bytes: &[u8]) -> ModuleText {
    encoding::decode(bytes).map_or(ModuleText::Unreadable, |text| ModuleText::Text((*text).into()))
}

fn stamp_of(path: &Path) -> Option<Stamp> {
    fs::metadata(path).ok().map(|metadata| Stamp::of(&metadata))
}

/// Whether the files that a reading asked for look as they did then.
pub(super) fn is_as_it_was(root: &Path, asked: &[(String, Option<Stamp>)]) -> bool {
    asked.iter().all(|(file, stamp)| stamp_of(&root.join(file)) == *stamp)
}
