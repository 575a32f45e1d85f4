//! What a target's last answers say about it, so that one message is not blamed for its target, nor a target for one message.

use std::collections::VecDeque;

use super::attempt::TargetView;

/// So many different messages refused in a row, without a success, make a target failing.
pub const FAILING_AFTER: usize = 5;
/// So many other messages must have been seen before one alone is blamed for server errors.
pub const OTHERS_NEEDED: usize = 20;

/// A target's recent history. Small, and forgotten at a restart: it only ever delays a dead-lettering.
#[derive(Debug, Default)]
pub struct TargetHistory {
    refused: Vec<String>,
    /// The last answers of single messages: key and whether it passed, newest last, one entry a key.
    recent: VecDeque<(String, bool)>,
}

impl TargetHistory {
    /// A run was created: the target works.
    pub fn passed(&mut self, key: &str) {
        self.refused.clear();
        self.remember(key, true);
    }

    /// The target refused the message for good.
    pub fn refused(&mut self, key: &str) {
        if self.refused.len() < FAILING_AFTER && !self.refused.iter().any(|seen| seen == key) {
            self.refused.push(key.to_owned());
        }
    }

    /// Airflow answered this message with a server error.
    pub fn server_error(&mut self, key: &str) {
        self.remember(key, false);
    }

    /// What this means for the message `key`.
    pub fn view(&self, key: &str) -> TargetView {
        let others = || self.recent.iter().filter(|(seen, _)| seen != key);
        let (all, passed) = (others().count(), others().filter(|(_, passed)| *passed).count());
        TargetView {
            is_failing: self.refused.len() >= FAILING_AFTER,
            others_pass: all >= OTHERS_NEEDED && passed * 100 >= all * 95,
        }
    }

    fn remember(&mut self, key: &str, passed: bool) {
        self.recent.retain(|(seen, _)| seen != key);
        self.recent.push_back((key.to_owned(), passed));
        // Room for the others that are needed, for the message itself, and for some that fail beside it.
        while self.recent.len() > 2 * OTHERS_NEEDED {
            self.recent.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_different_messages_in_a_row_make_a_target_failing() {
        let mut h = TargetHistory::default();
        for key in ["a", "b", "c", "d", "d", "d"] {
            h.refused(key);
        }
        assert!(!h.view("x").is_failing, "four different ones");
        h.refused("e");
        assert!(h.view("x").is_failing);
        h.passed("f");
        assert!(!h.view("x").is_failing);
    }

    #[test]
    fn one_message_is_blamed_only_while_nearly_all_others_pass() {
        let mut h = TargetHistory::default();
        for n in 0..19 {
            h.passed(&n.to_string());
        }
        h.server_error("bad");
        assert!(!h.view("bad").others_pass, "19 others are too few");
        h.passed("19");
        assert!(h.view("bad").others_pass);
        h.server_error("worse");
        assert!(h.view("bad").others_pass, "20 of 21");
        h.server_error("worst");
        assert!(!h.view("bad").others_pass, "20 of 22");
    }

    #[test]
    fn memory_is_bounded() {
        let mut h = TargetHistory::default();
        for n in 0..10_000 {
            h.passed(&n.to_string());
            h.refused(&n.to_string());
        }
        assert!(h.recent.len() <= 2 * OTHERS_NEEDED && h.refused.len() <= FAILING_AFTER);
    }
}
