//! Whether a scan is a statement about the code. Serves the control flow: scan → sync.
//!
//! A folder that is unmounted, half checked out or unreadable for a moment lists less than is declared. Such a listing is not
//! believed, so that nothing is missed because of it; but not for ever, since a folder that emptied for real has to
//! become the truth. What the folder is known to have held is in a [`Baseline`], which outlives a restart.
//!
//! What is counted in cycles rises in timed cycles only. A wake (`timed` is false) may end a count, never raise one.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};

use super::declaration::FileProblem;

/// Cycles in a row for which a listing is distrusted; the one after them is believed.
pub const DISTRUSTED_CYCLES: u32 = 3;

/// What is remembered of the listings that were believed. [`Baseline::default`] has believed none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Baseline {
    /// The most files that a believed listing read, since the last time that a shrink was believed.
    pub mark: u64,
    /// Distrusted timed cycles in a row.
    pub distrusted: u32,
    /// Whether a listing that named files and read none of them was believed, and no file was read since.
    pub nothing_readable_believed: bool,
    /// Whether any listing was ever believed.
    pub believed: bool,
    /// Files that cannot be read now, and for how many trusted timed cycles in a row.
    pub failing: BTreeMap<String, u32>,
    /// What the scan that was believed last could not read, for people.
    pub unreadable: Vec<Unreadable>,
    /// When a timed cycle last counted, in UTC milliseconds: restarts must not count faster than the interval does.
    pub counted_at_ms: i64,
}

/// A file or directory that a scan could not read.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Unreadable {
    /// Its name, relative to the folder.
    pub file: String,
    /// The stable name of what is wrong.
    pub kind: String,
    /// The whole sentence.
    pub sentence: String,
}

impl Baseline {
    /// How long it is, in milliseconds, until the next cycle may count; 0: it may now. A clock that was set back counts as no time.
    pub fn may_count_in(&self, interval_ms: i64, now_ms: i64) -> i64 {
        match self.counted_at_ms {
            0 => 0,
            counted => (interval_ms - (now_ms - counted).max(0)).max(0),
        }
    }

    /// Remembers what a believed scan could not read, and no other.
    #[must_use]
    pub fn with_unreadable(self, problems: &[FileProblem]) -> Self {
        let mut unreadable: Vec<Unreadable> = problems
            .iter()
            .map(|problem| Unreadable {
                file: problem.file.clone(),
                kind: problem.kind.code().to_owned(),
                sentence: problem.to_string(),
            })
            .collect();
        unreadable.sort();
        Self { unreadable, ..self }
    }
}

/// What a scan of the DAG folder came back with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listing {
    /// There is no listing: the setting is empty or unreadable, or the folder is missing or cannot be listed. A clause for people.
    Outage(String),
    /// The folder was listed.
    Listed {
        /// How many files it names.
        listed: u64,
        /// How many of them were read and understood.
        readable: u64,
        /// The others, by name relative to the folder.
        failing: BTreeSet<String>,
        /// Directories below the folder that cannot be listed, and what was not looked at: nothing is known of what is in them.
        unreadable_directories: Vec<String>,
    },
}

/// Why a listing is not believed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Distrust {
    /// There is none.
    Outage(String),
    /// It named files and read none of them.
    NothingReadable {
        /// How many it named.
        listed: u64,
    },
    /// It is empty, and no listing was believed before.
    Empty,
    /// Less than half of what the folder held came back readable.
    Shrunk {
        /// How many files were read.
        readable: u64,
        /// How many the folder is known to have held.
        mark: u64,
    },
}

impl Distrust {
    /// The stable name in rows and log fields.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Outage(_) => "outage",
            Self::NothingReadable { .. } => "nothing_readable",
            Self::Empty => "empty",
            Self::Shrunk { .. } => "shrunk",
        }
    }
}

impl fmt::Display for Distrust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Outage(clause) => f.write_str(clause),
            Self::NothingReadable { listed } => {
                write!(f, "the folder lists {listed} files and none of them can be read")
            }
            Self::Empty => f.write_str("the folder is empty"),
            Self::Shrunk { readable, mark } => {
                write!(f, "{readable} files can be read, less than half of the {mark} that the folder held")
            }
        }
    }
}

/// What is thought of a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judgement {
    /// Whether the sync step may run on this scan.
    pub trusted: bool,
    /// What speaks against the listing. Set where it is not trusted, and where it is believed all the same ([`Judgement::gave_in`]).
    pub reason: Option<Distrust>,
    /// What to remember: save it together with what the scan changed, or alone where it is not trusted.
    pub baseline: Baseline,
}

impl Judgement {
    /// Whether a listing that was distrusted for long enough is believed from now on.
    pub fn gave_in(&self) -> bool {
        self.trusted && self.reason.is_some()
    }
}

/// The log line of a scan that is not believed, or that is believed at last; `None` where there is nothing to say.
impl fmt::Display for Judgement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(reason) = &self.reason else { return f.write_str("the scan of the DAG folder is believed") };
        if self.trusted {
            return write!(
                f,
                "the scan of the DAG folder is believed after {DISTRUSTED_CYCLES} distrusted cycles: {reason}; what is missing \
                 from it is counted as missing from now on"
            );
        }
        write!(f, "the scan of the DAG folder is not believed: {reason}; subscriptions stay as they are")?;
        match reason {
            Distrust::Outage(_) => Ok(()),
            Distrust::NothingReadable { .. } | Distrust::Empty | Distrust::Shrunk { .. } => {
                write!(f, " (distrusted for {} of {DISTRUSTED_CYCLES} cycles, then believed)", self.baseline.distrusted)
            }
        }
    }
}

/// Judges a listing by what was believed before. `timed`: this is a cycle of the interval, not a wake.
pub fn judge(baseline: &Baseline, listing: &Listing, timed: bool) -> Judgement {
    let (listed, readable, failing) = match listing {
        Listing::Outage(clause) => {
            let reason = Some(Distrust::Outage(clause.clone()));
            return Judgement { trusted: false, reason, baseline: baseline.clone() };
        }
        Listing::Listed { listed, readable, failing, unreadable_directories: _ } => (*listed, *readable, failing),
    };
    let reason = speaks_against(baseline, listed, readable);
    if reason.is_some() && !timed {
        return Judgement { trusted: false, reason, baseline: baseline.clone() };
    }
    if reason.is_some() && baseline.distrusted < DISTRUSTED_CYCLES {
        let baseline = Baseline { distrusted: baseline.distrusted + 1, ..baseline.clone() };
        return Judgement { trusted: false, reason, baseline };
    }
    let mark = if reason.is_some() { readable } else { baseline.mark.max(readable) };
    // An empty listing says nothing about whether files can be read.
    let nothing_readable_believed = readable == 0 && (listed > 0 || baseline.nothing_readable_believed);
    let failing = streaks(&baseline.failing, failing, timed);
    let baseline = Baseline {
        mark,
        distrusted: 0,
        nothing_readable_believed,
        believed: true,
        failing,
        unreadable: baseline.unreadable.clone(),
        counted_at_ms: baseline.counted_at_ms,
    };
    Judgement { trusted: true, reason, baseline }
}

fn speaks_against(baseline: &Baseline, listed: u64, readable: u64) -> Option<Distrust> {
    if listed > 0 && readable == 0 {
        return (!baseline.nothing_readable_believed).then_some(Distrust::NothingReadable { listed });
    }
    if !baseline.believed {
        return (readable == 0).then_some(Distrust::Empty);
    }
    let shrunk = readable.saturating_mul(2) < baseline.mark;
    shrunk.then_some(Distrust::Shrunk { readable, mark: baseline.mark })
}

/// How long each file fails now. A file that reads again, or is gone, is forgotten.
fn streaks(before: &BTreeMap<String, u32>, failing: &BTreeSet<String>, timed: bool) -> BTreeMap<String, u32> {
    let counted = |file: &String| {
        let known = before.get(file).copied();
        if timed { Some(known.unwrap_or(0).saturating_add(1)) } else { known }
    };
    failing.iter().filter_map(|file| counted(file).map(|streak| (file.clone(), streak))).collect()
}

#[cfg(test)]
mod tests;
