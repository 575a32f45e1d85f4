//! The lines about messages that no filter accepts: at powers of ten, never one for each message.
//!
//! Serves the data flow: one series for each consumer, kept across its reconnects. Fed once for each delivery that was
//! judged. Says which lines are due and writes their text; must not log.
//!
//! Invariants (tests below): at most one line about misses for one delivery; the number of lines grows with the logarithm of
//! the number of messages.
//!
//! Source: airflow-provider-rmq 2.6.0, "What a miss puts in the log".

use std::fmt;

/// From this number on each power of ten is said.
pub const FIRST_SAID: u64 = 100;
/// So many judged deliveries in a row without an error end a series of errors.
pub const CLEAN_ENDS: u32 = 100;

/// One judged delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen<'a> {
    /// A filter accepted it.
    pub matched: bool,
    /// No filter accepted it, all that were asked could read it, and it was acknowledged.
    pub dropped: bool,
    /// The type and text of what a filter failed with.
    pub error: Option<&'a str>,
}

/// A line that is due, as a WARNING.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Due {
    /// So many deliveries in a row matched nothing.
    Misses {
        /// How many.
        count: u64,
        /// The last of them was acknowledged and is gone, not returned.
        dropped: bool,
    },
    /// So many messages were acknowledged without a run since the consumer's beginning.
    Dropped {
        /// How many.
        count: u64,
    },
    /// A filter could not be evaluated so often.
    Errors {
        /// How often.
        count: u64,
        /// The type and text of the last failure.
        error: String,
    },
}

/// The counters of one consumer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MissSeries {
    misses: u64,
    dropped: u64,
    errors: u64,
    clean: u32,
}

impl MissSeries {
    /// Notes a judged delivery and returns the lines that are due.
    pub fn note(&mut self, seen: Seen<'_>) -> Vec<Due> {
        let mut due = Vec::new();
        match seen.error {
            Some(error) => {
                self.clean = 0;
                self.errors = self.errors.saturating_add(1);
                if self.errors == 1 || is_said(self.errors) {
                    due.push(Due::Errors { count: self.errors, error: error.to_owned() });
                }
            }
            None => {
                self.clean = self.clean.saturating_add(1);
                if self.clean >= CLEAN_ENDS {
                    (self.errors, self.clean) = (0, 0);
                }
            }
        }
        if seen.matched {
            self.misses = 0;
        } else if seen.error.is_none() {
            self.miss(seen.dropped, &mut due);
        }
        due
    }

    fn miss(&mut self, dropped: bool, due: &mut Vec<Due>) {
        self.misses = self.misses.saturating_add(1);
        self.dropped = self.dropped.saturating_add(u64::from(dropped));
        if is_said(self.misses) {
            due.push(Due::Misses { count: self.misses, dropped });
        }
        let is_said_already = self.misses == self.dropped;
        if dropped && is_said(self.dropped) && !is_said_already {
            due.push(Due::Dropped { count: self.dropped });
        }
    }
}

fn is_said(count: u64) -> bool {
    count >= FIRST_SAID && count.checked_ilog10().is_some_and(|digits| count == 10_u64.pow(digits))
}

impl Due {
    /// The line about `queue`, but for what every line begins with.
    pub fn text(&self, queue: &str) -> impl fmt::Display {
        match self {
            Self::Misses { count, dropped: false } => format!(
                "{count} messages in a row from queue '{queue}' matched no filter and were returned to it; check the filter (filter_data)"
            ),
            Self::Misses { count, dropped: true } => format!(
                "{count} messages in a row from queue '{queue}' matched no filter and were dropped (ack_unmatched); check the filter \
                 (filter_data)"
            ),
            Self::Dropped { count } => format!(
                "{count} messages from queue '{queue}' were dropped so far, since they matched no filter (ack_unmatched); check the \
                 filter (filter_data)"
            ),
            Self::Errors { count: 1, error } => format!(
                "the filter could not be evaluated on a message from queue '{queue}', which is not acknowledged: {error}"
            ),
            Self::Errors { count, error } => format!(
                "the filter could not be evaluated {count} times on messages from queue '{queue}', which are not acknowledged; the \
                 last failure: {error}"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MATCH: Seen<'static> = Seen { matched: true, dropped: false, error: None };
    const RETURNED: Seen<'static> = Seen { matched: false, dropped: false, error: None };
    const DROPPED: Seen<'static> = Seen { matched: false, dropped: true, error: None };
    const ERROR: Seen<'static> = Seen { matched: false, dropped: false, error: Some("JSONError: bad") };

    fn feed(series: &mut MissSeries, seen: Seen<'_>, times: usize) -> Vec<Due> {
        (0..times).flat_map(|_| series.note(seen)).collect()
    }

    fn misses(counts: &[u64], dropped: bool) -> Vec<Due> {
        counts.iter().map(|count| Due::Misses { count: *count, dropped }).collect()
    }

    fn errors(counts: &[u64]) -> Vec<Due> {
        counts.iter().map(|count| Due::Errors { count: *count, error: "JSONError: bad".into() }).collect()
    }

    #[test]
    fn misses_in_a_row_are_said_at_powers_of_ten_from_a_hundred() {
        let mut s = MissSeries::default();
        assert_eq!(feed(&mut s, RETURNED, 99), []);
        assert_eq!(feed(&mut s, RETURNED, 99_901), misses(&[100, 1_000, 10_000, 100_000], false));
        feed(&mut s, MATCH, 1);
        assert_eq!(feed(&mut s, RETURNED, 100), misses(&[100], false), "a match ends the row");
    }

    #[test]
    fn dropped_messages_are_counted_for_ever_and_equal_numbers_are_said_once() {
        let mut s = MissSeries::default();
        assert_eq!(feed(&mut s, DROPPED, 1_000), misses(&[100, 1_000], true), "both counters are equal");
        let mut s = MissSeries::default();
        let mut said = Vec::new();
        for _ in 0..11 {
            said.extend(feed(&mut s, DROPPED, 99));
            said.extend(feed(&mut s, MATCH, 1));
        }
        assert_eq!(said, [Due::Dropped { count: 100 }, Due::Dropped { count: 1_000 }]);
        let mut s = MissSeries::default();
        feed(&mut s, DROPPED, 50);
        feed(&mut s, MATCH, 1);
        let said = feed(&mut s, DROPPED, 100);
        let want = [Due::Dropped { count: 100 }, Due::Misses { count: 100, dropped: true }];
        assert_eq!(said, want, "different numbers are both said");
    }

    #[test]
    fn errors_are_said_first_and_at_powers_of_ten_until_a_hundred_deliveries_are_clean() {
        let mut s = MissSeries::default();
        assert_eq!(feed(&mut s, ERROR, 1_000), errors(&[1, 100, 1_000]));
        assert_eq!(feed(&mut s, MATCH, 99), []);
        assert_eq!(feed(&mut s, ERROR, 1), [], "99 clean ones do not end it");
        feed(&mut s, MATCH, 50);
        feed(&mut s, RETURNED, 50);
        assert_eq!(feed(&mut s, ERROR, 1), errors(&[1]), "misses are clean as well");
    }

    #[test]
    fn an_error_neither_counts_as_a_miss_nor_ends_the_row() {
        let mut s = MissSeries::default();
        feed(&mut s, RETURNED, 99);
        feed(&mut s, ERROR, 5);
        assert_eq!(feed(&mut s, RETURNED, 1), misses(&[100], false));
        let both = Seen { matched: true, error: Some("JSONError: bad"), ..ERROR };
        assert_eq!(MissSeries::default().note(both), errors(&[1]), "another subscription could not read it");
    }

    #[test]
    fn lines_name_the_queue_what_became_of_the_messages_and_what_to_look_at() {
        for (due, words) in [
            (Due::Misses { count: 100, dropped: false }, ["100", "returned", "check the filter"]),
            (Due::Misses { count: 100, dropped: true }, ["in a row", "dropped", "check the filter"]),
            (Due::Dropped { count: 1_000 }, ["1000", "dropped", "check the filter"]),
            (Due::Errors { count: 1, error: "E: x".into() }, ["a message", "not acknowledged", "E: x"]),
            (Due::Errors { count: 100, error: "E: x".into() }, ["100 times", "not acknowledged", "E: x"]),
        ] {
            let text = due.text("orders").to_string();
            assert!(text.contains("'orders'") && words.iter().all(|word| text.contains(word)), "{text}");
            assert!(!text.contains("  "), "{text}");
        }
    }

    proptest! {
        #[test]
        fn lines_are_few(kinds in prop::collection::vec(0_u8..4, 0..3_000)) {
            let mut s = MissSeries::default();
            let mut said = 0;
            for kind in &kinds {
                let due = s.note([MATCH, RETURNED, DROPPED, ERROR][usize::from(*kind)]);
                prop_assert!(due.len() <= 2);
                said += due.len();
            }
            // A series of errors needs a hundred clean ones before it says anything again, a row of misses a hundred misses.
            prop_assert!(said <= 3 + kinds.len() / 50 + 4, "{} lines for {} deliveries", said, kinds.len());
        }
    }
}
