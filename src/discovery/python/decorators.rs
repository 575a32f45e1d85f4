//! Finds every `rmq_trigger` in a file's tree and turns each into declarations or refusals.
//!
//! Functions anywhere count, also nested ones and methods: whether they are ever called is not for a reader to know, and a
//! DAG that Airflow does not have keeps its subscription waiting. Each decorator stands for itself, so one that cannot be
//! taken never stops its neighbour.

use std::collections::HashSet;

use ruff_python_ast::visitor::{Visitor, walk_expr, walk_stmt};
use ruff_python_ast::{Decorator, Expr, ExprCall, Stmt, StmtClassDef, StmtFunctionDef};
use ruff_text_size::{Ranged, TextRange};

use super::Reading;
use super::arguments::{self, Written};
use super::carriers::{Carriers, Id};
use super::evaluate::Evaluator;
use super::scopes::{Body, Place, Scopes};
use crate::domain::declaration::{Names as Named, Origin, Refusal, RefusalReason};
use crate::domain::declare::{Argument, declare};

/// Reads a file's tree. `file` is its name in origins.
pub(super) fn read<'a>(file: &str, evaluator: &Evaluator<'a>) -> Reading {
    let scopes = Scopes::of_module(evaluator.body);
    let (stored, used) = (Vec::new(), HashSet::new());
    let mut reader = Reader { file, evaluator, scopes, reading: Reading::default(), local: 0, stored, used };
    reader.visit_body(evaluator.body);
    for range in std::mem::take(&mut reader.stored) {
        if !reader.used.contains(&range) {
            reader.refuse(range, RefusalReason::NotADecorator);
        }
    }
    reader.reading
}

struct Reader<'e, 'a> {
    file: &'e str,
    evaluator: &'e Evaluator<'a>,
    scopes: Scopes<'a>,
    reading: Reading,
    /// How many lambdas and comprehensions are around, of which the names cannot be known.
    local: usize,
    /// Every `name = rmq_trigger(…)`.
    stored: Vec<TextRange>,
    /// Those of them that are used.
    used: HashSet<TextRange>,
}

/// How a decorator looks.
enum Role<'a> {
    /// `@rmq_trigger(…)`, here or stored under a name, and where its arguments stand.
    Trigger(&'a ExprCall, Place),
    /// `@rmq_trigger`.
    BareTrigger,
    /// Called `rmq_trigger`, from somewhere else.
    StrangeTrigger,
    /// Anything else.
    Other,
}

impl<'a> Reader<'_, 'a> {
    fn carriers(&self) -> Carriers<'_, 'a> {
        Carriers { evaluator: self.evaluator, scopes: &self.scopes }
    }

    fn role(&self, decorator: &'a Decorator) -> Role<'a> {
        let names = self.evaluator.names;
        let expr = &decorator.expression;
        let call = expr.as_call_expr();
        let callee = call.map_or(expr, |call| &call.func);
        let place = self.scopes.place(decorator.range().start());
        if names.is_trigger(callee) {
            call.map_or(Role::BareTrigger, |call| Role::Trigger(call, place))
        } else if let Some((call, place)) = self.stored_trigger(expr) {
            Role::Trigger(call, place)
        } else if names.is_strange_trigger(callee) {
            Role::StrangeTrigger
        } else {
            Role::Other
        }
    }

    /// The stored decorator that a name stands for.
    fn stored_trigger(&self, expr: &Expr) -> Option<(&'a ExprCall, Place)> {
        let name = expr.as_name_expr()?;
        self.carriers().stored(name.id.as_str(), self.scopes.place(expr.range().start()))
    }

    fn function(&mut self, function: &'a StmtFunctionDef) {
        let decorators = &function.decorator_list;
        let carriers = self.carriers();
        let is_dag = |at: &usize| carriers.is_dag_decorator(&decorators[*at].expression);
        let dags: Vec<usize> = (0..decorators.len()).filter(is_dag).collect();
        for (at, decorator) in decorators.iter().enumerate() {
            let (call, place) = match self.role(decorator) {
                Role::Trigger(call, place) => (call, place),
                Role::BareTrigger => {
                    self.refuse(decorator.range(), RefusalReason::NotCalled);
                    continue;
                }
                Role::StrangeTrigger => {
                    self.refuse(decorator.range(), RefusalReason::UnknownImport);
                    continue;
                }
                Role::Other => {
                    self.visit_decorator(decorator);
                    continue;
                }
            };
            self.used.insert(call.range());
            match dags.iter().find(|dag| **dag > at) {
                Some(dag) => {
                    let id = self.carriers().decorated(function, *dag, self.scopes.place(function.range().start()));
                    self.declare(&id, call, place, decorator.range());
                }
                None if dags.is_empty() => self.refuse(decorator.range(), RefusalReason::NotOverDag),
                None => self.refuse(decorator.range(), RefusalReason::DecoratorOrder),
            }
        }
    }

    fn class(&mut self, class: &'a StmtClassDef) {
        for decorator in &class.decorator_list {
            match self.role(decorator) {
                Role::Trigger(call, _) => {
                    self.used.insert(call.range());
                    self.refuse(decorator.range(), RefusalReason::NotOverDag);
                }
                Role::BareTrigger => self.refuse(decorator.range(), RefusalReason::NotOverDag),
                Role::StrangeTrigger => self.refuse(decorator.range(), RefusalReason::UnknownImport),
                Role::Other => self.visit_decorator(decorator),
            }
        }
    }

    /// Takes `rmq_trigger(…)` with the arguments of `call`, which stand at `place`, for the DAG of this id.
    fn declare(&mut self, id: &Id, call: &ExprCall, place: Place, range: TextRange) {
        let dag = self.argument(Written { name: "dag_id".to_owned(), value: id.value.clone(), range: id.range });
        let written = arguments::of_trigger(call, |expr| self.evaluator.value(&self.scopes, expr, place));
        let arguments: Vec<Argument> = written.into_iter().map(|written| self.argument(written)).collect();
        let declared = declare(&dag, &arguments, &self.origin(range));
        self.reading.declarations.extend(declared.declarations);
        self.reading.refusals.extend(declared.refusals);
    }

    fn argument(&self, written: Written) -> Argument {
        Argument { name: written.name, value: written.value, origin: self.origin(written.range) }
    }

    fn origin(&self, range: TextRange) -> Origin {
        let (line, column) = self.evaluator.lines.position(range.start());
        Origin { file: self.file.to_owned(), line, column }
    }

    fn refuse(&mut self, range: TextRange, reason: RefusalReason) {
        let origin = self.origin(range);
        self.reading.refusals.push(Refusal { origin, dag_id: None, parameter: None, reason, names: Named::Unknown });
    }

    /// `rmq_trigger(…)(target)`, or a stored decorator called with its target.
    fn call_form(&self, call: &'a ExprCall) -> Option<(&'a ExprCall, Place)> {
        match call.func.as_call_expr() {
            Some(trigger) if self.evaluator.names.is_trigger(&trigger.func) => {
                Some((trigger, self.scopes.place(call.range().start())))
            }
            Some(_) => None,
            None => self.stored_trigger(&call.func),
        }
    }

    fn call(&mut self, call: &'a ExprCall) {
        let names = self.evaluator.names;
        if let Some((trigger, place)) = self.call_form(call) {
            self.used.insert(trigger.range());
            match (&*call.arguments.args, call.arguments.keywords.is_empty()) {
                ([target], true) if self.local == 0 && !target.is_starred_expr() => {
                    let id = self.carriers().target(target, self.scopes.place(call.range().start()));
                    self.declare(&id, trigger, place, call.range());
                }
                _ => self.refuse(call.range(), RefusalReason::NotADecorator),
            }
            self.visit_arguments(&trigger.arguments);
            self.visit_arguments(&call.arguments);
        } else if names.is_trigger(&call.func) {
            self.refuse(call.range(), RefusalReason::NotADecorator);
            self.visit_arguments(&call.arguments);
        } else if names.is_strange_trigger(&call.func) {
            self.refuse(call.range(), RefusalReason::UnknownImport);
            self.visit_arguments(&call.arguments);
        } else {
            self.visit_expr(&call.func);
            self.visit_arguments(&call.arguments);
        }
    }

    /// `name = rmq_trigger(…)`: taken where the name is used.
    fn is_stored(&mut self, stmt: &'a Stmt) -> bool {
        let (target, value) = if let Some(assign) = stmt.as_assign_stmt() {
            let [target] = assign.targets.as_slice() else { return false };
            (target, &*assign.value)
        } else if let Some(assign) = stmt.as_ann_assign_stmt() {
            let Some(value) = &assign.value else { return false };
            (&*assign.target, &**value)
        } else {
            return false;
        };
        let name = target.as_name_expr().map_or("", |name| name.id.as_str());
        let stored = self.carriers().stored(name, self.scopes.place(stmt.range().end()));
        let Some((call, _)) = stored.filter(|(call, _)| call.range() == value.range()) else {
            return false;
        };
        self.stored.push(call.range());
        self.visit_arguments(&call.arguments);
        true
    }

    /// Looks for uses of `rmq_trigger`: whatever they declare would otherwise be silent.
    fn expression(&mut self, expr: &'a Expr) {
        let is_loaded = expr.as_name_expr().is_none_or(|name| name.ctx.is_load());
        let is_local = expr.is_lambda_expr()
            || expr.is_list_comp_expr()
            || expr.is_set_comp_expr()
            || expr.is_dict_comp_expr()
            || expr.is_generator_expr();
        if let Some(compare) = expr.as_compare_expr() {
            // `if rmq_trigger is not None` declares nothing.
            let sides = std::iter::once(&*compare.left).chain(&compare.comparators);
            for side in sides {
                if !self.evaluator.names.is_trigger(side) {
                    self.visit_expr(side);
                }
            }
        } else if let Some(call) = expr.as_call_expr() {
            self.call(call);
        } else if is_loaded && (self.evaluator.names.is_trigger(expr) || self.stored_trigger(expr).is_some()) {
            self.refuse(expr.range(), RefusalReason::NotADecorator);
        } else if is_local {
            self.local += 1;
            walk_expr(self, expr);
            self.local -= 1;
        } else {
            walk_expr(self, expr);
        }
    }
}

impl<'a> Visitor<'a> for Reader<'_, 'a> {
    fn visit_stmt(&mut self, stmt: &'a Stmt) {
        if let Some(function) = stmt.as_function_def_stmt() {
            self.function(function);
            self.visit_parameters(&function.parameters);
            self.scopes.enter(Body::Function(function));
            self.visit_body(&function.body);
            self.scopes.leave();
        } else if let Some(class) = stmt.as_class_def_stmt() {
            self.class(class);
            if let Some(arguments) = &class.arguments {
                self.visit_arguments(arguments);
            }
            self.scopes.enter(Body::Class(class));
            self.visit_body(&class.body);
            self.scopes.leave();
        } else if !self.is_stored(stmt) {
            walk_stmt(self, stmt);
        }
    }

    fn visit_expr(&mut self, expr: &'a Expr) {
        self.expression(expr);
    }
}
