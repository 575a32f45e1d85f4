//! What a trusted scan changes in the stored subscriptions. Serves the control flow: sync.
//!
//! Pure: rows and a scan in, changes with their log lines out. Each change names what was read of its row, so that it is
//! written only where that still holds. A scan never changes `enabled`, and never touches a row that was made by hand.
//!
//! A key that is missing is not an event in itself: its row stays as it is, same id, same consumer, same `enabled`, while
//! misses are counted. [`GRACE_MISSES`] misses are survivable and the one after them deletes the row, which leaves a tombstone; an
//! enabled row of a DAG that Airflow surely does not have goes one miss earlier. What cannot be told is no miss.

mod row;
mod said;
mod unknown;

use std::collections::{BTreeMap, HashMap, HashSet};

use super::declaration::{Declaration, Names, Refusal, RefusalReason};
use super::ids::{DagId, SubscriptionId};
use super::subscription::Key;
use unknown::Unknown;

pub use row::{Row, Source};
pub use said::{Level, Said};

/// Misses that a row survives; the next one deletes it.
pub const GRACE_MISSES: u32 = 3;

/// The same for an enabled row whose DAG Airflow surely does not have.
pub const GRACE_MISSES_INACTIVE: u32 = 2;

/// Cycles in a row for which a file that cannot be read is taken to hold what it held.
pub const HELD_CYCLES: u32 = 1;

/// A scan that is trusted.
#[derive(Clone, Copy, Debug)]
pub struct Scanned<'a> {
    /// The subscriptions it found, each key once.
    pub declarations: &'a [Declaration],
    /// What is written down and does not run.
    pub refusals: &'a [Refusal],
    /// Files that cannot be read, and for how many timed cycles: [`super::trust::Baseline::failing`] after the judgement.
    pub failing: &'a BTreeMap<String, u32>,
    /// Directories that cannot be listed, and whatever else was not looked at.
    pub unreadable_directories: &'a [String],
    /// What stands with a colon before the names of files, where there are several folders.
    pub bundles: &'a [String],
}

/// What to do with one row. Ids and counters are those that were read: a change holds only while they do.
#[derive(Clone, Debug, PartialEq)]
pub enum RowChange {
    /// Make a row, enabled. Skipped where the key has one by now.
    Insert {
        /// What it says.
        declaration: Declaration,
    },
    /// A tombstone's key is declared again: the same id, `enabled` as it was. Skipped where it is no tombstone any more.
    Revive {
        /// Which row.
        id: SubscriptionId,
        /// What it says now.
        declaration: Declaration,
    },
    /// Take over what the declaration says; it is valid. Skipped where the row is deleted or made by hand.
    Update {
        /// Which row.
        id: SubscriptionId,
        /// What it says now.
        declaration: Declaration,
    },
    /// Its declaration is refused: it must not run. Skipped where the row is deleted or made by hand.
    Invalidate {
        /// Which row.
        id: SubscriptionId,
        /// Why.
        reason: String,
    },
    /// The key is back: no misses. Skipped where the counter is another one.
    Reset {
        /// Which row.
        id: SubscriptionId,
        /// The counter that was read.
        absent_cycles: u32,
    },
    /// One more miss. Skipped where the counter is another one.
    Miss {
        /// Which row.
        id: SubscriptionId,
        /// The counter that was read.
        absent_cycles: u32,
    },
    /// Make it a tombstone. Skipped where the counter is another one.
    Delete {
        /// Which row.
        id: SubscriptionId,
        /// The counter that was read.
        absent_cycles: u32,
        /// Skipped too where it was disabled meanwhile: a disabled row always gets the full grace.
        only_enabled: bool,
    },
}

/// A change and its log line: said only where the change was made.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// What to do.
    pub act: RowChange,
    /// What to say once it is done.
    pub said: Option<Said>,
}

/// What a scan changes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// Row by row, in the order of the declarations, then of the rows.
    pub changes: Vec<Change>,
    /// Declarations whose key belongs to a row made by hand. The same at each scan as long as that holds: say what is new.
    pub conflicts: Vec<Said>,
    /// The refusals of the scan and those of the conflicts, in the order of their origins: what the state file is to hold.
    pub refusals: Vec<Refusal>,
}

/// Plans. `active`: the DAGs that Airflow has, `None` where they could not be read, which takes every DAG for active. `timed`: this is
/// a cycle of the interval; in a wake no miss is counted and nothing is deleted.
pub fn plan(rows: &[Row], scanned: Scanned<'_>, active: Option<&HashSet<DagId>>, timed: bool) -> Plan {
    let by_key: HashMap<&Key, &Row> = rows.iter().map(|row| (&row.key, row)).collect();
    let refused = refused_keys(scanned.refusals);
    let mut plan = Plan { refusals: scanned.refusals.to_vec(), ..Plan::default() };
    let mut declared = HashSet::new();
    for declaration in scanned.declarations {
        let key = declaration.key();
        match by_key.get(&key) {
            Some(row) if row.source == Source::Ui && !row.is_tombstone() => plan.conflict(row, declaration),
            Some(row) => plan.declared(row, declaration),
            None => plan.insert(declaration),
        }
        declared.insert(key);
    }
    let unknown = Unknown::new(scanned);
    for row in rows.iter().filter(|row| row.source == Source::DagFile && !row.is_tombstone()) {
        if declared.contains(&row.key) {
            continue;
        }
        match refused.get(&row.key) {
            Some(refusal) => plan.refused(row, refusal),
            None if timed && !unknown.covers(row) => plan.missing(row, active),
            None => {}
        }
    }
    plan.refusals.sort_by(|a, b| a.origin.cmp(&b.origin));
    plan
}

fn refused_keys(refusals: &[Refusal]) -> HashMap<&Key, &Refusal> {
    let mut keys = HashMap::new();
    for refusal in refusals {
        match &refusal.names {
            Names::Keys(named) => named.iter().for_each(|key| {
                keys.entry(key).or_insert(refusal);
            }),
            Names::Unknown => {}
        }
    }
    keys
}

impl Plan {
    fn push(&mut self, act: RowChange, said: Option<Said>) {
        self.changes.push(Change { act, said });
    }

    fn insert(&mut self, declaration: &Declaration) {
        let said = Said::Added { key: declaration.key(), origin: declaration.origin.to_string() };
        self.push(RowChange::Insert { declaration: declaration.clone() }, Some(said));
    }

    fn declared(&mut self, row: &Row, declaration: &Declaration) {
        let (id, key) = (row.id, row.key.clone());
        let origin = declaration.origin.to_string();
        let declaration = declaration.clone();
        if row.is_tombstone() {
            let said = Said::Revived { key, enabled: row.enabled, origin };
            return self.push(RowChange::Revive { id, declaration }, Some(said));
        }
        let (mended, changed) = (row.invalid.is_some(), row.options != declaration.options);
        if mended || changed || row.origin != origin {
            let said = match (mended, changed) {
                (true, _) => Some(Said::Mended { key: key.clone(), origin }),
                (false, true) => Some(Said::Changed { key: key.clone(), origin }),
                (false, false) => None,
            };
            self.push(RowChange::Update { id, declaration }, said);
        }
        self.back(row);
    }

    /// The key was seen: whatever was counted is over.
    fn back(&mut self, row: &Row) {
        if row.absent_cycles > 0 {
            let said = Said::Returned { key: row.key.clone(), misses: row.absent_cycles };
            self.push(RowChange::Reset { id: row.id, absent_cycles: row.absent_cycles }, Some(said));
        }
    }

    fn refused(&mut self, row: &Row, refusal: &Refusal) {
        let reason = refusal.to_string();
        if row.invalid.as_ref() != Some(&reason) {
            // The refusal has a line of its own.
            self.push(RowChange::Invalidate { id: row.id, reason }, None);
        }
        self.back(row);
    }

    fn missing(&mut self, row: &Row, active: Option<&HashSet<DagId>>) {
        let surely_inactive = active.is_some_and(|active| !active.contains(&row.key.dag_id));
        let early = row.enabled && surely_inactive;
        let (id, key, seen) = (row.id, row.key.clone(), row.absent_cycles);
        let misses = seen.saturating_add(1);
        if misses > GRACE_MISSES {
            let act = RowChange::Delete { id, absent_cycles: seen, only_enabled: false };
            return self.push(act, Some(Said::Deleted { key, misses, enabled: row.enabled, inactive: false }));
        }
        if early && seen >= GRACE_MISSES_INACTIVE {
            let act = RowChange::Delete { id, absent_cycles: seen, only_enabled: true };
            return self.push(act, Some(Said::Deleted { key, misses, enabled: row.enabled, inactive: true }));
        }
        let grace = if early { GRACE_MISSES_INACTIVE } else { GRACE_MISSES };
        let left = grace.saturating_sub(misses);
        self.push(RowChange::Miss { id, absent_cycles: seen }, Some(Said::Missed { key, misses, left }));
    }

    fn conflict(&mut self, row: &Row, declaration: &Declaration) {
        let (key, origin) = (declaration.key(), declaration.origin.clone());
        self.refusals.push(Refusal {
            origin: origin.clone(),
            dag_id: Some(key.dag_id.clone()),
            parameter: None,
            reason: RefusalReason::MadeByHand { id: row.id },
            // It takes nothing away from the row that has the key.
            names: Names::Keys(Vec::new()),
        });
        self.conflicts.push(Said::Conflict { key, id: row.id, origin: origin.to_string() });
    }
}

#[cfg(test)]
mod tests;
