//! Why a delivery goes back to its queue, by which verb, and what that costs: one table.
//!
//! Serves the data flow and the docs. On the wire up to RabbitMQ 4.2 each return of a quorum queue's message counts, whatever
//! the verb; from 4.3 on `basic.nack` does not. What goes back untouched with a channel counts on all of them.
//!
//! Source: ADR-0006, and its measurements on 3.10.8 and 4.0.5.

use super::queue_facts::Release;

/// What makes a delivery go back, or would.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cause {
    /// It was held as long as it may.
    Deadline,
    /// The pause of a parked one ended, or the rows changed.
    PauseEnded,
    /// The channel or the connection was lost.
    ChannelLost,
    /// The watcher stops.
    Stop,
    /// The watcher or the broker was killed.
    Crash,
    /// Its target's breaker opened.
    Breaker,
    /// The consumer was cancelled for want of a subscription that can run, or the last subscription went.
    Detach,
    /// The consumer was rolled.
    Roll,
}

/// How it goes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GoesBack {
    /// "Tried and failed": `basic.reject` with requeue.
    Tried,
    /// "Not tried": `basic.nack` with requeue.
    Untried,
    /// With its channel, and everything else that is unsettled on it.
    WithTheChannel,
    /// Not at all: it is kept.
    Kept,
}

impl Cause {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Deadline,
        Self::PauseEnded,
        Self::ChannelLost,
        Self::Stop,
        Self::Crash,
        Self::Breaker,
        Self::Detach,
        Self::Roll,
    ];

    /// How a delivery goes back for this cause. `tried`: something was asked of a target for it.
    pub fn goes_back(self, tried: bool) -> GoesBack {
        match self {
            Self::Deadline if tried => GoesBack::Tried,
            // Looking at a message is no try: its filter rejected it, or its subscription is blocked.
            Self::Deadline | Self::PauseEnded => GoesBack::Untried,
            Self::ChannelLost | Self::Stop | Self::Crash => GoesBack::WithTheChannel,
            Self::Breaker | Self::Detach | Self::Roll => GoesBack::Kept,
        }
    }
}

impl GoesBack {
    /// How many of a quorum queue's returns it costs the message.
    pub fn costs(self, release: Option<Release>) -> u32 {
        match self {
            Self::Kept => 0,
            Self::Untried => u32::from(release.is_none_or(|release| release < Release(4, 3))),
            Self::Tried | Self::WithTheChannel => 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cause_of_a_return_has_its_verb_and_its_price() {
        for (cause, tried, want, old, new) in [
            (Cause::Deadline, true, GoesBack::Tried, 1, 1),
            (Cause::Deadline, false, GoesBack::Untried, 1, 0),
            (Cause::PauseEnded, false, GoesBack::Untried, 1, 0),
            (Cause::PauseEnded, true, GoesBack::Untried, 1, 0),
            (Cause::ChannelLost, true, GoesBack::WithTheChannel, 1, 1),
            (Cause::Stop, false, GoesBack::WithTheChannel, 1, 1),
            (Cause::Crash, false, GoesBack::WithTheChannel, 1, 1),
            (Cause::Breaker, true, GoesBack::Kept, 0, 0),
            (Cause::Detach, true, GoesBack::Kept, 0, 0),
            (Cause::Roll, false, GoesBack::Kept, 0, 0),
        ] {
            let got = cause.goes_back(tried);
            assert_eq!(got, want, "{cause:?}");
            assert_eq!((got.costs(Some(Release(4, 2))), got.costs(Some(Release(4, 3)))), (old, new), "{cause:?}");
            assert_eq!(got.costs(None), old, "an unknown release is taken for one that counts");
        }
    }
}
