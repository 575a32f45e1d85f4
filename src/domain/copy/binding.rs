//! Which of a message's deliveries drives its row, once there are copies of it: the one with the highest number that is known
//! to be in the broker. All others are acknowledged and start nothing.

use super::super::ledger::{Outcome, State};
use super::Part;

/// What a row says of the copies of its message, beside its state. At first: nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Copies {
    /// The highest number that was written before a publish: the copy may be there.
    pub made: u32,
    /// The highest number that is surely there: confirmed by the broker, or delivered.
    pub confirmed: u32,
    /// The original was not confirmed as settled yet: without our header it may come again. Set with the first copy, cleared by
    /// the round trip behind the verb for the original, and by no other: a copy is told by its number.
    pub original_is_open: bool,
}

impl Copies {
    /// The number of the next copy, to be written before it is published.
    pub fn next(self) -> u32 {
        self.made.max(self.confirmed).saturating_add(1)
    }
}

/// What a copy that was delivered does with one of its rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CopyBinding {
    /// A later copy is there: this one is acknowledged and starts nothing.
    Stale,
    /// The row's outcome is known: settled that way again, nothing is started.
    SettleAgain(Outcome),
    /// The row goes on from here. Nothing was asked for it yet.
    Start,
    /// The row goes on from here, after a look-up.
    LookUp,
    /// There is no such row: another watcher's, or the state file was lost. A row with that number is made, as one that may
    /// have been sent: the run is looked up by its id before it is asked for, and a run that is there is this message's.
    Adopt,
}

/// Binds a copy with the number `copy` to the row that `part` names. `row`: its state, its outcome and its copies. A row that
/// is bound is marked: its `confirmed` is `copy` now.
pub fn bind_copy(part: &Part, copy: u32, row: Option<(State, Option<Outcome>, Copies)>) -> CopyBinding {
    let Some((state, outcome, copies)) = row else {
        return part.outcome.map_or(CopyBinding::Adopt, CopyBinding::SettleAgain);
    };
    if copy < copies.confirmed {
        return CopyBinding::Stale;
    }
    match (state, outcome.or(part.outcome)) {
        (_, Some(outcome)) => CopyBinding::SettleAgain(outcome),
        (State::Received, None) => CopyBinding::Start,
        (State::Sent | State::Decided | State::VerbSent, None) => CopyBinding::LookUp,
        // Settled without an outcome: closed as one whose message was gone. Here it is, so it was not.
        (State::Settled, None) => CopyBinding::LookUp,
    }
}

/// What a redelivery without our header does, given the copies of a row of its key: whether it is what a copy replaced, to be
/// acknowledged without starting anything. Asked before the ledger binds it, of rows in any state and of any epoch: a copy that
/// was quicker may have finished the row. Not asked where the key is a fingerprint with twins: a twin would be lost.
pub fn is_replaced(copies: Copies) -> bool {
    copies.confirmed > 0 && copies.original_is_open
}
