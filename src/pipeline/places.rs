//! Places that are few, taken in turns.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use tokio::sync::{Notify, oneshot};

use crate::domain::ids::SubscriptionId;
use crate::domain::turns::{Ticket, Turns};

/// Who takes a place: a subscription, or nobody's question.
pub(super) type Asker = Option<SubscriptionId>;

/// Places under way. Cheap to clone.
#[derive(Clone)]
pub(super) struct Places(Rc<Inner>);

struct Inner {
    turns: RefCell<Turns<Asker>>,
    waiting: RefCell<HashMap<Ticket, oneshot::Sender<Place>>>,
    /// Told when there is a free place again.
    freed: Rc<Notify>,
}

/// A place, for as long as it lives.
pub(super) struct Place(Rc<Inner>);

impl Drop for Place {
    fn drop(&mut self) {
        let was_full = self.0.turns.borrow().free() == 0;
        self.0.turns.borrow_mut().give_back();
        grant(&self.0);
        if was_full && self.0.turns.borrow().free() > 0 {
            self.0.freed.notify_one();
        }
    }
}

/// Waits for a place for as long as it lives.
struct Waiting {
    inner: Rc<Inner>,
    ticket: Ticket,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if self.inner.waiting.borrow_mut().remove(&self.ticket).is_some() {
            self.inner.turns.borrow_mut().leave(self.ticket);
        }
    }
}

/// Hands free places to those who are next. Whoever is gone meanwhile gives it back by drop, and the next one has it.
fn grant(inner: &Rc<Inner>) {
    loop {
        let Some(ticket) = inner.turns.borrow_mut().next_turn() else { return };
        let place = Place(Rc::clone(inner));
        let sender = inner.waiting.borrow_mut().remove(&ticket);
        if let Some(sender) = sender {
            drop(sender.send(place));
        }
    }
}

impl Places {
    /// `freed` is told when there is a free place again.
    pub(super) fn new(most: usize, freed: Rc<Notify>) -> Self {
        let (turns, waiting) = (RefCell::new(Turns::new(most)), RefCell::default());
        Self(Rc::new(Inner { turns, waiting, freed }))
    }

    /// So many from now on.
    pub(super) fn set_most(&self, most: usize) {
        self.0.turns.borrow_mut().set_most(most);
        grant(&self.0);
    }

    /// How many are free.
    pub(super) fn free(&self) -> usize {
        self.0.turns.borrow().free()
    }

    /// A place, if one is free and nobody waits.
    pub(super) fn try_take(&self) -> Option<Place> {
        let takes = self.0.turns.borrow_mut().try_take();
        takes.then(|| Place(Rc::clone(&self.0)))
    }

    /// A place, when it is this one's turn.
    ///
    /// # Cancel safety
    /// Cancel safe; the place in the line is lost.
    pub(super) async fn take(&self, of: Asker) -> Place {
        loop {
            if let Some(place) = self.try_take() {
                return place;
            }
            let (sender, granted) = oneshot::channel();
            let ticket = self.0.turns.borrow_mut().wait(of);
            self.0.waiting.borrow_mut().insert(ticket, sender);
            let _waiting = Waiting { inner: Rc::clone(&self.0), ticket };
            if let Ok(place) = granted.await {
                return place;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::{sleep, timeout};

    use super::*;

    fn run(flow: impl Future<Output = ()>) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        let runtime = runtime.expect("a runtime");
        tokio::task::LocalSet::new().block_on(&runtime, flow);
    }

    #[test]
    fn a_place_goes_on_to_the_next_also_past_those_who_gave_up() {
        run(async {
            let places = Places::new(1, Rc::default());
            let first = places.take(None).await;
            let wait = Duration::from_secs(1);
            assert!(timeout(wait, places.take(None)).await.is_err());
            let waiting: Vec<_> = (0..3)
                .map(|_| {
                    let places = places.clone();
                    tokio::task::spawn_local(async move { drop(places.take(None).await) })
                })
                .collect();
            sleep(wait).await;
            waiting[0].abort();
            drop(first);
            for task in waiting.into_iter().skip(1) {
                assert!(timeout(wait, task).await.is_ok());
            }
            assert_eq!(places.free(), 1);
        });
    }

    #[test]
    fn a_place_that_was_granted_and_never_seen_is_free_again() {
        run(async {
            let places = Places::new(1, Rc::default());
            let first = places.take(None).await;
            let mut waiting = Box::pin(places.take(None));
            assert!(timeout(Duration::from_secs(1), &mut waiting).await.is_err());
            drop(first);
            drop(waiting);
            assert_eq!(places.free(), 1);
        });
    }
}
