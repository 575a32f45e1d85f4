//! What is counted since the start, under the names that users of the Python provider know.

use std::collections::BTreeMap;

/// A cycle ran to its end.
pub(super) const CYCLE_COMPLETED: &str = "cycle_completed";
/// A cycle ran out of its budget and was abandoned.
pub(super) const CYCLE_TIMED_OUT: &str = "cycle_timed_out";
/// A step took longer than its bound.
pub(super) const CYCLE_STEP_TIMED_OUT: &str = "cycle_step_timed_out";
/// A step was not started, since an earlier attempt of it is under way.
pub(super) const CYCLE_STEP_SKIPPED: &str = "cycle_step_skipped";
/// A sync was not recorded, since a newer scan was trusted meanwhile.
pub(super) const SYNC_SUPERSEDED: &str = "sync_superseded";
/// A consumer was started again.
pub(super) const CONSUMER_RESTARTED: &str = "consumer_restarted";

/// The counters.
#[derive(Debug, Default)]
pub(super) struct Counters(BTreeMap<&'static str, u64>);

impl Counters {
    pub(super) fn add(&mut self, name: &'static str) {
        *self.0.entry(name).or_default() += 1;
    }

    /// As a JSON object, every name there is, 0 where nothing was counted.
    pub(super) fn json(&self) -> String {
        let names = [
            CYCLE_COMPLETED,
            CYCLE_TIMED_OUT,
            CYCLE_STEP_TIMED_OUT,
            CYCLE_STEP_SKIPPED,
            SYNC_SUPERSEDED,
            CONSUMER_RESTARTED,
        ];
        let count = |name: &'static str| (name.to_owned(), self.0.get(name).copied().unwrap_or(0).into());
        serde_json::Value::Object(names.into_iter().map(count).collect()).to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_counter_is_shown_also_at_zero() {
        let mut counters = Counters::default();
        counters.add(CYCLE_COMPLETED);
        counters.add(CYCLE_COMPLETED);
        assert_eq!(
            counters.json(),
            r#"{"cycle_completed":2,"cycle_timed_out":0,"cycle_step_timed_out":0,"cycle_step_skipped":0,"sync_superseded":0,"consumer_restarted":0}"#
        );
    }
}
