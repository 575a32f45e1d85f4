//! The body of a message as filters see it: read once, only when a condition asks, and unreadable for a stated reason.

use std::cell::OnceCell;
use std::fmt;

use super::json;
use super::select::{Selection, Slot};
use super::verdict::Reason;

/// The body as far as it is there.
#[derive(Clone, Copy, Debug)]
pub enum Content<'a> {
    /// Its bytes, decompressed where they were compressed.
    Bytes(&'a [u8]),
    /// It could not be decompressed, or is not kept; the reason, as a clause.
    Unreadable(&'a str),
}

/// Why a body cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BodyFault {
    /// What is wrong.
    pub kind: BodyFaultKind,
    /// At which byte, counted from 0.
    pub at: usize,
}

/// The kinds of [`BodyFault`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyFaultKind {
    /// There is no body.
    Empty,
    /// It begins with a byte order mark, which no JSON may.
    ByteOrderMark,
    /// Its bytes are not UTF-8.
    NotUtf8,
    /// Its text is not JSON.
    NotJson,
    /// It is nested deeper than [`json::MAX_LEVELS`].
    TooDeep,
    /// An integer has more than [`super::number::MAX_DIGITS`] digits.
    LongInteger,
}

impl BodyFaultKind {
    /// The stable name in rows and log fields.
    pub fn code(self) -> &'static str {
        match self {
            Self::Empty => "body_empty",
            Self::ByteOrderMark => "body_byte_order_mark",
            Self::NotUtf8 => "body_not_utf8",
            Self::NotJson => "body_not_json",
            Self::TooDeep => "body_too_deep",
            Self::LongInteger => "body_long_integer",
        }
    }
}

impl fmt::Display for BodyFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = self.at;
        match self.kind {
            BodyFaultKind::Empty => f.write_str("the body is empty"),
            BodyFaultKind::ByteOrderMark => f.write_str("the body begins with a byte order mark"),
            BodyFaultKind::NotUtf8 => write!(f, "the body is not UTF-8 at byte {at}"),
            BodyFaultKind::NotJson => write!(f, "the body is not JSON at byte {at}"),
            BodyFaultKind::TooDeep => {
                write!(f, "the body is nested deeper than {} levels at byte {at}", json::MAX_LEVELS)
            }
            BodyFaultKind::LongInteger => {
                write!(f, "the body holds an integer of more than {} digits at byte {at}", super::number::MAX_DIGITS)
            }
        }
    }
}

/// A body from which the values of a selection are picked at the first question.
pub(super) struct Body<'a> {
    content: Content<'a>,
    selection: &'a Selection,
    picked: OnceCell<Result<Vec<Slot<'a>>, Reason>>,
}

impl<'a> Body<'a> {
    pub(super) fn new(content: Content<'a>, selection: &'a Selection) -> Self {
        Self { content, selection, picked: OnceCell::new() }
    }

    /// What stands at a path, by its number in the selection.
    pub(super) fn at(&self, path: usize) -> Result<&Slot<'a>, &Reason> {
        let picked = self.picked.get_or_init(|| match self.content {
            Content::Bytes(bytes) => json::pick(bytes, self.selection).map_err(Reason::Body),
            Content::Unreadable(why) => Err(Reason::Unreadable(why.to_owned())),
        });
        picked.as_ref().map(|slots| &slots[self.selection.slot(path)])
    }
}
