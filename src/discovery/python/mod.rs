//! Reads `@rmq_trigger(…)` from the text of one Python file. Serves the control flow: scan.
//!
//! text → nesting guard → parse → depth guard → imported names → decorators → declarations and refusals. Pure: no file is
//! opened here, and nothing of the text is executed. The parser's types stop in this directory.

mod arguments;
mod decorators;
mod depth;
mod names;
mod nesting;
mod position;

use ruff_python_ast::{Mod, Suite};
use ruff_python_parser::{Mode, ParseOptions, parse_unchecked};
use ruff_text_size::Ranged;

use super::file::Trouble;
use crate::domain::declaration::{Declaration, FileProblemKind, Refusal};
use position::Lines;

/// A file without this word declares nothing and is not parsed.
pub(super) const WORD: &str = "rmq_trigger";

/// What one file declares.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Reading {
    pub(super) declarations: Vec<Declaration>,
    pub(super) refusals: Vec<Refusal>,
}

/// Reads one file's text. `file` is its name in origins.
///
/// Needs the stack of [`super::READER_STACK_BYTES`] for the deepest nesting it lets pass.
pub(super) fn read(file: &str, text: &str) -> Result<Reading, Trouble> {
    if !nesting::is_bounded(text) {
        return Err(too_deep());
    }
    let lines = Lines::of(text);
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
        None if is_bounded => Ok(decorators::read(file, &lines, &body)),
        None => Err(too_deep()),
    }
}

fn too_deep() -> Trouble {
    Trouble::new(FileProblemKind::TooDeep, "nests deeper than Python itself takes, or a bracket in it is never closed")
}
