//! Reads `rmq_triggers.yaml`: the same declarations for people without decorators. Serves the control flow: scan.
//!
//! ```yaml
//! triggers:
//!   - dag_id: orders
//!     queue: orders
//! ```
//!
//! bytes → tree with places → arguments → [`declare`], whose rules are those of the decorator. What is wrong with the file as
//! a whole is the file's trouble; what is wrong with one entry refuses that entry alone.

mod tree;

use super::file::Trouble;
use super::python::Reading;
use crate::domain::declaration::{FileProblemKind, Names, Origin, Refusal, RefusalReason};
use crate::domain::declare::{Argument, Literal, declare};
use tree::{Failure, Fault, Node, Value};

/// The one key at the top.
const TRIGGERS: &str = "triggers";

const DAG_ID: &str = "dag_id";

/// Reads one file. `file` is its name in origins.
pub(super) fn read(file: &str, bytes: &[u8]) -> Result<Reading, Trouble> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let before = &bytes[..error.valid_up_to()];
        let line = u32::try_from(before.iter().filter(|byte| **byte == b'\n').count() + 1).ok();
        Trouble { line, kind: FileProblemKind::Encoding, text: "is not UTF-8; save it as UTF-8".to_owned() }
    })?;
    let Some(document) = tree::parse(text).map_err(Trouble::from)? else { return Ok(Reading::default()) };
    let mut reading = Reading::default();
    for entry in entries(&document)? {
        let mut read = entry_of(file, entry);
        reading.declarations.append(&mut read.declarations);
        reading.refusals.append(&mut read.refusals);
    }
    Ok(reading)
}

impl From<Failure> for Trouble {
    fn from(Failure { line, what }: Failure) -> Self {
        let (kind, text) = match what {
            Fault::Syntax(words) => (FileProblemKind::Syntax, format!("is not YAML: {words}")),
            Fault::TooDeep => (FileProblemKind::TooDeep, "nests deeper than 64 levels".to_owned()),
            Fault::TooLarge => (
                FileProblemKind::TooLarge,
                "holds more than 100,000 values, each alias counted as what it stands for; split it".to_owned(),
            ),
            Fault::Documents => {
                (FileProblemKind::Syntax, "holds a second document, and one is read; take the `---` out".to_owned())
            }
        };
        Self { line: Some(line), kind, text }
    }
}

/// The entries below `triggers`.
fn entries(document: &Node) -> Result<&[Node], Trouble> {
    let trouble = |node: &Node, text: String| Trouble { line: Some(node.line), kind: FileProblemKind::Syntax, text };
    let pairs = match &document.value {
        Value::Null => return Ok(&[]),
        Value::Map(pairs) => pairs,
        Value::Bool(_) | Value::Integer(_) | Value::Float(_) | Value::Text(_) | Value::List(_) | Value::Tagged => {
            return Err(trouble(document, format!("has no `{TRIGGERS}:` at its top")));
        }
    };
    let mut found: Option<&[Node]> = None;
    for (key, value) in pairs {
        if !matches!(&key.value, Value::Text(name) if name == TRIGGERS) {
            let shown = literal(key).map_or_else(|found| found.to_owned(), |key| key.shown());
            return Err(trouble(key, format!("has {shown} at its top, and only `{TRIGGERS}` is known there")));
        }
        if found.is_some() {
            return Err(trouble(key, format!("has `{TRIGGERS}` twice")));
        }
        found = Some(match &value.value {
            Value::Null => &[],
            Value::List(entries) => entries,
            Value::Bool(_) | Value::Integer(_) | Value::Float(_) | Value::Text(_) | Value::Map(_) | Value::Tagged => {
                return Err(trouble(
                    value,
                    format!("has no list under `{TRIGGERS}`; write one `- dag_id: …` for each"),
                ));
            }
        });
    }
    found.ok_or_else(|| trouble(document, format!("has no `{TRIGGERS}:` at its top")))
}

/// One entry.
fn entry_of(file: &str, entry: &Node) -> Reading {
    let at = |node: &Node| Origin { file: file.to_owned(), line: node.line, column: node.column };
    let refused = |parameter: Option<&str>, reason: RefusalReason| {
        let parameter = parameter.map(str::to_owned);
        let refusal = Refusal { origin: at(entry), dag_id: None, parameter, reason, names: Names::Unknown };
        Reading { refusals: vec![refusal], ..Reading::default() }
    };
    let Value::Map(pairs) = &entry.value else {
        let found = literal(entry).map_or_else(|found| found, |entry| entry.kind());
        return refused(None, RefusalReason::WrongType { expected: "a mapping with `dag_id`", found });
    };
    let argument = |(key, value): &(Node, Node)| {
        let name = match literal(key) {
            Ok(Literal::Str(name)) => name,
            Ok(other) => other.shown(),
            Err(found) => found.to_owned(),
        };
        let value_is = literal(value).map_err(|found| RefusalReason::NotLiteral { found });
        Argument { name, value: value_is, origin: at(value) }
    };
    let (mut dags, arguments): (Vec<Argument>, Vec<Argument>) =
        pairs.iter().map(argument).partition(|argument| argument.name == DAG_ID);
    match dags.pop() {
        None => refused(Some(DAG_ID), RefusalReason::NoDagId),
        Some(_) if !dags.is_empty() => refused(Some(DAG_ID), RefusalReason::GivenTwice),
        Some(dag) => {
            let declared = declare(&dag, &arguments, &at(entry));
            Reading { declarations: declared.declarations, refusals: declared.refusals, ..Reading::default() }
        }
    }
}

/// A value in the form that all languages share, or what stands there instead.
fn literal(node: &Node) -> Result<Literal, &'static str> {
    Ok(match &node.value {
        Value::Null => Literal::None,
        Value::Bool(value) => Literal::Bool(*value),
        Value::Integer(value) => Literal::Int(*value),
        Value::Float(value) => Literal::Float(*value),
        Value::Text(text) => Literal::Str(text.clone()),
        Value::List(items) => Literal::List(items.iter().map(literal).collect::<Result<_, _>>()?),
        Value::Map(pairs) => {
            let mut read: Vec<(Literal, Literal)> = Vec::with_capacity(pairs.len());
            for (key, value) in pairs {
                let key = literal(key)?;
                if read.iter().any(|(known, _)| *known == key) {
                    return Err("a mapping with one key twice");
                }
                read.push((key, literal(value)?));
            }
            Literal::Dict(read)
        }
        Value::Tagged => return Err("a value with a tag"),
    })
}
