//! The main thread's two waits: for a reason to leave, and for the loop on the way out.
//!
//! Idle, the first one wakes once each tick (1 s) for one `getppid` and nothing else.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::loop_thread::{LoopEnd, LoopThread};
use super::parent::Parent;
use super::signals::{StopSignal, Stops};

/// How long a parent-death signal may trail behind the other ways of noticing, in milliseconds. The kernel sends it first;
/// where another thread runs the handler, its byte may come a moment later.
const SIGNAL_TRAILS_MS: u16 = 20;

/// Why the main thread stopped waiting.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Reason {
    /// A stop was asked for.
    Stop(StopSignal),
    /// The scheduler is gone; our parent is now this one.
    ParentGone(i32),
    /// The loop ended by itself.
    LoopEnded(LoopEnd),
}

/// Waits until there is a reason to leave, comparing the parent each `tick`. A signal wins over the parent's death, and both
/// over the loop's end.
pub(super) fn for_a_reason(stops: &mut Stops, parent: &Parent, thread: &LoopThread, tick: Duration) -> Reason {
    let tick = PollTimeout::try_from(tick).unwrap_or(PollTimeout::MAX);
    loop {
        let parent_exited = {
            let mut watched = vec![
                PollFd::new(stops.readiness(), PollFlags::POLLIN),
                PollFd::new(thread.readiness(), PollFlags::POLLIN),
            ];
            watched.extend(parent.exit_readiness().map(|fd| PollFd::new(fd, PollFlags::POLLIN)));
            // EINTR is a wake like any other; every source is looked at below.
            let _ = poll(&mut watched, tick);
            watched.get(2).is_some_and(|fd| fd.any().unwrap_or(false))
        };
        if let Some(signal) = stops.take() {
            return Reason::Stop(signal);
        }
        if let Some(now) = parent.successor() {
            return take_trailing(stops).unwrap_or(Reason::ParentGone(now));
        }
        if parent_exited {
            return take_trailing(stops).unwrap_or_else(|| Reason::ParentGone(super::parent::getppid()));
        }
        if is_ready(thread.readiness(), PollTimeout::ZERO) {
            return Reason::LoopEnded(thread.take_end());
        }
    }
}

/// Waits for the loop to end, at most `bound`.
pub(super) fn for_the_loop(thread: &LoopThread, bound: Duration) -> Option<LoopEnd> {
    let deadline = Instant::now() + bound;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let left_ms = PollTimeout::try_from(left.as_millis()).unwrap_or(PollTimeout::MAX);
        if is_ready(thread.readiness(), left_ms) {
            return Some(thread.take_end());
        }
        if left < Duration::from_millis(1) {
            return None;
        }
    }
}

fn take_trailing(stops: &mut Stops) -> Option<Reason> {
    is_ready(stops.readiness(), PollTimeout::from(SIGNAL_TRAILS_MS));
    stops.take().map(Reason::Stop)
}

fn is_ready(fd: BorrowedFd<'_>, timeout: PollTimeout) -> bool {
    let mut watched = [PollFd::new(fd.as_fd(), PollFlags::POLLIN)];
    matches!(poll(&mut watched, timeout), Ok(1))
}
