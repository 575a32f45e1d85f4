//! How a delivery ends: settled, dead-lettered unread, judged anew or given back.

use super::Delivery;
use crate::domain::ids::SubscriptionId;
use crate::domain::ledger::Outcome;
use crate::domain::payload::message_head;
use crate::domain::settlement::SUBSCRIPTION_REMOVED;
use crate::pipeline::channel::Held;
use crate::pipeline::context::Arrow;
use crate::pipeline::hold::Woken;
use crate::pipeline::ledgered;
use crate::pipeline::matched::Matched;
use crate::ports::{Dags, Runs, Settler, Verb};
use crate::store::ledger::RowId;

impl<R: Runs + Dags, S: Settler> Delivery<R, S> {
    /// Dead-letters a message that no filter could read. It is kept first, for want of a dead-letter exchange.
    pub(super) async fn dead_letter_unread(&mut self) -> Result<(), Woken> {
        let reason = self.error.clone().unwrap_or_default();
        let (envelope, key) = (&self.hand.envelope, &self.hand.key);
        let (delivery, message) = (
            ledgered::delivery(envelope, key, self.again.get()),
            (message_head(envelope).to_string(), envelope.body.clone()),
        );
        let mut tries = 0;
        let row = loop {
            let (delivery, message, now_ms) = (delivery.clone(), message.clone(), self.now_ms());
            match self.desk.context.store.keep_unread(delivery, reason.clone(), message, now_ms).await {
                Ok(row) => break row,
                Err(error) => {
                    tries += 1;
                    self.store_refused(&error, tries).await?;
                }
            }
        };
        let now_ms = self.now_ms();
        self.desk.members.all().iter().for_each(|member| member.report.unreadable(&reason, now_ms));
        let held = self.hand.seat.take().filter(Held::can_be_settled).ok_or(Woken::Lost)?;
        self.desk.context.store.send_verb(vec![(row, Outcome::Dlq, String::new())], now_ms).await;
        held.settle(Verb::DeadLetter, vec![row]).await;
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
        // A redelivery from here on has a flight of its own, and finds the outcomes in the rows or the runs by their ids.
        self.desk.flights.land(&self.aboard.seat);
        let (store, now_ms) = (&self.desk.context.store, self.now_ms());
        let Some(held) = self.hand.seat.take().filter(Held::can_be_settled) else {
            for one in self.matches.iter().filter(|one| !one.is_known) {
                if let (Some(row), Some((outcome, reason))) = (one.ledgered.row, one.outcome()) {
                    store.decide(row, *outcome, reason.clone(), now_ms).await;
                }
            }
            return Err(Woken::Lost);
        };
        let decided = |one: &Matched<R, S>| {
            let (outcome, reason) = one.outcome()?;
            Some((one.ledgered.row?, *outcome, reason.clone()))
        };
        let rows: Vec<(RowId, Outcome, String)> = self.matches.iter().filter_map(decided).collect();
        let ids = rows.iter().map(|(row, _, _)| *row).collect();
        if !rows.is_empty() {
            store.send_verb(rows, now_ms).await;
        }
        held.settle(verb, ids).await;
        self.desk.context.at(Arrow::VerbSent);
        Ok(())
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
        if let Some(held) = self.hand.seat.take() {
            let tried = self.matches.iter().any(|one| one.tried);
            held.settle(if tried { Verb::GiveBackTried } else { Verb::GiveBackUntried }, Vec::new()).await;
        }
    }
}
