//! The scopes around one place, and what a name means there.

use std::cell::OnceCell;

use ruff_python_ast::{Stmt, StmtClassDef, StmtFunctionDef};
use ruff_text_size::TextSize;

use super::scope::{Binding, Scope};

/// What a scope is the body of.
#[derive(Clone, Copy, Debug)]
pub(super) enum Body<'a> {
    Module(&'a [Stmt]),
    Function(&'a StmtFunctionDef),
    Class(&'a StmtClassDef),
}

#[derive(Debug)]
struct Frame<'a> {
    body: Body<'a>,
    /// Read once something is looked up in it.
    scope: OnceCell<Scope<'a>>,
}

impl<'a> Frame<'a> {
    fn new(body: Body<'a>) -> Self {
        Self { body, scope: OnceCell::new() }
    }

    fn scope(&self) -> &Scope<'a> {
        self.scope.get_or_init(|| match self.body {
            Body::Module(body) => Scope::of_body(body),
            Body::Class(class) => Scope::of_body(&class.body),
            Body::Function(function) => Scope::of_function(function),
        })
    }
}

/// Where an expression stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// How many scopes are around it.
    depth: usize,
    /// Its offset in the text.
    at: TextSize,
}

/// The scopes around a place, the module's first.
#[derive(Debug)]
pub(super) struct Scopes<'a> {
    frames: Vec<Frame<'a>>,
}

/// What a name means.
#[derive(Clone, Copy, Debug)]
pub(super) enum Meaning<'s, 'a> {
    /// This gives it its value, and nothing else does.
    One(Binding<'a>, Place),
    /// These do, in the order of the text.
    Several(&'s [Binding<'a>], Place),
    /// Nothing in the file does, or `import *` may.
    Unknown(&'static str),
}

impl<'a> Scopes<'a> {
    pub(super) fn of_module(body: &'a [Stmt]) -> Self {
        Self { frames: vec![Frame::new(Body::Module(body))] }
    }

    pub(super) fn enter(&mut self, body: Body<'a>) {
        self.frames.push(Frame::new(body));
    }

    pub(super) fn leave(&mut self) {
        self.frames.pop();
    }

    /// The place of an offset in the innermost scope.
    pub(super) fn place(&self, at: TextSize) -> Place {
        Place { depth: self.frames.len(), at }
    }

    /// Every name of the module.
    pub(super) fn module_names(&self) -> Vec<&'a str> {
        self.frames[0].scope().names().collect()
    }

    /// Whether an `import *` of the module may bind any name.
    pub(super) fn has_star(&self) -> bool {
        self.frames[0].scope().has_star
    }

    /// What a name means at a place.
    pub(super) fn meaning(&self, name: &str, place: Place) -> Meaning<'_, 'a> {
        let mut at = place.depth;
        while at > 0 {
            at -= 1;
            let frame = &self.frames[at];
            let is_own = at + 1 == place.depth;
            if matches!(frame.body, Body::Class(_)) && !is_own {
                continue;
            }
            let scope = frame.scope();
            if scope.globals.contains(name) && at > 0 {
                at = 1;
                continue;
            }
            let bindings = scope.bindings(name);
            if bindings.is_empty() && !scope.has_star {
                continue;
            }
            if scope.has_star {
                return Meaning::Unknown("an `import *` may give it another value");
            }
            let inside = Place { depth: at + 1, at: if is_own { place.at } else { TextSize::new(u32::MAX) } };
            return match bindings {
                [one] => Meaning::One(*one, inside),
                several => Meaning::Several(several, inside),
            };
        }
        Meaning::Unknown("nothing in this file gives it a value")
    }
}

impl Place {
    /// Whether a binding of the same scope has happened when this place is reached.
    pub(super) fn is_after(self, binding: &Binding<'_>) -> bool {
        binding.range.end() <= self.at
    }

    /// Whether the place is inside a binding's statement or after it.
    pub(super) fn has_begun(self, binding: &Binding<'_>) -> bool {
        binding.range.start() <= self.at
    }

    /// Whether the place is in the very scope that was looked in, and not in a function within it.
    pub(super) fn is_in_order(self) -> bool {
        self.at != TextSize::new(u32::MAX)
    }

    /// The place of the value of a binding.
    pub(super) fn of(self, binding: &Binding<'_>) -> Self {
        Self { depth: self.depth, at: binding.range.start() }
    }
}
