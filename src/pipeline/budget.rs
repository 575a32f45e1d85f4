//! What a queue and its deliveries remember of their delivery budget. What it calls for is decided in [`crate::domain::budget`].

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use super::delivery::Desk;
use super::in_hand::InHand;
use crate::domain::budget::{Act, Publishing, act, left, next_return_ends_it, returns_so_far};
use crate::domain::ids::ConnId;
use crate::domain::options::OnBudget;
use crate::domain::queue_facts::Limit;
use crate::domain::table::Table;

/// How long a refusal to publish counts. After that it is tried again, with a message that is held meanwhile.
const REFUSED_FOR: Duration = Duration::from_secs(600);

/// Connections over which we may not publish.
#[derive(Default)]
pub(super) struct Refusals(RefCell<HashMap<ConnId, Instant>>);

impl Refusals {
    pub(super) fn note(&self, conn: &ConnId) {
        self.0.borrow_mut().insert(conn.clone(), Instant::now() + REFUSED_FOR);
    }

    pub(super) fn lift(&self, conn: &ConnId) {
        self.0.borrow_mut().remove(conn);
    }

    /// Until when the last refusal counts, if it does.
    fn until(&self, conn: &ConnId) -> Option<Instant> {
        self.0.borrow().get(conn).copied().filter(|until| *until > Instant::now())
    }
}

/// Whether a queue is left alone, since a message in it may not come back once more.
#[derive(Default)]
pub(super) struct HoldBack {
    /// The rows under which that was decided: other rows are somebody's act.
    under: RefCell<Option<(Table, String)>>,
    holding: Cell<usize>,
    /// One of them was given back: it waits in the queue, and nothing is fetched.
    given_back: Cell<bool>,
    /// It has begun or ended.
    pub(super) changed: Notify,
}

impl HoldBack {
    /// Why nothing is consumed, while that is so.
    pub(super) fn reason(&self, now: &Table) -> Option<String> {
        let mut under = self.under.borrow_mut();
        if under.as_ref().is_some_and(|(table, _)| table != now) {
            self.given_back.set(false);
            *under = None;
        }
        under.as_ref().map(|(_, reason)| reason.clone())
    }

    fn begin(self: &Rc<Self>, table: Table, reason: String) -> HeldBack {
        self.under.replace(Some((table, reason)));
        self.holding.set(self.holding.get() + 1);
        self.changed.notify_one();
        HeldBack(Rc::clone(self))
    }
}

/// One delivery that is kept, as long as this lives.
pub(super) struct HeldBack(Rc<HoldBack>);

impl HeldBack {
    /// It goes back to the queue, and is not fetched again.
    pub(super) fn give_back(self) {
        self.0.given_back.set(true);
    }
}

impl Drop for HeldBack {
    fn drop(&mut self) {
        self.0.holding.set(self.0.holding.get() - 1);
        if self.0.holding.get() == 0 && !self.0.given_back.get() {
            self.0.under.take();
        }
        self.0.changed.notify_one();
    }
}

/// What one delivery remembers.
#[derive(Default)]
pub(super) struct Spending {
    /// A copy of it cannot be published, whoever may publish.
    pub(super) fits_not: Cell<bool>,
    /// Tries that came to nothing, and when the next one is due.
    pub(super) tries: Cell<u32>,
    pub(super) next: Cell<Option<Instant>>,
    /// The queue is left alone for it.
    pub(super) held_back: RefCell<Option<HeldBack>>,
    /// It is kept in the state file.
    pub(super) kept: Cell<bool>,
}

/// What is done now.
pub(super) enum Call {
    /// Nothing: there are returns enough, or nobody knows.
    Nothing,
    /// This.
    Act(Act),
    /// It stays where it is; to be asked again then, or at the next change.
    Stay(Option<Instant>),
}

/// How often it came back, by the broker.
pub(super) fn returns<S>(hand: &InHand<S>) -> Option<u32> {
    returns_so_far(hand.envelope.redelivered, hand.envelope.delivery_count())
}

/// Whether the next return ends it.
pub(super) fn is_last<R, S>(desk: &Desk<R, S>, hand: &InHand<S>) -> bool {
    next_return_ends_it(desk.sight.limit(), returns(hand))
}

/// Asks what the budget of a delivery calls for that cannot be settled at once. `recorded`: the state file knows it.
pub(super) fn call<R, S>(desk: &Desk<R, S>, hand: &InHand<S>, wishes: &[OnBudget], recorded: bool) -> Call {
    let (limit, conn, spending) = (desk.sight.limit(), &hand.envelope.conn_id, &hand.spending);
    let refused_until = desk.context.refusals.until(conn);
    let can_publish = recorded && !spending.fits_not.get() && refused_until.is_none();
    let publishing = if can_publish { Publishing::Possible } else { Publishing::Refused };
    match act(limit, returns(hand), wishes, publishing) {
        None => Call::Nothing,
        Some(Act::Hold) => {
            if spending.held_back.borrow().is_none() {
                let reason = reason(limit, returns(hand), wishes, publishing);
                let table = desk.orders.borrow().table.clone();
                spending.held_back.replace(Some(desk.hold_back.begin(table, reason)));
            }
            let asked_again = wishes.iter().all(|wish| *wish != OnBudget::Hold) && !spending.fits_not.get();
            Call::Stay(refused_until.filter(|_| asked_again))
        }
        Some(act @ (Act::Copy | Act::DeadLetter)) => {
            spending.held_back.take();
            match spending.next.get().filter(|next| *next > Instant::now()) {
                Some(next) => Call::Stay(Some(next)),
                None => Call::Act(act),
            }
        }
    }
}

/// For people: what is left of a budget.
pub(super) fn left_of(limit: Limit, returns: Option<u32>) -> String {
    match (left(limit, returns), limit) {
        (Some(left), Limit::At(most)) => format!("{left} of {most} returns to its queue left"),
        (_, Limit::None | Limit::Unknown | Limit::At(_)) => "an unknown number of returns left".to_owned(),
    }
}

fn reason(limit: Limit, returns: Option<u32>, wishes: &[OnBudget], publishing: Publishing) -> String {
    let left = left_of(limit, returns);
    let why = if wishes.contains(&OnBudget::Hold) {
        "on_budget is hold"
    } else if publishing == Publishing::Refused {
        "no copy of it can be published"
    } else {
        "a copy would have no more"
    };
    format!("budget: a message has {left} and {why}; nothing is consumed until it can be started, or somebody acts")
}
