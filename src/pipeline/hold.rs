//! Holding a delivery: the pause before the next try, and everything that may end it early.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::flights::Seat;
use crate::domain::budget::Act;
use crate::domain::retry::{self, WEATHER};
use crate::domain::shutdown::Phase;
use crate::ports::Settler;

/// How a pause ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Woken {
    /// The pause is over: try again.
    Due,
    /// The delivery's channel is gone: it will come again.
    Lost,
    /// The delivery has been held as long as it may.
    Deadline,
    /// The watcher is stopping.
    Stopping,
    /// The subscription went, and nothing was asked for.
    Removed,
    /// Its open matches are all blocked, and blocked deliveries have their share of the window.
    Crowded,
    /// Its open matches are all blocked, and this is what its budget calls for.
    Spent(Act),
    /// A later copy of its message has come.
    Replaced,
}

/// The pause after failure number `tries` (from 1), never shorter than Airflow's own wish.
pub(super) fn pause(tries: u32, at_least: Option<Duration>, seed: u64) -> Duration {
    let own = retry::backoff(tries.saturating_sub(1), WEATHER.base, WEATHER.cap, seed);
    own.max(at_least.unwrap_or_default())
}

/// Waits until `due`, or for what comes first. A delivery that takes the seat over in between goes on waiting in its place.
pub(super) async fn wait<S: Settler>(seat: &Seat<S>, due: Instant, phase: &mut watch::Receiver<Phase>) -> Woken {
    unless_ended(seat, phase, sleep_until(due)).await.map_or_else(|woken| woken, |()| Woken::Due)
}

/// Waits for `work`, which must be cancel safe, or for what ends the delivery first.
pub(super) async fn unless_ended<S: Settler, T>(
    seat: &Seat<S>,
    phase: &mut watch::Receiver<Phase>,
    work: impl Future<Output = T>,
) -> Result<T, Woken> {
    tokio::pin!(work);
    loop {
        let held = seat.with(|held| (std::rc::Rc::clone(&held.channel), held.deadline));
        let Some((channel, deadline)) = held else { return Err(Woken::Lost) };
        tokio::select! {
            biased;
            _ = phase.wait_for(|phase| *phase == Phase::Stopping) => return Err(Woken::Stopping),
            () = seat.changed() => if seat.is_replaced() { return Err(Woken::Replaced) },
            () = channel.ended() => return Err(Woken::Lost),
            () = sleep_until(deadline) => return Err(Woken::Deadline),
            done = &mut work => return Ok(done),
        }
    }
}
