//! A delivery near the end of its budget: copied, held, dead-lettered, or kept before its next return ends it.

use tokio::time::{Instant, sleep_until};

use super::{Delivery, Judging};
use crate::domain::budget::{Act, KEPT_MOST_BYTES, must_not_reject};
use crate::domain::copy::{CopyHeader, Dressed, MOST_COPIES, MOST_PARTS, dress};
use crate::domain::fault::BrokerFaultKind;
use crate::domain::ledger::Outcome;
use crate::domain::options::OnBudget;
use crate::domain::payload::message_head;
use crate::domain::routing::ReturnedFor;
use crate::pipeline::budget::{Call, call, is_last, left_of, returns};
use crate::pipeline::channel::Held;
use crate::pipeline::context::Arrow;
use crate::pipeline::hold::{Woken, pause, unless_ended};
use crate::pipeline::ledgered;
use crate::ports::{Dags, Outgoing, Published, Runs, Settler, Verb};
use crate::store::ledger::{Read, RowId};

/// The reason of what was dead-lettered for its budget.
const SPENT: &str = "delivery budget spent";

impl<R: Runs + Dags, S: Settler> Delivery<R, S> {
    /// Does what the budget calls for of a delivery whose open matches are all blocked. Returns whether it has ended.
    pub(super) async fn spend(&mut self, act: Act) -> Result<bool, Woken> {
        match act {
            Act::Copy => self.copy(self.seen_before()).await,
            Act::DeadLetter => {
                let reason = self.spent();
                for one in self.matches.iter_mut().filter(|one| !one.is_done()) {
                    one.refuse(&reason).await?;
                }
                Ok(false)
            }
            // Begun where it was decided.
            Act::Hold => Ok(false),
        }
    }

    fn spent(&self) -> String {
        format!("{SPENT}: {}", left_of(self.desk.sight.limit(), returns(&self.hand)))
    }

    fn seen_before(&self) -> u32 {
        self.hand.copy.as_ref().map_or(0, |header| header.seen).saturating_add(returns(&self.hand).unwrap_or(0))
    }

    /// What becomes of a delivery that starts nothing and is not let go.
    pub(super) async fn park_unmatched(&mut self, reason: ReturnedFor) -> Result<Judging, Woken> {
        let carried = self.hand.copy.as_ref().map_or(0, |header| header.seen);
        let seen = self.desk.sight.sighted(&self.hand.envelope, &self.hand.key, carried);
        let mut orders = self.desk.orders.clone();
        orders.mark_unchanged();
        loop {
            let wishes: Vec<OnBudget> =
                self.table.taking_part().map(|route| route.subscription.options.on_budget).collect();
            let look = match call(&self.desk, &self.hand, &wishes, true) {
                Call::Nothing => return Ok(Judging::Park(self.unmatched(seen, reason))),
                Call::Act(Act::Copy) => {
                    self.have_row_beside().await?;
                    if self.copy(seen).await? {
                        return Ok(Judging::Done);
                    }
                    continue;
                }
                Call::Act(Act::DeadLetter) => {
                    let reason = self.spent();
                    return self.dead_letter_unmatched(&reason).await.map(|()| Judging::Done);
                }
                Call::Act(Act::Hold) => None,
                Call::Stay(look) => look,
            };
            let look = async {
                match look {
                    Some(look) => sleep_until(look).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                Ok(()) = orders.changed() => return self.release_rows().await.map(|()| Judging::Anew),
                looked = unless_ended(&self.hand.seat, &mut self.phase, look) => looked?,
            }
        }
    }

    /// A row for a message that is for nobody.
    async fn have_row_beside(&mut self) -> Result<RowId, Woken> {
        if let Some(row) = self.beside {
            return Ok(row);
        }
        let mut tries = 0;
        loop {
            let delivery = ledgered::delivery(&self.hand, self.again.get());
            match self.desk.context.store.unmatched_row(delivery, self.now_ms()).await {
                Ok(row) => {
                    self.beside = Some(row);
                    self.noted.borrow_mut().push(row);
                    return Ok(row);
                }
                Err(error) => {
                    tries += 1;
                    self.store_refused(&error, tries).await?;
                }
            }
        }
    }

    /// Copies the message and acknowledges this delivery of it. Returns whether that is done; else it is due again later, or never.
    async fn copy(&mut self, seen: u32) -> Result<bool, Woken> {
        let (rows, context) = (self.noted.borrow().clone(), self.desk.context.clone());
        let original = self.hand.copy.is_none().then_some(self.hand.envelope.epoch);
        let (number, parts) = match context.store.begin_copy(rows.clone(), original, self.now_ms()).await {
            Ok(begun) => begun,
            Err(error) => {
                self.not_copied();
                for member in self.desk.members.all() {
                    drop(member.report.store_refused(&context, &error).await);
                }
                return Ok(false);
            }
        };
        context.at(Arrow::Copying);
        if parts.len() > MOST_PARTS || number > MOST_COPIES {
            self.hand.spending.fits_not.set(true);
            return Ok(false);
        }
        let envelope = &self.hand.envelope;
        let header = CopyHeader { key: self.hand.key.clone(), copy: number, seen, parts };
        let Dressed { properties, headers } = dress(envelope, &header);
        let (conn_id, queue, body) = (envelope.conn_id.clone(), envelope.queue.clone(), envelope.body.clone());
        let published = self.desk.copies.publish(Outgoing { conn_id, queue, properties, headers, body }).await;
        let (conn_id, limit) = (&self.hand.envelope.conn_id, self.desk.sight.limit());
        let fault = match published {
            Published::Confirmed => {
                context.at(Arrow::Copied);
                context.refusals.lift(conn_id);
                context.store.confirm_copy(rows.clone(), number, self.now_ms()).await;
                let left = left_of(limit, returns(&self.hand));
                self.say(|report, now_ms| report.copied(number, &left, now_ms));
                self.acknowledge_replaced(rows).await?;
                return Ok(true);
            }
            Published::Refused(fault) => {
                if fault.kind == BrokerFaultKind::AccessRefused {
                    context.refusals.note(conn_id);
                } else {
                    self.hand.spending.fits_not.set(true);
                }
                fault
            }
            Published::Failed(fault) | Published::Unknown(fault) => {
                self.not_copied();
                fault
            }
        };
        self.say(|report, _| report.not_copied(&fault));
        Ok(false)
    }

    /// Another try later.
    fn not_copied(&self) {
        let spending = &self.hand.spending;
        spending.tries.set(spending.tries.get() + 1);
        spending.next.set(Some(Instant::now() + pause(spending.tries.get(), None, self.desk.context.seed())));
    }

    /// Lets one of the subscriptions that want the message say it.
    fn say(&self, line: impl FnOnce(&crate::pipeline::report::Report, i64)) {
        let of_match = self.matches.iter().find(|one| !one.is_done()).map(|one| one.member.clone());
        if let Some(member) = of_match.or_else(|| self.desk.members.all().into_iter().next()) {
            line(&member.report, self.now_ms());
        }
    }

    /// Acknowledges a delivery that a copy stands for.
    pub(super) async fn acknowledge_replaced(&mut self, rows: Vec<RowId>) -> Result<(), Woken> {
        let held = self.hand.seat.take().filter(Held::can_be_settled).ok_or(Woken::Lost)?;
        let rows = if self.hand.copy.is_none() { rows } else { Vec::new() };
        held.settle(Verb::Ack, rows.into_iter().map(|row| (row, Read::Replaced)).collect()).await;
        self.desk.flights.land(&self.aboard.seat);
        self.desk.context.at(Arrow::VerbSent);
        Ok(())
    }

    /// Keeps a message whose next return ends it, whoever brings that about, unless it is safe in a dead-letter exchange or is too
    /// large. What cannot be kept goes on unkept: it is not given back by us.
    pub(super) async fn keep_if_last(&mut self) {
        let must_keep = self.must_keep();
        if self.hand.spending.kept.get() || !must_keep || !is_last(&self.desk, &self.hand) || self.is_too_large() {
            return;
        }
        let noted = self.noted.borrow().first().copied();
        let row = match noted {
            Some(row) => Some(row),
            None => self.have_row_beside().await.ok(),
        };
        if let Some(row) = row {
            let kept = self.desk.context.store.keep_spent(row, self.spent(), self.message(), self.now_ms()).await;
            self.hand.spending.kept.set(kept.is_ok());
            if kept.is_ok() {
                self.say(|report, now_ms| report.last_return(now_ms));
            }
        }
    }

    /// Its body, and all else of it as JSON.
    pub(super) fn message(&self) -> (String, bytes::Bytes) {
        (message_head(&self.hand.envelope).to_string(), self.hand.envelope.body.clone())
    }

    /// Whether what is rejected has to be kept by us.
    pub(super) fn must_keep(&self) -> bool {
        self.desk.sight.must_keep_rejected()
    }

    pub(super) fn is_too_large(&self) -> bool {
        self.bytes() > KEPT_MOST_BYTES
    }

    /// Waits until a message that may not be rejected can be: for as long as it may be held.
    pub(super) async fn until_safe_to_reject(&mut self) -> Result<(), Woken> {
        let mut tries = 0;
        while must_not_reject(self.must_keep(), self.bytes()) {
            tries += 1;
            let mut held = Vec::new();
            for member in self.desk.members.all() {
                held.push(member.report.not_rejected(&self.desk.context, self.bytes()).await);
            }
            self.pause(tries, None).await?;
        }
        Ok(())
    }

    /// Makes sure that what was refused is kept, or known to have somewhere to go, before it is rejected.
    pub(super) async fn have_kept(&mut self) -> Result<(), Woken> {
        self.until_safe_to_reject().await?;
        if !self.must_keep() {
            return Ok(());
        }
        let refused = |one: &super::Matched<R, S>| {
            let (outcome, reason) = one.outcome()?;
            (*outcome == Outcome::Dlq).then_some((one.ledgered.row?, reason.clone()))
        };
        let refused: Vec<(RowId, String)> = self.matches.iter().filter_map(refused).collect();
        let mut tries = 0;
        loop {
            let (store, now_ms) = (self.desk.context.store.clone(), self.now_ms());
            let rows = refused.iter().map(|(row, _)| *row).collect();
            let kept = async {
                if !store.are_kept(rows).await? {
                    for (row, reason) in &refused {
                        store.keep_spent(*row, reason.clone(), self.message(), now_ms).await?;
                    }
                }
                Ok(())
            };
            let Err(error) = kept.await else { return Ok(()) };
            tries += 1;
            self.store_refused(&error, tries).await?;
        }
    }
}
