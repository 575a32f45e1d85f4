//! What one file says, whatever kind of file it is. Serves the control flow: scan.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

use super::file::{self, Stamp, Trouble};
use super::modules::ZipModules;
use super::name::escaped;
use super::python::{self, Library, Reading, SourceFile};
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

/// A file that is to be read.
#[derive(Clone, Copy, Debug)]
pub(super) struct File<'a> {
    pub(super) kind: Kind,
    pub(super) path: &'a Path,
    /// Its name in origins.
    pub(super) name: &'a str,
    /// Its name below the root that Python imports from.
    pub(super) below: &'a str,
}

/// What a file says, which other files it asked for, and how it looked.
type Read = (Content, Vec<String>, Stamp);

/// Reads a file. `before` is what it said when it was last read and understood.
pub(super) fn read(file: File<'_>, before: &Content, library: &Library<'_>) -> Result<Read, Trouble> {
    let File { kind, path, name, below } = file;
    match kind {
        Kind::Python => {
            let (bytes, stamp) = file::read(path)?;
            let (content, asked) = python((name, below), &bytes, before, library);
            Ok((content, asked, stamp))
        }
        Kind::Yaml => {
            let (bytes, stamp) = file::read(path)?;
            let (content, asked) = of(guarded("YAML", || yaml::read(name, &bytes)), false);
            Ok((content, asked, stamp))
        }
        Kind::Archive => {
            let (members, stamp) = archive::read(path)?;
            let modules = ZipModules(&members);
            let library = Library::new(&modules);
            let read = members.iter().map(|member| {
                let name = format!("{name}/{}", escaped(member.name.as_ref()));
                let content = match &member.bytes {
                    Ok(bytes) => python((&name, &member.name), bytes, before.member(&name), &library).0,
                    Err(trouble) => Content::Trouble(Arc::new(trouble.clone())),
                };
                (name, content)
            });
            // What they ask for is in the zip file itself.
            Ok((Content::Members(Arc::new(read.collect())), Vec::new(), stamp))
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

    /// Whether there is anything to put together or to remember.
    pub(super) fn is_told(&self) -> bool {
        match self {
            Self::Nothing => false,
            Self::Reading(_) | Self::Trouble(_) | Self::Members(_) => true,
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

fn python((name, path): (&str, &str), bytes: &[u8], before: &Content, library: &Library<'_>) -> (Content, Vec<String>) {
    let mentions = mentions(bytes, python::WORD);
    if !mentions && !before.says_something() {
        return (Content::Nothing, Vec::new());
    }
    let read = encoding::decode(bytes).and_then(|text| {
        let file = SourceFile { name, path, text: &text };
        guarded("Python", || python::read(file, library))
    });
    of(read, mentions)
}

/// What became of a text, and the files that it asked for. One that holds the word is remembered as such even where it declares
/// nothing.
fn of(read: Result<Reading, Trouble>, mentions: bool) -> (Content, Vec<String>) {
    match read {
        Ok(mut reading) => {
            let asked = std::mem::take(&mut reading.asked);
            let says_nothing = reading == Reading::default() && !mentions;
            (if says_nothing { Content::Nothing } else { Content::Reading(Arc::new(reading)) }, asked)
        }
        Err(trouble) => (Content::Trouble(Arc::new(trouble)), Vec::new()),
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
