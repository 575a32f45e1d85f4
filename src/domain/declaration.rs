//! Declarations: subscriptions as they are written in a DAG folder, and what became of those that cannot be taken.
//!
//! Values only. `discovery` fills them; the control flow compares them with what runs. Nothing that was written down is
//! ever silent: it is a [`Declaration`], a [`Refusal`] or part of a [`FileProblem`].

mod reason;

use std::collections::HashMap;
use std::fmt;

use super::ids::{ConnId, DagId, QueueName};
use super::options::Options;
use super::subscription::{Invalid, Key, parse_conn_id, parse_dag_id, parse_queue};

pub use reason::RefusalReason;

/// Where something is written.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Origin {
    /// The file, relative to the scanned folder, with `/` between its parts.
    pub file: String,
    /// Counted from 1.
    pub line: u32,
    /// Counted from 1, in characters.
    pub column: u32,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)
    }
}

/// A subscription as it is written in a file. Made by [`Declaration::new`], which checks the names.
#[derive(Clone, Debug, PartialEq)]
pub struct Declaration {
    /// The DAG that a message starts.
    pub dag_id: DagId,
    /// The queue that is consumed.
    pub queue: QueueName,
    /// The Airflow connection through which it is consumed.
    pub conn_id: ConnId,
    /// Everything else it says.
    pub options: Options,
    /// The decorator or entry it was read from.
    pub origin: Origin,
}

impl Declaration {
    /// Checks the names and puts them together, all options at their defaults.
    ///
    /// # Errors
    /// The first name that RabbitMQ or Airflow could not hold.
    pub fn new(dag_id: &str, queue: &str, conn_id: &str, origin: Origin) -> Result<Self, Invalid> {
        let (dag_id, queue, conn_id) = (parse_dag_id(dag_id)?, parse_queue(queue)?, parse_conn_id(conn_id)?);
        Ok(Self { dag_id, queue, conn_id, options: Options::default(), origin })
    }

    /// What makes two declarations the same subscription.
    pub fn key(&self) -> Key {
        Key { dag_id: self.dag_id.clone(), queue: self.queue.clone(), conn_id: self.conn_id.clone() }
    }
}

/// A subscription that is written down and does not run, because the text cannot be taken at its word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The argument at fault, or the decorator where no single argument is.
    pub origin: Origin,
    /// The DAG, where it could be read.
    pub dag_id: Option<DagId>,
    /// The argument at fault, as it is called in Python.
    pub parameter: Option<String>,
    /// Why.
    pub reason: RefusalReason,
    /// Which subscriptions it names.
    pub names: Names,
}

/// Which subscriptions a refusal is about. Decides what becomes of rows that exist already.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Names {
    /// These and no others; none where it takes nothing away from what runs, as a second declaration of the same.
    Keys(Vec<Key>),
    /// DAG, queue or connection could not be read: any subscription of the file (and of the DAG, where that is known) may be meant.
    Unknown,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: subscription", self.origin)?;
        if let Some(dag_id) = &self.dag_id {
            write!(f, " of DAG {dag_id:?}")?;
        }
        f.write_str(" refused")?;
        if let Some(parameter) = &self.parameter {
            write!(f, ", `{parameter}`")?;
        }
        write!(f, ": {}", self.reason)
    }
}

/// A file or directory that could not be read, so that nothing is known of the subscriptions in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileProblem {
    /// The file or directory, relative to the scanned folder, with `/` between its parts.
    pub file: String,
    /// Where in the file, counted from 1, if it is one place.
    pub line: Option<u32>,
    /// What kind of trouble.
    pub kind: FileProblemKind,
    /// What happened, as a clause: for a person.
    pub text: String,
}

/// The kinds of [`FileProblem`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FileProblemKind {
    /// A directory below the folder cannot be listed.
    DirectoryUnreadable,
    /// The file cannot be opened or read, or changed while it was read.
    Unreadable,
    /// The file is larger than a DAG file can sensibly be.
    TooLarge,
    /// The text is not UTF-8.
    Encoding,
    /// The text is not Python.
    Syntax,
    /// Expressions or blocks nest deeper than Python itself takes.
    TooDeep,
    /// The parser failed on the file: a bug, kept to this file.
    ParserFailed,
}

impl FileProblemKind {
    /// The stable name in rows and log fields.
    pub fn code(self) -> &'static str {
        match self {
            Self::DirectoryUnreadable => "directory_unreadable",
            Self::Unreadable => "unreadable",
            Self::TooLarge => "too_large",
            Self::Encoding => "encoding",
            Self::Syntax => "syntax",
            Self::TooDeep => "too_deep",
            Self::ParserFailed => "parser_failed",
        }
    }
}

impl fmt::Display for FileProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        write!(f, ": {}", self.text)
    }
}

/// Keeps the first of equal declarations and the first `exchange` of each DAG, in the order of their origins, and refuses
/// the others by naming it.
pub fn keep_first(mut declarations: Vec<Declaration>) -> (Vec<Declaration>, Vec<Refusal>) {
    declarations.sort_by(|a, b| a.origin.cmp(&b.origin));
    let mut firsts: HashMap<Key, Origin> = HashMap::new();
    let mut exchanges: HashMap<DagId, Origin> = HashMap::new();
    let mut refusals = Vec::new();
    declarations.retain(|declaration| {
        let key = declaration.key();
        let has_exchange = declaration.options.exchange.is_some();
        let exchange = exchanges.get(&declaration.dag_id).filter(|_| has_exchange);
        let (reason, names) = match (exchange, firsts.get(&key)) {
            // A key that runs is never named by what would have been the same.
            (Some(first), running) => {
                let names = if running.is_some() { Vec::new() } else { vec![key] };
                (RefusalReason::SecondExchange { first: first.clone() }, names)
            }
            (None, Some(first)) => (RefusalReason::Duplicate { first: first.clone() }, Vec::new()),
            (None, None) => {
                if has_exchange {
                    exchanges.insert(declaration.dag_id.clone(), declaration.origin.clone());
                }
                firsts.insert(key, declaration.origin.clone());
                return true;
            }
        };
        refusals.push(Refusal {
            origin: declaration.origin.clone(),
            dag_id: Some(declaration.dag_id.clone()),
            parameter: None,
            reason,
            names: Names::Keys(names),
        });
        false
    });
    (declarations, refusals)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]
mod tests {
    use super::*;
    use crate::domain::options::Exchange;

    fn declared(dag: &str, queue: &str, conn: &str, file: &str, line: u32) -> Declaration {
        let origin = Origin { file: file.to_owned(), line, column: 1 };
        Declaration::new(dag, queue, conn, origin).unwrap()
    }

    #[test]
    fn keep_first_of_equal_declarations_refuses_the_later_by_name() {
        let (kept, refused) = keep_first(vec![
            declared("d", "q", "c", "b.py", 1),
            declared("d", "q", "c", "a.py", 9),
            declared("d", "q", "other", "b.py", 3),
            declared("d", "other", "c", "b.py", 4),
            declared("other", "q", "c", "b.py", 5),
        ]);
        let kept: Vec<String> = kept.iter().map(|d| d.origin.to_string()).collect();
        assert_eq!(kept, ["a.py:9:1", "b.py:3:1", "b.py:4:1", "b.py:5:1"]);
        assert_eq!(refused.len(), 1);
        assert_eq!(
            refused[0].to_string(),
            "b.py:1:1: subscription of DAG \"d\" refused: the same subscription is declared at a.py:9:1 already"
        );
    }

    #[test]
    fn keep_first_takes_one_exchange_for_each_dag() {
        let exchange = |conn: &str, file: &str, line: u32| {
            let mut declared = declared("d", "rmq_watcher.sub.d", conn, file, line);
            declared.options.exchange = Some(Exchange { name: "e".to_owned(), routing_keys: vec!["k".to_owned()] });
            declared
        };
        let (kept, refused) = keep_first(vec![
            exchange("other", "a.py", 7),
            exchange("c", "a.py", 3),
            exchange("c", "b.py", 1),
            declared("d", "q", "c", "a.py", 5),
        ]);
        let kept: Vec<String> = kept.iter().map(|d| d.origin.to_string()).collect();
        assert_eq!(kept, ["a.py:3:1", "a.py:5:1"]);
        let reasons: Vec<_> = refused.iter().map(|refusal| refusal.reason.code()).collect();
        assert_eq!(reasons, ["second_exchange", "second_exchange"]);
        assert_eq!(refused[0].names, Names::Keys(vec![exchange("other", "a.py", 7).key()]));
        assert_eq!(refused[1].names, Names::Keys(Vec::new()), "what runs is not named");
    }

    #[test]
    fn refusal_reads_as_one_sentence() {
        let refusal = Refusal {
            origin: Origin { file: "team/a.py".to_owned(), line: 4, column: 20 },
            dag_id: Some(DagId::new("d")),
            parameter: Some("queue".to_owned()),
            reason: RefusalReason::NotLiteral { found: "a name" },
            names: Names::Unknown,
        };
        assert_eq!(
            refusal.to_string(),
            "team/a.py:4:20: subscription of DAG \"d\" refused, `queue`: the file is read and never executed, so the \
             value has to be written out here, and this is a name"
        );
    }
}
