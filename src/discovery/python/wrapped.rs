//! The name that a function has once the decorators below `@dag` are through with it: the DAG's id where none is written.
//!
//! Source: tried with Airflow 2.11.2 and 3.3.2; `functools.wraps` keeps the name, a plain inner function brings its own.

use ruff_python_ast::{Decorator, Expr, Stmt, StmtFunctionDef};

use super::names::last_name;
use super::scope::Source;
use super::scopes::{Meaning, Place, Scopes};

/// The name, or `None` where a decorator hides it. `below` are the decorators between `@dag` and the function.
pub(super) fn name<'a>(
    scopes: &Scopes<'a>,
    place: Place,
    function: &'a StmtFunctionDef,
    below: &[Decorator],
) -> Option<String> {
    let mut name = function.name.to_string();
    for decorator in below.iter().rev() {
        let expr = &decorator.expression;
        let (callee, is_called) = match expr.as_call_expr() {
            Some(call) => (&*call.func, true),
            None => (expr, false),
        };
        let maker = local_function(scopes, place, callee)?;
        let decorate = if is_called { returned_function(maker)? } else { maker };
        if returns_its_parameter(decorate) {
            continue;
        }
        let wrapper = returned_function(decorate)?;
        match wrapper.decorator_list.as_slice() {
            [] => name = wrapper.name.to_string(),
            [only] if keeps_name(only, decorate) => {}
            _ => return None,
        }
    }
    Some(name)
}

/// A function of this file that nothing else can have replaced.
fn local_function<'a>(scopes: &Scopes<'a>, place: Place, callee: &Expr) -> Option<&'a StmtFunctionDef> {
    let name = callee.as_name_expr()?;
    match scopes.meaning(name.id.as_str(), place) {
        Meaning::One(binding, _) => match binding.source {
            Source::Function(function) if function.decorator_list.is_empty() => Some(function),
            Source::Function(_)
            | Source::Assigned(_)
            | Source::Entered(_)
            | Source::Class(_)
            | Source::Module(_)
            | Source::Member(..)
            | Source::Other(_) => None,
        },
        Meaning::Several(..) | Meaning::Unknown(_) => None,
    }
}

/// What a function returns, where it returns in one place only, at its end.
fn returned(function: &StmtFunctionDef) -> Option<&str> {
    let (last, before) = function.body.split_last()?;
    let plain = |stmt: &Stmt| stmt.is_function_def_stmt() || stmt.is_expr_stmt();
    if !before.iter().all(plain) || function.is_async {
        return None;
    }
    last.as_return_stmt()?.value.as_ref()?.as_name_expr().map(|name| name.id.as_str())
}

fn returned_function(function: &StmtFunctionDef) -> Option<&StmtFunctionDef> {
    let name = returned(function)?;
    let mut inner = function.body.iter().filter_map(Stmt::as_function_def_stmt).filter(|inner| inner.name == *name);
    match (inner.next(), inner.next()) {
        (Some(inner), None) => Some(inner),
        _ => None,
    }
}

fn first_parameter(function: &StmtFunctionDef) -> Option<&str> {
    function.parameters.iter().next().map(|parameter| parameter.name().as_str())
}

fn returns_its_parameter(function: &StmtFunctionDef) -> bool {
    returned(function).is_some_and(|name| first_parameter(function) == Some(name))
}

/// `@wraps(function)` or `@functools.wraps(function)` of the decorator's own parameter.
fn keeps_name(decorator: &Decorator, decorate: &StmtFunctionDef) -> bool {
    let Some(call) = decorator.expression.as_call_expr() else {
        return false;
    };
    let wrapped = call.arguments.args.first().and_then(Expr::as_name_expr).map(|name| name.id.as_str());
    last_name(&call.func) == Some("wraps") && wrapped.is_some() && wrapped == first_parameter(decorate)
}
