//! Why a filter cannot be taken.

use std::fmt;

use super::verdict::clipped;

/// The most characters of a problem's path.
const MAX_PATH: usize = 200;

/// A filter that cannot be taken: where, and what is wrong, with what to write instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilterProblem {
    /// The way to the part at fault, such as `["filter_headers"]["region"]`; empty for the whole.
    pub path: String,
    /// What is wrong there, as a clause.
    pub sentence: String,
}

impl fmt::Display for FilterProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "filter_data{}: {}", self.path, self.sentence)
    }
}

impl std::error::Error for FilterProblem {}

/// One step into a filter.
#[derive(Clone, Copy)]
pub(super) enum Step<'a> {
    Key(&'a str),
    Place(usize),
}

pub(super) fn problem(path: &[Step<'_>], sentence: impl Into<String>) -> FilterProblem {
    let step = |step: &Step<'_>| match step {
        Step::Key(key) => format!("[{:?}]", clipped(key, MAX_PATH)),
        Step::Place(at) => format!("[{at}]"),
    };
    let path: String = path.iter().map(step).collect();
    FilterProblem { path: clipped(&path, MAX_PATH), sentence: sentence.into() }
}
