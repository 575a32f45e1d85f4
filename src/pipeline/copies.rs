//! Copies on their way out and on their way in.

use std::cell::Cell;
use std::rc::Rc;

use futures_util::future::LocalBoxFuture;

use crate::domain::content::BodyLimits;
use crate::domain::copy::{CopyHeader, HEADER, Part, Undressed, undress};
use crate::domain::envelope::Envelope;
use crate::domain::key::DeliveryKey;
use crate::domain::run_id::replays_behind;
use crate::domain::table::{Route, Table};
use crate::ports::{Broker, Outgoing, Published};
use crate::telemetry::events;

/// Publishes copies, and takes those that arrive apart.
pub(super) struct Copies {
    publish: Box<dyn Fn(Outgoing) -> LocalBoxFuture<'static, Published>>,
    /// A header that is not believed was said.
    doubted: Cell<bool>,
}

impl Copies {
    pub(super) fn over<B: Broker + 'static>(broker: &Rc<B>) -> Self {
        let broker = Rc::clone(broker);
        let publish = move |copy| -> LocalBoxFuture<'static, Published> {
            let broker = Rc::clone(&broker);
            Box::pin(async move { broker.publish(copy).await })
        };
        Self { publish: Box::new(publish), doubted: Cell::default() }
    }

    /// Bounded as [`Broker::publish`] is.
    pub(super) async fn publish(&self, copy: Outgoing) -> Published {
        (self.publish)(copy).await
    }

    /// The message as it was before it was copied, and what it says as a copy. All others come out as they went in.
    pub(super) fn undressed(
        &self,
        envelope: Envelope,
        table: &Table,
        limits: BodyLimits,
    ) -> (Envelope, Option<CopyHeader>) {
        if !envelope.headers.contains_key(HEADER) {
            return (envelope, None);
        }
        match undress(&envelope, DeliveryKey::of, |original, part| follows(table, limits, original, part)) {
            Undressed::Plain => (envelope, None),
            Undressed::Copy(original, header) => (*original, Some(header)),
            Undressed::Forged(why) => {
                if !self.doubted.replace(true) {
                    tracing::warn!(
                        event = events::COPY_DOUBTED,
                        reason = why.code(),
                        "RMQ Watcher: a message of queue '{}' has the header {HEADER} and is not the copy that it says it is; such \
                         messages are treated as any other",
                        envelope.queue,
                    );
                }
                (envelope, None)
            }
        }
    }
}

/// Whether a row of this message may have the number and the run id that a copy names: by its own key, or by that of a
/// subscription with the part's target.
fn follows(table: &Table, limits: BodyLimits, original: &Envelope, part: &Part) -> bool {
    let own = DeliveryKey::of(original);
    let is = |key: &DeliveryKey| replays_behind(&original.queue, key, part.n, &part.run_id).is_some();
    let named = |route: &Rc<Route>| {
        route.target() == part.target && route.key_of(original, &own, limits).is_some_and(|key| is(&key))
    };
    is(&own) || table.routes().iter().any(named)
}
