//! Waiting for a condition with a deadline.

use std::time::{Duration, Instant};

/// How often a condition is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Waits until a condition holds.
///
/// # Panics
/// When it does not hold at the deadline; `what` says what was waited for.
#[track_caller]
pub fn eventually(deadline: Duration, what: &str, mut condition: impl FnMut() -> bool) {
    eventually_some(deadline, what, || condition().then_some(()));
}

/// Waits until there is a value, and returns it.
///
/// # Panics
/// When there is none at the deadline; `what` says what was waited for.
#[track_caller]
pub fn eventually_some<T>(deadline: Duration, what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(value) = look() {
            return value;
        }
        assert!(began.elapsed() < deadline, "not within {deadline:?}: {what}");
        pause(LOOK_EVERY);
    }
}

/// Lets time pass where nothing can be waited for.
#[allow(clippy::disallowed_methods, reason = "the one place where the harness sleeps, between two looks")]
pub fn pause(time: Duration) {
    std::thread::sleep(time);
}
