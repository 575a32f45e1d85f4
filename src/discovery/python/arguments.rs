//! The arguments of `@rmq_trigger(…)` and `@dag(…)`, taken only where they are written out.
//!
//! Whatever is not a plain literal, or is an argument this version cannot act on, is a [`Fault`] that refuses the one
//! subscription. No argument ever falls back to its default because it could not be read.

use ruff_python_ast::{Arguments, Expr, ExprCall, Keyword};
use ruff_text_size::{Ranged, TextRange};

use crate::domain::declaration::RefusalReason;
use crate::domain::subscription::DEFAULT_CONN_ID;

/// The arguments that may stand by position, in order. Source: airflow-provider-rmq 2.6.0.
const POSITIONAL: [&str; 5] = ["queue", "queues", "conn_id", "filter_data", "cooldown"];

/// Arguments that this version cannot act on. Each may stand with the value that means "not used".
const NOT_HANDLED: [(&str, Unused); 20] = [
    ("queues", Unused::None),
    ("exchange", Unused::None),
    ("routing_keys", Unused::None),
    ("routing_key_ids", Unused::None),
    ("routing_key_status", Unused::Never),
    ("filter_data", Unused::None),
    ("cooldown", Unused::Zero),
    ("ack_unmatched", Unused::False),
    ("max_concurrent_runs", Unused::None),
    ("on_paused", Unused::None),
    ("on_missing", Unused::None),
    ("on_unreadable", Unused::None),
    ("on_budget", Unused::None),
    ("on_id_collision", Unused::None),
    ("dedup_key", Unused::None),
    ("cooldown_edge", Unused::None),
    ("cooldown_key", Unused::None),
    ("ack_deadline_override", Unused::None),
    ("inputs", Unused::None),
    ("ack_on", Unused::None),
];

/// The literal with which an argument says that it is not used.
#[derive(Clone, Copy, Debug)]
enum Unused {
    None,
    Zero,
    False,
    Never,
}

/// An argument that cannot be taken.
#[derive(Debug)]
pub(super) struct Fault {
    /// What is at fault.
    pub(super) range: TextRange,
    /// The argument's name, where it is one argument.
    pub(super) parameter: Option<String>,
    /// Why.
    pub(super) reason: RefusalReason,
}

/// What `@rmq_trigger(…)` says.
#[derive(Debug)]
pub(super) struct Trigger<'a> {
    pub(super) queue: Text<'a>,
    pub(super) conn_id: Text<'a>,
}

/// A text and where it is written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Text<'a> {
    pub(super) value: &'a str,
    pub(super) range: TextRange,
}

/// Reads the arguments of `rmq_trigger`. The first fault in the order of the text is the one that counts.
pub(super) fn read_trigger(call: &ExprCall) -> Result<Trigger<'_>, Fault> {
    let mut queue = None;
    let mut conn_id = None;
    for argument in named(&call.arguments)? {
        match argument.name {
            "queue" if argument.value.is_none_literal_expr() => {}
            "queue" => queue = Some(text(&argument)?),
            "conn_id" => conn_id = Some(text(&argument)?),
            _ => check_unused(&argument)?,
        }
    }
    let range = call.range();
    let queue = queue.ok_or(Fault { range, parameter: Some("queue".to_owned()), reason: RefusalReason::NoQueue })?;
    let conn_id = conn_id.unwrap_or(Text { value: DEFAULT_CONN_ID, range });
    Ok(Trigger { queue, conn_id })
}

/// Reads the DAG's id from `@dag` or `@dag(…)`. `None` means that Airflow takes the function's name.
///
/// Source: tried with Airflow 2.11.2 and 3.3.2; `None` and `""` are the function's name there too.
pub(super) fn read_dag_id(decorator: &Expr) -> Result<Option<Text<'_>>, Fault> {
    let Some(call) = decorator.as_call_expr() else {
        return Ok(None);
    };
    let positional = call.arguments.args.first();
    let keyword = keyword(&call.arguments, "dag_id");
    let value = match (positional, keyword) {
        (Some(_), Some(keyword)) => {
            return Err(Fault {
                range: keyword.range,
                parameter: Some("dag_id".to_owned()),
                reason: RefusalReason::GivenTwice,
            });
        }
        (Some(value), None) => value,
        (None, Some(keyword)) => &keyword.value,
        (None, None) => return no_dag_id(&call.arguments),
    };
    if value.is_starred_expr() {
        return Err(unpacked(value.range(), "dag_id"));
    }
    if value.is_none_literal_expr() {
        return Ok(None);
    }
    let text = text(&Argument { name: "dag_id", value })?;
    Ok((!text.value.trim().is_empty()).then_some(text))
}

/// No id is written; `**options` might hold one.
fn no_dag_id(arguments: &Arguments) -> Result<Option<Text<'_>>, Fault> {
    match arguments.keywords.iter().find(|k| k.arg.is_none()) {
        Some(options) => Err(unpacked(options.range, "dag_id")),
        None => Ok(None),
    }
}

struct Argument<'a> {
    name: &'a str,
    value: &'a Expr,
}

/// Every argument under its name, in the order of the text.
fn named(arguments: &Arguments) -> Result<Vec<Argument<'_>>, Fault> {
    let mut found: Vec<Argument<'_>> = Vec::new();
    for (position, value) in arguments.args.iter().enumerate() {
        if value.is_starred_expr() {
            return Err(unpacked(value.range(), "*"));
        }
        let name = POSITIONAL.get(position).ok_or(Fault {
            range: value.range(),
            parameter: Some(format!("argument {}", position + 1)),
            reason: RefusalReason::UnknownArgument { meant: None },
        })?;
        found.push(Argument { name, value });
    }
    for keyword in &arguments.keywords {
        let Some(name) = &keyword.arg else {
            return Err(unpacked(keyword.range, "**"));
        };
        let name = name.as_str();
        if found.iter().any(|argument| argument.name == name) {
            return Err(Fault {
                range: keyword.range,
                parameter: Some(name.to_owned()),
                reason: RefusalReason::GivenTwice,
            });
        }
        found.push(Argument { name, value: &keyword.value });
    }
    Ok(found)
}

fn keyword<'a>(arguments: &'a Arguments, name: &str) -> Option<&'a Keyword> {
    let is_named = |keyword: &&Keyword| keyword.arg.as_ref().is_some_and(|arg| arg == name);
    arguments.keywords.iter().find(is_named)
}

fn unpacked(range: TextRange, parameter: &str) -> Fault {
    Fault { range, parameter: Some(parameter.to_owned()), reason: RefusalReason::Unpacked }
}

fn check_unused(argument: &Argument<'_>) -> Result<(), Fault> {
    let known = NOT_HANDLED.iter().find(|(name, _)| *name == argument.name);
    let reason = match known {
        Some((_, unused)) if is_unused(argument.value, *unused) => return Ok(()),
        Some(_) => RefusalReason::NotHandled,
        None => RefusalReason::UnknownArgument { meant: None },
    };
    Err(Fault { range: argument.value.range(), parameter: Some(argument.name.to_owned()), reason })
}

fn is_unused(value: &Expr, unused: Unused) -> bool {
    match unused {
        Unused::None => value.is_none_literal_expr(),
        Unused::False => value.as_boolean_literal_expr().is_some_and(|literal| !literal.value),
        Unused::Zero => value
            .as_number_literal_expr()
            .and_then(|literal| literal.value.as_int())
            .and_then(|int| int.as_u8())
            .is_some_and(|int| int == 0),
        Unused::Never => false,
    }
}

/// A string literal; adjacent ones count as one, as in Python.
fn text<'a>(argument: &Argument<'a>) -> Result<Text<'a>, Fault> {
    let range = argument.value.range();
    let fault = |reason| Fault { range, parameter: Some(argument.name.to_owned()), reason };
    let Some(literal) = argument.value.as_string_literal_expr() else {
        return Err(fault(not_a_text(argument.value)));
    };
    let value = literal.value.to_str();
    // The parser puts this in the place of half a surrogate pair, which no queue and no DAG can be called.
    if value.contains('\u{fffd}') {
        return Err(fault(RefusalReason::WrongType {
            expected: "a text that can be encoded as UTF-8",
            found: "one with a character that cannot",
        }));
    }
    Ok(Text { value, range })
}

fn not_a_text(value: &Expr) -> RefusalReason {
    let literals: [(bool, &'static str); 7] = [
        (value.is_bytes_literal_expr(), "bytes"),
        (value.is_number_literal_expr(), "a number"),
        (value.is_boolean_literal_expr(), "a bool"),
        (value.is_none_literal_expr(), "`None`"),
        (value.is_list_expr(), "a list"),
        (value.is_tuple_expr(), "a tuple"),
        (value.is_dict_expr(), "a dict"),
    ];
    if let Some((_, found)) = literals.into_iter().find(|(is, _)| *is) {
        return RefusalReason::WrongType { expected: "a string", found };
    }
    let computed: [(bool, &'static str); 6] = [
        (value.is_name_expr(), "a name"),
        (value.is_attribute_expr(), "an attribute"),
        (value.is_call_expr(), "a call"),
        (value.is_f_string_expr(), "an f-string"),
        (value.is_bin_op_expr(), "a calculation"),
        (value.is_subscript_expr(), "an item of something"),
    ];
    let found = computed.into_iter().find(|(is, _)| *is);
    RefusalReason::NotLiteral { found: found.map_or("an expression", |(_, found)| found) }
}
