//! From a condition's value to its tests: the operators, and the values they name.

use regex::RegexBuilder;
use serde_json::Value;

use super::number::{MAX_DIGITS, Number};
use super::parse::{Parsed, Parser, kind};
use super::problem::Step;
use super::tree::{Order, Pattern, Test, TestKind};
use super::value::Expected;

/// The longest regular expression, in bytes.
pub const MAX_PATTERN: usize = 1_000;

/// The most memory that a compiled regular expression may take, in bytes.
const MAX_COMPILED: usize = 1 << 20;

/// Every operator, in the order of the documentation.
const OPERATORS: &str = "`$eq`, `$in`, `$exists`, `$prefix`, `$regex`, `$lt`, `$le`, `$gt`, `$ge`, `$int`, `$not`";

/// The first floats that may have been written as integers of more than 64 bits, and so have lost digits.
const TOO_LARGE: f64 = 18_446_744_073_709_551_616.0;
const TOO_SMALL: f64 = -9_223_372_036_854_775_808.0;

pub(super) fn equal_to(expected: Expected) -> Test {
    Test::new(TestKind::Equals(expected))
}

impl<'a> Parser<'a> {
    pub(super) fn operator(&mut self, name: &str, operand: &'a Value) -> Parsed<Test> {
        if let Some(order) = Order::ALL.into_iter().find(|order| order.name() == name) {
            return self.bound(operand).map(|bound| Test::new(TestKind::Order(order, bound)));
        }
        let kind = match name {
            "$eq" => TestKind::Equals(self.literal(operand)?),
            "$int" => TestKind::Equals(Expected::Number(self.int(operand)?)),
            "$in" => TestKind::In(self.list(operand)?),
            "$exists" => match operand.as_bool() {
                Some(exists) => TestKind::Exists(exists),
                None => return self.wrong("a bool", operand),
            },
            "$prefix" => match operand.as_str() {
                Some(prefix) => TestKind::Prefix(prefix.into()),
                None => return self.wrong("a string", operand),
            },
            "$regex" => TestKind::Regex(self.pattern(operand)?),
            "$not" => TestKind::Not(self.tests(operand)?),
            name if name.starts_with('$') => {
                return self.fail(format!(
                    "there is no such operator; there are {OPERATORS}; a table with such a key is written {{\"$eq\": {{…}}}}"
                ));
            }
            _ => {
                return self.fail(
                    "a plain key stands beside operators; a table with a key that begins with `$` is written {\"$eq\": {…}}",
                );
            }
        };
        Ok(Test::new(kind))
    }

    fn wrong<T>(&self, expected: &str, found: &Value) -> Parsed<T> {
        self.fail(format!("this has to be {expected}, and it is {}", kind(found)))
    }

    /// A value in which no operator may stand.
    pub(super) fn expected(&mut self, value: &'a Value) -> Parsed<Expected> {
        self.value(value, false)
    }

    /// A value in which keys that begin with `$` are plain names.
    fn literal(&mut self, value: &'a Value) -> Parsed<Expected> {
        self.value(value, true)
    }

    fn value(&mut self, value: &'a Value, is_literal: bool) -> Parsed<Expected> {
        match value {
            Value::Null => Ok(Expected::Null),
            Value::Bool(value) => Ok(Expected::Bool(*value)),
            Value::Number(number) => self.number(number).map(Expected::Number),
            Value::String(text) => Ok(Expected::Text(text.as_str().into())),
            Value::Array(items) => {
                let mut list = Vec::with_capacity(items.len());
                for (at, item) in items.iter().enumerate() {
                    list.push(self.inside(Step::Place(at), |parser| parser.value(item, is_literal))?);
                }
                Ok(Expected::List(list))
            }
            Value::Object(members) => {
                if let (Some(digits), 1, false) = (members.get("$int"), members.len(), is_literal) {
                    return self.inside(Step::Key("$int"), |parser| parser.int(digits)).map(Expected::Number);
                }
                let mut table = Vec::with_capacity(members.len());
                for (key, member) in members {
                    let expected = self.inside(Step::Key(key), |parser| {
                        if key.starts_with('$') && !is_literal {
                            return parser.fail(
                                "an operator stands directly behind a header's name or a path, and here it is inside a value; \
                                 write the path to this place, or {\"$eq\": {…}} around the whole value if the key is meant as it is",
                            );
                        }
                        parser.value(member, is_literal)
                    })?;
                    table.push((key.as_str().into(), expected));
                }
                table.sort_by(|(a, _): &(Box<str>, _), (b, _)| a.cmp(b));
                Ok(Expected::Table(table))
            }
        }
    }

    /// The values of `$in`; each may be a `{"$eq": …}`.
    fn list(&mut self, operand: &'a Value) -> Parsed<Vec<Expected>> {
        let Some(items) = operand.as_array() else {
            return self.wrong("a list", operand);
        };
        if items.is_empty() {
            return self.fail("the list is empty, so nothing would ever match");
        }
        let mut list = Vec::with_capacity(items.len());
        for (at, item) in items.iter().enumerate() {
            let literal = item.as_object().filter(|members| members.len() == 1).and_then(|members| members.get("$eq"));
            list.push(self.inside(Step::Place(at), |parser| match literal {
                Some(literal) => parser.inside(Step::Key("$eq"), |parser| parser.literal(literal)),
                None => parser.expected(item),
            })?);
        }
        Ok(list)
    }

    fn number(&self, number: &serde_json::Number) -> Parsed<Number<'static>> {
        if let Some(int) = number.as_i128() {
            return Ok(Number::Int(int));
        }
        match number.as_f64() {
            Some(float) if float < TOO_LARGE && float > TOO_SMALL => Ok(Number::Float(float)),
            Some(_) | None => self.fail(
                "a number beyond 64 bits loses digits where filters are kept; write an integer as {\"$int\": \"…\"}, \
                 its digits in quotes",
            ),
        }
    }

    fn int(&self, operand: &Value) -> Parsed<Number<'static>> {
        let text = operand.as_str().unwrap_or_default();
        let digits = text.strip_prefix('-').unwrap_or(text);
        let is_plain = digits == "0" || !digits.starts_with('0') && digits.bytes().all(|b| b.is_ascii_digit());
        if digits.is_empty() || digits.len() > MAX_DIGITS || !is_plain {
            return self.fail(format!("this has to be the digits of an integer in quotes, at most {MAX_DIGITS}"));
        }
        Ok(Number::of_digits(text).into_owned())
    }

    fn bound(&mut self, operand: &'a Value) -> Parsed<Number<'static>> {
        match self.expected(operand)? {
            Expected::Number(number) => Ok(number),
            Expected::Null | Expected::Bool(_) | Expected::Text(_) | Expected::List(_) | Expected::Table(_) => {
                self.wrong("a number", operand)
            }
        }
    }

    fn pattern(&self, operand: &Value) -> Parsed<Pattern> {
        let Some(text) = operand.as_str() else {
            return self.wrong("a string", operand);
        };
        if text.len() > MAX_PATTERN {
            return self.fail(format!("a regular expression has at most {MAX_PATTERN} bytes"));
        }
        match RegexBuilder::new(text).size_limit(MAX_COMPILED).dfa_size_limit(MAX_COMPILED).build() {
            Ok(regex) => Ok(Pattern(regex)),
            Err(regex::Error::CompiledTooBig(_)) => {
                self.fail("the regular expression takes too much memory; use smaller counts of repetition")
            }
            Err(error) => {
                let text = error.to_string();
                let last = text.lines().last().unwrap_or_default().trim_start_matches("error: ");
                self.fail(format!("this is no regular expression that can be used: {last}"))
            }
        }
    }
}
