//! Every condition of a filter with its own answer, for people who try a filter.

use std::sync::Arc;

use super::evaluate::Judge;
use super::tree::Node;
use super::verdict::Verdict;

/// One line of an explanation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explained {
    /// How deep it stands in groups.
    pub level: usize,
    /// The value that is asked for, or the group.
    pub subject: Arc<str>,
    /// What is expected of it; of a group, how its lines are put together.
    pub expected: String,
    /// What stands in the message; none for a group, or where that cannot be said.
    pub found: Option<String>,
    /// What this line alone says.
    pub verdict: Verdict,
}

impl Judge<'_> {
    /// The lines of a node, groups before what is in them.
    pub(super) fn explain(&self, node: &Node, level: usize, lines: &mut Vec<Explained>) {
        let mut group = |name: &str, expected: &str| {
            let line = Explained {
                level,
                subject: name.into(),
                expected: expected.to_owned(),
                found: None,
                verdict: self.node(node),
            };
            lines.push(line);
        };
        let inner = match node {
            Node::All(nodes) => {
                group("$all", "every line below to hold");
                nodes.as_slice()
            }
            Node::Any(nodes) => {
                group("$any", "one line below to hold");
                nodes.as_slice()
            }
            Node::Not(inner) => {
                group("$not", "the line below not to hold");
                std::slice::from_ref(&**inner)
            }
            Node::Condition(condition) => {
                let expected: Vec<&str> = condition.tests.iter().map(|test| &*test.shown).collect();
                lines.push(Explained {
                    level,
                    subject: Arc::clone(&condition.shown),
                    expected: expected.join(" and "),
                    found: self.found(condition),
                    verdict: self.condition(condition),
                });
                return;
            }
        };
        inner.iter().for_each(|node| self.explain(node, level + 1, lines));
    }
}
