//! A value as it is written in a file, whatever the language of the file.

use serde_json::{Map, Number, Value};

use crate::domain::declaration::RefusalReason;

/// The deepest value that is kept. What reads the state file back takes 128 levels.
const MAX_DEPTH: usize = 100;

/// The longest value that a sentence repeats, in characters.
const MAX_SHOWN: usize = 60;

/// A value as it is written.
#[derive(Clone, Debug, PartialEq)]
pub enum Literal {
    /// Nothing.
    None,
    /// True or false.
    Bool(bool),
    /// A whole number.
    Int(i128),
    /// A number with a decimal point.
    Float(f64),
    /// A text.
    Str(String),
    /// Bytes, which no argument takes.
    Bytes,
    /// Values in square brackets.
    List(Vec<Literal>),
    /// Values in round brackets.
    Tuple(Vec<Literal>),
    /// Values without an order, which no argument takes.
    Set,
    /// Pairs of a key and a value, in the order written.
    Dict(Vec<(Literal, Literal)>),
}

impl Literal {
    /// What it is, with its article.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::None => "`None`",
            Self::Bool(_) => "a bool",
            Self::Int(_) => "a number",
            Self::Float(_) => "a number with a decimal point",
            Self::Str(_) => "a string",
            Self::Bytes => "bytes",
            Self::List(_) => "a list",
            Self::Tuple(_) => "a tuple",
            Self::Set => "a set",
            Self::Dict(_) => "a dict",
        }
    }

    /// How a sentence repeats it: numbers and texts themselves, shortened, and of all else what it is.
    pub fn shown(&self) -> String {
        match self {
            Self::Int(number) => number.to_string(),
            Self::Float(number) => number.to_string(),
            Self::Str(text) => match text.char_indices().nth(MAX_SHOWN) {
                Some((end, _)) => format!("{:?}", format!("{}…", &text[..end])),
                None => format!("{text:?}"),
            },
            Self::None | Self::Bool(_) | Self::Bytes | Self::List(_) | Self::Tuple(_) | Self::Set | Self::Dict(_) => {
                self.kind().to_owned()
            }
        }
    }

    /// Its form in JSON. A tuple is a list there; of equal keys the last counts.
    ///
    /// # Errors
    /// [`RefusalReason::NotJson`] with the way to the part that has no form there.
    pub fn to_json(&self) -> Result<Value, RefusalReason> {
        self.json_at(&mut Vec::new())
    }

    fn json_at<'a>(&'a self, path: &mut Vec<Step<'a>>) -> Result<Value, RefusalReason> {
        let not_json = |path: &[Step<'_>], found| RefusalReason::NotJson { path: written(path), found };
        if path.len() > MAX_DEPTH {
            return Err(not_json(&[], "nested deeper than 100 levels"));
        }
        match self {
            Self::None => Ok(Value::Null),
            Self::Bool(value) => Ok(Value::Bool(*value)),
            Self::Int(number) => Number::from_i128(*number)
                .map(Value::Number)
                .ok_or_else(|| not_json(path, "a whole number of more than 64 bits")),
            Self::Float(number) => {
                Number::from_f64(*number).map(Value::Number).ok_or_else(|| not_json(path, "no finite number"))
            }
            Self::Str(text) => Ok(Value::String(text.clone())),
            Self::Bytes | Self::Set => Err(not_json(path, self.kind())),
            Self::List(entries) | Self::Tuple(entries) => {
                let mut values = Vec::with_capacity(entries.len());
                for (at, entry) in entries.iter().enumerate() {
                    path.push(Step::Place(at));
                    values.push(entry.json_at(path)?);
                    path.pop();
                }
                Ok(Value::Array(values))
            }
            Self::Dict(pairs) => {
                let mut map = Map::new();
                for (key, value) in pairs {
                    let Self::Str(key) = key else {
                        return Err(not_json(path, "a dict with a key that is no string"));
                    };
                    path.push(Step::Key(key));
                    map.insert(key.clone(), value.json_at(path)?);
                    path.pop();
                }
                Ok(Value::Object(map))
            }
        }
    }
}

/// One step into a value.
#[derive(Clone, Copy)]
enum Step<'a> {
    Key(&'a str),
    Place(usize),
}

fn written(path: &[Step<'_>]) -> String {
    let step = |step: &Step<'_>| match step {
        Step::Key(key) => format!("[{key:?}]"),
        Step::Place(at) => format!("[{at}]"),
    };
    path.iter().map(step).collect()
}
