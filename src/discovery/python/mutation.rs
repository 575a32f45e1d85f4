//! Names whose lists and dicts the text of a file may change in place.
//!
//! Errs to the safe side: what is handed to another function, or gets a second name, counts as changed.

use std::collections::HashSet;

use ruff_python_ast::visitor::{Visitor, walk_expr, walk_stmt};
use ruff_python_ast::{Expr, ExprCall, Stmt};

use super::names::{Names, last_name};

/// Methods of lists and dicts that change nothing.
const READS: [&str; 8] = ["get", "items", "keys", "values", "copy", "index", "count", "format"];

/// Functions that change nothing of what they are given.
const READERS: [&str; 21] = [
    "all",
    "any",
    "bool",
    "dict",
    "enumerate",
    "filter",
    "frozenset",
    "isinstance",
    "len",
    "list",
    "map",
    "max",
    "min",
    "print",
    "range",
    "repr",
    "set",
    "sorted",
    "str",
    "sum",
    "tuple",
];

/// Every name, or last part of a dotted name, of which the value may be changed.
pub(super) fn of<'a>(body: &'a [Stmt], names: &Names) -> HashSet<&'a str> {
    let mut finder = Finder { found: HashSet::new(), names };
    finder.visit_body(body);
    finder.found
}

struct Finder<'a, 'n> {
    found: HashSet<&'a str>,
    names: &'n Names,
}

impl<'a> Finder<'a, '_> {
    /// Notes the names that an expression may hand on as they are.
    fn note(&mut self, expr: &'a Expr) {
        if let Some(name) = expr.as_name_expr() {
            self.found.insert(name.id.as_str());
        } else if let Some(attribute) = expr.as_attribute_expr() {
            self.found.insert(attribute.attr.as_str());
        } else if let Some(subscript) = expr.as_subscript_expr() {
            self.note(&subscript.value);
        } else if let Some(starred) = expr.as_starred_expr() {
            self.note(&starred.value);
        } else if let Some(method) = expr.as_call_expr().and_then(|call| call.func.as_attribute_expr()) {
            self.note(&method.value);
        } else if let Some(condition) = expr.as_if_expr() {
            self.note(&condition.body);
            self.note(&condition.orelse);
        } else if let Some(either) = expr.as_bool_op_expr() {
            either.values.iter().for_each(|value| self.note(value));
        }
    }

    fn note_target(&mut self, target: &'a Expr) {
        if let Some(subscript) = target.as_subscript_expr() {
            self.note(&subscript.value);
        } else if let Some(attribute) = target.as_attribute_expr() {
            self.found.insert(attribute.attr.as_str());
            self.note(&attribute.value);
        } else if let Some(tuple) = target.as_tuple_expr() {
            tuple.elts.iter().for_each(|target| self.note_target(target));
        } else if let Some(list) = target.as_list_expr() {
            list.elts.iter().for_each(|target| self.note_target(target));
        }
    }

    fn call(&mut self, call: &'a ExprCall) {
        if let Some(method) = call.func.as_attribute_expr()
            && !READS.contains(&method.attr.as_str())
        {
            self.note(&method.value);
        }
        let is_reader = last_name(&call.func).is_some_and(|callee| READERS.contains(&callee));
        if is_reader || self.names.is_trigger(&call.func) {
            return;
        }
        call.arguments.args.iter().for_each(|argument| self.note(argument));
        call.arguments.keywords.iter().filter(|k| k.arg.is_some()).for_each(|keyword| self.note(&keyword.value));
    }
}

impl<'a> Visitor<'a> for Finder<'a, '_> {
    fn visit_stmt(&mut self, stmt: &'a Stmt) {
        if let Some(assign) = stmt.as_assign_stmt() {
            assign.targets.iter().for_each(|target| self.note_target(target));
            self.note(&assign.value);
        } else if let Some(assign) = stmt.as_ann_assign_stmt() {
            self.note_target(&assign.target);
            if let Some(value) = &assign.value {
                self.note(value);
            }
        } else if let Some(assign) = stmt.as_aug_assign_stmt() {
            self.note_target(&assign.target);
            self.note(&assign.target);
        } else if let Some(delete) = stmt.as_delete_stmt() {
            delete.targets.iter().for_each(|target| self.note_target(target));
        } else if let Some(each) = stmt.as_for_stmt() {
            self.note_target(&each.target);
        } else if let Some(end) = stmt.as_return_stmt()
            && let Some(value) = &end.value
        {
            self.note(value);
        }
        walk_stmt(self, stmt);
    }

    fn visit_expr(&mut self, expr: &'a Expr) {
        if let Some(call) = expr.as_call_expr() {
            self.call(call);
        } else if let Some(named) = expr.as_named_expr() {
            self.note(&named.value);
        }
        walk_expr(self, expr);
    }
}
