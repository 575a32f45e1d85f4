//! Every place that gives a name of a scope its value, found without running anything.
//!
//! A scope is the body of a module, function or class. What stands in an inner scope counts only where it reaches out of it:
//! `global`, `nonlocal`, `:=` in a comprehension.

use std::collections::{HashMap, HashSet};

use ruff_python_ast::visitor::{
    Visitor, walk_except_handler, walk_expr, walk_parameters, walk_pattern, walk_stmt, walk_with_item,
};
use ruff_python_ast::{
    Alias, ExceptHandler, Expr, Identifier, Parameters, Pattern, Stmt, StmtClassDef, StmtFunctionDef, StmtImport,
    StmtImportFrom, StmtWith, WithItem,
};
use ruff_text_size::{Ranged, TextRange};

/// What gives a name its value.
#[derive(Clone, Copy, Debug)]
pub(super) enum Source<'a> {
    /// `name = value`, also with a type, also `a, b = 1, 2`.
    Assigned(&'a Expr),
    /// `with value as name`.
    Entered(&'a Expr),
    /// `def name`.
    Function(&'a StmtFunctionDef),
    /// `class name`.
    Class(&'a StmtClassDef),
    /// `import module as name`, or `import name.and.more`.
    Module(&'a Alias),
    /// `from module import one as name`.
    Member(&'a StmtImportFrom, &'a Alias),
    /// Anything else, as a clause about the name.
    Other(&'static str),
}

/// One place that gives a name its value.
#[derive(Clone, Copy, Debug)]
pub(super) struct Binding<'a> {
    pub(super) source: Source<'a>,
    /// The statement it is part of.
    pub(super) range: TextRange,
    /// Whether it stands under no condition of its scope.
    pub(super) is_certain: bool,
}

/// The names of one scope.
#[derive(Debug, Default)]
pub(super) struct Scope<'a> {
    bindings: HashMap<&'a str, Vec<Binding<'a>>>,
    /// Names that belong to the module or to an outer function.
    pub(super) globals: HashSet<&'a str>,
    pub(super) nonlocals: HashSet<&'a str>,
    /// Whether `import *` may bind any name.
    pub(super) has_star: bool,
}

impl<'a> Scope<'a> {
    /// The scope of a module or class.
    pub(super) fn of_body(body: &'a [Stmt]) -> Self {
        let mut collector = Collector::default();
        collector.visit_body(body);
        collector.scope
    }

    /// The scope of a function: its parameters and its body.
    pub(super) fn of_function(function: &'a StmtFunctionDef) -> Self {
        let mut collector = Collector { statement: function.range, ..Collector::default() };
        for parameter in &*function.parameters {
            collector.bind(parameter.name(), Source::Other("it is a parameter"));
        }
        collector.visit_body(&function.body);
        let scope = &mut collector.scope;
        let elsewhere = scope.globals.union(&scope.nonlocals).copied().collect::<Vec<_>>();
        for name in elsewhere {
            scope.bindings.remove(name);
        }
        collector.scope
    }

    /// Every place that gives this name its value; empty where none does.
    pub(super) fn bindings(&self, name: &str) -> &[Binding<'a>] {
        self.bindings.get(name).map_or(&[], Vec::as_slice)
    }

    /// Every name.
    pub(super) fn names(&self) -> impl Iterator<Item = &'a str> {
        self.bindings.keys().copied()
    }
}

#[derive(Default)]
struct Collector<'a> {
    scope: Scope<'a>,
    /// The statement that is looked at.
    statement: TextRange,
    /// How many statements of a kind that may not run stand around it.
    conditions: usize,
}

impl<'a> Collector<'a> {
    fn bind(&mut self, name: &'a Identifier, source: Source<'a>) {
        self.bind_text(name.as_str(), source);
    }

    fn bind_text(&mut self, name: &'a str, source: Source<'a>) {
        let binding = Binding { source, range: self.statement, is_certain: self.conditions == 0 };
        self.scope.bindings.entry(name).or_default().push(binding);
    }

    /// Binds every name of an assignment's left side.
    fn bind_target(&mut self, target: &'a Expr, value: Option<&'a Expr>, otherwise: &'static str) {
        if let Some(name) = target.as_name_expr() {
            let source = value.map_or(Source::Other(otherwise), Source::Assigned);
            self.bind_text(name.id.as_str(), source);
        } else if let Some(starred) = target.as_starred_expr() {
            self.bind_target(&starred.value, None, otherwise);
        } else if let Some(targets) = entries(target) {
            let values = value.and_then(entries).filter(|values| {
                values.len() == targets.len() && !targets.iter().chain(*values).any(Expr::is_starred_expr)
            });
            for (at, target) in targets.iter().enumerate() {
                self.bind_target(target, values.map(|values| &values[at]), otherwise);
            }
        } else {
            self.visit_expr(target);
        }
    }

    fn bind_import(&mut self, import: &'a StmtImport) {
        for alias in &import.names {
            let name = alias
                .asname
                .as_ref()
                .map_or_else(|| alias.name.as_str().split('.').next().unwrap_or_default(), |name| name.as_str());
            self.bind_text(name, Source::Module(alias));
        }
    }

    fn bind_import_from(&mut self, import: &'a StmtImportFrom) {
        for alias in &import.names {
            if alias.name.as_str() == "*" {
                self.scope.has_star = true;
            } else {
                self.bind(alias.asname.as_ref().unwrap_or(&alias.name), Source::Member(import, alias));
            }
        }
    }

    fn bind_with(&mut self, with: &'a StmtWith) {
        for item in &with.items {
            self.visit_expr(&item.context_expr);
            match item.optional_vars.as_deref() {
                Some(Expr::Name(name)) => self.bind_text(name.id.as_str(), Source::Entered(&item.context_expr)),
                Some(target) => self.bind_target(target, None, "`with` gives it its value"),
                None => {}
            }
        }
    }

    /// Everything below a statement that may not run, or not once.
    fn under_condition(&mut self, stmt: &'a Stmt) {
        self.conditions += 1;
        walk_stmt(self, stmt);
        self.conditions -= 1;
    }

    /// Looks through an inner scope for what reaches out of it.
    fn inner(&mut self, body: &'a [Stmt]) {
        let mut reach = Reach::default();
        reach.visit_body(body);
        for name in reach.globals.into_iter().chain(reach.nonlocals) {
            self.bind(name, Source::Other("a function may change it, by `global` or `nonlocal`"));
        }
    }
}

/// The entries of a tuple or list.
fn entries(expr: &Expr) -> Option<&[Expr]> {
    expr.as_tuple_expr()
        .map(|tuple| tuple.elts.as_slice())
        .or_else(|| expr.as_list_expr().map(|list| list.elts.as_slice()))
}

impl<'a> Visitor<'a> for Collector<'a> {
    #[expect(clippy::wildcard_enum_match_arm, reason = "other statements bind nothing themselves")]
    fn visit_stmt(&mut self, stmt: &'a Stmt) {
        if self.conditions == 0 {
            self.statement = stmt.range();
        }
        match stmt {
            Stmt::Assign(assign) => {
                self.visit_expr(&assign.value);
                for target in &assign.targets {
                    self.bind_target(target, Some(&assign.value), "it is unpacked from another value");
                }
            }
            Stmt::AnnAssign(assign) => {
                if let Some(value) = &assign.value {
                    self.visit_expr(value);
                    self.bind_target(&assign.target, Some(value), "it is unpacked from another value");
                }
            }
            Stmt::AugAssign(assign) => {
                self.visit_expr(&assign.value);
                self.bind_target(&assign.target, None, "it is changed in place");
            }
            Stmt::Delete(delete) => {
                for target in &delete.targets {
                    self.bind_target(target, None, "it is deleted");
                }
            }
            Stmt::For(each) => {
                self.bind_target(&each.target, None, "`for` gives it its value");
                self.under_condition(stmt);
            }
            Stmt::With(with) => {
                self.bind_with(with);
                self.visit_body(&with.body);
            }
            Stmt::Import(import) => self.bind_import(import),
            Stmt::ImportFrom(import) => self.bind_import_from(import),
            Stmt::FunctionDef(function) => {
                self.bind(&function.name, Source::Function(function));
                function.decorator_list.iter().for_each(|decorator| self.visit_decorator(decorator));
                self.visit_parameters(&function.parameters);
                self.inner(&function.body);
            }
            Stmt::ClassDef(class) => {
                self.bind(&class.name, Source::Class(class));
                class.decorator_list.iter().for_each(|decorator| self.visit_decorator(decorator));
                if let Some(arguments) = &class.arguments {
                    self.visit_arguments(arguments);
                }
                self.inner(&class.body);
            }
            Stmt::Global(global) => self.scope.globals.extend(global.names.iter().map(Identifier::as_str)),
            Stmt::Nonlocal(nonlocal) => self.scope.nonlocals.extend(nonlocal.names.iter().map(Identifier::as_str)),
            Stmt::TypeAlias(alias) => self.bind_target(&alias.name, None, "it is a type"),
            Stmt::If(_) | Stmt::While(_) | Stmt::Try(_) | Stmt::Match(_) => self.under_condition(stmt),
            _ => walk_stmt(self, stmt),
        }
    }

    fn visit_expr(&mut self, expr: &'a Expr) {
        if let Some(named) = expr.as_named_expr() {
            self.bind_target(&named.target, None, "`:=` gives it its value");
        }
        if !expr.is_lambda_expr() {
            walk_expr(self, expr);
        }
    }

    fn visit_parameters(&mut self, parameters: &'a Parameters) {
        walk_parameters(self, parameters);
    }

    fn visit_with_item(&mut self, item: &'a WithItem) {
        walk_with_item(self, item);
    }

    fn visit_except_handler(&mut self, handler: &'a ExceptHandler) {
        let ExceptHandler::ExceptHandler(clause) = handler;
        if let Some(name) = &clause.name {
            self.bind(name, Source::Other("`except` gives it its value"));
        }
        walk_except_handler(self, handler);
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "other patterns bind nothing themselves")]
    fn visit_pattern(&mut self, pattern: &'a Pattern) {
        let name = match pattern {
            Pattern::MatchAs(pattern) => pattern.name.as_ref(),
            Pattern::MatchStar(pattern) => pattern.name.as_ref(),
            Pattern::MatchMapping(pattern) => pattern.rest.as_ref(),
            _ => None,
        };
        if let Some(name) = name {
            self.bind(name, Source::Other("`match` gives it its value"));
        }
        walk_pattern(self, pattern);
    }
}

/// The names that inner scopes reach out for.
#[derive(Default)]
struct Reach<'a> {
    globals: Vec<&'a Identifier>,
    nonlocals: Vec<&'a Identifier>,
}

impl<'a> Visitor<'a> for Reach<'a> {
    fn visit_stmt(&mut self, stmt: &'a Stmt) {
        if let Some(global) = stmt.as_global_stmt() {
            self.globals.extend(&global.names);
        } else if let Some(nonlocal) = stmt.as_nonlocal_stmt() {
            self.nonlocals.extend(&nonlocal.names);
        } else {
            walk_stmt(self, stmt);
        }
    }

    fn visit_expr(&mut self, _: &'a Expr) {
        // Neither stands in an expression.
    }
}
