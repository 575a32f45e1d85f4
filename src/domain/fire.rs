//! What became of a message for one subscription, as people are shown it: a fire. Made from the ledger, on which nothing depends.

use serde::Serialize;
use serde_json::Value;

use super::ids::SubscriptionId;
use super::view::Tone;

/// One row of the ledger. Its JSON form is that of `rmq-watcher fires --json`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Fire {
    /// Its number; rises with time.
    pub id: i64,
    /// The subscription; `None` where none is known.
    pub subscription_id: Option<SubscriptionId>,
    /// The DAG that it starts; `None` for a message that nobody wanted.
    pub dag_id: Option<String>,
    /// The queue it came from.
    pub queue: String,
    /// The connection it came over.
    pub conn_id: String,
    /// The message's id; `None` where it has none.
    pub message_id: Option<String>,
    /// What the message is told by: `message_id`, `dedup_key` or `fingerprint`.
    pub key_kind: String,
    /// The value of that.
    pub key: String,
    /// Its number among the messages of that key.
    pub n: u32,
    /// How far it is.
    pub state: String,
    /// How it ended.
    pub outcome: Option<String>,
    /// Why.
    pub reason: Option<String>,
    /// The run; `None` where none can be asked for.
    pub run_id: Option<String>,
    /// The channel that holds the delivery, or did; 0 once it was given back.
    pub epoch: i64,
    /// Its first delivery was a redelivery already.
    pub redelivered: bool,
    /// How often it was delivered.
    pub deliveries: u32,
    /// How often it was refused and put back.
    pub replays: u32,
    /// Copies that were made of it.
    pub copies: u32,
    /// When it was delivered first.
    pub delivered_at_ms: i64,
    /// When its run was asked for: after the last delivery that had it asked for, the first time.
    pub sent_at_ms: Option<i64>,
    /// When its outcome was known.
    pub decided_at_ms: Option<i64>,
    /// When the broker had confirmed the settlement.
    pub settled_at_ms: Option<i64>,
    /// How many bytes are kept of the refused message.
    pub kept_bytes: Option<i64>,
}

/// What people are told of a fire in one word, and ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    /// It started its run.
    Started,
    /// The run was there already.
    Duplicate,
    /// A recorded decision not to start anything.
    Dropped,
    /// Refused, and dead-lettered.
    Dlq,
    /// None yet: waiting, or under way.
    Open,
    /// None, and none will come: its message left the queue without us.
    Gone,
}

impl Word {
    /// All of them.
    pub const ALL: [Self; 6] = [Self::Started, Self::Duplicate, Self::Dropped, Self::Dlq, Self::Open, Self::Gone];

    /// The stable name.
    pub fn code(self) -> &'static str {
        match self {
            Self::Started => "started",
            Self::Duplicate => "duplicate",
            Self::Dropped => "dropped",
            Self::Dlq => "dlq",
            Self::Open => "open",
            Self::Gone => "gone",
        }
    }

    /// The word of that name.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|word| word.code() == text)
    }

    /// What it means at a glance.
    pub fn tone(self) -> Tone {
        match self {
            Self::Started | Self::Duplicate => Tone::Good,
            Self::Dropped | Self::Gone => Tone::Off,
            Self::Dlq => Tone::Bad,
            Self::Open => Tone::Waiting,
        }
    }
}

impl Fire {
    /// How it ended, in one word.
    pub fn word(&self) -> Word {
        let none = if self.state == "settled" { Word::Gone } else { Word::Open };
        self.outcome.as_deref().and_then(Word::parse).unwrap_or(none)
    }
}

/// Which fires are asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Query {
    /// Of one subscription.
    pub subscription: Option<SubscriptionId>,
    /// Of one outcome.
    pub word: Option<Word>,
    /// Delivered at or after this moment.
    pub since_ms: Option<i64>,
    /// At most so many.
    pub most: usize,
}

/// What a query says of a fire, the newest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// It is asked for.
    Yes,
    /// It is not.
    No,
    /// Neither is it, nor any older one.
    NoOlder,
}

impl Query {
    /// Looks at one fire.
    pub fn wants(&self, fire: &Fire) -> Wanted {
        if self.since_ms.is_some_and(|since| fire.delivered_at_ms < since) {
            return Wanted::NoOlder;
        }
        let is_other = self.subscription.is_some() && self.subscription != fire.subscription_id
            || self.word.is_some_and(|word| word != fire.word());
        if is_other { Wanted::No } else { Wanted::Yes }
    }
}

/// An answer that was no success.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FailedAttempt {
    /// Which one it was.
    pub number: u32,
    /// When it came.
    pub at_ms: i64,
    /// The run that was asked for.
    pub run_id: String,
    /// What it said.
    pub answer: String,
}

/// What filters said of a delivery that some subscription did not want.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Judged {
    /// When.
    pub at_ms: i64,
    /// The connection it came over.
    pub conn_id: String,
    /// The queue it came from.
    pub queue: String,
    /// The channel it came over.
    pub epoch: i64,
    /// The broker's word that it may have been delivered before.
    pub redelivered: bool,
    /// What the message is told by: `message_id` or `fingerprint`.
    pub key_kind: String,
    /// The value of that.
    pub key: String,
    /// For each subscription `subscription_id`, `dag_id`, `takes_part`, `verdict` and `because`.
    pub said: Vec<Value>,
}

/// A fire with what went wrong on its way.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Told {
    /// The fire.
    #[serde(flatten)]
    pub fire: Fire,
    /// Answers that were no success; of many the first and the last.
    pub failed_attempts: Vec<FailedAttempt>,
}

/// All that is known of one message of a queue.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Message {
    /// The connection it came over.
    pub conn_id: String,
    /// Its queue.
    pub queue: String,
    /// Its id; `None` where it has none.
    pub message_id: Option<String>,
    /// Its fires, the oldest first.
    pub fires: Vec<Told>,
    /// What filters said, the oldest first.
    pub verdicts: Vec<Judged>,
}

/// Puts together what belongs to one message: fires of one id or key, and verdicts of it.
pub fn messages(fires: Vec<Told>, verdicts: Vec<Judged>) -> Vec<Message> {
    let mut all: Vec<(String, Message)> = Vec::new();
    let mut place = |conn_id: &str, queue: &str, key: &str, message_id: Option<&str>| -> usize {
        let known =
            all.iter().position(|(of, message)| of == key && message.conn_id == conn_id && message.queue == queue);
        known.unwrap_or_else(|| {
            let (conn_id, queue) = (conn_id.to_owned(), queue.to_owned());
            let message_id = message_id.map(str::to_owned);
            all.push((key.to_owned(), Message { conn_id, queue, message_id, fires: Vec::new(), verdicts: Vec::new() }));
            all.len() - 1
        })
    };
    let fire_places: Vec<usize> = fires
        .iter()
        .map(|Told { fire, .. }| {
            let key = fire.message_id.as_deref().unwrap_or(&fire.key);
            place(&fire.conn_id, &fire.queue, key, fire.message_id.as_deref())
        })
        .collect();
    let verdict_places: Vec<usize> = verdicts
        .iter()
        .map(|one| {
            let message_id = (one.key_kind == "message_id").then_some(one.key.as_str());
            place(&one.conn_id, &one.queue, &one.key, message_id)
        })
        .collect();
    for (at, told) in fire_places.into_iter().zip(fires) {
        all[at].1.fires.push(told);
    }
    for (at, judged) in verdict_places.into_iter().zip(verdicts) {
        all[at].1.verdicts.push(judged);
    }
    all.into_iter().map(|(_, message)| message).collect()
}

#[cfg(test)]
pub(crate) mod tests_support {
    use super::*;

    /// A fire of message `m` that started its run.
    pub(crate) fn fire(id: i64) -> Fire {
        Fire {
            id,
            subscription_id: Some(SubscriptionId(1)),
            dag_id: Some("orders".into()),
            queue: "q".into(),
            conn_id: "c".into(),
            message_id: Some("m".into()),
            key_kind: "message_id".into(),
            key: "m".into(),
            n: 1,
            state: "settled".into(),
            outcome: Some("started".into()),
            reason: None,
            run_id: Some("rmq__q__m".into()),
            epoch: 5,
            redelivered: false,
            deliveries: 1,
            replays: 0,
            copies: 0,
            delivered_at_ms: 1_000,
            sent_at_ms: Some(1_001),
            decided_at_ms: Some(1_500),
            settled_at_ms: Some(1_600),
            kept_bytes: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::tests_support::fire;
    use super::*;

    #[test]
    fn a_query_asks_for_what_it_names_and_stops_at_its_moment() {
        let all = Query { subscription: None, word: None, since_ms: None, most: 9 };
        assert_eq!(all.wants(&fire(1)), Wanted::Yes);
        for (query, want) in [
            (Query { subscription: Some(SubscriptionId(1)), ..all.clone() }, Wanted::Yes),
            (Query { subscription: Some(SubscriptionId(2)), ..all.clone() }, Wanted::No),
            (Query { word: Some(Word::Started), ..all.clone() }, Wanted::Yes),
            (Query { word: Some(Word::Open), ..all.clone() }, Wanted::No),
            (Query { since_ms: Some(1_000), ..all.clone() }, Wanted::Yes),
            (Query { since_ms: Some(1_001), ..all.clone() }, Wanted::NoOlder),
        ] {
            assert_eq!(query.wants(&fire(1)), want, "{query:?}");
        }
        assert_eq!(all.wants(&Fire { outcome: None, ..fire(1) }), Wanted::Yes);
        assert_eq!(Fire { outcome: None, state: "sent".into(), ..fire(1) }.word(), Word::Open);
        assert_eq!(Fire { outcome: None, ..fire(1) }.word(), Word::Gone);
    }

    #[test]
    fn what_belongs_to_one_message_is_put_together() {
        let told = |fire: Fire| Told { fire, failed_attempts: Vec::new() };
        let judged = |queue: &str, key_kind: &str, key: &str| Judged {
            at_ms: 1,
            conn_id: "c".into(),
            queue: queue.into(),
            epoch: 1,
            redelivered: false,
            key_kind: key_kind.into(),
            key: key.into(),
            said: Vec::new(),
        };
        let by_order = Fire { key_kind: "dedup_key".into(), key: "o7".into(), ..fire(2) };
        let fires = vec![told(fire(1)), told(by_order), told(Fire { queue: "q2".into(), ..fire(3) })];
        let by_id = |queue: &str, id: &str| judged(queue, "message_id", id);
        let all = messages(fires, vec![by_id("q", "m"), by_id("q", "m2"), judged("q", "fingerprint", "f1")]);
        let counted: Vec<_> = all.iter().map(|m| (m.queue.as_str(), m.fires.len(), m.verdicts.len())).collect();
        assert_eq!(counted, [("q", 2, 1), ("q2", 1, 0), ("q", 0, 1), ("q", 0, 1)]);
        let ids: Vec<_> = all.iter().map(|m| m.message_id.as_deref()).collect();
        assert_eq!(ids, [Some("m"), Some("m"), Some("m2"), None], "also of a message that filters alone saw");
    }
}
