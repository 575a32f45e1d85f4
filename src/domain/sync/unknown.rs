//! The rows of which a scan says nothing, though it does not show them.
//!
//! Rows keep the name under which their file was last read. It changes without the file where folders are added, taken away or
//! called otherwise, since with several folders the bundle's name stands before it: such a row is held against what hides files
//! in any of the folders there are now.

use std::collections::{BTreeSet, HashSet};

use super::super::declaration::Names;
use super::super::ids::DagId;
use super::row::Row;
use super::{HELD_CYCLES, Scanned};

/// What a scan does not know.
pub(super) struct Unknown<'a> {
    /// By the names of now.
    named: Hidden<'a>,
    /// Without the bundles.
    below: Hidden<'a>,
    bundles: &'a [String],
}

#[derive(Default)]
struct Hidden<'a> {
    /// Files and directories that hide what is in them.
    places: BTreeSet<&'a str>,
    /// Files with a refusal whose subscription cannot be told, and its DAG where that is known.
    unnamed: HashSet<(&'a str, Option<&'a DagId>)>,
}

impl<'a> Unknown<'a> {
    pub(super) fn new(scanned: Scanned<'a>) -> Self {
        let bundles = scanned.bundles;
        let mut unknown = Self { named: Hidden::default(), below: Hidden::default(), bundles };
        let held = scanned.failing.iter().filter(|(_, streak)| **streak <= HELD_CYCLES).map(|(file, _)| file.as_str());
        for place in held.chain(scanned.unreadable_directories.iter().map(String::as_str)) {
            unknown.named.places.insert(place);
            unknown.below.places.insert(split(place, bundles).unwrap_or(place));
        }
        for refusal in scanned.refusals.iter().filter(|refusal| refusal.names == Names::Unknown) {
            let (file, dag) = (refusal.origin.file.as_str(), refusal.dag_id.as_ref());
            unknown.named.unnamed.insert((file, dag));
            unknown.below.unnamed.insert((split(file, bundles).unwrap_or(file), dag));
        }
        unknown
    }

    pub(super) fn covers(&self, row: &Row) -> bool {
        let (file, dag) = (row.origin_file.as_str(), &row.key.dag_id);
        self.named.covers(file, dag) || self.names_before(file).any(|name| self.below.covers(name, dag))
    }

    /// What a file may be called below its folder, if its name is not one of now.
    fn names_before(&self, file: &'a str) -> impl Iterator<Item = &'a str> {
        let is_of_now = split(file, self.bundles).is_some();
        let alone = (!is_of_now && !self.bundles.is_empty()).then_some(file);
        let in_a_bundle = file.split_once(':').map(|(_, name)| name).filter(|_| !is_of_now);
        alone.into_iter().chain(in_a_bundle)
    }
}

impl Hidden<'_> {
    fn covers(&self, file: &str, dag: &DagId) -> bool {
        self.unnamed.contains(&(file, None))
            || self.unnamed.contains(&(file, Some(dag)))
            || above(file).any(|path| self.places.contains(path))
    }
}

/// The name below the folder, if it is a name of one of these bundles.
fn split<'a>(name: &'a str, bundles: &[String]) -> Option<&'a str> {
    bundles.iter().find_map(|bundle| name.strip_prefix(bundle.as_str())?.strip_prefix(':'))
}

/// A file and every directory (or archive) above it, the folder itself as the empty text; of several folders, the bundle's name
/// with its colon.
fn above(file: &str) -> impl Iterator<Item = &str> {
    let bundle = file.find(':').map(|at| at + 1);
    let ends = file.match_indices('/').map(|(at, _)| at).chain(bundle);
    [0].into_iter().chain(ends).chain([file.len()]).map(|end| &file[..end])
}
