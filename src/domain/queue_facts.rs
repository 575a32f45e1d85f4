//! What is known of a queue that is not ours, and what follows from it: three-valued, since the management API may not answer.
//!
//! Serves the control flow (views, warnings) and the data flow (windows, budgets). Reads the answer of
//! `GET /api/queues/{vhost}/{queue}`; does not fetch it. Every field of that answer may be missing: a queue made a moment ago
//! answers without half of them.
//!
//! Source: management API of RabbitMQ 3.10.8 and 4.0.5 (`tests/fixtures/management`); "delivery-limit" of `rabbit_quorum_queue`
//! for how argument and policy meet.

mod reading;

use std::time::Duration;

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
    /// `delivery-limit` of the policies that apply, the operator's among them; `None` where it is not known or not set.
    pub limit_policy: Option<i64>,
    /// It is known which policies apply. A quorum queue that was made moments ago does not say.
    pub policy_is_known: bool,
    /// The limit in force, as the broker itself says it (4.0 does).
    pub limit_in_force: Option<Limit>,
    /// How long the broker waits for an acknowledgement before it closes the channel.
    pub consumer_timeout: Option<Duration>,
    /// Whether the dead-letter exchange is there, and something bound to it.
    pub exchange_is_there: Option<bool>,
    /// Consumers of the queue that are not this watcher's.
    pub foreign_consumers: Option<usize>,
    /// Of its broker.
    pub release: Option<Release>,
}

/// Why nothing was learnt of a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotLooked {
    /// There is no connection to its broker now.
    NotConnected,
    /// Its connection names no management API.
    NoManagement,
    /// The broker has no such queue.
    NoQueue,
    /// The management API cannot be asked; one clause for people.
    Failed(String),
}

/// What was learnt of a queue in one look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Look {
    /// Of the broker, by its greeting.
    pub release: Option<Release>,
    /// What the management API says.
    pub facts: Result<QueueFacts, NotLooked>,
}

/// The limit of a quorum queue of RabbitMQ 4 where nobody sets one.
pub const DEFAULT_LIMIT: u32 = 20;

impl QueueFacts {
    /// Reads the answer of the management API. What it does not say is not known. `our_tags`: what the tags of this watcher's
    /// consumers begin with.
    pub fn parse(answer: &Value, our_tags: &str) -> Self {
        reading::parse(answer, our_tags)
    }

    /// What counts after another look: what that one tells, and of what it does not tell, what was known before.
    #[must_use]
    pub fn renewed(self, look: Self) -> Self {
        let is_same = self.kind.is_none() || look.kind.is_none() || self.kind == look.kind;
        let before = if is_same { self } else { Self::default() };
        let arguments = look.single_active_consumer.is_some();
        let dead_letters = match look.dead_letters {
            DeadLetters::Unknown => before.dead_letters.clone(),
            known @ (DeadLetters::Nowhere | DeadLetters::Exchange(_)) => known,
        };
        // Of another exchange, or of a queue made anew with another limit, what was known says nothing.
        let is_same_exchange = dead_letters == before.dead_letters;
        let exchange_is_there = look.exchange_is_there.or(before.exchange_is_there.filter(|_| is_same_exchange));
        let is_same_limit = !arguments || look.limit_argument == before.limit_argument;
        let limit_in_force = look.limit_in_force.or(before.limit_in_force.filter(|_| is_same_limit));
        Self {
            kind: look.kind.or(before.kind),
            durable: look.durable.or(before.durable),
            exclusive: look.exclusive.or(before.exclusive),
            single_active_consumer: look.single_active_consumer.or(before.single_active_consumer),
            dead_letters,
            limit_argument: if arguments { look.limit_argument } else { before.limit_argument },
            limit_policy: if look.policy_is_known { look.limit_policy } else { before.limit_policy },
            policy_is_known: look.policy_is_known || before.policy_is_known,
            limit_in_force,
            consumer_timeout: look.consumer_timeout.or(before.consumer_timeout),
            exchange_is_there,
            foreign_consumers: look.foreign_consumers.or(before.foreign_consumers),
            release: look.release.or(before.release),
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

    /// How many returns a message survives. `release`: the broker's, where it is known better than here.
    pub fn limit(&self, release: Option<Release>) -> Limit {
        let is_4 = release.or(self.release).map(|release| release >= Release(4, 0));
        match (&self.kind, self.limit_in_force) {
            (Some(QueueKind::Classic | QueueKind::Other(_)), _) => return Limit::None,
            (Some(QueueKind::Quorum), Some(limit)) => return limit,
            (Some(QueueKind::Quorum), None) => {}
            (None, _) => return if is_4 == Some(false) { Limit::Unknown } else { Limit::At(DEFAULT_LIMIT) },
        }
        let set = match (self.limit_argument, self.limit_policy) {
            // A negative number means "no limit" from 4.0 on, and there a limit beats it.
            (Some(argument), Some(policy)) if is_4 != Some(false) && argument.min(policy) < 0 => argument.max(policy),
            (Some(argument), Some(policy)) => argument.min(policy),
            (Some(one), None) | (None, Some(one)) => one,
            (None, None) if is_4 != Some(false) => return Limit::At(DEFAULT_LIMIT),
            (None, None) => return if self.policy_is_known { Limit::None } else { Limit::Unknown },
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
    /// was found, where that is known better than here; RabbitMQ takes the name of one that is not, and drops what goes to it.
    pub fn must_keep_rejected(&self, exchange_is_there: Option<bool>) -> bool {
        match self.dead_letters {
            DeadLetters::Exchange(_) => exchange_is_there.or(self.exchange_is_there) != Some(true),
            DeadLetters::Nowhere | DeadLetters::Unknown => true,
        }
    }

    /// How long a delivery may stay unsettled where so long is wanted: the broker closes the channel over one that stays longer
    /// than its own time, and all others come back with it. A sixth of that time is left for what is on its way.
    pub fn ack_deadline(&self, wanted: Duration) -> Duration {
        self.consumer_timeout.map_or(wanted, |timeout| wanted.min(timeout - timeout / 6))
    }
}

#[cfg(test)]
mod tests;
