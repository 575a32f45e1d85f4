//! Constants of the other files of the folder, as Python would import them.
//!
//! A module is read at most once in a scan. What a reading asked for is remembered with it, also what was not there, so that
//! it can be told when it has to be read again.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;
use std::sync::Arc;

use ruff_python_ast::Stmt;
use ruff_text_size::TextSize;

use super::evaluate::{Evaluator, Value, not_constant};
use super::names::Names;
use super::position::Lines;
use super::scope::Source;
use super::scopes::{Meaning, Scopes};
use super::{parse, stdlib};
use crate::domain::declaration::RefusalReason;

/// The most imports that lead from one to the next.
const MAX_IMPORTS: usize = 20;

/// The most expressions that are looked at in one module.
const MODULE_STEPS: usize = 1_000_000;

/// Packages that are installed wherever DAG files are read, and that Python finds first.
const INSTALLED: [&str; 3] = ["airflow", "airflow_rmq_watcher", "airflow_provider_rmq"];

/// The files that can be imported.
pub(in crate::discovery) trait Modules {
    /// The text of a file, by its name below the root that Python imports from.
    fn text(&self, file: &str) -> ModuleText;
}

/// What became of asking for a file.
#[derive(Clone, Debug)]
pub(in crate::discovery) enum ModuleText {
    Text(Arc<str>),
    Absent,
    Unreadable,
}

/// The modules of one scan.
pub(in crate::discovery) struct Library<'m> {
    modules: &'m dyn Modules,
    read: RefCell<HashMap<String, Option<Rc<Module>>>>,
    /// The files that are being read, the outermost first, each with what it has asked for so far.
    asked: RefCell<Vec<BTreeSet<String>>>,
    /// The names of the modules that are being read.
    reading: RefCell<Vec<String>>,
}

/// What one module offers.
struct Module {
    exports: HashMap<String, Export>,
    asked: BTreeSet<String>,
    problem: Option<&'static str>,
}

enum Export {
    Value(Value),
    /// It is imported from there.
    Imported(String),
}

impl<'m> Library<'m> {
    pub(in crate::discovery) fn new(modules: &'m dyn Modules) -> Self {
        Self { modules, read: RefCell::default(), asked: RefCell::default(), reading: RefCell::default() }
    }

    /// Forgets a reading that ended in a panic.
    pub(super) fn start(&self) {
        self.asked.borrow_mut().clear();
        self.reading.borrow_mut().clear();
    }

    /// Runs the reading of a file and says which other files it asked for.
    pub(super) fn noting<T>(&self, read: impl FnOnce() -> T) -> (T, BTreeSet<String>) {
        self.asked.borrow_mut().push(BTreeSet::new());
        let value = read();
        let asked = self.asked.borrow_mut().pop().unwrap_or_default();
        (value, asked)
    }

    fn note(&self, asked: impl IntoIterator<Item = String>) {
        if let Some(last) = self.asked.borrow_mut().last_mut() {
            last.extend(asked);
        }
    }

    /// The constant at a dotted path from the root.
    pub(super) fn constant(&self, path: &str) -> Value {
        let mut path = path.to_owned();
        for _ in 0..MAX_IMPORTS {
            match self.step(&path)? {
                Export::Value(value) => return value,
                Export::Imported(next) => path = next,
            }
        }
        Err(not_constant(&path, "its imports lead on and on".to_owned()))
    }

    /// What the last part of a path is in the module before it.
    fn step(&self, path: &str) -> Result<Export, RefusalReason> {
        let parts: Vec<&str> = path.split('.').collect();
        if stdlib::has(parts[0]) || INSTALLED.contains(&parts[0]) {
            let because =
                format!("`{}` is a module of Python or Airflow, and only files of the folder are read", parts[0]);
            return Err(not_constant(path, because));
        }
        let mut is_there = false;
        for at in 1..parts.len() {
            let Some(module) = self.module(&parts[..at].join("/"))? else {
                continue;
            };
            is_there = true;
            if let Some(problem) = module.problem {
                let name = parts[..at].join(".");
                return Err(not_constant(path, format!("the module `{name}` {problem}")));
            }
            let rest = &parts[at + 1..];
            match module.exports.get(parts[at]) {
                Some(Export::Value(value)) if rest.is_empty() => {
                    return Ok(Export::Value(value.clone().map_err(|reason| in_module(path, reason))));
                }
                Some(Export::Value(_)) => return Err(RefusalReason::NotLiteral { found: "an attribute" }),
                // A package that imports its own module of that name.
                Some(Export::Imported(next)) if *next == parts[..=at].join(".") => {}
                Some(Export::Imported(next)) => {
                    let next = std::iter::once(next.as_str()).chain(rest.iter().copied()).collect::<Vec<_>>();
                    return Ok(Export::Imported(next.join(".")));
                }
                None => {}
            }
        }
        let module = parts[..parts.len() - 1].join(".");
        let because = if is_there {
            format!("the module `{module}` gives no such name a value")
        } else {
            format!("the module `{module}` is not a file of the DAG folder")
        };
        Err(not_constant(path, because))
    }

    /// The module of a path with `/`: a package before a file, as in Python.
    fn module(&self, path: &str) -> Result<Option<Rc<Module>>, RefusalReason> {
        for file in [format!("{path}/__init__.py"), format!("{path}.py")] {
            if let Some(module) = self.file(&file)? {
                return Ok(Some(module));
            }
        }
        Ok(None)
    }

    fn file(&self, file: &str) -> Result<Option<Rc<Module>>, RefusalReason> {
        self.note([file.to_owned()]);
        let known = self.read.borrow().get(file).cloned();
        if let Some(known) = known {
            self.note(known.iter().flat_map(|module| module.asked.iter().cloned()));
            return Ok(known);
        }
        if self.reading.borrow().iter().any(|reading| reading == file) {
            return Err(not_constant(file, "its imports lead back to itself".to_owned()));
        }
        if self.reading.borrow().len() >= MAX_IMPORTS {
            return Err(not_constant(file, "its imports lead on and on".to_owned()));
        }
        let module = match self.modules.text(file) {
            ModuleText::Absent => None,
            ModuleText::Unreadable => Some(Module::broken("cannot be read")),
            ModuleText::Text(text) => {
                self.reading.borrow_mut().push(file.to_owned());
                let (mut module, asked) = self.noting(|| Module::read(self, file, &text));
                self.reading.borrow_mut().pop();
                self.note(asked.iter().cloned());
                module.asked = asked;
                Some(module)
            }
        };
        let module = module.map(Rc::new);
        self.read.borrow_mut().insert(file.to_owned(), module.clone());
        Ok(module)
    }
}

/// Why a constant of another module cannot be known.
fn in_module(path: &str, reason: RefusalReason) -> RefusalReason {
    if let RefusalReason::NotConstant { name, because } = reason {
        let inner = if path.ends_with(&format!(".{name}")) { because } else { format!("of `{name}`: {because}") };
        not_constant(path, inner)
    } else {
        not_constant(path, format!("in the value that its module gives it, {reason}"))
    }
}

impl Module {
    fn broken(problem: &'static str) -> Self {
        Self { exports: HashMap::new(), asked: BTreeSet::new(), problem: Some(problem) }
    }

    fn read(library: &Library<'_>, file: &str, text: &str) -> Self {
        let lines = Lines::of(text);
        match parse(text, &lines) {
            Ok(body) => Self::of(library, file, &lines, &body),
            Err(_) => Self::broken("is not Python that can be read"),
        }
    }

    fn of(library: &Library<'_>, file: &str, lines: &Lines<'_>, body: &[Stmt]) -> Self {
        let names = Names::default();
        let evaluator = Evaluator::new(body, &names, lines, library, file);
        evaluator.allow(MODULE_STEPS);
        let scopes = Scopes::of_module(body);
        if scopes.has_star() {
            return Self::broken("has an `import *`, which may give any name another value");
        }
        let end = scopes.place(TextSize::new(u32::MAX));
        let mut exports = HashMap::new();
        for name in scopes.module_names() {
            let imported = match scopes.meaning(name, end) {
                Meaning::One(binding, _)
                    if binding.is_certain && matches!(binding.source, Source::Member(..) | Source::Module(_)) =>
                {
                    evaluator.import_path(&binding, name).ok()
                }
                Meaning::One(..) | Meaning::Several(..) | Meaning::Unknown(_) => None,
            };
            let export = match imported {
                Some(path) => Export::Imported(path),
                None => Export::Value(evaluator.named_value(&scopes, name, end)),
            };
            exports.insert(name.to_owned(), export);
        }
        Self { exports, asked: BTreeSet::new(), problem: None }
    }
}

#[cfg(test)]
mod tests;
