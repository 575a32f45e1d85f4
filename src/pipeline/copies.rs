//! Copies on their way out and on their way in.

use std::cell::Cell;
use std::rc::Rc;

use futures_util::future::LocalBoxFuture;

use crate::domain::content::BodyLimits;
use crate::domain::copy::{CopyHeader, HEADER, Part, UNMATCHED_TARGET, Undressed, undress};
use crate::domain::envelope::{Envelope, Field, Table as Headers};
use crate::domain::key::DeliveryKey;
use crate::domain::replay::{self, refused_before};
use crate::domain::run_id::replays_behind;
use crate::domain::table::Table;
use crate::ports::{Broker, Outgoing, Published};
use crate::telemetry::events;

/// The header in which the broker says that it dead-lettered a message. A copy carries that of its original inside.
const DEATHS: &str = "x-death";

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

    /// The message as it was before it was copied, and what it says as a copy. All others come out as they went in. `table`: the rows
    /// of the queue, which may take a key of their own from it.
    pub(super) fn undressed(
        &self,
        envelope: Envelope,
        table: &Table,
        limits: BodyLimits,
    ) -> (Envelope, Option<CopyHeader>) {
        if !envelope.headers.contains_key(HEADER) {
            return (envelope, None);
        }
        // A copy carries the deaths of its original inside: those outside are its own.
        let mut bare = envelope.clone();
        let deaths = bare.headers.remove(DEATHS);
        match undress(&bare, DeliveryKey::of, |original, part| follows(original, part, table, limits)) {
            Undressed::Plain => (envelope, None),
            Undressed::Copy(original, header) => {
                let outside = deaths.map(|deaths| Headers::from([(DEATHS.to_owned(), deaths)]));
                let dead = outside.map(|headers| Envelope { headers, ..bare });
                match dead.as_ref().and_then(refused_before) {
                    None => (*original, Some(header)),
                    Some(refused) => (put_back(*original, refused.times), None),
                }
            }
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

/// Whether this message can have the number and the run id that a copy names. A target that is not known has no say.
fn follows(original: &Envelope, part: &Part, table: &Table, limits: BodyLimits) -> bool {
    let own = DeliveryKey::of(original);
    let route = table.routes().iter().find(|route| route.target() == part.target);
    if route.is_none() && part.target != UNMATCHED_TARGET {
        return true;
    }
    let key = route.and_then(|route| route.key_of(original, &own, limits)).unwrap_or(own);
    replays_behind(&original.queue, &key, part.n, &part.run_id).is_some()
}

/// A copy that was dead-lettered and put back is a message that was refused so often, with what the original had, and no copy
/// any more.
fn put_back(mut original: Envelope, times: u32) -> Envelope {
    let text = |text: &str| Field::Text(text.as_bytes().to_vec());
    let before = refused_before(&original).map_or(0, |refused| refused.times);
    let replay = Headers::from([
        ("exchange".to_owned(), text(&original.exchange)),
        ("routing-keys".to_owned(), Field::Array(vec![text(&original.routing_key)])),
        ("count".to_owned(), Field::I64(before.saturating_add(times).into())),
    ]);
    original.headers.insert(replay::HEADER.to_owned(), Field::Table(replay));
    original
}
