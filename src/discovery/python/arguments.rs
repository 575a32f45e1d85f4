//! The arguments of a call under their names, evaluated. What they may be is decided in [`crate::domain::declare`].

use ruff_python_ast::{Arguments, Expr, ExprCall};
use ruff_text_size::{Ranged, TextRange};

use crate::domain::declaration::RefusalReason;
use crate::domain::declare::{ARGUMENTS, Literal};

/// How many arguments may stand by position; they are the first of [`ARGUMENTS`]. Source: airflow-provider-rmq 2.6.0.
const POSITIONAL: usize = 5;

/// An argument before its place is turned into lines and columns.
#[derive(Debug)]
pub(super) struct Written {
    pub(super) name: String,
    pub(super) value: Result<Literal, RefusalReason>,
    pub(super) range: TextRange,
}

/// The arguments of `rmq_trigger`.
pub(super) fn of_trigger(call: &ExprCall, value: impl Fn(&Expr) -> Result<Literal, RefusalReason>) -> Vec<Written> {
    let mut written = Vec::new();
    let mut add = |name: &str, range, value| written.push(Written { name: name.to_owned(), value, range });
    for (position, expr) in call.arguments.args.iter().enumerate() {
        if expr.is_starred_expr() {
            add("*", expr.range(), Err(RefusalReason::Unpacked));
            break;
        }
        match ARGUMENTS[..POSITIONAL].get(position) {
            Some(name) => add(name, expr.range(), value(expr)),
            None => {
                let name = format!("argument {}", position + 1);
                add(&name, expr.range(), Err(RefusalReason::UnknownArgument { meant: None }));
            }
        }
    }
    for keyword in &call.arguments.keywords {
        match &keyword.arg {
            Some(name) => add(name.as_str(), keyword.value.range(), value(&keyword.value)),
            None => add("**", keyword.range(), Err(RefusalReason::Unpacked)),
        }
    }
    written
}

/// How an argument is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum By {
    Position,
    Name,
}

/// What a call says about a DAG's id.
pub(super) enum DagId<'a> {
    /// It is this expression.
    Written(&'a Expr, By),
    /// There is none.
    Absent,
    /// It cannot be known.
    Faulty(TextRange, RefusalReason),
}

/// The `dag_id` of `@dag(…)`, `DAG(…)`, the first argument of both.
pub(super) fn dag_id(arguments: &Arguments) -> DagId<'_> {
    let positional = arguments.args.first();
    let keyword = arguments.keywords.iter().find(|keyword| keyword.arg.as_ref().is_some_and(|arg| arg == "dag_id"));
    match (positional, keyword) {
        (Some(_), Some(keyword)) => DagId::Faulty(keyword.range, RefusalReason::GivenTwice),
        (Some(expr), None) if expr.is_starred_expr() => DagId::Faulty(expr.range(), RefusalReason::Unpacked),
        (Some(expr), None) => DagId::Written(expr, By::Position),
        (None, Some(keyword)) => DagId::Written(&keyword.value, By::Name),
        (None, None) => match arguments.keywords.iter().find(|keyword| keyword.arg.is_none()) {
            Some(options) => DagId::Faulty(options.range, RefusalReason::Unpacked),
            None => DagId::Absent,
        },
    }
}
