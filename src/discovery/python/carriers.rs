//! What an expression is, seen from `rmq_trigger(…)(here)`: a DAG, a function that makes one, and with which id.

use ruff_python_ast::{Expr, ExprCall, Stmt, StmtClassDef, StmtFunctionDef};
use ruff_text_size::{Ranged, TextRange};

use super::arguments::{self, By, DagId};
use super::evaluate::Evaluator;
use super::scope::{Binding, Source};
use super::scopes::{Meaning, Place, Scopes};
use super::wrapped;
use crate::domain::declaration::RefusalReason;
use crate::domain::declare::Literal;

/// How often one name may lead to the next.
const MAX_NAMES: usize = 50;

/// How often a name may get a value so that the last one counts.
const MAX_BINDINGS: usize = 1_000;

/// The id of a DAG and where it is written.
#[derive(Clone, Debug)]
pub(super) struct Id {
    pub(super) value: Result<Literal, RefusalReason>,
    pub(super) range: TextRange,
}

impl Id {
    fn faulty(range: TextRange, reason: RefusalReason) -> Self {
        Self { value: Err(reason), range }
    }
}

/// Reads the DAGs of one file.
pub(super) struct Carriers<'e, 'a> {
    pub(super) evaluator: &'e Evaluator<'a>,
    pub(super) scopes: &'e Scopes<'a>,
}

impl<'a> Carriers<'_, 'a> {
    /// The id that `@dag` gives to the DAG of a decorated function. `at` is the place of `@dag` among its decorators.
    pub(super) fn decorated(&self, function: &'a StmtFunctionDef, at: usize, place: Place) -> Id {
        let decorators = &function.decorator_list;
        let expr = &decorators[at].expression;
        let written = expr.as_call_expr().and_then(|call| self.written(&call.arguments, place));
        written.unwrap_or_else(|| match wrapped::name(self.scopes, place, function, &decorators[at + 1..]) {
            Some(name) => Id { value: Ok(Literal::Str(name)), range: function.name.range() },
            None => Id::faulty(expr.range(), RefusalReason::NameHidden),
        })
    }

    /// The id that is written in the arguments of `dag(…)`; `None` where the function's name counts.
    ///
    /// Source: tried with Airflow 2.11.2 and 3.3.2; `None` and `""` are the function's name there too,
    /// and by position any blank text.
    fn written(&self, arguments: &ruff_python_ast::Arguments, place: Place) -> Option<Id> {
        let (expr, by) = match arguments::dag_id(arguments) {
            DagId::Written(expr, by) => (expr, by),
            DagId::Absent => return None,
            DagId::Faulty(range, reason) => return Some(Id::faulty(range, reason)),
        };
        let value = self.evaluator.value(self.scopes, expr, place);
        let is_absent = match &value {
            Ok(Literal::None) => true,
            Ok(Literal::Str(text)) => text.is_empty() || (by == By::Position && text.trim().is_empty()),
            Ok(_) | Err(_) => false,
        };
        (!is_absent).then_some(Id { value, range: expr.range() })
    }

    /// The id of what `rmq_trigger(…)` is called with.
    pub(super) fn target(&self, expr: &'a Expr, place: Place) -> Id {
        self.target_within(expr, place, MAX_NAMES)
    }

    fn target_within(&self, expr: &'a Expr, place: Place, left: usize) -> Id {
        let unknown = |found| Id::faulty(expr.range(), RefusalReason::TargetUnknown { found });
        let Some(left) = left.checked_sub(1) else {
            return unknown("a name that leads on and on");
        };
        if let Some(name) = expr.as_name_expr() {
            return self.named(name.id.as_str(), expr.range(), place, left);
        }
        if let Some(named) = expr.as_named_expr() {
            return self.target_within(&named.value, place, left);
        }
        let Some(call) = expr.as_call_expr() else {
            return unknown(if expr.is_attribute_expr() { "an attribute" } else { "an expression" });
        };
        if self.is_dag_class(&call.func, place, left) {
            return match arguments::dag_id(&call.arguments) {
                DagId::Written(expr, _) => {
                    Id { value: self.evaluator.value(self.scopes, expr, place), range: expr.range() }
                }
                DagId::Absent => unknown("a DAG without an id"),
                DagId::Faulty(range, reason) => Id::faulty(range, reason),
            };
        }
        if let Some(inner) = call.func.as_call_expr() {
            // `rmq_trigger(…)(target)`, `dag(…)(function)`, or a call of what either gave back.
            return match self.only_argument(call) {
                Some(target) if self.is_trigger(inner, place) => self.target_within(target, place, left),
                Some(function) if self.evaluator.names.is_dag(&inner.func) => self.factory(inner, function, place),
                _ => self.target_within(&call.func, place, left),
            };
        }
        if self.evaluator.names.is_dag(&call.func) {
            // `dag(function)`, as the bare decorator.
            return match self.only_argument(call).and_then(|function| self.function(function, place)) {
                Some(function) => Id { value: Ok(Literal::Str(function.name.to_string())), range: expr.range() },
                None => unknown("what `dag(…)` gives back without a function"),
            };
        }
        if let Some(name) = call.func.as_name_expr() {
            // A stored decorator that is called with its target, or a function that makes the DAG.
            return match self.only_argument(call) {
                Some(target) if self.stored(name.id.as_str(), place).is_some() => {
                    self.target_within(target, place, left)
                }
                _ => self.named(name.id.as_str(), expr.range(), place, left),
            };
        }
        unknown("a call")
    }

    fn only_argument<'c>(&self, call: &'c ExprCall) -> Option<&'c Expr> {
        match (&*call.arguments.args, call.arguments.keywords.is_empty()) {
            ([only], true) if !only.is_starred_expr() => Some(only),
            _ => None,
        }
    }

    /// `dag(…)(function)`.
    fn factory(&self, dag: &'a ExprCall, function: &'a Expr, place: Place) -> Id {
        let named = || match self.function(function, place) {
            Some(function) => Id { value: Ok(Literal::Str(function.name.to_string())), range: function.name.range() },
            None => Id::faulty(function.range(), RefusalReason::NameHidden),
        };
        self.written(&dag.arguments, place).unwrap_or_else(named)
    }

    /// A plain function of this file.
    fn function(&self, expr: &Expr, place: Place) -> Option<&'a StmtFunctionDef> {
        let (binding, _) = self.binding(expr.as_name_expr()?.id.as_str(), place)?;
        match binding.source {
            Source::Function(function) if function.decorator_list.is_empty() => Some(function),
            Source::Function(_)
            | Source::Assigned(_)
            | Source::Entered(_)
            | Source::Class(_)
            | Source::Module(_)
            | Source::Member(..)
            | Source::Other(_) => None,
        }
    }

    /// What a name is where it is used: the last place before, if all of them stand in a row.
    fn binding(&self, name: &str, place: Place) -> Option<(Binding<'a>, Place)> {
        match self.scopes.meaning(name, place) {
            Meaning::One(binding, inside) => Some((binding, inside)),
            Meaning::Several(bindings, inside)
                if inside.is_in_order()
                    && bindings.len() <= MAX_BINDINGS
                    && bindings.iter().all(|binding| binding.is_certain) =>
            {
                let last = bindings.iter().rev().find(|binding| inside.has_begun(binding))?;
                Some((*last, inside))
            }
            Meaning::Several(..) | Meaning::Unknown(_) => None,
        }
    }

    fn named(&self, name: &str, range: TextRange, place: Place, left: usize) -> Id {
        let unknown = |found| Id::faulty(range, RefusalReason::TargetUnknown { found });
        let Some((binding, inside)) = self.binding(name, place) else {
            return unknown("a name that does not have one certain value");
        };
        let inner = inside.of(&binding);
        match binding.source {
            Source::Assigned(value) | Source::Entered(value) => self.target_within(value, inner, left),
            Source::Function(function) => match self.dag_decorator(function) {
                Some(at) => self.decorated(function, at, inner),
                None => unknown("a function without `@dag`"),
            },
            Source::Class(_) => unknown("a class"),
            Source::Module(_) | Source::Member(..) => unknown("something that another file makes"),
            Source::Other(_) => unknown("a name that does not have one certain value"),
        }
    }

    /// The place of `@dag` among a function's decorators.
    pub(super) fn dag_decorator(&self, function: &StmtFunctionDef) -> Option<usize> {
        function.decorator_list.iter().position(|decorator| self.is_dag_decorator(&decorator.expression))
    }

    /// Whether a decorator is `@dag` or `@dag(…)`.
    pub(super) fn is_dag_decorator(&self, expr: &Expr) -> bool {
        self.evaluator.names.is_dag(expr.as_call_expr().map_or(expr, |call| &call.func))
    }

    fn is_trigger(&self, call: &ExprCall, place: Place) -> bool {
        self.evaluator.names.is_trigger(&call.func)
            || call.func.as_name_expr().is_some_and(|name| self.stored(name.id.as_str(), place).is_some())
    }

    /// `name = rmq_trigger(…)`, so that `@name` and `name(dag)` are decorators.
    pub(super) fn stored(&self, name: &str, place: Place) -> Option<(&'a ExprCall, Place)> {
        if !self.evaluator.names.may_be_stored(name) {
            return None;
        }
        let Meaning::One(binding, inside) = self.scopes.meaning(name, place) else {
            return None;
        };
        match binding.source {
            Source::Assigned(Expr::Call(call)) if binding.is_certain && self.evaluator.names.is_trigger(&call.func) => {
                Some((call, inside.of(&binding)))
            }
            Source::Assigned(_)
            | Source::Entered(_)
            | Source::Function(_)
            | Source::Class(_)
            | Source::Module(_)
            | Source::Member(..)
            | Source::Other(_) => None,
        }
    }

    /// Airflow's `DAG`, or a class of this file that is one and leaves the making to it.
    fn is_dag_class(&self, expr: &Expr, place: Place, left: usize) -> bool {
        if self.evaluator.names.is_dag_class(expr) {
            return true;
        }
        let class = expr.as_name_expr().and_then(|name| self.binding(name.id.as_str(), place));
        match (class, left.checked_sub(1)) {
            (Some((binding, inside)), Some(left)) => match binding.source {
                Source::Class(class) => self.is_plain_subclass(class, inside.of(&binding), left),
                Source::Assigned(_)
                | Source::Entered(_)
                | Source::Function(_)
                | Source::Module(_)
                | Source::Member(..)
                | Source::Other(_) => false,
            },
            _ => false,
        }
    }

    fn is_plain_subclass(&self, class: &StmtClassDef, place: Place, left: usize) -> bool {
        let makes_itself = |stmt: &Stmt| {
            stmt.as_function_def_stmt().is_some_and(|method| {
                matches!(method.name.as_str(), "__init__" | "__new__" | "dag_id" | "__getattribute__")
            })
        };
        let bases = class.arguments.as_ref().map_or(&[][..], |arguments| &arguments.args);
        let has_keywords = class.arguments.as_ref().is_some_and(|arguments| !arguments.keywords.is_empty());
        let is_plain = class.decorator_list.is_empty() && !has_keywords && !class.body.iter().any(makes_itself);
        match bases {
            [base] => is_plain && self.is_dag_class(base, place, left),
            _ => false,
        }
    }
}
