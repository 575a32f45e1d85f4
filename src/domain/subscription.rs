//! What a subscription is: one queue of one connection that starts one DAG, and what may stand in each of its names.
//!
//! Used wherever a subscription enters the program: from DAG files, from the state file, later from the API. The limits
//! are those of the systems that hold the names; a name beyond them is refused here, never cut.

use std::fmt;

use super::ids::{ConnId, DagId, QueueName, SubscriptionId};
use super::options::Options;

/// The longest queue name that AMQP 0-9-1 can carry, in bytes (a short string).
pub const QUEUE_NAME_MAX_BYTES: usize = 255;

/// The longest DAG id that Airflow stores, in characters.
pub const DAG_ID_MAX_CHARS: usize = 250;

/// The longest connection id that Airflow stores, in characters.
pub const CONN_ID_MAX_CHARS: usize = 250;

/// The connection that a declaration without `conn_id` means. Source: airflow-provider-rmq 2.6.0.
pub const DEFAULT_CONN_ID: &str = "rmq_default";

/// What makes a subscription the same.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// The DAG that a message starts.
    pub dag_id: DagId,
    /// The queue that is consumed.
    pub queue: QueueName,
    /// The Airflow connection through which it is consumed.
    pub conn_id: ConnId,
}

/// One queue → one DAG, with its row.
#[derive(Clone, Debug, PartialEq)]
pub struct Subscription {
    /// Its row in the state file.
    pub id: SubscriptionId,
    /// The DAG that a message starts.
    pub dag_id: DagId,
    /// The queue that is consumed.
    pub queue: QueueName,
    /// The Airflow connection through which it is consumed.
    pub conn_id: ConnId,
    /// Everything else it says.
    pub options: Options,
}

/// A name that cannot be one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invalid {
    /// Which of a subscription's names: `dag_id`, `queue` or `conn_id`.
    pub parameter: &'static str,
    /// What is wrong with it.
    pub problem: Problem,
}

/// What is wrong with a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// It has no characters.
    Empty,
    /// It is longer than its system stores.
    TooLong {
        /// How long it is, in `unit`.
        length: usize,
        /// How long it may be, in `unit`.
        limit: usize,
        /// `bytes` or `characters`.
        unit: &'static str,
    },
    /// It holds a character that its system does not take.
    Character(char),
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.problem {
            Problem::Empty => write!(f, "`{}` is empty", self.parameter),
            Problem::TooLong { length, limit, unit } => {
                write!(f, "`{}` is {length} {unit} long, and at most {limit} are possible", self.parameter)
            }
            Problem::Character(character) => {
                write!(f, "`{}` must not hold {character:?}", self.parameter)
            }
        }
    }
}

impl std::error::Error for Invalid {}

/// A queue name: 1–255 bytes, without NUL.
///
/// # Errors
/// What is wrong with it.
///
/// Source: AMQP 0-9-1, short string.
pub fn parse_queue(text: &str) -> Result<QueueName, Invalid> {
    let invalid = |problem| Invalid { parameter: "queue", problem };
    check_length(text.len(), QUEUE_NAME_MAX_BYTES, "bytes").map_err(invalid)?;
    if text.contains('\0') {
        return Err(invalid(Problem::Character('\0')));
    }
    Ok(QueueName::new(text))
}

/// A DAG id: 1–250 characters; letters and digits of any script, `_`, `-` and `.`.
///
/// Rust counts combining vowel signs among the letters and Airflow does not. Such an id passes here and no DAG has it.
///
/// # Errors
/// What is wrong with it.
///
/// Source: `validate_key` of Airflow 2.11.2 and 3.3.2.
pub fn parse_dag_id(text: &str) -> Result<DagId, Invalid> {
    let allowed = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
    check_characters("dag_id", text, DAG_ID_MAX_CHARS, allowed)?;
    if matches!(text, "." | "..") {
        // Either means a directory in a URL's path, so that no request could name the DAG.
        return Err(Invalid { parameter: "dag_id", problem: Problem::Character('.') });
    }
    Ok(DagId::new(text))
}

/// A connection id: 1–250 characters; letters and digits of any script and `_ # ! ( ) - . : / \`.
///
/// # Errors
/// What is wrong with it.
///
/// Source: `sanitize_conn_id` of Airflow 2.11.2 and 3.3.2.
pub fn parse_conn_id(text: &str) -> Result<ConnId, Invalid> {
    let allowed =
        |c: char| c.is_alphanumeric() || matches!(c, '_' | '#' | '!' | '(' | ')' | '-' | '.' | ':' | '/' | '\\');
    check_characters("conn_id", text, CONN_ID_MAX_CHARS, allowed)?;
    Ok(ConnId::new(text))
}

fn check_characters(
    parameter: &'static str,
    text: &str,
    limit: usize,
    allowed: impl Fn(char) -> bool,
) -> Result<(), Invalid> {
    let invalid = |problem| Invalid { parameter, problem };
    check_length(text.chars().count(), limit, "characters").map_err(invalid)?;
    match text.chars().find(|c| !allowed(*c)) {
        Some(character) => Err(invalid(Problem::Character(character))),
        None => Ok(()),
    }
}

fn check_length(length: usize, limit: usize, unit: &'static str) -> Result<(), Problem> {
    if length == 0 {
        Err(Problem::Empty)
    } else if length > limit {
        Err(Problem::TooLong { length, limit, unit })
    } else {
        Ok(())
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]
mod tests {
    use super::*;

    #[test]
    fn ordinary_names_are_kept() {
        assert_eq!(parse_dag_id("orders.v2-eu").unwrap().as_str(), "orders.v2-eu");
        assert_eq!(parse_queue("orders").unwrap().as_str(), "orders");
        assert!(parse_dag_id("..").is_err() && parse_dag_id(".").is_err() && parse_dag_id("...").is_ok());
        assert_eq!(parse_conn_id("rmq_default").unwrap().as_str(), "rmq_default");
    }

    #[test]
    fn queue_length_is_counted_in_bytes() {
        assert!(parse_queue(&"q".repeat(255)).is_ok());
        assert!(parse_queue(&"ä".repeat(127)).is_ok());
        let refused = parse_queue(&"ä".repeat(128)).unwrap_err();
        assert_eq!(refused.to_string(), "`queue` is 256 bytes long, and at most 255 are possible");
    }

    #[test]
    fn queue_with_odd_but_possible_characters_is_taken() {
        for name in [" ", "a b/c#*.ä", "amq.gen-x", "line\nbreak"] {
            assert_eq!(parse_queue(name).unwrap().as_str(), name);
        }
    }

    #[test]
    fn queue_empty_or_with_nul_is_refused() {
        assert_eq!(parse_queue("").unwrap_err().problem, Problem::Empty);
        let nul = parse_queue("a\0b").unwrap_err();
        assert_eq!(nul.problem, Problem::Character('\0'));
    }

    #[test]
    fn dag_id_takes_what_airflow_takes() {
        for id in ["a", "日本", "été_1", "a.b-c", &"ж".repeat(250)] {
            assert_eq!(parse_dag_id(id).unwrap().as_str(), id);
        }
        for (id, bad) in [("a b", ' '), ("a/b", '/'), ("a\n", '\n'), ("a:b", ':')] {
            assert_eq!(parse_dag_id(id).unwrap_err().problem, Problem::Character(bad));
        }
        assert!(parse_dag_id(&"ж".repeat(251)).is_err());
        assert!(parse_dag_id("").is_err());
    }

    #[test]
    fn conn_id_takes_what_airflow_takes() {
        for id in ["rmq_default", "a#!()-.:/\\b"] {
            assert_eq!(parse_conn_id(id).unwrap().as_str(), id);
        }
        for id in ["", "a b", "a@b", &"c".repeat(251)] {
            assert_eq!(parse_conn_id(id).unwrap_err().parameter, "conn_id");
        }
    }
}
