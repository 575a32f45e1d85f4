//! What a filter expects, and what is found in a message, in the terms in which the two are compared.

use std::borrow::Cow;

use super::number::Number;
use crate::domain::envelope::Field;

/// A value that a filter names.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Expected {
    /// `None` in Python, `null` in JSON.
    Null,
    /// True or false.
    Bool(bool),
    /// A number.
    Number(Number<'static>),
    /// A text.
    Text(Box<str>),
    /// Values in order.
    List(Vec<Expected>),
    /// Values by name, sorted by it.
    Table(Vec<(Box<str>, Expected)>),
}

impl Expected {
    /// How much of a found value decides whether it equals this one.
    pub(super) fn extent(&self) -> Extent {
        let around = |width: usize, inner: &mut dyn Iterator<Item = Extent>| {
            let inner = inner.fold(Extent::default(), Extent::merge);
            Extent { levels: inner.levels + 1, width: inner.width.max(width) }
        };
        match self {
            Self::Null | Self::Bool(_) | Self::Number(_) | Self::Text(_) => Extent::default(),
            Self::List(items) => around(items.len(), &mut items.iter().map(Self::extent)),
            Self::Table(members) => around(members.len(), &mut members.iter().map(|(_, value)| value.extent())),
        }
    }
}

/// How many levels of lists and objects of a found value are kept, and how many members of each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Extent {
    pub(super) levels: usize,
    pub(super) width: usize,
}

impl Extent {
    pub(super) fn merge(self, other: Self) -> Self {
        Self { levels: self.levels.max(other.levels), width: self.width.max(other.width) }
    }
}

/// Why a value that is valid JSON has no single meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unclear {
    /// Its key stands twice in its object.
    Twice,
    /// It holds half a surrogate pair, which no text can hold.
    Surrogate,
}

/// What a found value is.
pub(super) enum Shape<'a> {
    Null,
    Bool(bool),
    Number(Number<'a>),
    Text(&'a str),
    /// A list, with its length where that is known.
    List(Option<usize>),
    /// A table, with the number of its members where that is known.
    Table(Option<usize>),
    /// What nothing in a filter can equal.
    Other(&'static str),
    Unclear(Unclear),
}

/// A value that is found in a message.
pub(super) trait Found: Sized {
    fn shape(&self) -> Shape<'_>;
    /// The items of a list, as far as they are kept.
    fn items(&self) -> &[Self];
    /// The member of a table.
    fn member(&self, name: &str) -> Option<&Self>;
}

impl Found for Field {
    fn shape(&self) -> Shape<'_> {
        let int = |int: i128| Shape::Number(Number::Int(int));
        match self {
            Self::Void => Shape::Null,
            Self::Boolean(value) => Shape::Bool(*value),
            Self::I8(n) => int((*n).into()),
            Self::U8(n) => int((*n).into()),
            Self::I16(n) => int((*n).into()),
            Self::U16(n) => int((*n).into()),
            Self::I32(n) => int((*n).into()),
            Self::U32(n) => int((*n).into()),
            Self::I64(n) => int((*n).into()),
            Self::F32(n) => Shape::Number(Number::Float((*n).into())),
            Self::F64(n) => Shape::Number(Number::Float(*n)),
            Self::Decimal { scale, value } => {
                Shape::Number(Number::Decimal { scale: *scale, value: i64::from(*value) })
            }
            Self::Text(bytes) => {
                std::str::from_utf8(bytes).map_or(Shape::Other("a text that is not UTF-8"), Shape::Text)
            }
            Self::Bytes(_) => Shape::Other("bytes"),
            Self::Timestamp(_) => Shape::Other("a timestamp"),
            Self::Array(items) => Shape::List(Some(items.len())),
            Self::Table(members) => Shape::Table(Some(members.len())),
        }
    }

    fn items(&self) -> &[Self] {
        if let Self::Array(items) = self { items } else { &[] }
    }

    fn member(&self, name: &str) -> Option<&Self> {
        if let Self::Table(members) = self { members.get(name) } else { None }
    }
}

/// A value of a JSON body, as much of it as was asked for.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Json<'a> {
    Null,
    Bool(bool),
    Number(Number<'a>),
    Text(Cow<'a, str>),
    /// The first items, and whether there are more.
    List(Vec<Json<'a>>, bool),
    /// Some members, each key once, and whether there are more keys.
    Table(Vec<(Cow<'a, str>, Json<'a>)>, bool),
    Unclear(Unclear),
}

impl Found for Json<'_> {
    fn shape(&self) -> Shape<'_> {
        let length = |length: usize, more: bool| (!more).then_some(length);
        match self {
            Self::Null => Shape::Null,
            Self::Bool(value) => Shape::Bool(*value),
            Self::Number(number) => Shape::Number(number.view()),
            Self::Text(text) => Shape::Text(text),
            Self::List(items, more) => Shape::List(length(items.len(), *more)),
            Self::Table(members, more) => Shape::Table(length(members.len(), *more)),
            Self::Unclear(unclear) => Shape::Unclear(*unclear),
        }
    }

    fn items(&self) -> &[Self] {
        if let Self::List(items, _) = self { items } else { &[] }
    }

    fn member(&self, name: &str) -> Option<&Self> {
        let Self::Table(members, _) = self else {
            return None;
        };
        members.iter().find(|(key, _)| key == name).map(|(_, value)| value)
    }
}
