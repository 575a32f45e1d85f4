//! Whether a found value is what a filter expects: Python's `==` over JSON and AMQP values, and the operators beside it.

use std::cmp::Ordering;

use super::number::Number;
use super::tree::{Order, Test, TestKind};
use super::value::{Expected, Found, Shape, Unclear};

/// What a comparison says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Yes,
    No,
    /// The value has no single meaning, and the answer depends on it.
    Unclear(Unclear),
}

impl Answer {
    fn of(is_so: bool) -> Self {
        if is_so { Self::Yes } else { Self::No }
    }

    fn not(self) -> Self {
        match self {
            Self::Yes => Self::No,
            Self::No => Self::Yes,
            Self::Unclear(unclear) => Self::Unclear(unclear),
        }
    }

    /// One `No` decides, whatever is unclear beside it.
    pub(super) fn all(answers: impl Iterator<Item = Self>) -> Self {
        let mut all = Self::Yes;
        for answer in answers {
            match answer {
                Self::Yes => {}
                Self::No => return Self::No,
                Self::Unclear(_) if all != Self::Yes => {}
                Self::Unclear(_) => all = answer,
            }
        }
        all
    }

    fn any(answers: impl Iterator<Item = Self>) -> Self {
        Self::all(answers.map(Self::not)).not()
    }
}

/// Python's `==`: numbers and bools by value, texts by their characters, lists in order, tables without.
pub(super) fn equals<F: Found>(expected: &Expected, found: &F) -> Answer {
    match (expected, found.shape()) {
        (_, Shape::Unclear(unclear)) => Answer::Unclear(unclear),
        (Expected::Null, Shape::Null) => Answer::Yes,
        (Expected::Text(expected), Shape::Text(found)) => Answer::of(**expected == *found),
        (Expected::Bool(expected), Shape::Bool(found)) => Answer::of(*expected == found),
        (Expected::Bool(expected), Shape::Number(found)) => same_number(&truth(*expected), &found),
        (Expected::Number(expected), Shape::Bool(found)) => same_number(expected, &truth(found)),
        (Expected::Number(expected), Shape::Number(found)) => same_number(expected, &found),
        (Expected::List(expected), Shape::List(Some(length))) if length == expected.len() => {
            Answer::all(expected.iter().zip(found.items()).map(|(expected, found)| equals(expected, found)))
        }
        (Expected::Table(expected), Shape::Table(Some(length))) if length == expected.len() => {
            let member = |(name, expected): &(Box<str>, Expected)| match found.member(name) {
                Some(found) => equals(expected, found),
                None => Answer::No,
            };
            Answer::all(expected.iter().map(member))
        }
        (
            Expected::Null
            | Expected::Bool(_)
            | Expected::Number(_)
            | Expected::Text(_)
            | Expected::List(_)
            | Expected::Table(_),
            _,
        ) => Answer::No,
    }
}

fn truth(value: bool) -> Number<'static> {
    Number::Int(value.into())
}

fn same_number(a: &Number<'_>, b: &Number<'_>) -> Answer {
    Answer::of(a.compare(b) == Some(Ordering::Equal))
}

/// One test of a condition. `missing` says what an absent value counts as where it is compared.
pub(super) fn passes<F: Found>(test: &Test, found: Option<&F>, missing: Missing) -> Answer {
    let is = |expected: &Expected| match found {
        Some(found) => equals(expected, found),
        None => Answer::of(missing == Missing::IsNull && *expected == Expected::Null),
    };
    match &test.kind {
        TestKind::Equals(expected) => is(expected),
        TestKind::In(list) => Answer::any(list.iter().map(is)),
        TestKind::Exists(exists) => Answer::of(found.is_some() == *exists),
        TestKind::Regex(pattern) => text(found, |text| pattern.0.is_match(text)),
        TestKind::Prefix(prefix) => text(found, |text| text.starts_with(&**prefix)),
        TestKind::Order(order, bound) => number(found, |number| order.holds(number.compare(bound))),
        TestKind::Not(tests) => Answer::all(tests.iter().map(|test| passes(test, found, missing))).not(),
    }
}

/// What an absent value counts as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Missing {
    /// `None`, as for headers.
    IsNull,
    /// Nothing that equals anything, as for keys of a body.
    IsNothing,
}

fn text<F: Found>(found: Option<&F>, holds: impl FnOnce(&str) -> bool) -> Answer {
    match found.map(Found::shape) {
        Some(Shape::Text(text)) => Answer::of(holds(text)),
        Some(Shape::Unclear(unclear)) => Answer::Unclear(unclear),
        Some(Shape::Null | Shape::Bool(_) | Shape::Number(_) | Shape::List(_) | Shape::Table(_) | Shape::Other(_))
        | None => Answer::No,
    }
}

fn number<F: Found>(found: Option<&F>, holds: impl FnOnce(&Number<'_>) -> bool) -> Answer {
    match found.map(Found::shape) {
        Some(Shape::Number(number)) => Answer::of(holds(&number)),
        Some(Shape::Bool(value)) => Answer::of(holds(&truth(value))),
        Some(Shape::Unclear(unclear)) => Answer::Unclear(unclear),
        Some(Shape::Null | Shape::Text(_) | Shape::List(_) | Shape::Table(_) | Shape::Other(_)) | None => Answer::No,
    }
}

impl Order {
    fn holds(self, found: Option<Ordering>) -> bool {
        match self {
            Self::Less => found == Some(Ordering::Less),
            Self::AtMost => matches!(found, Some(Ordering::Less | Ordering::Equal)),
            Self::Greater => found == Some(Ordering::Greater),
            Self::AtLeast => matches!(found, Some(Ordering::Greater | Ordering::Equal)),
        }
    }
}
