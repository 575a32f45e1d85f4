//! Where messages come from: exactly one of `queue`, `queues` and `exchange`.

use super::reader::{Reader, Slot};
use super::values;
use crate::domain::declaration::{Origin, RefusalReason};
use crate::domain::ids::{DagId, QueueName};
use crate::domain::options::Exchange;

/// What the name of a DAG's own queue for exchanges begins with. Source: airflow-provider-rmq 2.6.0.
const SUB_PREFIX: &str = "rmq_watcher.sub.";

/// The longest id whose queue's name AMQP 0-9-1 can carry.
const SUB_MAX_BYTES: usize = 255 - SUB_PREFIX.len();

/// What the sources say.
pub(super) struct Source {
    /// Every queue that is meant; `None` where that cannot be known.
    pub(super) queues: Option<Vec<QueueName>>,
    /// The exchange, where there is one and all of it can be taken.
    pub(super) exchange: Option<Exchange>,
}

pub(super) fn read(reader: &mut Reader<'_>, dag_id: Option<&DagId>, whole: &Origin) -> Source {
    let queue = reader.option("queue", values::queue);
    let queues = reader.option("queues", values::queues);
    let exchange = reader.option("exchange", values::exchange);
    let given = [("queue", !queue.is_absent()), ("queues", !queues.is_absent()), ("exchange", !exchange.is_absent())];
    let mut given = given.into_iter().filter(|(_, is_given)| *is_given).map(|(name, _)| name);
    let (first, second) = (given.next(), given.next());
    if let (Some(first), Some(second)) = (first, second) {
        reader.fault_of(second, whole, RefusalReason::TwoSources { first });
    }
    if first.is_none() && !reader.may_hide {
        reader.fault_of("queue", whole, RefusalReason::NoQueue);
    }
    let mut named = first.map(|_| Vec::new());
    add(&mut named, queue, |queue| Some(vec![queue]));
    add(&mut named, queues, Some);
    let has_exchange = !exchange.is_absent();
    let exchange = exchange.given();
    if has_exchange {
        let queue = dag_id.and_then(|dag_id| own_queue(reader, dag_id, whole));
        add(&mut named, Slot::Given(queue), |queue| queue.map(|queue| vec![queue]));
    }
    let routing_keys = routing(reader, has_exchange, whole);
    let exchange = exchange.zip(routing_keys).map(|(name, routing_keys)| Exchange { name, routing_keys });
    Source { queues: named, exchange }
}

/// Adds what one source names, or that it names nobody knows what.
fn add<T>(named: &mut Option<Vec<QueueName>>, slot: Slot<T>, queues: impl FnOnce(T) -> Option<Vec<QueueName>>) {
    let more = match slot {
        Slot::Absent => return,
        Slot::Faulty => None,
        Slot::Given(value) => queues(value),
    };
    match (named.as_mut(), more) {
        (Some(named), Some(more)) => named.extend(more),
        (None, _) | (_, None) => *named = None,
    }
}

fn own_queue(reader: &mut Reader<'_>, dag_id: &DagId, whole: &Origin) -> Option<QueueName> {
    let length = dag_id.as_str().len();
    if length > SUB_MAX_BYTES {
        let reason = RefusalReason::DagIdTooLong { prefix: SUB_PREFIX, length, limit: SUB_MAX_BYTES };
        reader.fault_of("exchange", whole, reason);
        return None;
    }
    Some(QueueName::new(format!("{SUB_PREFIX}{dag_id}")))
}

/// The routing keys: those written, then every id with every status, without repetition.
fn routing(reader: &mut Reader<'_>, has_exchange: bool, whole: &Origin) -> Option<Vec<String>> {
    let keys = reader.option("routing_keys", values::routing_keys);
    let ids = reader.option("routing_key_ids", values::routing_key_ids);
    let statuses = reader.value("routing_key_status", values::routing_key_status);
    if !has_exchange && reader.may_hide {
        return None;
    }
    if !has_exchange {
        let is_default = |statuses: &Slot<Vec<String>>| match statuses {
            Slot::Absent => true,
            Slot::Given(statuses) => *statuses == ["*"],
            Slot::Faulty => false,
        };
        let alone = [
            ("routing_keys", !keys.is_absent()),
            ("routing_key_ids", !ids.is_absent()),
            ("routing_key_status", !is_default(&statuses)),
        ];
        for (name, _) in alone.into_iter().filter(|(_, is_given)| *is_given) {
            reader.fault_of(name, whole, RefusalReason::WithoutExchange);
        }
        return None;
    }
    let is_faulty = matches!(keys, Slot::Faulty) || matches!(ids, Slot::Faulty) || matches!(statuses, Slot::Faulty);
    if is_faulty {
        return None;
    }
    let statuses = statuses.given().unwrap_or_else(|| vec!["*".to_owned()]);
    let mut routing_keys = keys.given().unwrap_or_default();
    for id in ids.given().unwrap_or_default() {
        for status in &statuses {
            match values::routing_key(&format!("{id}.{status}")) {
                Ok(key) if routing_keys.contains(&key) => {}
                Ok(key) => routing_keys.push(key),
                Err(reason) => {
                    reader.fault_of("routing_key_ids", whole, reason);
                    return None;
                }
            }
        }
    }
    if routing_keys.is_empty() && !reader.may_hide {
        reader.fault_of("exchange", whole, RefusalReason::NoRoutingKeys);
    }
    Some(routing_keys)
}
