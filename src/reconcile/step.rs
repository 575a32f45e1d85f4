//! One blocking step of a cycle: bounded, with one attempt in flight.
//!
//! A step that takes too long is left to itself and not started a second time while it is still under way: an outside part that
//! hangs costs one task, however many cycles meet it.

use std::time::Duration;

use tokio::task::{JoinError, JoinHandle};
use tokio::time::timeout;

/// The bound of a step.
pub(super) const STEP_TIMEOUT: Duration = Duration::from_secs(60);

/// A step, and the attempt under way.
pub(super) struct Step<T> {
    under_way: Option<JoinHandle<T>>,
}

/// How a step went.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Ran<T> {
    /// It ended in time.
    Done(T),
    /// It takes longer than its bound, and goes on by itself.
    TimedOut,
    /// An earlier attempt is still under way.
    Skipped,
}

impl<T: 'static> Step<T> {
    pub(super) fn new() -> Self {
        Self { under_way: None }
    }

    /// Begins the step and leaves it to itself. Returns whether it was begun: an earlier attempt may still be under way.
    pub(super) fn begin(&mut self, work: impl Future<Output = T> + 'static) -> bool {
        let is_free = self.under_way.as_ref().is_none_or(JoinHandle::is_finished);
        if is_free {
            self.under_way = Some(tokio::task::spawn_local(work));
        }
        is_free
    }

    /// What an attempt brought that ended after its cycle had gone on without it.
    pub(super) async fn late(&mut self) -> Option<T> {
        let ended = self.under_way.take_if(|attempt| attempt.is_finished())?;
        Some(value_of(ended.await))
    }

    /// Runs the step. An attempt that ended late is forgotten with what it brought, unless [`Step::late`] took it.
    ///
    /// # Cancel safety
    /// Dropping the future leaves the attempt under way, as a timeout does.
    pub(super) async fn run(&mut self, work: impl Future<Output = T> + 'static) -> Ran<T> {
        if !self.begin(work) {
            return Ran::Skipped;
        }
        let Some(attempt) = &mut self.under_way else { return Ran::Skipped };
        match timeout(STEP_TIMEOUT, attempt).await {
            Err(_) => Ran::TimedOut,
            Ok(ended) => {
                self.under_way = None;
                Ran::Done(value_of(ended))
            }
        }
    }
}

/// A panic in a step is one of its cycle.
fn value_of<T>(ended: Result<T, JoinError>) -> T {
    match ended {
        Ok(value) => value,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}

/// With the control flow its steps end: they hold what has to be closed.
impl<T> Drop for Step<T> {
    fn drop(&mut self) {
        if let Some(attempt) = &self.under_way {
            attempt.abort();
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;
    use tokio::task::LocalSet;

    use super::*;

    #[test]
    fn a_step_has_one_attempt_in_flight_and_recovers_when_that_ends() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        LocalSet::new().block_on(&runtime.expect("a runtime"), async {
            let mut step = Step::new();
            let (release, released) = oneshot::channel::<()>();
            let stuck = async move {
                drop(released.await);
                1
            };
            assert_eq!(step.run(stuck).await, Ran::TimedOut);
            assert_eq!(step.run(async { 2 }).await, Ran::Skipped);
            assert_eq!(step.late().await, None);
            drop(release);
            tokio::task::yield_now().await;
            assert_eq!(step.late().await, Some(1));
            assert_eq!(step.run(async { 3 }).await, Ran::Done(3));
        });
    }
}
