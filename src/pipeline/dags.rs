//! The DAG book: what Airflow has said of every DAG that somebody here cares about, and who waits for which.
//!
//! Written by the control flow's reading of each cycle, by [`ask_waiting`] and by questions asked for single deliveries; read
//! by workers, each of which is woken only when its own DAG changes. What is believed is decided in
//! [`crate::domain::dag_state`].
//!
//! Invariants (`tests/flow`): with nobody waiting there is no timer and no request; a failed read wakes nobody who knows.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep_until};

use super::context::Context;
use crate::domain::dag_reading::{ASK_EVERY, Reading, pause, reading};
use crate::domain::dag_state::{DagRecord, DagView};
use crate::domain::ids::DagId;
use crate::domain::outcome::{DagLookup, Part};
use crate::ports::Dags;
use crate::telemetry::events;

/// Those who begin to wait at the same time are asked for together.
const GATHER: Duration = Duration::from_millis(20);

/// What is known of DAGs.
pub struct DagBook {
    entries: RefCell<HashMap<DagId, Entry>>,
    /// Somebody began to wait, or to doubt.
    called: Notify,
    learnt: RefCell<Vec<(DagId, bool)>>,
    /// Something was learnt.
    learning: Notify,
    /// The last failure that was told to people, until a read succeeds.
    said: RefCell<Option<String>>,
    total: Cell<Option<usize>>,
    pause: Cell<Duration>,
}

struct Entry {
    record: DagRecord,
    view: watch::Sender<DagView>,
    /// How many wait for it, and how many of them would drop messages were it missing for good.
    waiting: usize,
    dropping: usize,
    doubted: bool,
    asking: bool,
    due: Instant,
}

impl Entry {
    fn new(seen_unpaused: bool) -> Self {
        let record = DagRecord::new(seen_unpaused);
        let view = watch::Sender::new(record.view());
        let due = Instant::now();
        Self { record, view, waiting: 0, dropping: 0, doubted: false, asking: false, due }
    }

    fn is_wanted(&self) -> bool {
        !self.asking && (self.waiting > 0 || self.doubted || self.record.is_in_doubt())
    }
}

impl Default for DagBook {
    fn default() -> Self {
        Self {
            entries: RefCell::default(),
            called: Notify::new(),
            learnt: RefCell::default(),
            learning: Notify::new(),
            said: RefCell::default(),
            total: Cell::default(),
            pause: Cell::new(ASK_EVERY),
        }
    }
}

/// Somebody waits for a DAG for as long as this lives.
pub(super) struct Waiting {
    book: Rc<DagBook>,
    dag: DagId,
    drops: bool,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.book.with(&self.dag, |entry| {
            entry.waiting -= 1;
            entry.dropping -= usize::from(self.drops);
        });
    }
}

impl DagBook {
    /// Takes in what an earlier life of the watcher has learnt: DAGs that were seen unpaused.
    pub fn remember_unpaused(&self, dags: impl IntoIterator<Item = DagId>) {
        let mut entries = self.entries.borrow_mut();
        for dag in dags {
            entries.entry(dag).or_insert_with(|| Entry::new(true));
        }
    }

    /// What is to be written down: DAGs that were seen unpaused (`true`) or are gone (`false`) since the last call.
    pub fn take_learnt(&self) -> Vec<(DagId, bool)> {
        self.learnt.take()
    }

    /// Puts back what could not be written down; what was learnt meanwhile comes after it.
    pub fn put_back(&self, mut learnt: Vec<(DagId, bool)>) {
        let mut now = self.learnt.borrow_mut();
        learnt.append(&mut now);
        *now = learnt;
    }

    /// Resolves once there is something to write down.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn has_learnt(&self) {
        while self.learnt.borrow().is_empty() {
            self.learning.notified().await;
        }
    }

    /// Whether Airflow counts a DAG as active, by an answer that came at or after `since_ms`; `None` where there is none.
    pub fn is_active(&self, dag: &DagId, since_ms: i64) -> Option<bool> {
        self.entries.borrow().get(dag)?.record.is_active(since_ms)
    }

    /// What is known of a DAG, now and at every change.
    pub fn watch(&self, dag: &DagId) -> watch::Receiver<DagView> {
        self.with(dag, |entry| entry.view.subscribe())
    }

    /// Has Airflow asked for a DAG every few seconds, as long as what is returned lives. `drops`: messages are to be dropped
    /// once the DAG is missing for good.
    pub(super) fn wait_for(self: &Rc<Self>, dag: &DagId, drops: bool) -> Waiting {
        self.with(dag, |entry| {
            entry.waiting += 1;
            entry.dropping += usize::from(drops);
            entry.due = entry.due.min(Instant::now() + GATHER);
        });
        self.called.notify_one();
        Waiting { book: Rc::clone(self), dag: dag.clone(), drops }
    }

    /// Has Airflow asked for a DAG soon: an answer to something else contradicts what is known.
    pub(super) fn doubt(&self, dag: &DagId) {
        self.with(dag, |entry| entry.doubted = true);
        self.called.notify_one();
    }

    fn with<T>(&self, dag: &DagId, change: impl FnOnce(&mut Entry) -> T) -> T {
        let mut entries = self.entries.borrow_mut();
        match entries.get_mut(dag) {
            Some(entry) => change(entry),
            None => change(entries.entry(dag.clone()).or_insert_with(|| Entry::new(false))),
        }
    }

    /// Takes in what was said of a DAG, and returns what is known now.
    pub(super) fn heard(&self, dag: &DagId, said: &DagLookup, processor: Part, now_ms: i64) -> DagView {
        self.note_failure(match said {
            DagLookup::Unknown(reason) => Some(reason),
            DagLookup::Found(_) | DagLookup::Absent => None,
        });
        let (before, after, in_doubt) = self.with(dag, |entry| {
            let before = entry.record.view().seen_unpaused;
            entry.record.heard(said, processor, now_ms);
            if entry.record.is_in_doubt() {
                // Asked again at once, a DAG that is just being read anew would be absent twice.
                entry.due = Instant::now() + ASK_EVERY;
            }
            let view = entry.record.view();
            entry.view.send_if_modified(|known| {
                *known != view && {
                    known.clone_from(&view);
                    true
                }
            });
            (before, view, entry.record.is_in_doubt())
        });
        if after.seen_unpaused != before {
            self.learnt.borrow_mut().push((dag.clone(), after.seen_unpaused));
            self.learning.notify_one();
        }
        if in_doubt {
            self.called.notify_one();
        }
        after
    }

    fn note_failure(&self, reason: Option<&String>) {
        let news = self.said.borrow().as_ref() != reason;
        if !news {
            return;
        }
        if let Some(reason) = reason {
            tracing::warn!(
                event = events::DAGS_UNREAD,
                "RMQ Watcher: Airflow was asked for its DAGs in vain: {reason}; what is known of them stays in force"
            );
        }
        self.said.replace(reason.cloned());
    }

    fn next_due(&self) -> Option<Instant> {
        let entries = self.entries.borrow();
        entries.values().filter(|entry| entry.is_wanted()).map(|entry| entry.due).min()
    }

    /// Those who are to be asked for now; they count as being asked until [`DagBook::asked`].
    fn take_due(&self) -> BTreeSet<DagId> {
        let now = Instant::now();
        let mut entries = self.entries.borrow_mut();
        let due = entries.iter_mut().filter(|(_, entry)| entry.is_wanted() && entry.due <= now);
        due.map(|(dag, entry)| {
            (entry.asking, entry.doubted) = (true, false);
            dag.clone()
        })
        .collect()
    }

    fn asked(&self, dags: &BTreeSet<DagId>) {
        for dag in dags {
            self.with(dag, |entry| {
                entry.asking = false;
                entry.due = Instant::now() + self.pause.get();
            });
        }
    }
}

/// Asks Airflow about these DAGs, once each, and takes the answers in. Few are asked for one by one, many by the list, and
/// those that are not in it by themselves.
///
/// # Cancel safety
/// What was answered before the future was dropped has been taken in.
pub async fn read_dags<R: Dags>(context: &Context<R>, dags: &BTreeSet<DagId>) {
    let book = &context.dags;
    let (mut alone, mut requests) = (dags.iter().collect::<Vec<_>>(), 0);
    if reading(dags.len(), book.total.get()) == Reading::List {
        let list = {
            let _place = context.requests.take(None).await;
            context.runs.list_dags().await
        };
        requests += list.pages();
        book.total.set(list.total().or(book.total.get()));
        alone.retain(|dag| match list.get(dag) {
            Some(found) => {
                let found = DagLookup::Found(found.clone());
                book.heard(dag, &found, Part::Unknown, context.now_ms());
                false
            }
            None => true,
        });
        if let Some(flaw) = list.flaw() {
            tracing::debug!(flaw, "the list of DAGs is incomplete");
        }
    }
    requests += alone.len();
    // Half of the places at most: deliveries wait for places in the same line.
    let at_once = (context.limits.max_in_flight / 2).max(1);
    futures_util::stream::iter(alone).for_each_concurrent(at_once, |dag| ask(context, dag)).await;
    book.pause.set(pause(requests));
}

async fn ask<R: Dags>(context: &Context<R>, dag: &DagId) {
    let _place = context.requests.take(None).await;
    let drops = context.dags.with(dag, |entry| entry.dropping > 0);
    ask_in_place(context, dag, drops).await;
}

/// Asks for a DAG; the caller has a place among the requests under way. `drops`: whether messages may be dropped if it is
/// missing. Returns the answer and what is known now.
pub(super) async fn ask_in_place<R: Dags>(context: &Context<R>, dag: &DagId, drops: bool) -> (DagLookup, DagView) {
    let said = context.runs.look_up_dag(dag).await;
    let processor = match said {
        DagLookup::Absent if drops => context.runs.dag_processor().await,
        DagLookup::Absent | DagLookup::Found(_) | DagLookup::Unknown(_) => Part::Unknown,
    };
    let view = context.dags.heard(dag, &said, processor, context.now_ms());
    (said, view)
}

/// Asks for the DAGs that are waited for or in doubt, for as long as it is polled. Sleeps while there are none.
pub async fn ask_waiting<R: Dags>(context: Rc<Context<R>>) {
    let mut rounds = FuturesUnordered::new();
    loop {
        let due = context.dags.next_due();
        tokio::select! {
            Some(()) = rounds.next() => {}
            () = context.dags.called.notified() => {}
            () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {
                let (dags, context) = (context.dags.take_due(), Rc::clone(&context));
                rounds.push(async move {
                    read_dags(&context, &dags).await;
                    context.dags.asked(&dags);
                });
            }
        }
    }
}
