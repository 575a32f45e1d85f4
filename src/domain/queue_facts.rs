//! What is known of a queue that is not ours, and what follows from it: three-valued, since the management API may not answer.
//!
//! Serves the control flow (views, warnings) and the data flow (windows, budgets). Reads the answer of
//! `GET /api/queues/{vhost}/{queue}`; does not fetch it. Every field of that answer may be missing: a queue made a moment ago
//! answers without half of them.
//!
//! Source: management API of RabbitMQ 3.10.8 and 4.0.5; "delivery-limit" of `rabbit_quorum_queue` for how argument and policy meet.

use serde_json::Value;

/// The kinds of queues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QueueKind {
    /// On one node; counts no deliveries.
    Classic,
    /// Replicated; counts deliveries.
    Quorum,
    /// Another, by its name: streams and what may come.
    Other(String),
}

/// The release of a broker: major and minor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Release(pub u16, pub u16);

impl Release {
    /// Reads `3.10.8` or `4.0.5-rc.1`, as server properties have it.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('.');
        let major = parts.next()?.parse().ok()?;
        let minor = parts.next()?.parse().ok()?;
        Some(Self(major, minor))
    }
}

/// How many returns a message of the queue survives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Any number.
    None,
    /// So many; at the next one it is dead-lettered or dropped.
    At(u32),
    /// Not known.
    Unknown,
}

/// Where dead letters of the queue go.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum DeadLetters {
    /// Not known.
    #[default]
    Unknown,
    /// Nowhere: what is rejected is gone.
    Nowhere,
    /// To this exchange, if it is there.
    Exchange(String),
}

/// What is known of one queue. The default: nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueFacts {
    /// What it is.
    pub kind: Option<QueueKind>,
    /// It survives a restart of the broker.
    pub durable: Option<bool>,
    /// One connection alone may use it.
    pub exclusive: Option<bool>,
    /// One of its consumers alone gets messages.
    pub single_active_consumer: Option<bool>,
    /// Where dead letters go.
    pub dead_letters: DeadLetters,
    /// The `x-delivery-limit` argument; `None` where it is not known or not set.
    pub limit_argument: Option<i64>,
    /// `delivery-limit` of the policies that apply; `None` where it is not known or not set.
    pub limit_policy: Option<i64>,
}

/// The limit of a quorum queue of RabbitMQ 4 where nobody sets one.
pub const DEFAULT_LIMIT: u32 = 20;

const NAME_MOST_CHARS: usize = 255;

impl QueueFacts {
    /// Reads the answer of the management API. What it does not say is not known.
    pub fn parse(answer: &Value) -> Self {
        let Some(queue) = answer.as_object() else { return Self::default() };
        let flag = |name: &str| queue.get(name).and_then(Value::as_bool);
        // An empty table comes as a list from some releases.
        let arguments = queue.get("arguments").map(|table| Table(table.as_object()));
        let policy = queue.get("effective_policy_definition").map(|table| Table(table.as_object()));
        let kind = queue
            .get("type")
            .and_then(Value::as_str)
            .or_else(|| arguments.as_ref().and_then(|arguments| arguments.text("x-queue-type")));
        Self {
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
        }
    }

    /// What a delivery tells where the management API does not: a quorum queue counts every redelivery in a header, a
    /// classic queue none. `counts`: the delivery has `x-delivery-count`.
    #[must_use]
    pub fn learn(mut self, redelivered: bool, counts: bool) -> Self {
        if self.kind.is_none() && redelivered {
            self.kind = Some(if counts { QueueKind::Quorum } else { QueueKind::Classic });
        }
        self
    }

    /// How many returns a message survives, given the broker's release as it says itself.
    pub fn limit(&self, release: Option<Release>) -> Limit {
        let is_4 = release.map(|release| release >= Release(4, 0));
        match self.kind {
            Some(QueueKind::Classic | QueueKind::Other(_)) => return Limit::None,
            Some(QueueKind::Quorum) => {}
            None => return if is_4 == Some(false) { Limit::Unknown } else { Limit::At(DEFAULT_LIMIT) },
        }
        let set = match (self.limit_argument, self.limit_policy) {
            // A negative number means "no limit" from 4.0 on, and there a limit beats it.
            (Some(argument), Some(policy)) if is_4 != Some(false) && argument.min(policy) < 0 => argument.max(policy),
            (Some(argument), Some(policy)) => argument.min(policy),
            (Some(one), None) | (None, Some(one)) => one,
            (None, None) => return if is_4 == Some(false) { Limit::None } else { Limit::At(DEFAULT_LIMIT) },
        };
        match u32::try_from(set) {
            Ok(limit) => Limit::At(limit),
            Err(_) if set > 0 => Limit::None,
            // 3.x drops a message at its first return then (tried).
            Err(_) if is_4 == Some(false) => Limit::At(0),
            Err(_) => Limit::None,
        }
    }

    /// Whether a message has to be kept by us before it is rejected. `exchange_is_there`: whether the dead-letter exchange
    /// was found; RabbitMQ takes the name of one that is not, and drops what goes to it.
    pub fn must_keep_rejected(&self, exchange_is_there: Option<bool>) -> bool {
        match self.dead_letters {
            DeadLetters::Exchange(_) => exchange_is_there != Some(true),
            DeadLetters::Nowhere | DeadLetters::Unknown => true,
        }
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    const OLD: Option<Release> = Some(Release(3, 10));
    const NEW: Option<Release> = Some(Release(4, 0));

    fn quorum(argument: Option<i64>, policy: Option<i64>) -> QueueFacts {
        QueueFacts {
            kind: Some(QueueKind::Quorum),
            limit_argument: argument,
            limit_policy: policy,
            ..QueueFacts::default()
        }
    }

    #[test]
    fn an_answer_is_read_whole() {
        let facts = QueueFacts::parse(&json!({
            "name": "q", "type": "quorum", "durable": true, "exclusive": false,
            "arguments": {"x-queue-type": "quorum", "x-delivery-limit": 5, "x-single-active-consumer": true,
                          "x-dead-letter-exchange": "dlx"},
            "effective_policy_definition": {"delivery-limit": 9, "dead-letter-exchange": "other"},
        }));
        let want = QueueFacts {
            kind: Some(QueueKind::Quorum),
            durable: Some(true),
            exclusive: Some(false),
            single_active_consumer: Some(true),
            dead_letters: DeadLetters::Exchange("dlx".into()),
            limit_argument: Some(5),
            limit_policy: Some(9),
        };
        assert_eq!(facts, want);
        assert_eq!(facts.limit(NEW), Limit::At(5));
    }

    #[test]
    fn what_is_not_said_is_not_known() {
        for nothing in [json!(null), json!([]), json!({}), json!("x"), json!({"type": 5, "durable": "yes"})] {
            assert_eq!(QueueFacts::parse(&nothing), QueueFacts::default(), "{nothing}");
        }
        let empty = json!({"type": "classic", "arguments": [], "effective_policy_definition": []});
        let facts = QueueFacts::parse(&empty);
        assert_eq!((facts.single_active_consumer, facts.dead_letters), (Some(false), DeadLetters::Nowhere));
        let young = QueueFacts::parse(&json!({"type": "classic", "arguments": {}}));
        assert_eq!(young.dead_letters, DeadLetters::Unknown, "a policy may name one");
        let policy = QueueFacts::parse(&json!({"effective_policy_definition": {"dead-letter-exchange": "p"}}));
        assert_eq!(policy.dead_letters, DeadLetters::Exchange("p".into()));
    }

    #[test]
    fn the_limit_comes_from_argument_policy_and_release() {
        for (argument, policy, old, new) in [
            (None, None, Limit::None, Limit::At(20)),
            (Some(5), None, Limit::At(5), Limit::At(5)),
            (None, Some(7), Limit::At(7), Limit::At(7)),
            (Some(9), Some(7), Limit::At(7), Limit::At(7)),
            (Some(0), None, Limit::At(0), Limit::At(0)),
            (Some(-1), None, Limit::At(0), Limit::None),
            (Some(-1), Some(7), Limit::At(0), Limit::At(7)),
            (Some(7), Some(-1), Limit::At(0), Limit::At(7)),
            (Some(-1), Some(-1), Limit::At(0), Limit::None),
            (Some(i64::MAX), None, Limit::None, Limit::None),
        ] {
            assert_eq!(quorum(argument, policy).limit(OLD), old, "{argument:?} {policy:?}");
            assert_eq!(quorum(argument, policy).limit(NEW), new, "{argument:?} {policy:?}");
            assert_eq!(quorum(argument, policy).limit(None), new, "an unknown release is taken for a new one");
        }
        let classic = QueueFacts { kind: Some(QueueKind::Classic), limit_argument: Some(3), ..QueueFacts::default() };
        assert_eq!(classic.limit(NEW), Limit::None);
        assert_eq!(QueueFacts::default().limit(NEW), Limit::At(20));
        assert_eq!(QueueFacts::default().limit(OLD), Limit::Unknown);
    }

    #[test]
    fn a_redelivery_tells_what_kind_of_queue_it_is() {
        let kind = |redelivered, counts| QueueFacts::default().learn(redelivered, counts).kind;
        assert_eq!(kind(true, true), Some(QueueKind::Quorum));
        assert_eq!(kind(true, false), Some(QueueKind::Classic));
        assert_eq!((kind(false, true), kind(false, false)), (None, None), "a publisher may set any header");
        let known = QueueFacts { kind: Some(QueueKind::Classic), ..QueueFacts::default() };
        assert_eq!(known.clone().learn(true, true), known);
    }

    #[test]
    fn nothing_is_rejected_that_is_neither_kept_nor_known_to_go_somewhere() {
        let with = |dead_letters| QueueFacts { dead_letters, ..QueueFacts::default() };
        let named = with(DeadLetters::Exchange("dlx".into()));
        assert!(!named.must_keep_rejected(Some(true)));
        assert!(named.must_keep_rejected(Some(false)) && named.must_keep_rejected(None));
        assert!(with(DeadLetters::Nowhere).must_keep_rejected(Some(true)));
        assert!(with(DeadLetters::Unknown).must_keep_rejected(Some(true)));
    }

    #[test]
    fn releases_are_read_as_brokers_write_them() {
        for (text, want) in [
            ("3.10.8", Some(Release(3, 10))),
            ("4.0.5", Some(Release(4, 0))),
            ("4.3.0-rc.1", Some(Release(4, 3))),
            ("4", None),
            ("", None),
            ("x.y", None),
        ] {
            assert_eq!(Release::parse(text), want, "{text}");
        }
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            "[a-z]{0,8}".prop_map(Value::from)
        ];
        leaf.prop_recursive(3, 20, 5, |inner| {
            let name = prop::sample::select(vec![
                "type",
                "arguments",
                "effective_policy_definition",
                "x-delivery-limit",
                "delivery-limit",
                "x-dead-letter-exchange",
                "durable",
            ]);
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
                prop::collection::hash_map(name, inner, 0..5).prop_map(|map| Value::Object(
                    map.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
                )),
            ]
        })
    }

    proptest! {
        #[test]
        fn any_answer_is_read_without_surprise(answer in any_json()) {
            let facts = QueueFacts::parse(&answer);
            for release in [OLD, NEW, None] {
                facts.limit(release);
            }
        }
    }
}
