//! What one file says, whatever kind of file it is. Serves the control flow: scan.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

use super::file::{self, Stamp, Trouble};
use super::python::{self, Reading};
use super::walk::Kind;
use super::{archive, encoding, yaml};
use crate::domain::declaration::FileProblemKind;

/// What was read from a file. Most files declare nothing, which takes no memory.
#[derive(Clone, Debug)]
pub(super) enum Content {
    /// Nothing.
    Nothing,
    /// Declarations, refusals, or nothing any more.
    Reading(Arc<Reading>),
    /// It cannot be used.
    Trouble(Arc<Trouble>),
    /// A zip file: each file in it that was looked at, under its name in origins.
    Members(Arc<Vec<(String, Content)>>),
}

/// Reads a file. `before` is what it said when it was last read and understood.
pub(super) fn read(kind: Kind, path: &Path, name: &str, before: &Content) -> Result<(Content, Stamp), Trouble> {
    match kind {
        Kind::Python => {
            let (bytes, stamp) = file::read(path)?;
            Ok((python(name, &bytes, before), stamp))
        }
        Kind::Yaml => {
            let (bytes, stamp) = file::read(path)?;
            Ok((of(guarded("YAML", || yaml::read(name, &bytes)), false), stamp))
        }
        Kind::Archive => {
            let (members, stamp) = archive::read(path)?;
            let members = members.into_iter().map(|member| {
                let name = format!("{name}/{}", super::name::escaped(member.name.as_ref()));
                let content = match member.bytes {
                    Ok(bytes) => python(&name, &bytes, before.member(&name)),
                    Err(trouble) => Content::Trouble(Arc::new(trouble)),
                };
                (name, content)
            });
            Ok((Content::Members(Arc::new(members.collect())), stamp))
        }
    }
}

impl Content {
    fn member(&self, name: &str) -> &Self {
        match self {
            Self::Members(members) => {
                members.iter().find(|(known, _)| known == name).map_or(&Self::Nothing, |(_, content)| content)
            }
            Self::Nothing | Self::Reading(_) | Self::Trouble(_) => &Self::Nothing,
        }
    }

    /// Whether the file holds the word. Where it did, a text without it has to be parsed all the same: one that was cut off
    /// is a broken file, and not one that declares nothing.
    pub(super) fn says_something(&self) -> bool {
        match self {
            Self::Nothing => false,
            Self::Reading(_) | Self::Trouble(_) => true,
            Self::Members(members) => members.iter().any(|(_, content)| content.says_something()),
        }
    }
}

fn python(name: &str, bytes: &[u8], before: &Content) -> Content {
    let mentions = mentions(bytes, python::WORD);
    if !mentions && !before.says_something() {
        return Content::Nothing;
    }
    let read = encoding::decode(bytes).and_then(|text| guarded("Python", || python::read(name, &text)));
    of(read, mentions)
}

/// What became of a text. One that holds the word is remembered as such even where it declares nothing.
fn of(read: Result<Reading, Trouble>, mentions: bool) -> Content {
    match read {
        Ok(reading) if reading == Reading::default() && !mentions => Content::Nothing,
        Ok(reading) => Content::Reading(Arc::new(reading)),
        Err(trouble) => Content::Trouble(Arc::new(trouble)),
    }
}

/// Keeps a parser's defect to the file that shows it.
fn guarded(language: &str, read: impl FnOnce() -> Result<Reading, Trouble>) -> Result<Reading, Trouble> {
    catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(|_| {
        Err(Trouble::new(
            FileProblemKind::ParserFailed,
            format!("makes this program's {language} parser fail; please report it with the file"),
        ))
    })
}

/// Whether the bytes hold the word, whatever their encoding.
fn mentions(bytes: &[u8], word: &str) -> bool {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.contains(word),
        Err(_) => bytes.windows(word.len()).any(|window| window == word.as_bytes()),
    }
}
