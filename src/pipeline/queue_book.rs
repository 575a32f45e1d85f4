//! What is known of the queues that are consumed: one page a queue, read by its worker, renewed once a cycle.
//!
//! Invariants (`tests/flow/facts.rs`): a broker that cannot be asked takes nothing away that is known, keeps nobody from consuming,
//! and holds an attach up by no more than [`BEFORE_ATTACH`], once; the delivery path only reads.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::rc::Rc;
use std::time::Duration;

use tokio::time::{Instant, timeout};

use super::context::Context;
use crate::domain::ids::ConnId;
use crate::domain::plan::Place;
use crate::domain::queue_facts::{Look, NotLooked, QueueFacts};
use crate::ports::Broker;
use crate::telemetry::events;

/// How long the first attach to a queue waits for what the broker says of it.
const BEFORE_ATTACH: Duration = Duration::from_secs(2);

/// The bound of looking at all queues once.
const ALL_QUEUES: Duration = Duration::from_secs(60);

/// So long a management API that failed is not asked before an attach.
const SILENT_FOR: Duration = Duration::from_secs(30);

/// What is known of one queue. Lives as long as its worker.
#[derive(Default)]
pub(super) struct Page {
    pub(super) facts: RefCell<QueueFacts>,
    was_looked_at: Cell<bool>,
}

/// All pages.
#[derive(Default)]
pub struct QueueBook {
    pages: RefCell<HashMap<Place, Rc<Page>>>,
    /// Why the management API of a connection could not be asked, and when that was. As it was said last.
    failed: RefCell<HashMap<ConnId, (String, Instant)>>,
}

impl QueueBook {
    /// The page of a queue.
    pub(super) fn page(&self, place: &Place) -> Rc<Page> {
        Rc::clone(self.pages.borrow_mut().entry(place.clone()).or_default())
    }

    /// What is known of a queue, if it is consumed.
    pub fn facts(&self, place: &Place) -> Option<QueueFacts> {
        let pages = self.pages.borrow();
        pages.get(place).map(|page| page.facts.borrow().clone())
    }

    /// Forgets queues without a worker. Returns the others by connection.
    fn in_use(&self) -> BTreeMap<ConnId, Vec<Place>> {
        let mut pages = self.pages.borrow_mut();
        pages.retain(|_, page| Rc::strong_count(page) > 1);
        let mut all = BTreeMap::<_, Vec<_>>::new();
        for place in pages.keys() {
            all.entry(place.conn_id.clone()).or_default().push(place.clone());
        }
        let used: HashSet<&ConnId> = all.keys().collect();
        self.failed.borrow_mut().retain(|conn_id, _| used.contains(conn_id));
        all
    }

    fn failed_lately(&self, conn_id: &ConnId) -> bool {
        self.failed.borrow().get(conn_id).is_some_and(|(_, at)| at.elapsed() < SILENT_FOR)
    }

    /// Takes in what a look has brought. Returns whether others of the connection may be looked at.
    fn note(&self, place: &Place, look: Look) -> bool {
        let Place { conn_id, queue } = place;
        let page = self.page(place);
        let mut facts = page.facts.borrow_mut();
        facts.release = look.release.or(facts.release);
        match look.facts {
            Ok(told) => {
                page.was_looked_at.set(true);
                *facts = std::mem::take(&mut *facts).renewed(told);
                let facts = &*facts;
                tracing::debug!(%queue, %conn_id, ?facts, "looked at a queue");
                self.answers(conn_id);
                true
            }
            Err(NotLooked::NoQueue) => {
                self.answers(conn_id);
                true
            }
            Err(NotLooked::NotConnected | NotLooked::NoManagement) => false,
            Err(NotLooked::Failed(reason)) => {
                self.fails(conn_id, reason);
                false
            }
        }
    }

    fn answers(&self, conn_id: &ConnId) {
        if self.failed.borrow_mut().remove(conn_id).is_some() {
            tracing::info!(
                event = events::MANAGEMENT_RECOVERED,
                connection.id = %conn_id,
                "RMQ Watcher: the management API of connection '{conn_id}' answers again"
            );
        }
    }

    fn fails(&self, conn_id: &ConnId, reason: String) {
        let mut failed = self.failed.borrow_mut();
        if failed.get(conn_id).is_none_or(|(before, _)| *before != reason) {
            tracing::warn!(
                event = events::MANAGEMENT_FAILED,
                connection.id = %conn_id,
                "RMQ Watcher: the management API of connection '{conn_id}' cannot be asked: {reason}. Consuming goes on; delivery \
                 limits, dead-letter exchanges and timeouts of its queues are taken as they were, or as not known"
            );
        }
        failed.insert(conn_id.clone(), (reason, Instant::now()));
    }
}

/// Has the broker asked what the queue is, before the first attach to it: how many deliveries may be taken, and whether the
/// consumer may be rolled, hangs on that. The connection has to be open.
pub(super) async fn look_before_attach<R, B: Broker>(context: &Context<R>, broker: &B, place: &Place) {
    let book = &context.queues;
    if book.page(place).was_looked_at.get() || book.failed_lately(&place.conn_id) {
        return;
    }
    let look = timeout(BEFORE_ATTACH, broker.look_at(place, &context.our_tags())).await;
    let late = || NotLooked::Failed(format!("no answer within {} s", BEFORE_ATTACH.as_secs()));
    book.note(place, look.unwrap_or_else(|_| Look { release: None, facts: Err(late()) }));
}

/// Looks at every queue that is consumed, one after the other; where a connection's management API fails, the rest of its queues
/// stay as they are known.
pub async fn look_at_queues<R, B: Broker>(context: Rc<Context<R>>, broker: Rc<B>) {
    let all = async {
        let our_tags = context.our_tags();
        for places in context.queues.in_use().into_values() {
            for place in places {
                let look = broker.look_at(&place, &our_tags).await;
                if !context.queues.note(&place, look) {
                    break;
                }
            }
        }
    };
    if timeout(ALL_QUEUES, all).await.is_err() {
        tracing::debug!("there was no time to look at every queue");
    }
}
