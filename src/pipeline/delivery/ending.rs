//! How a delivery ends: settled, dead-lettered unread, judged anew or given back.

use super::Delivery;
use crate::domain::ids::SubscriptionId;
use crate::domain::ledger::Outcome;
use crate::domain::settlement::SUBSCRIPTION_REMOVED;
use crate::pipeline::budget::is_last;
use crate::pipeline::channel::Held;
use crate::pipeline::context::Arrow;
use crate::pipeline::hold::Woken;
use crate::pipeline::ledgered;
use crate::pipeline::matched::Matched;
use crate::ports::{Dags, Runs, Settler, Verb};
use crate::store::ledger::{Read, RowId};

impl<R: Runs + Dags, S: Settler> Delivery<R, S> {
    /// Dead-letters a message that no filter could read. It is kept first, for want of a dead-letter exchange.
    pub(super) async fn dead_letter_unread(&mut self) -> Result<(), Woken> {
        let reason = self.error.clone().unwrap_or_default();
        self.dead_letter_unmatched(&reason).await?;
        let now_ms = self.now_ms();
        self.desk.members.all().iter().for_each(|member| member.report.unreadable(&reason, now_ms));
        Ok(())
    }

    /// Dead-letters a message that starts nothing.
    pub(super) async fn dead_letter_unmatched(&mut self, reason: &str) -> Result<(), Woken> {
        self.until_safe_to_reject().await?;
        let (mut tries, is_kept) = (0, !self.is_too_large());
        let row = loop {
            let delivery = (ledgered::delivery(&self.hand, self.again.get()), self.beside);
            let (message, now_ms) = (is_kept.then(|| self.message()), self.now_ms());
            match self.desk.context.store.keep_unread(delivery, reason.to_owned(), message, now_ms).await {
                Ok(row) => break row,
                Err(error) => {
                    tries += 1;
                    self.store_refused(&error, tries).await?;
                }
            }
        };
        self.note_verb(&[(row, Outcome::Dlq, String::new())]).await?;
        let held = self.hand.seat.take().filter(Held::can_be_settled).ok_or(Woken::Lost)?;
        held.settle(Verb::DeadLetter, vec![(row, self.read_as())]).await;
        self.desk.context.at(Arrow::VerbSent);
        Ok(())
    }

    /// Records the outcomes, then tells the broker.
    pub(super) async fn finish(&mut self, verb: Verb, gone: &[SubscriptionId]) -> Result<(), Woken> {
        for one in self.matches.iter_mut().filter(|one| gone.contains(&one.subscription.id)) {
            one.drop_with(SUBSCRIPTION_REMOVED);
            one.member.report.removed(&one.ledgered.run_id, one.desk.context.now_ms());
        }
        self.desk.context.at(Arrow::Decided);
        let decided = |one: &Matched<R, S>| {
            let (outcome, reason) = one.outcome()?;
            Some((one.ledgered.row?, *outcome, reason.clone()))
        };
        let rows: Vec<(RowId, Outcome, String)> = self.matches.iter().filter_map(decided).collect();
        let ids: Vec<RowId> = rows.iter().map(|(row, _, _)| *row).chain(self.beside).collect();
        let noted = self.note_verb(&rows).await;
        // A redelivery from here on has a flight of its own, and finds the outcomes in the rows or the runs by their ids.
        self.desk.flights.land(&self.aboard.seat);
        let store = &self.desk.context.store;
        if noted == Err(Woken::Lost) {
            let now_ms = self.now_ms();
            for one in self.matches.iter().filter(|one| !one.is_known) {
                if let (Some(row), Some((outcome, reason))) = (one.ledgered.row, one.outcome()) {
                    store.decide(row, *outcome, reason.clone(), now_ms).await;
                }
            }
        }
        noted?;
        let held = self.hand.seat.take().filter(Held::can_be_settled).ok_or(Woken::Lost)?;
        if verb == Verb::Ack && self.hand.spending.kept.get() {
            store.forget_kept(ids.clone()).await;
        }
        held.settle(verb, ids.into_iter().map(|row| (row, self.read_as())).collect()).await;
        self.desk.context.at(Arrow::VerbSent);
        Ok(())
    }

    /// What the broker's word for its verb says of its rows.
    pub(super) fn read_as(&self) -> Read {
        if self.hand.copy.is_some() { Read::SettledByCopy } else { Read::Settled }
    }

    /// Messages without an id may have equal ones: what comes of theirs is in the file before the broker lets them go, and they are
    /// held where the file does not take it.
    async fn note_verb(&mut self, rows: &[(RowId, Outcome, String)]) -> Result<(), Woken> {
        let mut tries = 0;
        while self.hand.seat.with(Held::can_be_settled) == Some(true) {
            let (store, now_ms) = (&self.desk.context.store, self.now_ms());
            let noted = match rows.is_empty() {
                true => Ok(()),
                false if self.hand.key.kind().is_an_id() => {
                    store.send_verb(rows.to_vec(), now_ms).await;
                    Ok(())
                }
                false => store.send_verb_noted(rows.to_vec(), now_ms).await,
            };
            let Err(error) = noted else {
                if tries > 0 {
                    self.file_takes_again().await;
                }
                return Ok(());
            };
            tries += 1;
            self.store_refused(&error, tries).await?;
        }
        Err(Woken::Lost)
    }

    /// Its outcome was said before the file refused it: nothing else would end that trouble.
    async fn file_takes_again(&self) {
        for member in self.desk.members.all() {
            member.report.passed(&self.desk.context, Outcome::Dropped).await;
        }
    }

    /// Marks every row as given back, and lets it go.
    pub(super) async fn release_rows(&mut self) -> Result<(), Woken> {
        let mut tries = 0;
        loop {
            let rows = self.noted.borrow().clone();
            let released = match rows.is_empty() {
                true => Ok(()),
                false => self.desk.context.store.release(rows, self.now_ms()).await,
            };
            match released {
                Ok(()) => {
                    self.desk.flights.land(&self.aboard.seat);
                    self.matches.clear();
                    self.hand.spending.held_back.take();
                    return Ok(());
                }
                Err(error) => {
                    tries += 1;
                    self.store_refused(&error, tries).await?;
                }
            }
        }
    }

    /// The delivery has been held as long as it may: it goes back to the broker and comes again.
    pub(super) async fn give_back(&mut self) {
        if is_last(&self.desk, &self.hand) && self.must_keep() && !self.hand.spending.kept.get() {
            // The broker would drop it: it stays held to the end of its channel.
            for one in self.desk.members.all() {
                drop(one.report.not_rejected(&self.desk.context, self.bytes()).await);
            }
            return;
        }
        let rows = self.noted.borrow().clone();
        if !rows.is_empty()
            && let Err(error) = self.desk.context.store.release(rows, self.now_ms()).await
        {
            // Given back without that record it would get new rows: it stays held to the end of its channel.
            for one in self.desk.members.all() {
                drop(one.report.store_refused(&self.desk.context, &error).await);
            }
            return;
        }
        self.desk.flights.land(&self.aboard.seat);
        if let Some(held_back) = self.hand.spending.held_back.take() {
            held_back.give_back();
        }
        if let Some(held) = self.hand.seat.take() {
            let tried = self.matches.iter().any(|one| one.tried);
            held.settle(if tried { Verb::GiveBackTried } else { Verb::GiveBackUntried }, Vec::new()).await;
        }
    }
}
