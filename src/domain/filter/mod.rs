//! Filters: which messages of a queue are meant for a subscription. Serves the data flow, between receiving and routing.
//!
//! A filter is read once into a tree ([`Filter::parse`]) and asked for every message ([`Filter::evaluate`], or
//! [`Filters`] where several look at one message). Its verdict explains itself. `docs/filters.md` is the reference.
//!
//! - Equality is Python's `==`, exact for every number (`compare`, `number`).
//! - Headers first, the body only when it decides, in one pass that keeps what is asked for (`json`, `select`).
//! - What cannot be said is an error of that message, never of the subscription; nothing here panics on any bytes.

mod body;
mod compare;
mod evaluate;
mod explain;
mod json;
mod lookup;
mod number;
mod operators;
mod parse;
mod path;
mod print;
mod problem;
mod select;
mod tree;
mod value;
mod verdict;

use serde_json::Value;

use super::envelope::Table;
use body::Body;
use evaluate::Judge;
use select::Selection;
use tree::{Node, Subject};

pub use body::{BodyFault, BodyFaultKind, Content};
pub use explain::Explained;
pub use json::MAX_LEVELS;
pub use lookup::{Place, header_text};
pub use number::MAX_DIGITS;
pub use operators::MAX_PATTERN;
pub use problem::FilterProblem;
pub use value::Unclear;
pub use verdict::{Clause, MAX_EXPLANATION, Reason, Verdict};

/// What a filter looks at.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    /// The headers table.
    pub headers: &'a Table,
    /// The body.
    pub body: Content<'a>,
}

/// A filter, read and ready.
#[derive(Clone, Debug)]
pub struct Filter {
    root: Node,
    selection: Selection,
}

/// Two filters are the same when they ask the same.
impl PartialEq for Filter {
    fn eq(&self, other: &Self) -> bool {
        self.root == other.root
    }
}

impl Filter {
    /// Reads a subscription's `filter_data`. `None` and `{}` match every message.
    ///
    /// # Errors
    /// The first part that is not understood, with what to write instead.
    pub fn parse(filter_data: &Value) -> Result<Self, FilterProblem> {
        let root = parse::parse(filter_data)?;
        let mut selection = Selection::default();
        add_paths(&root, &mut selection);
        Ok(Self { root, selection })
    }

    /// The `filter_data` that reads as this filter.
    pub fn to_json(&self) -> Value {
        print::filter_data(&self.root)
    }

    /// Whether it has no condition, and matches every message.
    pub fn is_empty(&self) -> bool {
        matches!(&self.root, Node::All(nodes) if nodes.is_empty())
    }

    /// Whether any condition looks into the body.
    pub fn reads_body(&self) -> bool {
        self.root.needs_body()
    }

    /// What it says of a message. Total: any bytes have a verdict.
    pub fn evaluate(&self, message: &Message<'_>) -> Verdict {
        let body = Body::new(message.body, &self.selection);
        Judge { headers: message.headers, body: &body, first_path: 0 }.node(&self.root)
    }

    /// Every condition with its own answer. For people: the verdict alone costs less.
    pub fn explain(&self, message: &Message<'_>) -> Vec<Explained> {
        let body = Body::new(message.body, &self.selection);
        let judge = Judge { headers: message.headers, body: &body, first_path: 0 };
        let mut lines = Vec::new();
        match &self.root {
            Node::All(nodes) => nodes.iter().for_each(|node| judge.explain(node, 0, &mut lines)),
            root @ (Node::Any(_) | Node::Not(_) | Node::Condition(_)) => judge.explain(root, 0, &mut lines),
        }
        lines
    }
}

/// The filters that look at the same messages. A body is read once for all of them.
#[derive(Clone, Debug, Default)]
pub struct Filters {
    /// Each with the number of its first path in the selection.
    filters: Vec<(Filter, usize)>,
    selection: Selection,
}

impl Filters {
    /// Puts filters together.
    pub fn new(filters: impl IntoIterator<Item = Filter>) -> Self {
        let (mut selection, mut first_path) = (Selection::default(), 0);
        let placed = filters.into_iter().map(|filter| {
            let first = first_path;
            first_path += add_paths(&filter.root, &mut selection);
            (filter, first)
        });
        let filters = placed.collect();
        Self { filters, selection }
    }

    /// What each says of a message, in the order in which they were given; the same as each alone.
    pub fn evaluate(&self, message: &Message<'_>) -> Vec<Verdict> {
        let body = Body::new(message.body, &self.selection);
        let judge = |first_path| Judge { headers: message.headers, body: &body, first_path };
        self.filters.iter().map(|(filter, first_path)| judge(*first_path).node(&filter.root)).collect()
    }
}

/// Adds the paths of a tree by their numbers, which follow the order of its text; says how many there are.
fn add_paths(root: &Node, selection: &mut Selection) -> usize {
    let mut paths = Vec::new();
    root.conditions(&mut |condition| {
        if let Subject::Body(path, number) = &condition.subject {
            paths.push((*number, path, condition.extent()));
        }
    });
    paths.sort_by_key(|(number, _, _)| *number);
    paths.iter().for_each(|(_, path, extent)| selection.add(path, *extent));
    paths.len()
}
