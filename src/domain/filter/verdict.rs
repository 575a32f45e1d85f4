//! What a filter says of a message, and why, in few words.

use std::fmt;
use std::sync::Arc;

use super::body::BodyFault;
use super::value::{Found, Shape, Unclear};

/// The most characters of an explanation.
pub const MAX_EXPLANATION: usize = 200;

/// The most characters of each of its parts.
const MAX_PART: usize = 56;

/// What a filter says of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Every condition holds.
    Match,
    /// This one does not.
    Miss(Clause),
    /// It cannot be said; nothing may be concluded from it.
    Error(Reason),
}

impl Verdict {
    /// The stable name in rows and log fields.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Match => "match",
            Self::Miss(_) => "miss",
            Self::Error(_) => "error",
        }
    }
}

/// A condition, with what was found in its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clause {
    /// The value that is asked for, as the filter names it.
    pub subject: Arc<str>,
    /// What is expected of it.
    pub expected: Arc<str>,
    /// What was found.
    pub found: String,
}

impl fmt::Display for Clause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`: expected {}, found {}", self.subject, self.expected, self.found)
    }
}

/// Why nothing can be said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The body is no JSON that could be read.
    Body(BodyFault),
    /// The body is not there to be read, for this reason.
    Unreadable(String),
    /// The value that decides has no single meaning.
    Unclear {
        /// The value that is asked for, as the filter names it.
        subject: Arc<str>,
        /// Why.
        why: Unclear,
    },
}

impl Reason {
    /// The stable name in rows and log fields.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Body(fault) => fault.kind.code(),
            Self::Unreadable(_) => "body_unreadable",
            Self::Unclear { why: Unclear::Twice, .. } => "body_key_twice",
            Self::Unclear { why: Unclear::Surrogate, .. } => "body_surrogate",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Body(fault) => fault.fmt(f),
            Self::Unreadable(why) => write!(f, "the body cannot be read: {}", clipped(why, MAX_EXPLANATION - 30)),
            Self::Unclear { subject, why: Unclear::Twice } => {
                write!(f, "`{subject}`: a key stands twice in the body, so it is open which value is meant")
            }
            Self::Unclear { subject, why: Unclear::Surrogate } => {
                write!(f, "`{subject}`: the body holds half a surrogate pair there, which is no character")
            }
        }
    }
}

/// A text of at most so many characters, with `…` in place of the rest.
pub(super) fn clipped(text: &str, limit: usize) -> String {
    match text.char_indices().nth(limit) {
        Some(_) => text.chars().take(limit - 1).chain(['…']).collect(),
        None => text.to_owned(),
    }
}

/// A part of an explanation.
pub(super) fn part(text: &str) -> String {
    clipped(text, MAX_PART)
}

/// A text in quotes, as a part of an explanation; control characters are escaped.
pub(super) fn quoted(text: &str) -> String {
    // Escaping lengthens, so no more is escaped than can be shown.
    let few = clipped(text, MAX_PART);
    part(&format!("{few:?}"))
}

/// What a found value is, in few words.
pub(super) fn found<F: Found>(value: Option<&F>) -> String {
    let Some(value) = value else {
        return "nothing".to_owned();
    };
    match value.shape() {
        Shape::Null => "null".to_owned(),
        Shape::Bool(value) => value.to_string(),
        Shape::Number(number) => part(&number.to_string()),
        Shape::Text(text) => quoted(text),
        Shape::List(_) => "a list".to_owned(),
        Shape::Table(_) => "an object".to_owned(),
        Shape::Other(what) => what.to_owned(),
        Shape::Unclear(Unclear::Twice) => "two values".to_owned(),
        Shape::Unclear(Unclear::Surrogate) => "half a surrogate pair".to_owned(),
    }
}
