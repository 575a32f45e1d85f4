//! Before anything is asked of a target: a delivery is judged, and its rows are written and taken over.

use std::rc::Rc;

use super::{Delivery, Desk, Judging};
use crate::domain::ids::SubscriptionId;
use crate::domain::ledger::Binding;
use crate::domain::miss_series::Seen;
use crate::domain::routing::{NoMatch, Verdict};
use crate::domain::subscription::Subscription;
use crate::domain::table::Route;
use crate::pipeline::flights::Boarding;
use crate::pipeline::hold::unless_ended;
use crate::pipeline::ledgered::{self, Ledgered};
use crate::pipeline::matched::{Ahead, Matched};
use crate::ports::{Dags, Runs, Settler};
use crate::store::ledger::Candidate;

impl<R: Runs + Dags, S: Settler> Delivery<R, S> {
    /// Writes the rows before anything is asked of a target. `None`: the delivery ended.
    pub(super) async fn record_intent(&mut self) -> Option<()> {
        let verdicts = self.table.judge(&self.hand.envelope, self.desk.context.body_limits());
        let mut ahead: Vec<(SubscriptionId, Ahead)> = Vec::new();
        for (row, route) in verdicts.rows.iter().zip(self.table.routes()) {
            if row.verdict == Some(Verdict::Match) && route.standing.takes_part() {
                ahead.extend(self.take_ahead(&route.subscription).map(|ahead| (row.subscription, ahead)));
            }
        }
        let mut tries = 0;
        let bound = loop {
            let is_ahead = |id| ahead.iter().any(|(of, _)| *of == id);
            let key_of =
                |route: &Route| route.key_of(&self.hand.envelope, &self.hand.key, self.desk.context.body_limits());
            let candidate = |(row, route): (&_, &Rc<Route>)| Candidate {
                target: route.target(),
                key: key_of(route),
                row: *row,
                send: is_ahead(route.subscription.id),
            };
            let candidates = verdicts.rows.iter().zip(self.table.routes()).map(candidate).collect();
            let store = &self.desk.context.store;
            match ledgered::bind(store, &self.hand, candidates, self.again.get(), self.now_ms()).await {
                Ok(bound) => break bound,
                Err(error) => {
                    // Others may need the places meanwhile.
                    ahead.clear();
                    tries += 1;
                    self.store_refused(&error, tries).await.ok()?;
                }
            }
        };
        if let Some(rows) = bound.superseded {
            tracing::debug!(queue.name = %self.hand.envelope.queue, "a copy stands for this delivery");
            self.acknowledge_replaced(rows).await.ok()?;
            return None;
        }
        (self.no_match, self.beside) = (bound.no_match, bound.beside);
        if !self.again.get() {
            let (matched, dropped) = (!bound.matches.is_empty(), bound.no_match == Some(NoMatch::Drop));
            let error = verdicts.error.as_deref();
            self.desk.sight.note(&self.hand.envelope.queue, Seen { matched, dropped, error });
            let message = (&self.hand.envelope, &self.hand.key);
            self.desk.context.verdicts.note(&self.table, message, verdicts.said, self.now_ms());
        }
        self.error = verdicts.error;
        let is_alone = bound.matches.len() == 1;
        self.noted.replace(bound.matches.iter().filter_map(|one| one.row).chain(bound.beside).collect());
        let of = |ledgered: Ledgered| {
            let route = self.table.get(ledgered.subscription)?;
            let at = ahead.iter().position(|(of, _)| *of == ledgered.subscription);
            let place = at.map(|at| ahead.swap_remove(at).1);
            Some(Matched::new((&self.desk, &self.hand), &route.subscription, ledgered, place, is_alone))
        };
        self.matches = bound.matches.into_iter().filter_map(of).collect();
        for one in &self.matches {
            if let Binding::New { id_collision: true, .. } = one.ledgered.binding {
                one.member.report.id_collision(&one.ledgered.run_id, self.now_ms());
            }
        }
        Some(())
    }

    /// What a request needs, if it could go now.
    fn take_ahead(&self, subscription: &Rc<Subscription>) -> Option<Ahead> {
        let Desk { context, members, .. } = &*self.desk;
        if !context.targets.get(&subscription.dag_id).is_open_to_all() {
            return None;
        }
        let slot = members.of(context, subscription).slots.try_take()?;
        Some(Ahead { slot, place: context.requests.try_take()? })
    }

    /// Takes the rows over. `None`: another task drives these very rows.
    pub(super) async fn hand_in(&mut self) -> Option<Judging> {
        let rows = self.noted.borrow().clone();
        match self.desk.flights.board(&self.hand.seat, &rows) {
            Boarding::Seated => Some(Judging::Done),
            Boarding::Joined => None,
            Boarding::Taken(other) => {
                let landed = async {
                    other.landed().await;
                };
                unless_ended(&self.hand.seat, &mut self.phase, landed).await.ok()?;
                Some(Judging::Anew)
            }
        }
    }
}
