//! A filter as a tree: what is asked of which part of a message.

use std::sync::Arc;

use regex::Regex;

use super::number::Number;
use super::path::Path;
use super::value::{Expected, Extent};

/// Conditions put together.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Node {
    /// Every one holds; those that need no body stand first.
    All(Vec<Node>),
    /// At least one holds; those that need no body stand first.
    Any(Vec<Node>),
    /// It does not hold.
    Not(Box<Node>),
    /// One condition.
    Condition(Condition),
}

impl Node {
    pub(super) fn needs_body(&self) -> bool {
        match self {
            Self::All(nodes) | Self::Any(nodes) => nodes.iter().any(Self::needs_body),
            Self::Not(node) => node.needs_body(),
            Self::Condition(condition) => matches!(condition.subject, Subject::Body(..)),
        }
    }

    /// Every condition, in the order of the tree.
    pub(super) fn conditions<'a>(&'a self, visit: &mut impl FnMut(&'a Condition)) {
        match self {
            Self::All(nodes) | Self::Any(nodes) => nodes.iter().for_each(|node| node.conditions(visit)),
            Self::Not(node) => node.conditions(visit),
            Self::Condition(condition) => visit(condition),
        }
    }
}

/// What is asked of one value of a message.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Condition {
    pub(super) subject: Subject,
    /// All of them have to pass; at least one.
    pub(super) tests: Vec<Test>,
    /// How an explanation names the value.
    pub(super) shown: Arc<str>,
}

impl Condition {
    /// How much of the value decides.
    pub(super) fn extent(&self) -> Extent {
        self.tests.iter().map(Test::extent).fold(Extent::default(), Extent::merge)
    }
}

/// Which value of a message.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Subject {
    /// The header of this name.
    Header(Box<str>),
    /// What stands in the body at this path; the number counts a filter's paths.
    Body(Path, usize),
}

/// One question about a value.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Test {
    pub(super) kind: TestKind,
    /// How an explanation says what is expected.
    pub(super) shown: Arc<str>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum TestKind {
    Equals(Expected),
    In(Vec<Expected>),
    Exists(bool),
    Regex(Pattern),
    Prefix(Box<str>),
    Order(Order, Number<'static>),
    /// Not all of them pass.
    Not(Vec<Test>),
}

impl Test {
    fn extent(&self) -> Extent {
        match &self.kind {
            TestKind::Equals(expected) => expected.extent(),
            TestKind::In(list) => list.iter().map(Expected::extent).fold(Extent::default(), Extent::merge),
            TestKind::Exists(_) | TestKind::Regex(_) | TestKind::Prefix(_) | TestKind::Order(..) => Extent::default(),
            TestKind::Not(tests) => tests.iter().map(Self::extent).fold(Extent::default(), Extent::merge),
        }
    }
}

/// A comparison of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    Less,
    AtMost,
    Greater,
    AtLeast,
}

impl Order {
    pub(super) const ALL: [Self; 4] = [Self::Less, Self::AtMost, Self::Greater, Self::AtLeast];

    /// The operator.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Less => "$lt",
            Self::AtMost => "$le",
            Self::Greater => "$gt",
            Self::AtLeast => "$ge",
        }
    }

    /// Its sign in mathematics.
    pub(super) fn sign(self) -> &'static str {
        match self {
            Self::Less => "<",
            Self::AtMost => "≤",
            Self::Greater => ">",
            Self::AtLeast => "≥",
        }
    }
}

/// A regular expression, the same as another one of the same text.
#[derive(Clone, Debug)]
pub(super) struct Pattern(pub(super) Regex);

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.0.as_str() == other.0.as_str()
    }
}
