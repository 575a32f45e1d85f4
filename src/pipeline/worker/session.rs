//! One life of a channel: receive, take, park, until it is lost or the end is asked for.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use tokio::time::{Instant, sleep_until, timeout};

use super::{BROKER_ON_STOP, Ended, STEADY_AFTER, SettlerOf, Worker};
use crate::domain::envelope::Envelope;
use crate::domain::ids::ConsumerTag;
use crate::domain::plan::Place;
use crate::pipeline::channel::{Channel, Held};
use crate::pipeline::delivery::{Noted, handle};
use crate::pipeline::parking::ParkingLot;
use crate::ports::{Broker, Consumer as _, Dags, Runs};

/// After so long whatever an earlier channel held has come back: three heartbeats of the default, doubled. See
/// [`crate::store::Store::close_older`].
const ALL_RETURNED_AFTER: Duration = Duration::from_secs(180);

impl<R: Runs + Dags + 'static, B: Broker + 'static> Worker<R, B>
where
    SettlerOf<B>: 'static,
{
    /// Receives until the channel is lost or the end is asked for. While nobody can run nothing new is consumed; what is
    /// held stays where it is, on this channel.
    pub(super) async fn consume(
        &mut self,
        mut consumer: B::Consumer,
        channel: Rc<Channel<SettlerOf<B>>>,
        tag: ConsumerTag,
    ) -> Ended {
        self.consumes_as(tag).await;
        (self.lot, self.unblocking) = (Some((Rc::clone(&channel), ParkingLot::new(channel.epoch))), BTreeMap::new());
        let mut table = self.signals.table();
        let since = Instant::now();
        self.confirm_on(&channel);
        let mut older_are_open = true;
        let ended = loop {
            match self.follow_blockers(&mut consumer, &channel).await {
                Ok(()) => {}
                Err(ended) => break ended,
            }
            if self.signals.table() != table {
                table = self.signals.table();
                let out = self.lot.as_mut().map(|(_, lot)| lot.take_for_new_rows(|id| table.takes_part(id)));
                self.give_back(out.unwrap_or_default()).await;
            }
            match self.tend_parking(&mut consumer, &channel).await {
                Ok(()) => {}
                Err(ended) => break ended,
            }
            let due = self.lot.as_ref().and_then(|(_, lot)| lot.next_due());
            tokio::select! {
                biased;
                () = self.signals.changed() => {}
                () = self.desk.members.changed() => {}
                () = self.desk.hold_back.changed.notified() => {}
                Some(done) = self.tasks.join_next_with_id() => self.reap(done).await,
                () = sleep_until(due.unwrap_or(since)), if due.is_some() => {
                    let out = self.lot.as_mut().map(|(_, lot)| lot.take_due());
                    self.give_back(out.unwrap_or_default()).await;
                }
                received = consumer.next() => match received {
                    Ok(envelope) => {
                        if older_are_open && !envelope.redelivered && since.elapsed() >= ALL_RETURNED_AFTER {
                            older_are_open = false;
                            self.close_older(&channel).await;
                        }
                        self.take(envelope, &channel);
                    }
                    Err(fault) => break Ended::Lost(fault),
                },
            }
        };
        self.lot = None;
        self.end(&ended, consumer, &channel).await;
        if since.elapsed() >= STEADY_AFTER {
            self.failures = 0;
        }
        self.desk.context.store.end_epoch(channel.epoch, self.desk.context.now_ms()).await;
        ended
    }

    /// Ends the life of a channel as befits why receiving ended.
    pub(super) async fn end(&mut self, ended: &Ended, consumer: B::Consumer, channel: &Rc<Channel<SettlerOf<B>>>) {
        match ended {
            Ended::Leaving => return self.stop(consumer, channel).await,
            Ended::Idle => drop(timeout(BROKER_ON_STOP, channel.confirm_now(&self.desk.context)).await),
            Ended::Lost(_) => {}
        }
        channel.end();
        consumer.close().await;
    }

    /// Says that the consumer has this tag now.
    pub(super) async fn consumes_as(&mut self, tag: ConsumerTag) {
        for member in self.desk.members.all() {
            member.report.attached(&self.desk.context, &tag).await;
        }
        self.tag = Some(self.desk.context.attached.hold(&self.place.conn_id, &tag));
    }

    pub(super) fn take(&mut self, envelope: Envelope, channel: &Rc<Channel<SettlerOf<B>>>) {
        let deadline = self.desk.ack_deadline();
        let turn = self.lot.as_ref().map_or(0, |(_, lot)| lot.turn());
        let hold = || Held::new(Rc::clone(channel), envelope.tag, turn, deadline);
        let (held, spare, noted) = (hold(), hold(), Noted::default());
        let table = self.signals.table();
        let task = self.tasks.spawn_local(handle(Rc::clone(&self.desk), table, envelope, held, Rc::clone(&noted)));
        self.held.insert(task.id(), (spare, noted));
    }

    pub(super) fn confirm_on(&mut self, channel: &Rc<Channel<SettlerOf<B>>>) {
        let (desk, channel) = (Rc::clone(&self.desk), Rc::clone(channel));
        self.tasks.spawn_local(async move {
            tokio::select! {
                () = channel.ended() => {}
                () = channel.confirm(&desk.context, &desk.members) => {}
            }
            None
        });
    }

    pub(super) async fn close_older(&self, channel: &Channel<SettlerOf<B>>) {
        let (context, Place { conn_id, queue }) = (&self.desk.context, self.place.clone());
        context.store.close_older(conn_id, queue, channel.epoch, context.now_ms()).await;
    }
}
