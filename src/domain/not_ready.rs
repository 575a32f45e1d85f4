//! A target that is not ready: Airflow does not have the DAG yet, or cannot run it. For a while that is no trouble, as a DAG is
//! not there before Airflow has read its file.
//!
//! Serves the data flow. Any other answer ends it. Since when is kept in the state file, so that a restart does not begin anew.

/// So many answers in a row make its rows `error`: about twenty minutes.
pub const LONG_AFTER: u32 = 25;
/// So long after the first of them, restarts between or not: no less than so many answers take at most.
pub const LONG_AFTER_MS: i64 = 25 * 60_000;

/// Answers in a row that a target is not ready.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NotReady {
    /// How many, in this life of the watcher.
    pub answers: u32,
    /// When the first one came.
    pub since_ms: Option<i64>,
}

impl NotReady {
    /// One more.
    #[must_use]
    pub fn once_more(self, now_ms: i64) -> Self {
        Self { answers: self.answers.saturating_add(1), since_ms: self.since_ms.or(Some(now_ms)) }
    }

    /// Whether somebody should look.
    pub fn is_for_long(self, now_ms: i64) -> bool {
        let since_long = self.since_ms.is_some_and(|since_ms| now_ms.saturating_sub(since_ms) >= LONG_AFTER_MS);
        self.answers >= LONG_AFTER || (self.answers > 0 && since_long)
    }
}

/// Whether the answer of this number is a warning: every tenth is.
pub fn warns(answers: u32) -> bool {
    answers > 0 && answers.is_multiple_of(10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_not_ready_for_long_after_25_answers_or_the_first_one_after_25_minutes() {
        let mut target = NotReady::default();
        for _ in 0..24 {
            target = target.once_more(1_000);
        }
        assert!(!target.is_for_long(1_000 + LONG_AFTER_MS - 1) && target.once_more(2_000).is_for_long(2_000));
        let remembered = NotReady { answers: 0, since_ms: Some(1_000) };
        assert!(!remembered.is_for_long(1_000 + LONG_AFTER_MS), "it may be ready by now");
        assert!(remembered.once_more(1_000 + LONG_AFTER_MS).is_for_long(1_000 + LONG_AFTER_MS));
    }

    #[test]
    fn every_tenth_answer_is_a_warning() {
        assert_eq!((0..=30).filter(|answers| warns(*answers)).collect::<Vec<_>>(), [10, 20, 30]);
    }
}
