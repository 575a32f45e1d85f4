//! One value of a message as text, for what is told by a value and not by a condition (`dedup_key`).

use super::body::Body;
use super::path::Path;
use super::select::{Selection, Slot};
use super::value::{Extent, Found, Json, Shape};
use super::{Content, Unclear};
use crate::domain::envelope::Field;

/// A place in a JSON body, written as behind `body.` in a filter.
#[derive(Clone, Debug)]
pub struct Place {
    path: Path,
    selection: Selection,
}

/// Two places are the same when they are written the same.
impl PartialEq for Place {
    fn eq(&self, other: &Self) -> bool {
        self.path == other.path
    }
}

impl Place {
    /// Reads a path; `None` where it is none.
    pub fn parse(text: &str) -> Option<Self> {
        let path = Path::parse(text).ok()?;
        let mut selection = Selection::default();
        selection.add(&path, Extent::default());
        Some(Self { path, selection })
    }

    /// The text, number or truth value that stands there, as text. `None` where there is nothing else than that, or where the body
    /// leaves it open which value is meant.
    pub fn find(&self, body: Content<'_>) -> Option<String> {
        match Body::new(body, &self.selection).at(0) {
            Ok(Slot::Found(value)) => simple::<Json<'_>>(value),
            Ok(Slot::Absent | Slot::Hidden(Unclear::Twice | Unclear::Surrogate)) | Err(_) => None,
        }
    }
}

/// A header's text, number or truth value, as text.
pub fn header_text(field: &Field) -> Option<String> {
    simple(field)
}

fn simple<F: Found>(value: &F) -> Option<String> {
    match value.shape() {
        Shape::Text(text) => Some(text.to_owned()),
        Shape::Number(number) => Some(number.to_string()),
        Shape::Bool(truth) => Some(truth.to_string()),
        Shape::Null | Shape::List(_) | Shape::Table(_) | Shape::Other(_) | Shape::Unclear(_) => None,
    }
}
