//! Arguments as they are written → subscriptions or the reasons why there are none. Serves the control flow: scan.
//!
//! What reads a language hands over each argument under its name, evaluated or with the reason why it cannot be; the rules
//! are here, the same for every language. One fault refuses the whole: no argument falls back to its default because it
//! could not be read, and of several queues none runs alone.

mod literal;
mod options;
mod reader;
mod source;
mod values;

use super::declaration::{Declaration, Names, Origin, Refusal, RefusalReason};
use super::ids::{ConnId, DagId, QueueName};
use super::subscription::{DEFAULT_CONN_ID, Key};
use reader::{Reader, Slot};
use source::Source;

pub use literal::Literal;

/// Every argument there is. Those of the provider come first, in its order.
pub const ARGUMENTS: [&str; 22] = [
    "queue",
    "queues",
    "conn_id",
    "filter_data",
    "cooldown",
    "exchange",
    "routing_keys",
    "routing_key_ids",
    "routing_key_status",
    "ack_unmatched",
    "max_concurrent_runs",
    "on_paused",
    "on_missing",
    "on_unreadable",
    "on_budget",
    "on_id_collision",
    "dedup_key",
    "cooldown_edge",
    "cooldown_key",
    "ack_deadline_override",
    "inputs",
    "ack_on",
];

/// One argument.
#[derive(Clone, Debug, PartialEq)]
pub struct Argument {
    /// Its name; what hides arguments has the name under which it is written, such as `**`.
    pub name: String,
    /// What it says, or why that cannot be read. [`RefusalReason::Unpacked`] is an argument that hides others.
    pub value: Result<Literal, RefusalReason>,
    /// Where its value is written.
    pub origin: Origin,
}

/// What one decorator or entry declares: one declaration for each queue, or one refusal for each fault.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Declared {
    /// The subscriptions, none where there is a refusal.
    pub declarations: Vec<Declaration>,
    /// Why there are none, in the order of their origins.
    pub refusals: Vec<Refusal>,
}

/// Applies every rule to the arguments of one decorator or entry, which stands at `origin`. `dag` holds the DAG's id.
pub fn declare(dag: &Argument, arguments: &[Argument], origin: &Origin) -> Declared {
    let mut reader = Reader::new(arguments);
    let dag_id = reader.required(dag, values::dag_id).given();
    let conn_id = match reader.value("conn_id", values::conn_id) {
        Slot::Absent if !reader.may_hide => Some(ConnId::new(DEFAULT_CONN_ID)),
        Slot::Absent | Slot::Faulty => None,
        Slot::Given(conn_id) => Some(conn_id),
    };
    let Source { queues, exchange } = source::read(&mut reader, dag_id.as_ref(), origin);
    let mut options = options::read(&mut reader, dag_id.as_ref(), origin);
    options.exchange = exchange;
    let keys = keys(dag_id.as_ref(), queues, conn_id.as_ref());
    match keys {
        Some(keys) if reader.faults.is_empty() => {
            let declaration = |key: Key| Declaration {
                dag_id: key.dag_id,
                queue: key.queue,
                conn_id: key.conn_id,
                options: options.clone(),
                origin: origin.clone(),
            };
            Declared { declarations: keys.into_iter().map(declaration).collect(), refusals: Vec::new() }
        }
        keys => refused(reader, dag_id.as_ref(), keys),
    }
}

/// Every subscription that is meant, where all three of its names are known.
fn keys(dag_id: Option<&DagId>, queues: Option<Vec<QueueName>>, conn_id: Option<&ConnId>) -> Option<Vec<Key>> {
    let (dag_id, queues, conn_id) = (dag_id?, queues?, conn_id?);
    let key = |queue| Key { dag_id: dag_id.clone(), queue, conn_id: conn_id.clone() };
    Some(queues.into_iter().map(key).collect())
}

fn refused(reader: Reader<'_>, dag_id: Option<&DagId>, keys: Option<Vec<Key>>) -> Declared {
    let names = keys.map_or(Names::Unknown, Names::Keys);
    let refusal = |fault: reader::Fault| Refusal {
        origin: fault.origin,
        dag_id: dag_id.cloned(),
        parameter: Some(fault.parameter),
        reason: fault.reason,
        names: names.clone(),
    };
    let mut refusals: Vec<Refusal> = reader.faults.into_iter().map(refusal).collect();
    refusals.sort_by(|a, b| a.origin.cmp(&b.origin));
    Declared { declarations: Vec::new(), refusals }
}

#[cfg(test)]
mod tests;
