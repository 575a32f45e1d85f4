//! From `filter_data` as it is written to the tree: groups and conditions.
//!
//! Nothing is passed over: what is not understood is a problem with a hint. A key that begins with `$` is never a plain
//! name, so that a mistyped operator cannot become an equality that never holds.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::path::{MAX_PARTS, Path};
use super::print;
use super::problem::{FilterProblem, Step, problem};
use super::tree::{Condition, Node, Subject, Test};
use super::verdict::part;
use super::{operators, verdict};

/// The most levels of a filter.
const MAX_LEVELS: usize = 100;

/// What a part of a filter is, or why it cannot be taken.
pub(super) type Parsed<T> = Result<T, FilterProblem>;

/// Reads a filter. `None` and an empty one match every message.
pub(super) fn parse(filter_data: &Value) -> Parsed<Node> {
    let mut parser = Parser { path: Vec::new(), paths: 0 };
    let data = match filter_data {
        Value::Null => return Ok(Node::All(Vec::new())),
        Value::Object(data) => data,
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            let found = kind(filter_data);
            return parser.fail(format!("a filter is a dict such as {EXAMPLE}, and this is {found}"));
        }
    };
    if let Some(key) = data.keys().find(|key| *key != KEY) {
        if data.contains_key(KEY) {
            parser.path.push(Step::Key(key));
            return parser.fail("only `filter_headers` stands here; conditions belong inside it");
        }
        let meant = verdict::clipped(&serde_json::json!({ KEY: data }).to_string(), 120);
        return parser.fail(format!(
            "conditions stand inside `filter_headers`, and {key:?} stands outside it, where it would mean nothing; write {meant}",
            key = verdict::clipped(key, 60)
        ));
    }
    let conditions = match data.get(KEY) {
        None | Some(Value::Null) => return Ok(Node::All(Vec::new())),
        Some(Value::Object(conditions)) => conditions,
        Some(other @ (Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_))) => {
            parser.path.push(Step::Key(KEY));
            let found = kind(other);
            return parser.fail(format!("this is a dict of names and values, as in {EXAMPLE}, and here is {found}"));
        }
    };
    parser.path.push(Step::Key(KEY));
    parser.conditions(conditions)
}

const KEY: &str = "filter_headers";
const EXAMPLE: &str = r#"{"filter_headers": {"x-type": "payment", "body.country": "DE"}}"#;

/// What a value is, with its article.
pub(super) fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "`None`",
        Value::Bool(_) => "a bool",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "a dict",
    }
}

/// Where in the filter the reading is, and how many paths of the body were met.
pub(super) struct Parser<'a> {
    path: Vec<Step<'a>>,
    paths: usize,
}

impl<'a> Parser<'a> {
    pub(super) fn fail<T>(&self, sentence: impl Into<String>) -> Parsed<T> {
        Err(problem(&self.path, sentence))
    }

    /// Reads a part below this one.
    pub(super) fn inside<T>(&mut self, step: Step<'a>, read: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        self.path.push(step);
        if self.path.len() > MAX_LEVELS {
            self.path.clear();
            return self.fail(format!("the filter is nested deeper than {MAX_LEVELS} levels"));
        }
        let value = read(self)?;
        self.path.pop();
        Ok(value)
    }

    /// A dict of conditions and groups, all of which have to hold.
    fn conditions(&mut self, conditions: &'a Map<String, Value>) -> Parsed<Node> {
        let mut nodes = Vec::with_capacity(conditions.len());
        for (key, value) in conditions {
            nodes.push(self.inside(Step::Key(key), |parser| parser.entry(key, value))?);
        }
        Ok(Node::All(bodies_last(nodes)))
    }

    fn entry(&mut self, key: &'a str, value: &'a Value) -> Parsed<Node> {
        match key {
            "$all" => self.groups(value).map(Node::All),
            "$any" => self.groups(value).map(Node::Any),
            "$not" => Ok(Node::Not(Box::new(self.group(value)?))),
            key => match (key.strip_prefix('$'), key.strip_prefix("body.")) {
                (Some(name), _) if name.starts_with('$') => self.condition(key, Subject::Header(name.into()), value),
                (Some(name), _) => {
                    let groups = "a key that begins with `$` is one of the groups `$any`, `$all` and `$not`";
                    self.fail(format!("{groups}; a header of that name is written `$${name}`"))
                }
                (None, Some(path)) => self.body_condition(key, path, value),
                (None, None) => self.condition(key, Subject::Header(key.into()), value),
            },
        }
    }

    fn body_condition(&mut self, key: &'a str, path: &str, value: &'a Value) -> Parsed<Node> {
        let path = match Path::parse(path) {
            Ok(path) if path.parts().len() <= MAX_PARTS => path,
            Ok(_) => return self.fail(format!("a path has at most {MAX_PARTS} parts")),
            Err(sentence) => return self.fail(sentence),
        };
        self.paths += 1;
        let number = self.paths - 1;
        self.condition(key, Subject::Body(path, number), value)
    }

    fn condition(&mut self, key: &str, subject: Subject, value: &'a Value) -> Parsed<Node> {
        let tests = self.tests(value)?;
        Ok(Node::Condition(Condition { subject, tests, shown: part(key).into() }))
    }

    /// A list of dicts of conditions.
    fn groups(&mut self, value: &'a Value) -> Parsed<Vec<Node>> {
        let Some(list) = value.as_array().filter(|list| !list.is_empty()) else {
            return self.fail(format!(
                "this is a list of dicts of conditions, at least one, and here is {}",
                if value.is_array() { "an empty list" } else { kind(value) }
            ));
        };
        let mut nodes = Vec::with_capacity(list.len());
        for (at, group) in list.iter().enumerate() {
            nodes.push(self.inside(Step::Place(at), |parser| parser.group(group))?);
        }
        Ok(bodies_last(nodes))
    }

    fn group(&mut self, value: &'a Value) -> Parsed<Node> {
        match value.as_object().filter(|conditions| !conditions.is_empty()) {
            Some(conditions) => self.conditions(conditions),
            None => self.fail(format!(
                "this is a dict of conditions, at least one, and here is {}",
                if value.is_object() { "an empty dict" } else { kind(value) }
            )),
        }
    }

    /// What stands as a condition's value: operators, or a value to be equal to.
    pub(super) fn tests(&mut self, value: &'a Value) -> Parsed<Vec<Test>> {
        match value.as_object().filter(|members| members.keys().any(|key| key.starts_with('$'))) {
            None => {
                let expected = self.expected(value)?;
                Ok(vec![operators::equal_to(expected)])
            }
            Some(members) => {
                let mut tests = Vec::with_capacity(members.len());
                for (name, operand) in members {
                    tests.push(self.inside(Step::Key(name), |parser| parser.operator(name, operand))?);
                }
                Ok(tests)
            }
        }
    }
}

/// Those that need no body first; else in the order written.
fn bodies_last(mut nodes: Vec<Node>) -> Vec<Node> {
    nodes.sort_by_key(Node::needs_body);
    nodes
}

impl Test {
    pub(super) fn new(kind: super::tree::TestKind) -> Self {
        let shown: Arc<str> = part(&print::test(&kind)).into();
        Self { kind, shown }
    }
}
