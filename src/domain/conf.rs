//! Whether a conf may be sent to Airflow at all.
//!
//! Serves the data flow: called before a run is asked for, so that a message which no Airflow could take never
//! leaves us. It must not change the conf. Some of what it refuses would be taken by one version with one database and
//! break the task, or the API server, on another: the same message has to mean the same everywhere.
//!
//! What cannot stand in a [`serde_json::Map`] needs no look here, and the tests hold it: lone surrogates (strings are
//! UTF-8; the parser refuses `\ud800`), `NaN` and infinities (no JSON text for them), integers outside [-2^63, 2^64-1]
//! (the parser turns them into floats unless the crate feature `arbitrary_precision` is on), keys that are not strings.

use std::fmt;

use serde_json::{Map, Value};

/// Levels of objects and arrays, the conf itself being the first. Airflow 2 answers 500 and Airflow 3 400 to thousands of
/// levels, msgpack in an Airflow 3 task takes 511, and our own JSON reader takes 128, less the answer around the conf,
/// which is what a look-up has to read back.
pub const MAX_DEPTH: usize = 100;

/// Bytes of the conf as JSON. RabbitMQ 4 hands out no message above 16 MiB unless told to, and Airflow 3 was seen to take
/// 20 MB. Airflow 2 has a lower limit of its own (1 MB by default) and answers 413 above it.
pub const MAX_BYTES: usize = 16 * 1024 * 1024;

/// How many characters of a path are shown.
const PATH_LIMIT: usize = 200;

/// Why a conf cannot be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfProblem {
    /// Where: a JSON path such as `$.headers.parts[3]`, cut to 200 characters.
    pub path: String,
    /// What.
    pub kind: ConfProblemKind,
}

/// The kinds of [`ConfProblem`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfProblemKind {
    /// A string or key with a NUL character, which PostgreSQL cannot store.
    Nul,
    /// A number that is neither a 64-bit integer nor a finite float.
    Number,
    /// More than [`MAX_DEPTH`] levels.
    TooDeep,
    /// More than [`MAX_BYTES`] bytes as JSON.
    TooLarge,
}

impl ConfProblemKind {
    /// The stable name in rows and log fields.
    pub fn code(self) -> &'static str {
        match self {
            Self::Nul => "conf_nul",
            Self::Number => "conf_number",
            Self::TooDeep => "conf_too_deep",
            Self::TooLarge => "conf_too_large",
        }
    }
}

impl fmt::Display for ConfProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = &self.path;
        match self.kind {
            ConfProblemKind::Nul => {
                write!(f, "the conf holds a NUL character at {path}, which Airflow's database may refuse")
            }
            ConfProblemKind::Number => write!(f, "the conf holds a number at {path} that an Airflow task cannot read"),
            ConfProblemKind::TooDeep => write!(f, "the conf is nested deeper than {MAX_DEPTH} levels at {path}"),
            ConfProblemKind::TooLarge => {
                write!(f, "the conf is larger than {MAX_BYTES} bytes as JSON")
            }
        }
    }
}

impl std::error::Error for ConfProblem {}

/// Checks a conf before it is sent.
///
/// # Errors
/// The first problem found, in document order; size last.
pub fn validate(conf: &Map<String, Value>) -> Result<(), ConfProblem> {
    let size = walk_object(conf, &mut Vec::new())?;
    if size > MAX_BYTES {
        return Err(problem(&[], ConfProblemKind::TooLarge));
    }
    Ok(())
}

/// One step down from the root.
enum Step<'a> {
    Key(&'a str),
    Index(usize),
}

/// Checks a value and gives its size as JSON, in bytes. Recursion is bounded by [`MAX_DEPTH`]: the check of the depth comes
/// before the descent.
fn walk<'a>(value: &'a Value, path: &mut Vec<Step<'a>>) -> Result<usize, ConfProblem> {
    match value {
        Value::Null | Value::Bool(true) => Ok(4),
        Value::Bool(false) => Ok(5),
        Value::Number(number) => {
            let fits = number.is_i64() || number.is_u64() || number.as_f64().is_some_and(f64::is_finite);
            if fits { Ok(number.to_string().len()) } else { Err(problem(path, ConfProblemKind::Number)) }
        }
        Value::String(text) => text_size(text, path),
        Value::Array(items) => {
            bound_depth(path)?;
            let mut size = around(items.len());
            for (index, item) in items.iter().enumerate() {
                path.push(Step::Index(index));
                size += walk(item, path)?;
                path.pop();
            }
            Ok(size)
        }
        Value::Object(members) => walk_object(members, path),
    }
}

fn walk_object<'a>(members: &'a Map<String, Value>, path: &mut Vec<Step<'a>>) -> Result<usize, ConfProblem> {
    bound_depth(path)?;
    let mut size = around(members.len());
    for (key, member) in members {
        path.push(Step::Key(key));
        size += text_size(key, path)? + 1 + walk(member, path)?;
        path.pop();
    }
    Ok(size)
}

fn bound_depth(path: &[Step<'_>]) -> Result<(), ConfProblem> {
    if path.len() < MAX_DEPTH { Ok(()) } else { Err(problem(path, ConfProblemKind::TooDeep)) }
}

/// Both brackets and the commas between so many members.
fn around(members: usize) -> usize {
    2 + members.saturating_sub(1)
}

/// The size of a string with its quotes and escapes. Nothing but the quote, the backslash and control characters is escaped.
fn text_size(text: &str, path: &[Step<'_>]) -> Result<usize, ConfProblem> {
    let mut size = 2;
    for byte in text.bytes() {
        size += match byte {
            0 => return Err(problem(path, ConfProblemKind::Nul)),
            b'"' | b'\\' | b'\n' | b'\r' | b'\t' | 0x08 | 0x0c => 2,
            0x01..=0x1f => 6,
            _ => 1,
        };
    }
    Ok(size)
}

fn problem(path: &[Step<'_>], kind: ConfProblemKind) -> ConfProblem {
    let mut text = String::from("$");
    for step in path {
        match step {
            Step::Key(key) if is_plain(key) => text.extend([".", key]),
            Step::Key(key) => text.push_str(&format!("[{}]", key.escape_debug())),
            Step::Index(index) => text.push_str(&format!("[{index}]")),
        }
        if text.chars().count() > PATH_LIMIT {
            text = text.chars().take(PATH_LIMIT - 1).chain(['…']).collect();
            break;
        }
    }
    ConfProblem { path: text, kind }
}

fn is_plain(key: &str) -> bool {
    !key.is_empty() && key.chars().all(|c| c.is_alphanumeric() || c == '_' || c == '-')
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(value: Value) -> Result<(), ConfProblem> {
        let Value::Object(conf) = value else { panic!("an object") };
        validate(&conf)
    }

    fn found(value: Value) -> (String, ConfProblemKind) {
        let problem = check(value).expect_err("a problem");
        (problem.path, problem.kind)
    }

    /// An object with `levels` levels in all.
    fn nested(levels: usize) -> Value {
        let mut value = json!({"end": 1});
        for level in 1..levels {
            value = if level % 2 == 0 && level + 1 < levels { json!([value]) } else { json!({"a": value}) };
        }
        value
    }

    #[test]
    fn ordinary_confs_pass() {
        assert_eq!(check(json!({})), Ok(()));
        let numbers = json!({"a": i64::MIN, "b": u64::MAX, "c": 1e308, "d": -0.0, "é": ["\u{1}", "😀", null, true]});
        assert_eq!(check(numbers), Ok(()));
    }

    #[test]
    fn nul_is_found_in_values_and_keys() {
        let value = json!({"ok": 1, "headers": {"parts": ["a", {"x y": "b\0"}]}});
        assert_eq!(found(value), ("$.headers.parts[1][x y]".to_owned(), ConfProblemKind::Nul));
        assert_eq!(found(json!({"k\0": 1})), ("$[k\\0]".to_owned(), ConfProblemKind::Nul));
    }

    #[test]
    fn depth_is_bounded_exactly() {
        assert_eq!(check(nested(MAX_DEPTH)), Ok(()));
        let problem = check(nested(MAX_DEPTH + 1)).expect_err("too deep");
        assert_eq!(problem.kind, ConfProblemKind::TooDeep);
        assert!(problem.path.chars().count() <= PATH_LIMIT);
    }

    #[test]
    fn what_passes_can_be_read_back_inside_an_answer() {
        let answer = json!({"dag_run_id": "r", "conf": nested(MAX_DEPTH)}).to_string();
        assert!(serde_json::from_str::<Value>(&answer).is_ok());
    }

    #[test]
    fn size_is_bounded_exactly_and_as_json() {
        let around = json!({"b": ""}).to_string().len();
        assert_eq!(check(json!({"b": "x".repeat(MAX_BYTES - around)})), Ok(()));
        assert_eq!(
            found(json!({"b": "x".repeat(MAX_BYTES - around + 1)})),
            ("$".to_owned(), ConfProblemKind::TooLarge)
        );
        // A control character is six bytes as JSON.
        assert_eq!(found(json!({"b": "\u{1}".repeat(MAX_BYTES / 6)})).1, ConfProblemKind::TooLarge);
    }

    #[test]
    fn the_counted_size_is_the_written_one() {
        let every: String = (1..0x300).filter_map(char::from_u32).collect();
        for value in [
            json!({}),
            json!({"a": []}),
            json!({"a": [{}, [], [1], null, true, false], "": "", "\"\\\n\u{7f}": every}),
            json!({"n": [0, -1, u64::MAX, i64::MIN, 0.1, 1e300, -0.0, 5e-324, 1.0]}),
            json!({"é": "😀\u{2028}/"}),
        ] {
            let Value::Object(conf) = &value else { panic!("an object") };
            assert_eq!(walk_object(conf, &mut Vec::new()), Ok(value.to_string().len()), "{value}");
        }
    }

    #[test]
    fn what_json_values_cannot_hold_stays_out() {
        assert!(serde_json::from_str::<Value>(r#""\ud800""#).is_err());
        assert!(serde_json::from_str::<Value>("NaN").is_err());
        assert!(serde_json::from_str::<Value>("1e999").is_err());
        assert!(serde_json::Number::from_f64(f64::INFINITY).is_none());
        for outside in ["18446744073709551616", "-9223372036854775809"] {
            let value: Value = serde_json::from_str(outside).expect("a float");
            assert!(value.is_f64(), "{outside}");
        }
    }

    #[test]
    fn a_long_path_is_cut() {
        let (path, _) = found(json!({"k".repeat(1000): "\0"}));
        assert_eq!(path.chars().count(), PATH_LIMIT);
    }

    #[test]
    fn the_sentence_names_the_place() {
        let problem = check(json!({"a": "\0"})).expect_err("a problem");
        assert!(problem.to_string().contains("$.a"), "{problem}");
        assert_eq!(problem.kind.code(), "conf_nul");
    }
}
