//! Reads `@rmq_trigger(…)` from the text of one Python file. Serves the control flow: scan.
//!
//! text → nesting guard → parse → depth guard → imported names → decorators and calls, with their arguments evaluated as far
//! as the text alone decides them → declarations and refusals. No file is opened here but through [`Modules`], and nothing of
//! the text is executed. The parser's types stop in this directory.

mod arguments;
mod carriers;
mod decorators;
mod depth;
mod evaluate;
mod library;
mod mutation;
mod names;
mod nesting;
mod operators;
mod position;
mod scope;
mod scopes;
mod stdlib;
mod wrapped;

use ruff_python_ast::{Mod, Suite};
use ruff_python_parser::{Mode, ParseOptions, parse_unchecked};
use ruff_text_size::Ranged;

use super::file::Trouble;
use crate::domain::declaration::{Declaration, FileProblemKind, Refusal};
use evaluate::Evaluator;
use names::Names;
use position::Lines;

pub(super) use library::{Library, ModuleText, Modules};

/// A file without this word declares nothing and is not parsed.
pub(super) const WORD: &str = "rmq_trigger";

/// What one file declares.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Reading {
    pub(super) declarations: Vec<Declaration>,
    pub(super) refusals: Vec<Refusal>,
    /// The other files that were asked for constants, also those that are not there, by their names below the root that
    /// Python imports from. When one of them changes, appears or goes, the file has to be read again.
    pub(super) asked: Vec<String>,
}

/// One file's text.
#[derive(Clone, Copy, Debug)]
pub(super) struct SourceFile<'a> {
    /// Its name in origins.
    pub(super) name: &'a str,
    /// Its name below the root that Python imports from, for relative imports.
    pub(super) path: &'a str,
    pub(super) text: &'a str,
}

/// Reads one file.
///
/// Needs the stack of [`super::READER_STACK_BYTES`] for the deepest nesting it lets pass.
pub(super) fn read(file: SourceFile<'_>, library: &Library<'_>) -> Result<Reading, Trouble> {
    let lines = Lines::of(file.text);
    let body = parse(file.text, &lines)?;
    let names = Names::of(&body);
    let evaluator = Evaluator::new(&body, &names, &lines, library, file.path);
    library.start();
    let (mut reading, asked) = library.noting(|| decorators::read(file.name, &evaluator));
    reading.asked = asked.into_iter().collect();
    Ok(reading)
}

/// The statements of a text, in every syntax from Python 3.9 on.
fn parse(text: &str, lines: &Lines<'_>) -> Result<Suite, Trouble> {
    if !nesting::is_bounded(text) {
        return Err(too_deep());
    }
    let parsed = parse_unchecked(text, ParseOptions::from(Mode::Module));
    let error = parsed.errors().first().map(|error| Trouble {
        line: Some(lines.position(error.range().start()).0),
        kind: FileProblemKind::Syntax,
        text: format!("is not Python: {}", error.error),
    });
    // Before anything else walks the tree or frees it, also where it is full of errors.
    let mut body = match parsed.into_syntax() {
        Mod::Module(module) => module.body,
        Mod::Expression(_) => Suite::new(),
    };
    let is_bounded = depth::is_bounded(&mut body);
    match error {
        Some(error) => Err(error),
        None if is_bounded => Ok(body),
        None => Err(too_deep()),
    }
}

fn too_deep() -> Trouble {
    Trouble::new(FileProblemKind::TooDeep, "nests deeper than Python itself takes, or a bracket in it is never closed")
}
