//! What the names of a file stand for, as far as its imports say.
//!
//! One table for the whole file, wherever the import stands: in a function, under `try`, under `if TYPE_CHECKING`. A name
//! that is imported twice (`try: from airflow.sdk … except ImportError: from airflow.decorators …`) stands for both.
//! Rebinding by assignment is not looked at: `except ImportError: rmq_trigger = None` takes nothing away.

use std::collections::{HashMap, HashSet};

use ruff_python_ast::visitor::{Visitor, walk_stmt};
use ruff_python_ast::{Alias, Expr, Stmt, StmtImportFrom};

use super::WORD;

/// Where `rmq_trigger` comes from: this project's package, and the provider's path for files that move over.
const TRIGGERS: [&str; 3] = [
    "airflow_rmq_watcher.rmq_trigger",
    "airflow_provider_rmq.watcher.decorators.rmq_trigger",
    "airflow_provider_rmq.watcher.rmq_trigger",
];

/// Where `dag` comes from. Source: import roots tried with Airflow 2.11.2 and 3.3.2.
const DAGS: [&str; 4] =
    ["airflow.sdk.dag", "airflow.decorators.dag", "airflow.models.dag.dag", "airflow.sdk.definitions.dag.dag"];

/// Where `DAG` comes from. Source: import roots tried with Airflow 2.11.2 and 3.3.2.
const DAG_CLASSES: [&str; 5] = [
    "airflow.DAG",
    "airflow.sdk.DAG",
    "airflow.models.DAG",
    "airflow.models.dag.DAG",
    "airflow.sdk.definitions.dag.DAG",
];

/// The imported names of one file.
#[derive(Debug, Default)]
pub(super) struct Names {
    bound: HashMap<String, Vec<String>>,
    /// Names that get the result of a call of `rmq_trigger` somewhere.
    stored: HashSet<String>,
}

impl Names {
    /// Reads every import of a file.
    pub(super) fn of(body: &[Stmt]) -> Self {
        let mut names = Self::default();
        names.visit_body(body);
        let mut stored = Stored { names: &names, found: HashSet::new() };
        stored.visit_body(body);
        names.stored = stored.found;
        names
    }

    /// Whether the name may stand for a stored decorator.
    pub(super) fn may_be_stored(&self, name: &str) -> bool {
        self.stored.contains(name)
    }

    /// Whether the expression is the watcher's `rmq_trigger`.
    pub(super) fn is_trigger(&self, expr: &Expr) -> bool {
        self.is_one_of(expr, &TRIGGERS)
    }

    /// Whether the expression is Airflow's `dag`.
    pub(super) fn is_dag(&self, expr: &Expr) -> bool {
        self.is_one_of(expr, &DAGS)
    }

    /// Whether the expression is Airflow's `DAG`.
    pub(super) fn is_dag_class(&self, expr: &Expr) -> bool {
        self.is_one_of(expr, &DAG_CLASSES)
    }

    /// Whether the expression is called `rmq_trigger` where it comes from, and is not the watcher's as far as can be seen.
    pub(super) fn is_strange_trigger(&self, expr: &Expr) -> bool {
        if self.is_trigger(expr) {
            return false;
        }
        let is_so_called = |path: &String| path.rsplit('.').next() == Some(WORD);
        last_name(expr) == Some(WORD)
            || expr
                .as_name_expr()
                .and_then(|name| self.bound.get(name.id.as_str()))
                .is_some_and(|paths| paths.iter().any(is_so_called))
    }

    fn is_one_of(&self, expr: &Expr, paths: &[&str]) -> bool {
        let Some((first, rest)) = dotted(expr) else {
            return false;
        };
        self.bound.get(first).is_some_and(|roots| {
            roots.iter().any(|root| {
                paths.iter().any(|path| path.strip_prefix(root.as_str()).is_some_and(|tail| is_path(tail, &rest)))
            })
        })
    }

    fn bind(&mut self, name: &str, path: String) {
        self.bound.entry(name.to_owned()).or_default().push(path);
    }

    fn bind_import(&mut self, alias: &Alias) {
        let path = alias.name.as_str();
        match &alias.asname {
            Some(name) => self.bind(name.as_str(), path.to_owned()),
            None => {
                let root = path.split('.').next().unwrap_or(path);
                self.bind(root, root.to_owned());
            }
        }
    }

    fn bind_import_from(&mut self, import: &StmtImportFrom) {
        // A relative import is never one of the packages looked for; it keeps its dots.
        let dots = ".".repeat(usize::try_from(import.level).unwrap_or(1));
        let module = import.module.as_ref().map_or("", |module| module.as_str());
        for alias in &import.names {
            if alias.name.as_str() == "*" {
                if import.level == 0 {
                    self.bind_star(module);
                }
                continue;
            }
            let name = alias.asname.as_ref().unwrap_or(&alias.name);
            self.bind(name.as_str(), format!("{dots}{module}.{}", alias.name.as_str()));
        }
    }

    fn bind_star(&mut self, module: &str) {
        for path in TRIGGERS.iter().chain(&DAGS).chain(&DAG_CLASSES) {
            if let Some((parent, name)) = path.rsplit_once('.')
                && parent == module
            {
                self.bind(name, (*path).to_owned());
            }
        }
    }
}

impl<'a> Visitor<'a> for Names {
    fn visit_stmt(&mut self, stmt: &'a Stmt) {
        if let Stmt::Import(import) = stmt {
            import.names.iter().for_each(|alias| self.bind_import(alias));
        } else if let Stmt::ImportFrom(import) = stmt {
            self.bind_import_from(import);
        } else {
            walk_stmt(self, stmt);
        }
    }

    fn visit_expr(&mut self, _: &'a Expr) {
        // No import stands in an expression.
    }
}

/// Finds `name = rmq_trigger(…)`, once the imports are known.
struct Stored<'n> {
    names: &'n Names,
    found: HashSet<String>,
}

impl Stored<'_> {
    fn note(&mut self, target: &Expr, value: &Expr) {
        if let (Some(name), Some(call)) = (target.as_name_expr(), value.as_call_expr())
            && self.names.is_trigger(&call.func)
        {
            self.found.insert(name.id.to_string());
        }
    }
}

impl<'a> Visitor<'a> for Stored<'_> {
    fn visit_stmt(&mut self, stmt: &'a Stmt) {
        if let Some(assign) = stmt.as_assign_stmt() {
            assign.targets.iter().for_each(|target| self.note(target, &assign.value));
        } else if let Some(assign) = stmt.as_ann_assign_stmt() {
            assign.value.iter().for_each(|value| self.note(&assign.target, value));
        } else {
            walk_stmt(self, stmt);
        }
    }

    fn visit_expr(&mut self, _: &'a Expr) {
        // No statement stands in an expression.
    }
}

/// `a.b.c` as its first name and the others in order.
pub(super) fn dotted(expr: &Expr) -> Option<(&str, Vec<&str>)> {
    let mut rest = Vec::new();
    let mut expr = expr;
    while let Expr::Attribute(attribute) = expr {
        rest.push(attribute.attr.as_str());
        expr = &attribute.value;
    }
    rest.reverse();
    let name = expr.as_name_expr()?;
    Some((name.id.as_str(), rest))
}

/// Whether `tail` is `.a.b` for the parts `a`, `b`.
fn is_path(tail: &str, parts: &[&str]) -> bool {
    let mut tail = tail;
    for part in parts {
        match tail.strip_prefix('.').and_then(|tail| tail.strip_prefix(part)) {
            Some(after) => tail = after,
            None => return false,
        }
    }
    tail.is_empty()
}

/// The last name of `a.b.c`.
pub(super) fn last_name(expr: &Expr) -> Option<&str> {
    let (first, rest) = dotted(expr)?;
    Some(rest.last().copied().unwrap_or(first))
}
