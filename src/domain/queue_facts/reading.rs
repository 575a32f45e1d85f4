//! Reads the management API's answer about one queue. Every field may be missing.

use std::time::Duration;

use serde_json::Value;

use super::{DeadLetters, Limit, QueueFacts, QueueKind};

const NAME_MOST_CHARS: usize = 255;

pub(super) fn parse(answer: &Value, our_tags: &str) -> QueueFacts {
    let Some(queue) = answer.as_object() else { return QueueFacts::default() };
    let flag = |name: &str| queue.get(name).and_then(Value::as_bool);
    // An empty table comes as a list from some releases.
    let arguments = queue.get("arguments").map(|table| Table(table.as_object()));
    let policy = queue.get("effective_policy_definition").map(|table| Table(table.as_object()));
    let kind = queue
        .get("type")
        .and_then(Value::as_str)
        .or_else(|| arguments.as_ref().and_then(|arguments| arguments.text("x-queue-type")));
    let consumers = queue.get("consumer_details").and_then(Value::as_array).map(|all| Consumers::of(all, our_tags));
    let timeouts = [
        arguments.as_ref().and_then(|arguments| arguments.number("x-consumer-timeout")),
        policy.as_ref().and_then(|policy| policy.number("consumer-timeout")),
        consumers.as_ref().and_then(|consumers| consumers.timeout),
    ];
    QueueFacts {
        kind: kind.map(|kind| match kind {
            "classic" => QueueKind::Classic,
            "quorum" => QueueKind::Quorum,
            other => QueueKind::Other(other.chars().take(NAME_MOST_CHARS).collect()),
        }),
        durable: flag("durable"),
        exclusive: flag("exclusive"),
        single_active_consumer: arguments.as_ref().map(|arguments| arguments.flag("x-single-active-consumer")),
        dead_letters: dead_letters(arguments.as_ref(), policy.as_ref()),
        limit_argument: arguments.as_ref().and_then(|arguments| arguments.number("x-delivery-limit")),
        limit_policy: policy.as_ref().and_then(|policy| policy.number("delivery-limit")),
        policy_is_known: policy.is_some(),
        limit_in_force: queue.get("delivery_limit").and_then(in_force),
        consumer_timeout: timeouts.into_iter().flatten().filter_map(positive).min().map(Duration::from_millis),
        exchange_is_there: None,
        foreign_consumers: consumers.map(|consumers| consumers.foreign),
        release: None,
    }
}

struct Table<'a>(Option<&'a serde_json::Map<String, Value>>);

impl<'a> Table<'a> {
    fn get(&self, name: &str) -> Option<&'a Value> {
        self.0?.get(name)
    }

    fn text(&self, name: &str) -> Option<&'a str> {
        self.get(name)?.as_str()
    }

    fn flag(&self, name: &str) -> bool {
        self.get(name).and_then(Value::as_bool) == Some(true)
    }

    fn number(&self, name: &str) -> Option<i64> {
        self.get(name)?.as_i64()
    }
}

/// What the list of consumers says.
struct Consumers {
    foreign: usize,
    /// In milliseconds, of ours: another's may have a time of its own.
    timeout: Option<i64>,
}

impl Consumers {
    fn of(all: &[Value], our_tags: &str) -> Self {
        let tag = |consumer: &Value| consumer.get("consumer_tag").and_then(Value::as_str).map(str::to_owned);
        let is_ours = |consumer: &&Value| tag(consumer).is_some_and(|tag| tag.starts_with(our_tags));
        let timeouts = all.iter().filter(is_ours).filter_map(|ours| ours.get("consumer_timeout")?.as_i64());
        Self { foreign: all.iter().filter(|consumer| !is_ours(consumer)).count(), timeout: timeouts.min() }
    }
}

fn positive(millis: i64) -> Option<u64> {
    u64::try_from(millis).ok().filter(|millis| *millis > 0)
}

fn in_force(limit: &Value) -> Option<Limit> {
    match (limit.as_u64(), limit.as_str()) {
        (Some(limit), _) => Some(u32::try_from(limit).map_or(Limit::None, Limit::At)),
        (None, Some("unlimited")) => Some(Limit::None),
        (None, Some(_) | None) => None,
    }
}

/// The argument beats the policy.
fn dead_letters(arguments: Option<&Table<'_>>, policy: Option<&Table<'_>>) -> DeadLetters {
    let argument = arguments.and_then(|arguments| arguments.text("x-dead-letter-exchange"));
    let from_policy = policy.and_then(|policy| policy.text("dead-letter-exchange"));
    match argument.or(from_policy) {
        Some(name) => DeadLetters::Exchange(name.chars().take(NAME_MOST_CHARS).collect()),
        None if arguments.is_some() && policy.is_some() => DeadLetters::Nowhere,
        None => DeadLetters::Unknown,
    }
}
