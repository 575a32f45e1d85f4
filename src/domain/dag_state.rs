//! What Airflow has said of one DAG, so far as it can be believed.
//!
//! Fed by complete and incomplete lists, by look-ups of the DAG itself and by failures to read. Serves the gate before a
//! consumer ([`super::gate`]) and the early deletion of rows.
//!
//! Invariants (tests below): a failed read changes nothing that is known; a DAG is missing only when Airflow's own 404 was
//! heard twice without an answer that shows it in between; absence from a list proves nothing.

use super::outcome::{DagLookup, Part};

/// What a DAG is to Airflow. The first that applies, in this order but for [`DagState::Ready`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum DagState {
    /// Airflow has not answered yet.
    #[default]
    Unknown,
    /// Airflow said in its own words, twice in a row, that there is no such DAG.
    Missing,
    /// Airflow remembers the DAG and does not find it in its folder any more: no run can be asked for.
    Stale,
    /// Its file fails to import: no run can be asked for.
    ImportErrors,
    /// Runs can be asked for and stay queued.
    Paused,
    /// Runs can be asked for and are carried out.
    Ready,
}

/// What decisions need of a [`DagRecord`]; it changes only when one of them might.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DagView {
    /// What the DAG is.
    pub state: DagState,
    /// This watcher has seen the DAG unpaused: its being paused is somebody's wish, not Airflow's default.
    pub seen_unpaused: bool,
    /// It has been missing for [`MISSING_FOR_GOOD_MS`] under a live DAG processor.
    pub missing_for_good: bool,
    /// Why nothing is known; only while nothing is.
    pub failure: Option<String>,
}

/// So long a DAG must be missing before messages for it may be dropped. Airflow looks for new files every 5 minutes by default.
pub const MISSING_FOR_GOOD_MS: i64 = 600_000;

/// Two answers nearer to each other than this are one.
pub const MISSING_APART_MS: i64 = 5_000;

/// Two answers further apart than this do not show that a DAG was missing between them.
pub const MISSING_GAP_MS: i64 = 120_000;

/// All that was heard of one DAG.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DagRecord {
    state: DagState,
    seen_unpaused: bool,
    /// When it was absent for the first time since it was last seen.
    absent_at_ms: Option<i64>,
    /// Since when, and when last, it was missing under a live DAG processor.
    missing: Option<(i64, i64)>,
    answered_at_ms: Option<i64>,
    failure: Option<String>,
}

impl DagRecord {
    /// A DAG of which an earlier life of this watcher may have learnt that it was unpaused.
    pub fn new(seen_unpaused: bool) -> Self {
        Self { seen_unpaused, ..Self::default() }
    }

    /// Takes in what a look-up of this DAG said, or what a list says of it. `processor` is how Airflow's DAG processor is;
    /// it matters where the DAG is absent only.
    pub fn heard(&mut self, lookup: &DagLookup, processor: Part, now_ms: i64) {
        match lookup {
            DagLookup::Unknown(reason) => {
                self.failure = Some(reason.clone());
                return;
            }
            DagLookup::Absent => self.absent(processor, now_ms),
            DagLookup::Found(found) => {
                self.state = if !found.is_active {
                    DagState::Stale
                } else if found.has_import_errors {
                    DagState::ImportErrors
                } else if found.is_paused {
                    DagState::Paused
                } else {
                    DagState::Ready
                };
                self.seen_unpaused |= !found.is_paused;
                (self.absent_at_ms, self.missing) = (None, None);
            }
        }
        self.failure = None;
        self.answered_at_ms = Some(now_ms);
    }

    fn absent(&mut self, processor: Part, now_ms: i64) {
        let since = *self.absent_at_ms.get_or_insert(now_ms);
        // Two answers at once may both be of the moment in which a file is replaced.
        if now_ms - since >= MISSING_APART_MS {
            self.state = DagState::Missing;
            // The next DAG of this name is a new one, which Airflow may create paused.
            self.seen_unpaused = false;
        }
        self.missing = match (processor, self.missing) {
            (Part::Unhealthy | Part::Unknown, _) => None,
            (Part::Healthy, Some((since, last))) if (0..=MISSING_GAP_MS).contains(&(now_ms - last)) => {
                Some((since, now_ms))
            }
            (Part::Healthy, _) => Some((now_ms, now_ms)),
        };
    }

    /// What decisions need.
    pub fn view(&self) -> DagView {
        DagView {
            state: self.state,
            seen_unpaused: self.seen_unpaused,
            missing_for_good: self.state == DagState::Missing
                && self.missing.is_some_and(|(since, last)| last - since >= MISSING_FOR_GOOD_MS),
            failure: self.failure.clone().filter(|_| self.state == DagState::Unknown),
        }
    }

    /// Whether Airflow has to be asked for this DAG again: it was absent once, which proves nothing.
    pub fn is_in_doubt(&self) -> bool {
        self.absent_at_ms.is_some() && self.state != DagState::Missing
    }

    /// Whether Airflow counts the DAG as active, by an answer no older than `since_ms`; `None` where there is none.
    pub fn is_active(&self, since_ms: i64) -> Option<bool> {
        self.answered_at_ms.filter(|at| *at >= since_ms)?;
        match self.state {
            DagState::Unknown => None,
            DagState::Missing | DagState::Stale => Some(false),
            DagState::ImportErrors | DagState::Paused | DagState::Ready => Some(!self.is_in_doubt()).filter(|yes| *yes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::outcome::FoundDag;
    use super::*;

    fn found(is_paused: bool, is_active: bool, has_import_errors: bool) -> DagLookup {
        DagLookup::Found(FoundDag { is_paused, is_active, has_import_errors })
    }

    fn ready() -> DagLookup {
        found(false, true, false)
    }

    fn failed() -> DagLookup {
        DagLookup::Unknown("503".to_owned())
    }

    fn after(said: &[DagLookup]) -> DagRecord {
        let mut record = DagRecord::default();
        for (at, lookup) in (0..).step_by(5_000).zip(said) {
            record.heard(lookup, Part::Healthy, at);
        }
        record
    }

    #[test]
    fn every_combination_of_flags_is_one_state() {
        for (paused, active, broken, state) in [
            (false, true, false, DagState::Ready),
            (true, true, false, DagState::Paused),
            (false, true, true, DagState::ImportErrors),
            (true, true, true, DagState::ImportErrors),
            (false, false, false, DagState::Stale),
            (true, false, false, DagState::Stale),
            (false, false, true, DagState::Stale),
            (true, false, true, DagState::Stale),
        ] {
            assert_eq!(after(&[found(paused, active, broken)]).view().state, state, "{paused} {active} {broken}");
        }
    }

    #[test]
    fn a_dag_is_missing_after_two_absences_without_a_sight_of_it_in_between() {
        use DagLookup::Absent;
        for (said, state) in [
            (vec![], DagState::Unknown),
            (vec![Absent], DagState::Unknown),
            (vec![Absent, Absent], DagState::Missing),
            (vec![ready(), Absent], DagState::Ready),
            (vec![ready(), Absent, failed(), Absent], DagState::Missing),
            (vec![ready(), Absent, ready(), Absent], DagState::Ready),
            (vec![Absent, Absent, ready()], DagState::Ready),
            (vec![Absent, Absent, ready(), Absent], DagState::Ready),
        ] {
            assert_eq!(after(&said).view().state, state, "{said:?}");
        }
        let mut at_once = DagRecord::default();
        for at in [0, 1, 4_999] {
            at_once.heard(&Absent, Part::Healthy, at);
            assert_eq!(at_once.view().state, DagState::Unknown, "{at}");
        }
        assert!(after(&[ready(), Absent]).is_in_doubt());
        assert!(!after(&[Absent, Absent]).is_in_doubt() && !after(&[ready()]).is_in_doubt());
    }

    #[test]
    fn a_failed_read_changes_nothing_that_is_known() {
        for said in [ready(), found(true, true, false), found(false, false, false), found(false, true, true)] {
            let known = after(std::slice::from_ref(&said)).view();
            assert_eq!(after(&[said, failed()]).view(), known);
        }
        let nothing = after(&[failed()]).view();
        assert_eq!((nothing.state, nothing.failure), (DagState::Unknown, Some("503".to_owned())));
    }

    #[test]
    fn unpaused_is_remembered_until_the_dag_is_gone() {
        let paused = || found(true, true, false);
        assert!(!after(&[paused()]).view().seen_unpaused);
        assert!(after(&[ready(), paused()]).view().seen_unpaused);
        assert!(after(&[ready(), DagLookup::Absent, paused()]).view().seen_unpaused);
        let anew = after(&[ready(), DagLookup::Absent, DagLookup::Absent, paused()]);
        assert!(!anew.view().seen_unpaused, "Airflow creates DAGs paused");
        assert!(DagRecord::new(true).view().seen_unpaused);
    }

    #[test]
    fn missing_for_good_takes_ten_unbroken_minutes_under_a_live_processor() {
        let absent = |record: &mut DagRecord, processor, secs: i64| {
            record.heard(&DagLookup::Absent, processor, secs * 1_000);
            record.view().missing_for_good
        };
        let mut record = DagRecord::default();
        assert!((0..600).step_by(60).all(|secs| !absent(&mut record, Part::Healthy, secs)));
        assert!(absent(&mut record, Part::Healthy, 600));

        for processor in [Part::Unhealthy, Part::Unknown] {
            let mut record = DagRecord::default();
            (0..600).step_by(60).for_each(|secs| assert!(!absent(&mut record, Part::Healthy, secs)));
            assert!(!absent(&mut record, processor, 600), "nobody looks for the file");
            assert!(!absent(&mut record, Part::Healthy, 660));
        }
        let mut record = DagRecord::default();
        assert!(!absent(&mut record, Part::Healthy, 0) && !absent(&mut record, Part::Healthy, 10));
        assert!(!absent(&mut record, Part::Healthy, 700), "nothing was heard in between");
        let mut record = DagRecord::default();
        assert!(!absent(&mut record, Part::Healthy, 700) && !absent(&mut record, Part::Healthy, 0), "a clock set back");
    }

    #[test]
    fn active_is_said_of_fresh_and_certain_answers_only() {
        assert_eq!(after(&[]).is_active(0), None);
        assert_eq!(after(&[ready(), ready()]).is_active(5_000), Some(true));
        assert_eq!(after(&[ready(), ready()]).is_active(5_001), None);
        assert_eq!(after(&[found(true, true, true)]).is_active(0), Some(true));
        assert_eq!(after(&[found(false, false, false)]).is_active(0), Some(false));
        assert_eq!(after(&[ready(), DagLookup::Absent]).is_active(0), None);
        assert_eq!(after(&[DagLookup::Absent, DagLookup::Absent]).is_active(0), Some(false));
    }
}
