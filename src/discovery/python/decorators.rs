//! Finds every `rmq_trigger` in a file's tree and turns each into a declaration or a refusal.
//!
//! Functions anywhere count, also nested ones and methods: whether they are ever called is not for a reader to know, and a
//! DAG that Airflow does not have keeps its subscription waiting. Each decorator stands for itself, so one that cannot be
//! taken never stops its neighbour.

use ruff_python_ast::visitor::{Visitor, walk_expr, walk_stmt};
use ruff_python_ast::{Decorator, Expr, ExprCall, Stmt, StmtClassDef, StmtFunctionDef};
use ruff_text_size::{Ranged, TextRange};

use super::arguments::{self, Fault, Text};
use super::names::{Names, last_name};
use super::position::Lines;
use super::{Reading, WORD};
use crate::domain::declaration::{Declaration, Names as Named, Origin, Refusal, RefusalReason};
use crate::domain::ids::DagId;

/// Reads a file's tree. `file` is its name in origins.
pub(super) fn read(file: &str, lines: &Lines<'_>, body: &[Stmt]) -> Reading {
    let names = Names::of(body);
    let mut reader = Reader { file, lines, names, reading: Reading::default() };
    reader.visit_body(body);
    reader.reading
}

struct Reader<'a> {
    file: &'a str,
    lines: &'a Lines<'a>,
    names: Names,
    reading: Reading,
}

/// How a decorator looks.
enum Role<'a> {
    /// `@rmq_trigger(…)`.
    Trigger(&'a ExprCall),
    /// `@rmq_trigger`.
    BareTrigger,
    /// Called `rmq_trigger`, from somewhere else.
    StrangeTrigger,
    /// `@dag` or `@dag(…)`.
    Dag,
    /// Anything else.
    Other,
}

impl Reader<'_> {
    fn role<'a>(&self, decorator: &'a Decorator) -> Role<'a> {
        let expr = &decorator.expression;
        let call = expr.as_call_expr();
        let callee = call.map_or(expr, |call| &call.func);
        if self.names.is_trigger(callee) {
            call.map_or(Role::BareTrigger, Role::Trigger)
        } else if self.names.is_dag(callee) {
            Role::Dag
        } else if last_name(callee) == Some(WORD) {
            Role::StrangeTrigger
        } else {
            Role::Other
        }
    }

    fn function(&mut self, function: &StmtFunctionDef) {
        let decorators = &function.decorator_list;
        let dags: Vec<usize> =
            (0..decorators.len()).filter(|at| matches!(self.role(&decorators[*at]), Role::Dag)).collect();
        for (at, decorator) in decorators.iter().enumerate() {
            let call = match self.role(decorator) {
                Role::Trigger(call) => call,
                Role::BareTrigger => {
                    self.refuse(decorator, RefusalReason::NotCalled);
                    continue;
                }
                Role::StrangeTrigger => {
                    self.refuse(decorator, RefusalReason::UnknownImport);
                    continue;
                }
                Role::Dag | Role::Other => {
                    self.visit_decorator(decorator);
                    continue;
                }
            };
            match dags.iter().find(|dag| **dag > at) {
                Some(dag) => self.declare(function, &decorators[*dag], decorator, call),
                None if dags.is_empty() => self.refuse(decorator, RefusalReason::NotOverDag),
                None => self.refuse(decorator, RefusalReason::DecoratorOrder),
            }
        }
    }

    fn class(&mut self, class: &StmtClassDef) {
        for decorator in &class.decorator_list {
            match self.role(decorator) {
                Role::Trigger(_) | Role::BareTrigger => {
                    self.refuse(decorator, RefusalReason::NotOverDag);
                }
                Role::StrangeTrigger => self.refuse(decorator, RefusalReason::UnknownImport),
                Role::Dag | Role::Other => self.visit_decorator(decorator),
            }
        }
    }

    fn declare(&mut self, function: &StmtFunctionDef, dag: &Decorator, decorator: &Decorator, call: &ExprCall) {
        let dag_id = match arguments::read_dag_id(&dag.expression) {
            Ok(written) => written.unwrap_or(Text { value: function.name.as_str(), range: function.name.range() }),
            Err(fault) => return self.refuse_fault(None, fault),
        };
        let known = Some(DagId::new(dag_id.value));
        let trigger = match arguments::read_trigger(call) {
            Ok(trigger) => trigger,
            Err(fault) => return self.refuse_fault(known, fault),
        };
        let origin = self.origin(decorator.range());
        let (queue, conn_id) = (trigger.queue, trigger.conn_id);
        match Declaration::new(dag_id.value, queue.value, conn_id.value, origin) {
            Ok(declaration) => self.reading.declarations.push(declaration),
            Err(invalid) => {
                let range = match invalid.parameter {
                    "queue" => queue.range,
                    "conn_id" => conn_id.range,
                    _ => dag_id.range,
                };
                let fault = Fault {
                    range,
                    parameter: Some(invalid.parameter.to_owned()),
                    reason: RefusalReason::Invalid(invalid),
                };
                self.refuse_fault(known, fault);
            }
        }
    }

    fn origin(&self, range: TextRange) -> Origin {
        let (line, column) = self.lines.position(range.start());
        Origin { file: self.file.to_owned(), line, column }
    }

    fn refuse(&mut self, at: &impl Ranged, reason: RefusalReason) {
        self.refuse_fault(None, Fault { range: at.range(), parameter: None, reason });
    }

    fn refuse_fault(&mut self, dag_id: Option<DagId>, fault: Fault) {
        self.reading.refusals.push(Refusal {
            origin: self.origin(fault.range),
            dag_id,
            parameter: fault.parameter,
            reason: fault.reason,
            names: Named::Unknown,
        });
    }

    /// Looks for uses of `rmq_trigger` that are no decorators: whatever they declare would otherwise be silent.
    fn expression(&mut self, expr: &Expr) {
        let is_loaded = expr.as_name_expr().is_none_or(|name| name.ctx.is_load());
        if let Some(compare) = expr.as_compare_expr() {
            // `if rmq_trigger is not None` declares nothing.
            let sides = std::iter::once(&*compare.left).chain(&compare.comparators);
            for side in sides {
                if !self.names.is_trigger(side) {
                    self.visit_expr(side);
                }
            }
        } else if let Some(call) = expr.as_call_expr()
            && self.names.is_trigger(&call.func)
        {
            self.refuse(expr, RefusalReason::NotADecorator);
            self.visit_arguments(&call.arguments);
        } else if is_loaded && self.names.is_trigger(expr) {
            self.refuse(expr, RefusalReason::NotADecorator);
        } else {
            walk_expr(self, expr);
        }
    }
}

impl<'a> Visitor<'a> for Reader<'_> {
    fn visit_stmt(&mut self, stmt: &'a Stmt) {
        if let Some(function) = stmt.as_function_def_stmt() {
            self.function(function);
            self.visit_parameters(&function.parameters);
            self.visit_body(&function.body);
        } else if let Some(class) = stmt.as_class_def_stmt() {
            self.class(class);
            self.visit_body(&class.body);
        } else {
            walk_stmt(self, stmt);
        }
    }

    fn visit_expr(&mut self, expr: &'a Expr) {
        self.expression(expr);
    }
}
