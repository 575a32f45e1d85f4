//! What a scan found wrong, said once and again only when it changes.

use std::collections::HashSet;

use crate::ports::Declared;
use crate::telemetry::events;

/// Remembers what was said.
#[derive(Debug, Default)]
pub(super) struct Findings {
    /// Sentences that held at the last cycle.
    said: HashSet<String>,
    failure: Option<String>,
}

impl Findings {
    /// Says what is new in this scan, or that there is none.
    pub(super) fn say(&mut self, scanned: &Result<Declared, String>) {
        match scanned {
            Err(reason) => {
                if self.failure.as_ref() != Some(reason) {
                    tracing::error!(
                        event = events::SCAN_FAILED,
                        "RMQ Watcher: DAG files were not read: {reason}; what runs keeps running"
                    );
                }
                self.failure = Some(reason.clone());
            }
            Ok(declared) => {
                self.failure = None;
                self.say_each(declared);
            }
        }
    }

    /// Says that a subscription does not run, unless that was said before.
    pub(super) fn say_refused(&mut self, sentence: &str) {
        if self.said.insert(sentence.to_owned()) {
            tracing::error!(event = events::SUBSCRIPTION_REFUSED, "RMQ Watcher: {sentence}");
        }
    }

    fn say_each(&mut self, declared: &Declared) {
        let refusals: Vec<String> = declared.refusals.iter().map(ToString::to_string).collect();
        let problems: Vec<String> = declared.unreadable.iter().map(ToString::to_string).collect();
        for problem in problems.iter().filter(|problem| !self.said.contains(*problem)) {
            tracing::warn!(event = events::FILE_UNREADABLE, "RMQ Watcher: {problem}; its subscriptions are not known");
        }
        let known: HashSet<String> = problems.into_iter().chain(refusals.iter().cloned()).collect();
        // A sentence about a queue that is taken is not a scan's: it stays until the watcher starts again.
        self.said.retain(|sentence| known.contains(sentence) || sentence.contains("is served for DAG"));
        for refusal in &refusals {
            self.say_refused(refusal);
        }
        self.said.extend(known);
    }
}
