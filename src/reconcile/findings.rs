//! What cycles found wrong, said once and again only when it changes.

use std::collections::HashSet;

use super::said;
use crate::domain::sync::Said;
use crate::ports::Declared;
use crate::telemetry::events;

/// Remembers what was said.
#[derive(Debug, Default)]
pub(super) struct Findings {
    /// Sentences that held at the last scan.
    scan: HashSet<String>,
    /// Sentences about what is declared and meets a row made by hand, at the last sync.
    conflicts: HashSet<String>,
    /// The last line of each other kind of trouble, by its event.
    troubles: HashSet<(&'static str, String)>,
}

impl Findings {
    /// Says what is new in this scan.
    pub(super) fn say_scan(&mut self, declared: &Declared) {
        let refusals: HashSet<String> = declared.refusals.iter().map(ToString::to_string).collect();
        let problems: HashSet<String> = declared.unreadable.iter().map(ToString::to_string).collect();
        for problem in problems.difference(&self.scan) {
            tracing::warn!(event = events::FILE_UNREADABLE, "RMQ Watcher: {problem}; its subscriptions are not known");
        }
        for refusal in refusals.difference(&self.scan) {
            tracing::error!(event = events::SUBSCRIPTION_REFUSED, "RMQ Watcher: {refusal}");
        }
        self.scan = refusals.into_iter().chain(problems).collect();
    }

    /// Says which conflicts are new.
    pub(super) fn say_conflicts(&mut self, conflicts: &[Said]) {
        for conflict in conflicts.iter().filter(|conflict| !self.conflicts.contains(&conflict.to_string())) {
            said::say(conflict);
        }
        self.conflicts = conflicts.iter().map(ToString::to_string).collect();
    }

    /// Whether this trouble was not said since it was last over.
    pub(super) fn is_news(&mut self, event: &'static str, line: &str) -> bool {
        self.troubles.insert((event, line.to_owned()))
    }

    /// Trouble of this kind is over.
    pub(super) fn is_over(&mut self, event: &'static str) {
        self.troubles.retain(|(said, _)| *said != event);
    }
}
