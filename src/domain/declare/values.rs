//! One value of one argument: its type, its range, and the sentence when it is neither.

use serde_json::Value;

use super::Literal;
use crate::domain::declaration::RefusalReason;
use crate::domain::dedup::ValuePlace;
use crate::domain::filter::Filter;
use crate::domain::ids::{ConnId, DagId, QueueName};
use crate::domain::subscription::{Invalid, Problem, parse_conn_id, parse_dag_id, parse_queue};

/// The longest routing key that AMQP 0-9-1 can carry, in bytes (a short string).
const ROUTING_KEY_MAX_BYTES: usize = 255;

/// The longest exchange name that leaves room for what is made beside it: `.unrouted` is added.
const EXCHANGE_MAX_BYTES: usize = 255 - ".unrouted".len();

/// Exchanges of this name are the watcher's own.
const RESERVED_PREFIX: &str = "rmq_watcher.";

/// The longest timer that RabbitMQ takes, in whole seconds (2^32 − 1 milliseconds).
const MAX_COOLDOWN_SECS: u32 = 4_294_967;

/// As `consume.ack_deadline_secs`.
const MAX_ACK_DEADLINE_SECS: u32 = 86_400;

const A_KEY: &str = "`message_id`, `header:NAME` or `body:PATH`";

pub(super) type Read<T> = Result<T, RefusalReason>;

fn wrong_type<T>(value: &Literal, expected: &'static str) -> Read<T> {
    Err(RefusalReason::WrongType { expected, found: value.kind() })
}

fn out_of_range<T>(value: &Literal, expected: &'static str) -> Read<T> {
    Err(RefusalReason::OutOfRange { expected, found: value.shown() })
}

pub(super) fn text(value: &Literal) -> Read<&str> {
    if let Literal::Str(text) = value { Ok(text) } else { wrong_type(value, "a string") }
}

pub(super) fn dag_id(value: &Literal) -> Read<DagId> {
    parse_dag_id(text(value)?).map_err(RefusalReason::Invalid)
}

pub(super) fn conn_id(value: &Literal) -> Read<ConnId> {
    parse_conn_id(text(value)?).map_err(RefusalReason::Invalid)
}

pub(super) fn queue(value: &Literal) -> Read<QueueName> {
    parse_queue(text(value)?).map_err(RefusalReason::Invalid)
}

/// A list in square brackets with at least one entry.
pub(super) fn filled_list<T: PartialEq>(value: &Literal, entry: impl Fn(&Literal) -> Read<T>) -> Read<Vec<T>> {
    let entries = list(value, entry)?;
    if entries.is_empty() { Err(RefusalReason::Empty) } else { Ok(entries) }
}

/// A list in square brackets; of equal entries the first counts.
fn list<T: PartialEq>(value: &Literal, entry: impl Fn(&Literal) -> Read<T>) -> Read<Vec<T>> {
    let Literal::List(entries) = value else {
        let is_tuple = matches!(value, Literal::Tuple(_));
        let found = if is_tuple { "a tuple; write it in square brackets" } else { value.kind() };
        return Err(RefusalReason::WrongType { expected: "a list", found });
    };
    let mut read = Vec::with_capacity(entries.len());
    for (at, value) in entries.iter().enumerate() {
        let value = entry(value).map_err(|reason| RefusalReason::Entry { number: at + 1, reason: Box::new(reason) })?;
        if !read.contains(&value) {
            read.push(value);
        }
    }
    Ok(read)
}

pub(super) fn queues(value: &Literal) -> Read<Vec<QueueName>> {
    filled_list(value, queue)
}

pub(super) fn exchange(value: &Literal) -> Read<String> {
    let name = short_string("exchange", text(value)?, EXCHANGE_MAX_BYTES)?;
    if name.starts_with(RESERVED_PREFIX) { Err(RefusalReason::ReservedExchange) } else { Ok(name) }
}

pub(super) fn routing_keys(value: &Literal) -> Read<Vec<String>> {
    filled_list(value, |key| routing_key(text(key)?))
}

pub(super) fn routing_key(key: &str) -> Read<String> {
    short_string("routing_key", key, ROUTING_KEY_MAX_BYTES)
}

/// One of the two parts that make a routing key.
fn part(value: &Literal) -> Read<String> {
    let part = routing_key(text(value)?)?;
    if part.contains('.') { Err(RefusalReason::Dotted { found: part }) } else { Ok(part) }
}

pub(super) fn routing_key_ids(value: &Literal) -> Read<Vec<String>> {
    filled_list(value, part)
}

/// A status or a list of them, which may be empty.
pub(super) fn routing_key_status(value: &Literal) -> Read<Vec<String>> {
    if matches!(value, Literal::List(_) | Literal::Tuple(_)) {
        list(value, part)
    } else if matches!(value, Literal::Str(_)) {
        part(value).map(|status| vec![status])
    } else {
        wrong_type(value, "a string or a list")
    }
}

fn short_string(parameter: &'static str, text: &str, limit: usize) -> Read<String> {
    let invalid = |problem| Err(RefusalReason::Invalid(Invalid { parameter, problem }));
    if text.is_empty() {
        invalid(Problem::Empty)
    } else if text.len() > limit {
        invalid(Problem::TooLong { length: text.len(), limit, unit: "bytes" })
    } else if text.contains('\0') {
        invalid(Problem::Character('\0'))
    } else {
        Ok(text.to_owned())
    }
}

/// A bool and nothing that only looks like one.
pub(super) fn boolean(value: &Literal) -> Read<bool> {
    if let Literal::Bool(value) = value { Ok(*value) } else { wrong_type(value, "`True` or `False`") }
}

fn whole<T: TryFrom<i128> + PartialOrd>(value: &Literal, least: T, most: T, expected: &'static str) -> Read<T> {
    let Literal::Int(number) = value else {
        return wrong_type(value, expected);
    };
    match T::try_from(*number) {
        Ok(number) if number >= least && number <= most => Ok(number),
        Ok(_) | Err(_) => out_of_range(value, expected),
    }
}

pub(super) fn cooldown(value: &Literal) -> Read<u32> {
    whole(value, 0, MAX_COOLDOWN_SECS, "a whole number of seconds from 0 to 4294967")
}

pub(super) fn max_concurrent_runs(value: &Literal) -> Read<u8> {
    whole(value, 1, 16, "a whole number from 1 to 16")
}

pub(super) fn ack_deadline_override(value: &Literal) -> Read<u32> {
    whole(value, 1, MAX_ACK_DEADLINE_SECS, "a whole number of seconds from 1 to 86400")
}

pub(super) fn choice<T>(
    value: &Literal,
    parse: impl Fn(&str) -> Option<T>,
    choices: &'static [&'static str],
) -> Read<T> {
    parse(text(value)?).ok_or_else(|| RefusalReason::NotAChoice { choices, found: value.shown() })
}

/// Where a key is found in a message.
pub(super) fn key(value: &Literal) -> Read<String> {
    let text = text(value)?;
    if ValuePlace::parse(text).is_some() { Ok(text.to_owned()) } else { out_of_range(value, A_KEY) }
}

/// A dict that JSON can hold.
pub(super) fn object(value: &Literal) -> Read<Value> {
    if matches!(value, Literal::Dict(_)) { value.to_json() } else { wrong_type(value, "a dict") }
}

/// A filter, in the form in which it is kept.
pub(super) fn filter(value: &Literal) -> Read<Value> {
    let filter_data = object(value)?;
    Filter::parse(&filter_data).map_err(RefusalReason::Filter)?;
    Ok(filter_data)
}
