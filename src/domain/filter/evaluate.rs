//! A filter over a message: three values, the cheap conditions first, the body only when it decides.
//!
//! One condition that does not hold decides a group of conditions, whatever cannot be said about the others; so the
//! order in which they are written never changes what is said.

use std::sync::Arc;

use super::body::Body;
use super::compare::{Answer, Missing, passes};
use super::select::Slot;
use super::tree::{Condition, Node, Subject, Test};
use super::value::{Found, Unclear};
use super::verdict::{self, Clause, Reason, Verdict};
use crate::domain::envelope::Table;

/// A message, and where a filter's paths stand among those of the body's selection.
#[derive(Clone, Copy)]
pub(super) struct Judge<'a> {
    pub(super) headers: &'a Table,
    pub(super) body: &'a Body<'a>,
    pub(super) first_path: usize,
}

impl Judge<'_> {
    pub(super) fn node(&self, node: &Node) -> Verdict {
        match node {
            Node::All(nodes) => self.all(nodes),
            Node::Any(nodes) => self.any(nodes),
            Node::Not(inner) => match self.node(inner) {
                Verdict::Match => group("$not", "its conditions not to hold", "that they hold"),
                Verdict::Miss(_) => Verdict::Match,
                Verdict::Error(reason) => Verdict::Error(reason),
            },
            Node::Condition(condition) => self.condition(condition),
        }
    }

    fn all(&self, nodes: &[Node]) -> Verdict {
        let mut all = Verdict::Match;
        for node in nodes {
            match self.node(node) {
                Verdict::Match => {}
                miss @ Verdict::Miss(_) => return miss,
                error @ Verdict::Error(_) if all == Verdict::Match => all = error,
                Verdict::Error(_) => {}
            }
        }
        all
    }

    fn any(&self, nodes: &[Node]) -> Verdict {
        let mut first_error = None;
        for node in nodes {
            match self.node(node) {
                Verdict::Match => return Verdict::Match,
                Verdict::Miss(_) => {}
                Verdict::Error(reason) => {
                    first_error.get_or_insert(reason);
                }
            }
        }
        match first_error {
            Some(reason) => Verdict::Error(reason),
            None => group("$any", "one of its groups to hold", "that none holds"),
        }
    }

    pub(super) fn condition(&self, condition: &Condition) -> Verdict {
        match &condition.subject {
            Subject::Header(name) => tests(condition, self.headers.get(&**name), Missing::IsNull),
            Subject::Body(_, path) => match self.body.at(self.first_path + path) {
                Err(reason) => Verdict::Error(reason.clone()),
                Ok(Slot::Absent) => tests::<super::value::Json<'_>>(condition, None, Missing::IsNothing),
                Ok(Slot::Found(value)) => tests(condition, Some(value), Missing::IsNothing),
                Ok(Slot::Hidden(why)) => unclear(condition, *why),
            },
        }
    }

    /// What stands where a condition looks, in few words; nothing where that cannot be said.
    pub(super) fn found(&self, condition: &Condition) -> Option<String> {
        match &condition.subject {
            Subject::Header(name) => Some(verdict::found(self.headers.get(&**name))),
            Subject::Body(_, path) => match self.body.at(self.first_path + path).ok()? {
                Slot::Absent => Some(verdict::found::<super::value::Json<'_>>(None)),
                Slot::Found(value) => Some(verdict::found(Some(value))),
                Slot::Hidden(_) => None,
            },
        }
    }
}

fn tests<F: Found>(condition: &Condition, value: Option<&F>, missing: Missing) -> Verdict {
    let mut first_unclear = None;
    for test in &condition.tests {
        match passes(test, value, missing) {
            Answer::Yes => {}
            Answer::No => return miss(condition, test, value),
            Answer::Unclear(why) => {
                first_unclear.get_or_insert(why);
            }
        }
    }
    first_unclear.map_or(Verdict::Match, |why| unclear(condition, why))
}

fn miss<F: Found>(condition: &Condition, test: &Test, value: Option<&F>) -> Verdict {
    let (subject, expected) = (Arc::clone(&condition.shown), Arc::clone(&test.shown));
    Verdict::Miss(Clause { subject, expected, found: verdict::found(value) })
}

fn unclear(condition: &Condition, why: Unclear) -> Verdict {
    Verdict::Error(Reason::Unclear { subject: Arc::clone(&condition.shown), why })
}

fn group(subject: &str, expected: &str, found: &str) -> Verdict {
    Verdict::Miss(Clause { subject: subject.into(), expected: expected.into(), found: found.to_owned() })
}
