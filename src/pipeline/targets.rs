//! What is known of every target from the answers to all of its deliveries, over all queues: its breaker and its history.
//!
//! Decided in [`crate::domain::breaker`] and [`crate::domain::target`]; here it is kept, and whoever waits is woken.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::{Rc, Weak};

use tokio::sync::{Notify, watch};

use super::context::Clock;
use crate::domain::attempt::{TargetView, Trouble};
use crate::domain::breaker::{Breaker, Permission, Sign};
use crate::domain::ids::DagId;
use crate::domain::not_ready::NotReady;
use crate::domain::outcome::TriggerAnswer;
use crate::domain::target::TargetHistory;

/// All targets.
pub(super) struct Targets {
    all: Rc<RefCell<All>>,
    clock: Clock,
    /// One of them takes runs again, or takes none any more.
    changed: watch::Sender<()>,
}

/// One target.
pub(super) struct Target {
    history: RefCell<TargetHistory>,
    breaker: RefCell<Breaker>,
    /// Deliveries that wait for their turn to ask, by message.
    waiting: RefCell<HashMap<Rc<str>, usize>>,
    /// Deliveries that are held for it, those among them.
    held: Cell<usize>,
    not_ready: Cell<NotReady>,
    /// Who waits has to look again.
    turned: Notify,
    changed: watch::Sender<()>,
    clock: Clock,
    /// All targets, this one among them.
    all: Weak<RefCell<All>>,
}

type All = HashMap<DagId, Rc<Target>>;

/// Why a target takes no runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Down {
    pub(super) trouble: Trouble,
    pub(super) reason: String,
    /// It has not been ready for so long that somebody should look.
    pub(super) is_for_long: bool,
}

impl Targets {
    pub(super) fn new(clock: Clock) -> Self {
        Self { all: Rc::default(), clock, changed: watch::Sender::new(()) }
    }

    pub(super) fn get(&self, dag: &DagId) -> Rc<Target> {
        if let Some(target) = self.all.borrow().get(dag) {
            return Rc::clone(target);
        }
        let target = Rc::new(Target {
            history: RefCell::default(),
            breaker: RefCell::default(),
            waiting: RefCell::default(),
            held: Cell::default(),
            not_ready: Cell::default(),
            turned: Notify::new(),
            changed: self.changed.clone(),
            clock: Rc::clone(&self.clock),
            all: Rc::downgrade(&self.all),
        });
        self.all.borrow_mut().insert(dag.clone(), Rc::clone(&target));
        target
    }

    /// Changes whenever one of them can be asked, or cannot any more.
    pub(super) fn changes(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }
}

/// Whether a message may ask now.
pub(super) enum Ask {
    /// Yes. While it is the probe, that is given up with what is held here.
    Go(Option<Probe>),
    /// Not before this time, or until something changes.
    Wait(Option<i64>),
}

/// The one delivery that may ask. Whatever ends it without an answer lets the next one ask.
pub(super) struct Probe {
    target: Rc<Target>,
    key: Rc<str>,
}

impl Drop for Probe {
    fn drop(&mut self) {
        let now_ms = (self.target.clock)();
        self.target.change(|breaker| breaker.abandoned(&self.key, now_ms));
    }
}

impl Target {
    /// Does something to the breaker, and wakes whom it concerns.
    fn change<T>(&self, what: impl FnOnce(&mut Breaker) -> T) -> T {
        let mut breaker = self.breaker.borrow_mut();
        let before = breaker.clone();
        let done = what(&mut breaker);
        let is_new = *breaker != before && (before.trouble().is_some() || breaker.trouble().is_some());
        drop(breaker);
        if is_new {
            self.turned.notify_waiters();
            self.changed.send_replace(());
        }
        done
    }

    /// Whether the message may ask now.
    pub(super) fn ask(self: &Rc<Self>, key: &Rc<str>) -> Ask {
        let now_ms = (self.clock)();
        let others_wait = self.waiting.borrow().keys().any(|waiting| waiting != key);
        let permission = self.breaker.borrow_mut().ask(key, others_wait, now_ms);
        match permission {
            Permission::Go => Ask::Go(None),
            Permission::GoAsProbe => {
                self.changed.send_replace(());
                Ask::Go(Some(Probe { target: Rc::clone(self), key: Rc::clone(key) }))
            }
            Permission::Wait { until_ms } => Ask::Wait(Some(until_ms)),
            Permission::LetAnother => Ask::Wait(None),
        }
    }

    /// Whether nothing keeps anybody from asking.
    pub(super) fn is_open_to_all(&self) -> bool {
        self.breaker.borrow().trouble().is_none()
    }

    /// Takes an answer in. Returns since when it is not ready, where that is new.
    pub(super) fn answered(&self, key: &str, answer: &TriggerAnswer, jitter_seed: u64) -> Option<Option<i64>> {
        let mut history = self.history.borrow_mut();
        let (mut not_ready, before) = (NotReady::default(), self.not_ready.get());
        match answer {
            TriggerAnswer::Created => history.passed(key),
            TriggerAnswer::Refused(_) => history.refused(key),
            TriggerAnswer::Unavailable { server_error: true, .. } => history.server_error(key),
            TriggerAnswer::TargetFault(_) => not_ready = before.once_more((self.clock)()),
            TriggerAnswer::Unavailable { .. }
            | TriggerAnswer::Conflict(_)
            | TriggerAnswer::AccessFault(_)
            | TriggerAnswer::Ambiguous(_) => {}
        }
        self.not_ready.set(not_ready);
        let sign = Sign::of(answer, history.view(key).is_failing);
        drop(history);
        self.told(key, sign, jitter_seed);
        (not_ready.since_ms != before.since_ms).then_some(not_ready.since_ms)
    }

    /// It was not ready since then, for all that an earlier life of the watcher knew.
    pub(super) fn remember_not_ready(&self, since_ms: i64) {
        self.not_ready.set(NotReady { answers: 0, since_ms: Some(since_ms) });
    }

    /// Airflow failed on a question about the message.
    pub(super) fn could_not_say(&self, key: &str, reason: &str, jitter_seed: u64) {
        self.told(key, Sign::Failed { reason: reason.to_owned(), at_least: None }, jitter_seed);
    }

    fn told(&self, key: &str, sign: Sign, jitter_seed: u64) {
        let now_ms = (self.clock)();
        let is_well_again = self.change(|breaker| breaker.answered(key, sign, now_ms, jitter_seed));
        if is_well_again && let Some(all) = self.all.upgrade() {
            let others: Vec<_> = all.borrow().values().map(Rc::clone).collect();
            others.iter().for_each(|other| other.change(|breaker| breaker.look_again(now_ms)));
        }
    }

    /// What its history means for a message.
    pub(super) fn view(&self, key: &str) -> TargetView {
        self.history.borrow().view(key)
    }

    /// Why it takes no runs, whoever may ask.
    pub(super) fn cause(&self) -> Option<Down> {
        let breaker = self.breaker.borrow();
        let is_for_long = self.not_ready.get().is_for_long((self.clock)());
        breaker.cause().map(|(trouble, reason)| Down { trouble, reason: reason.to_owned(), is_for_long })
    }

    /// Answers in a row that it is not ready.
    pub(super) fn not_ready(&self) -> u32 {
        self.not_ready.get().answers
    }

    /// Why its subscriptions cannot run now, and when that is to be looked at again, if nothing happens before: a target
    /// that may be probed and for which nothing is held can run as far as consuming goes.
    pub(super) fn down(&self) -> (Option<Down>, Option<i64>) {
        let (breaker, has_held) = (self.breaker.borrow(), self.held.get() > 0);
        if breaker.blocked(has_held, (self.clock)()).is_none() {
            return (None, None);
        }
        (self.cause(), breaker.next_probe_ms().filter(|_| !has_held))
    }

    /// Resolves once whoever waits has to look again. What happens after the call counts.
    pub(super) fn turned(&self) -> impl Future<Output = ()> {
        self.turned.notified()
    }

    /// A delivery is held for it, for as long as what is returned lives.
    pub(super) fn hold(self: &Rc<Self>) -> HeldFor {
        self.held.set(self.held.get() + 1);
        HeldFor { target: Rc::clone(self), waits: None }
    }

    /// A delivery waits for its turn to ask, for as long as what is returned lives.
    pub(super) fn wait(self: &Rc<Self>, key: &Rc<str>) -> HeldFor {
        *self.waiting.borrow_mut().entry(Rc::clone(key)).or_default() += 1;
        self.held.set(self.held.get() + 1);
        HeldFor { target: Rc::clone(self), waits: Some(Rc::clone(key)) }
    }
}

/// A delivery that is held for a target.
pub(super) struct HeldFor {
    target: Rc<Target>,
    waits: Option<Rc<str>>,
}

impl Drop for HeldFor {
    fn drop(&mut self) {
        let target = &self.target;
        if let Some(key) = &self.waits {
            let mut waiting = target.waiting.borrow_mut();
            if let Some(count) = waiting.get_mut(key) {
                *count -= 1;
                if *count == 0 {
                    waiting.remove(key);
                }
            }
        }
        target.held.set(target.held.get() - 1);
        if target.held.get() == 0 && !target.is_open_to_all() {
            target.changed.send_replace(());
        }
    }
}
