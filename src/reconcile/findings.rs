//! What cycles found wrong, said once and again only when it changes.

use std::collections::HashSet;

use super::said;
use crate::domain::declaration::{FileProblem, FileProblemKind};
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
        let problems: HashSet<String> = declared.unreadable.iter().map(told).collect();
        for problem in problems.difference(&self.scan) {
            tracing::warn!(event = events::FILE_UNREADABLE, "RMQ Watcher: {problem}");
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

    /// The step ended in time.
    pub(super) fn step_is_well(&mut self, name: &str) {
        let of_steps = [events::CYCLE_STEP_TIMED_OUT, events::CYCLE_STEP_SKIPPED];
        let named = format!("'{name}'");
        self.troubles.retain(|(said, line)| !(of_steps.contains(said) && line.contains(&named)));
    }

    /// Trouble of this kind is over. Returns whether any was said.
    pub(super) fn is_over(&mut self, event: &'static str) -> bool {
        let before = self.troubles.len();
        self.troubles.retain(|(said, _)| *said != event);
        self.troubles.len() < before
    }
}

/// A file's trouble, with what it costs where the trouble does not say so itself.
fn told(problem: &FileProblem) -> String {
    match problem.kind {
        FileProblemKind::DirectoryUnreadable | FileProblemKind::IgnoreRule => problem.to_string(),
        FileProblemKind::Unreadable
        | FileProblemKind::TooLarge
        | FileProblemKind::Encoding
        | FileProblemKind::Syntax
        | FileProblemKind::TooDeep
        | FileProblemKind::Archive
        | FileProblemKind::ParserFailed => format!("{problem}; its subscriptions are not known"),
    }
}
