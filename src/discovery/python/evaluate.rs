//! Expressions whose value the text alone decides → values. Nothing else is guessed.
//!
//! Bounded: in steps, in the size of every result, and in depth, constants that lead to constants included.

use std::cell::{Cell, OnceCell};
use std::collections::HashSet;

use ruff_python_ast::{
    ConversionFlag, Expr, ExprDict, ExprFString, ExprStringLiteral, ExprSubscript, FStringPart,
    InterpolatedStringElement, Number, Stmt,
};

use super::library::Library;
use super::mutation;
use super::names::Names;
use super::operators;
use super::position::Lines;
use super::scope::{Binding, Source};
use super::scopes::{Meaning, Place, Scopes};
use crate::domain::declaration::RefusalReason;
use crate::domain::declare::Literal;

/// The largest value: characters and entries together.
pub(super) const MAX_SIZE: usize = 64 * 1024;

/// The most expressions that one value may need, in expressions.
const MAX_STEPS: usize = 100_000;

/// The deepest nesting of expressions, and of constants in them.
const MAX_DEPTH: usize = 4_000;

/// A value, or why it cannot be known.
pub(super) type Value = Result<Literal, RefusalReason>;

/// One file, and what its expressions may use.
pub(super) struct Evaluator<'a> {
    pub(super) body: &'a [Stmt],
    pub(super) names: &'a Names,
    pub(super) lines: &'a Lines<'a>,
    pub(super) library: &'a Library<'a>,
    /// The file's name below the root that modules are looked for in.
    pub(super) path: &'a str,
    mutated: OnceCell<HashSet<&'a str>>,
    steps: Cell<usize>,
    depth: Cell<usize>,
}

impl<'a> Evaluator<'a> {
    pub(super) fn new(
        body: &'a [Stmt],
        names: &'a Names,
        lines: &'a Lines<'a>,
        library: &'a Library<'a>,
        path: &'a str,
    ) -> Self {
        let (steps, depth) = (Cell::new(0), Cell::new(0));
        Self { body, names, lines, library, path, mutated: OnceCell::new(), steps, depth }
    }

    /// The value of an expression at a place.
    pub(super) fn value(&self, scopes: &Scopes<'a>, expr: &Expr, place: Place) -> Value {
        self.steps.set(MAX_STEPS);
        self.evaluate(scopes, expr, place)
    }

    /// The value of a name at a place, with what is left of the steps of the calls before.
    pub(super) fn named_value(&self, scopes: &Scopes<'a>, name: &str, place: Place) -> Value {
        self.name(scopes, name, place)
    }

    /// Allows so many steps for all further calls of [`Evaluator::named_value`].
    pub(super) fn allow(&self, steps: usize) {
        self.steps.set(steps);
    }

    fn spend(&self, steps: usize) -> Result<(), RefusalReason> {
        let left = self.steps.get().checked_sub(steps);
        self.steps.set(left.unwrap_or(0));
        left.map(|_| ()).ok_or(RefusalReason::TooLarge)
    }

    fn evaluate(&self, scopes: &Scopes<'a>, expr: &Expr, place: Place) -> Value {
        self.spend(1)?;
        let depth = self.depth.get();
        if depth >= MAX_DEPTH {
            return Err(RefusalReason::TooLarge);
        }
        self.depth.set(depth + 1);
        let value = self.value_of(scopes, expr, place);
        self.depth.set(depth);
        if let Ok(value) = &value {
            let size = size(value);
            if size > MAX_SIZE {
                return Err(RefusalReason::TooLarge);
            }
            self.spend(size / 64)?;
        }
        value
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "every other expression is named by `found`")]
    fn value_of(&self, scopes: &Scopes<'a>, expr: &Expr, place: Place) -> Value {
        let evaluate = |expr: &Expr| self.evaluate(scopes, expr, place);
        match expr {
            Expr::NoneLiteral(_) => Ok(Literal::None),
            Expr::BooleanLiteral(literal) => Ok(Literal::Bool(literal.value)),
            Expr::NumberLiteral(literal) => number(&literal.value),
            Expr::StringLiteral(literal) => text(literal),
            Expr::BytesLiteral(_) => Ok(Literal::Bytes),
            Expr::List(list) => self.entries(scopes, &list.elts, place).map(Literal::List),
            Expr::Tuple(tuple) => self.entries(scopes, &tuple.elts, place).map(Literal::Tuple),
            Expr::Set(_) => Ok(Literal::Set),
            Expr::Dict(dict) => self.dict(scopes, dict, place),
            Expr::UnaryOp(unary) => operators::unary(unary.op, &evaluate(&unary.operand)?),
            Expr::BinOp(binary) => operators::binary(evaluate(&binary.left)?, binary.op, evaluate(&binary.right)?),
            Expr::Subscript(subscript) => item(subscript, &evaluate(&subscript.value)?, evaluate),
            Expr::FString(f_string) => self.f_string(scopes, f_string, place),
            Expr::Name(name) => self.name(scopes, name.id.as_str(), place),
            Expr::Attribute(_) => self.attribute(scopes, expr, place),
            _ => Err(RefusalReason::NotLiteral { found: found(expr) }),
        }
    }

    /// The entries of a list or tuple, `*constant` among them.
    fn entries(&self, scopes: &Scopes<'a>, written: &[Expr], place: Place) -> Result<Vec<Literal>, RefusalReason> {
        let mut entries = Vec::with_capacity(written.len());
        for expr in written {
            if let Some(starred) = expr.as_starred_expr() {
                let value = self.evaluate(scopes, &starred.value, place)?;
                if let Literal::List(more) | Literal::Tuple(more) = value {
                    entries.extend(more);
                } else {
                    return Err(RefusalReason::NotLiteral { found: "an unpacked value that is no list" });
                }
            } else {
                entries.push(self.evaluate(scopes, expr, place)?);
            }
        }
        Ok(entries)
    }

    fn dict(&self, scopes: &Scopes<'a>, dict: &ExprDict, place: Place) -> Value {
        let mut pairs = Vec::with_capacity(dict.items.len());
        for pair in &dict.items {
            let value = self.evaluate(scopes, &pair.value, place)?;
            if let Some(key) = &pair.key {
                pairs.push((self.evaluate(scopes, key, place)?, value));
            } else if let Literal::Dict(more) = value {
                pairs.extend(more);
            } else {
                return Err(RefusalReason::NotLiteral { found: "an unpacked value that is no dict" });
            }
        }
        Ok(Literal::Dict(pairs))
    }

    fn f_string(&self, scopes: &Scopes<'a>, f_string: &ExprFString, place: Place) -> Value {
        let mut made = String::new();
        for part in &f_string.value {
            match part {
                FStringPart::Literal(literal) => made.push_str(&literal.value),
                FStringPart::FString(part) => {
                    for element in &part.elements {
                        made.push_str(&self.element(scopes, element, place)?);
                    }
                }
            }
            if made.len() > MAX_SIZE {
                return Err(RefusalReason::TooLarge);
            }
        }
        encodable(made)
    }

    fn element(
        &self,
        scopes: &Scopes<'a>,
        element: &InterpolatedStringElement,
        place: Place,
    ) -> Result<String, RefusalReason> {
        let interpolated = match element {
            InterpolatedStringElement::Literal(literal) => return Ok(literal.value.to_string()),
            InterpolatedStringElement::Interpolation(interpolated) => interpolated,
        };
        let is_plain = matches!(interpolated.conversion, ConversionFlag::None | ConversionFlag::Str)
            && interpolated.format_spec.is_none()
            && interpolated.debug_text.is_none();
        if !is_plain {
            return Err(RefusalReason::NotLiteral { found: "an f-string with a format of its own" });
        }
        operators::shown(&self.evaluate(scopes, &interpolated.expression, place)?)
    }

    fn name(&self, scopes: &Scopes<'a>, name: &str, place: Place) -> Value {
        let (binding, inside) = self.only_binding(scopes, name, place)?;
        match binding.source {
            Source::Assigned(value) => {
                let value = self.evaluate(scopes, value, inside.of(&binding)).map_err(|reason| {
                    if matches!(reason, RefusalReason::TooLarge | RefusalReason::NotConstant { .. }) {
                        return reason;
                    }
                    let line = self.line_of(&binding);
                    not_constant(name, format!("in the value that line {line} gives it, {reason}"))
                })?;
                self.unchanged(name, value)
            }
            Source::Member(..) | Source::Module(_) => {
                let path = self.import_path(&binding, name)?;
                self.library.constant(&path).and_then(|value| self.unchanged(name, value))
            }
            Source::Entered(_) => Err(not_constant(name, "`with` gives it its value".to_owned())),
            Source::Function(_) => Err(not_constant(name, "it is a function".to_owned())),
            Source::Class(_) => Err(not_constant(name, "it is a class".to_owned())),
            Source::Other(why) => Err(not_constant(name, why.to_owned())),
        }
    }

    /// The one place that gives a name its value, reached before `place` whatever happens.
    fn only_binding(
        &self,
        scopes: &Scopes<'a>,
        name: &str,
        place: Place,
    ) -> Result<(Binding<'a>, Place), RefusalReason> {
        match scopes.meaning(name, place) {
            Meaning::One(binding, _) if !binding.is_certain => {
                let line = self.line_of(&binding);
                Err(not_constant(name, format!("line {line} gives it its value only under a condition")))
            }
            Meaning::One(binding, inside) if inside.is_in_order() && !inside.is_after(&binding) => {
                let line = self.line_of(&binding);
                Err(not_constant(name, format!("line {line} gives it its value only after it is used here")))
            }
            Meaning::One(binding, inside) => Ok((binding, inside)),
            Meaning::Several(bindings, _) => {
                let lines: Vec<String> =
                    bindings.iter().take(5).map(|binding| self.line_of(binding).to_string()).collect();
                Err(not_constant(name, format!("it gets a value more than once (lines {})", lines.join(", "))))
            }
            Meaning::Unknown(why) => Err(not_constant(name, why.to_owned())),
        }
    }

    fn line_of(&self, binding: &Binding<'_>) -> u32 {
        self.lines.position(binding.range.start()).0
    }

    /// `module.name`, `package.module.name`.
    fn attribute(&self, scopes: &Scopes<'a>, expr: &Expr, place: Place) -> Value {
        let Some((first, rest)) = super::names::dotted(expr) else {
            return Err(RefusalReason::NotLiteral { found: "an attribute" });
        };
        let (binding, _) = self.only_binding(scopes, first, place)?;
        if !matches!(binding.source, Source::Member(..) | Source::Module(_)) {
            return Err(RefusalReason::NotLiteral { found: "an attribute" });
        }
        let path = format!("{}.{}", self.import_path(&binding, first)?, rest.join("."));
        let value = self.library.constant(&path)?;
        self.unchanged(rest.last().copied().unwrap_or(first), value)
    }

    /// The path of what an import binds to a name, from the root of the folder.
    pub(super) fn import_path(&self, binding: &Binding<'_>, name: &str) -> Result<String, RefusalReason> {
        let (import, alias) = match binding.source {
            Source::Member(import, alias) => (import, alias),
            Source::Module(alias) => {
                let whole = alias.name.as_str();
                let first = whole.split('.').next().unwrap_or(whole);
                return Ok(if alias.asname.is_some() { whole } else { first }.to_owned());
            }
            Source::Assigned(_) | Source::Entered(_) | Source::Function(_) | Source::Class(_) | Source::Other(_) => {
                return Err(not_constant(name, "it is not imported".to_owned()));
            }
        };
        let mut parts: Vec<&str> = Vec::new();
        if import.level > 0 {
            parts = self.path.split('/').collect();
            for _ in 0..import.level {
                if parts.pop().is_none() {
                    return Err(not_constant(name, "its import leads out of the folder".to_owned()));
                }
            }
        }
        parts.extend(import.module.as_ref().map(|module| module.as_str()));
        parts.push(alias.name.as_str());
        Ok(parts.join("."))
    }

    /// A value that nothing in the file may change in place.
    fn unchanged(&self, name: &str, value: Literal) -> Value {
        let mutated = || self.mutated.get_or_init(|| mutation::of(self.body, self.names));
        if is_fixed(&value) || !mutated().contains(name) {
            Ok(value)
        } else {
            Err(not_constant(name, "it may be changed after it was made; use a tuple, or write it out here".to_owned()))
        }
    }
}

pub(super) fn not_constant(name: &str, because: String) -> RefusalReason {
    RefusalReason::NotConstant { name: name.to_owned(), because }
}

/// Whether a value can never change in place.
fn is_fixed(value: &Literal) -> bool {
    match value {
        Literal::None
        | Literal::Bool(_)
        | Literal::Int(_)
        | Literal::Float(_)
        | Literal::Str(_)
        | Literal::Bytes
        | Literal::Set => true,
        Literal::Tuple(entries) => entries.iter().all(is_fixed),
        Literal::List(_) | Literal::Dict(_) => false,
    }
}

/// How large a value is: characters and entries together.
pub(super) fn size(value: &Literal) -> usize {
    match value {
        Literal::None | Literal::Bool(_) | Literal::Int(_) | Literal::Float(_) | Literal::Bytes | Literal::Set => 1,
        Literal::Str(text) => 1 + text.len(),
        Literal::List(entries) | Literal::Tuple(entries) => 1 + entries.iter().map(size).sum::<usize>(),
        Literal::Dict(pairs) => 1 + pairs.iter().map(|(key, value)| size(key) + size(value)).sum::<usize>(),
    }
}

fn number(number: &Number) -> Value {
    match number {
        Number::Int(int) => int
            .as_i64()
            .map(i128::from)
            .or_else(|| int.to_string().parse().ok())
            .map(Literal::Int)
            .ok_or(RefusalReason::TooLarge),
        Number::Float(float) => Ok(Literal::Float(*float)),
        Number::Complex { .. } => Err(RefusalReason::NotLiteral { found: "a complex number" }),
    }
}

/// Adjacent literals count as one, as in Python.
fn text(literal: &ExprStringLiteral) -> Value {
    encodable(literal.value.to_str().to_owned())
}

/// The parser puts U+FFFD in the place of half a surrogate pair, which nothing can be called.
fn encodable(text: String) -> Value {
    if text.contains('\u{fffd}') {
        return Err(RefusalReason::WrongType {
            expected: "a text that can be encoded as UTF-8",
            found: "one with a character that cannot",
        });
    }
    if text.len() > MAX_SIZE { Err(RefusalReason::TooLarge) } else { Ok(Literal::Str(text)) }
}

/// `value[key]`.
fn item(subscript: &ExprSubscript, value: &Literal, evaluate: impl Fn(&Expr) -> Value) -> Value {
    if subscript.slice.is_slice_expr() {
        return Err(RefusalReason::NotLiteral { found: "a part of something" });
    }
    let key = evaluate(&subscript.slice)?;
    let found = match (value, &key) {
        (Literal::List(entries) | Literal::Tuple(entries), Literal::Int(at)) => {
            let from_end = if *at < 0 { i128::try_from(entries.len()).unwrap_or(0) } else { 0 };
            usize::try_from(at + from_end).ok().and_then(|at| entries.get(at)).cloned()
        }
        // Of equal keys the last counts.
        (Literal::Dict(pairs), Literal::Str(_) | Literal::Int(_)) => {
            pairs.iter().rev().find(|(name, _)| *name == key).map(|(_, value)| value.clone())
        }
        _ => return Err(RefusalReason::NotLiteral { found: "an item of something" }),
    };
    found.ok_or(RefusalReason::FailsInPython { what: "there is no such item" })
}

fn found(expr: &Expr) -> &'static str {
    let computed: [(bool, &'static str); 11] = [
        (expr.is_call_expr(), "a call"),
        (expr.is_t_string_expr(), "a template string"),
        (expr.is_lambda_expr(), "a lambda"),
        (expr.is_if_expr(), "a condition"),
        (expr.is_bool_op_expr() || expr.is_compare_expr(), "a condition"),
        (expr.is_await_expr(), "an `await`"),
        (expr.is_named_expr(), "an assignment"),
        (expr.is_list_comp_expr() || expr.is_set_comp_expr(), "a comprehension"),
        (expr.is_dict_comp_expr() || expr.is_generator_expr(), "a comprehension"),
        (expr.is_ellipsis_literal_expr(), "`...`"),
        (expr.is_starred_expr(), "an unpacked value"),
    ];
    computed.into_iter().find(|(is, _)| *is).map_or("an expression", |(_, found)| found)
}
