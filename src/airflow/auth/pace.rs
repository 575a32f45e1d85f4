//! How often a login may be tried. Pure: the moment comes in.
//!
//! A login costs Airflow a password hash (0.1 s of CPU) and a wrong one may lock an account. Invariants: the first login
//! and the first renewal are free; every further attempt waits 5 s after the one before, doubled for each attempt since a
//! credential was last accepted, up to 60 s.

use std::time::Duration;

use tokio::time::Instant;

const SHORTEST: Duration = Duration::from_secs(5);
const LONGEST: Duration = Duration::from_secs(60);

/// The memory of recent logins.
#[derive(Debug, Default)]
pub(super) struct Pace {
    not_before: Option<Instant>,
    /// Renewals and failures since a credential was last accepted.
    fruitless: u32,
}

impl Pace {
    /// How long to wait still; `None`: a login may be tried now.
    pub(super) fn wait(&self, now: Instant) -> Option<Duration> {
        let left = self.not_before?.saturating_duration_since(now);
        (!left.is_zero()).then_some(left)
    }

    /// A login failed, or one was made to replace a credential that was refused.
    pub(super) fn spent(&mut self, now: Instant) {
        let pause = SHORTEST.saturating_mul(2_u32.saturating_pow(self.fruitless.min(10)));
        self.not_before = Some(now + pause.min(LONGEST));
        self.fruitless = self.fruitless.saturating_add(1);
    }

    /// Airflow accepted a credential.
    pub(super) fn accepted(&mut self) {
        self.fruitless = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_slow_down_until_one_is_accepted() {
        let mut now = Instant::now();
        let mut pace = Pace::default();
        assert_eq!(pace.wait(now), None);
        for seconds in [5, 10, 20, 40, 60, 60] {
            pace.spent(now);
            assert_eq!(pace.wait(now), Some(Duration::from_secs(seconds)));
            now += Duration::from_secs(seconds);
            assert_eq!(pace.wait(now), None);
        }
        pace.accepted();
        assert_eq!(pace.wait(now), None);
        pace.spent(now);
        assert_eq!(pace.wait(now), Some(SHORTEST));
    }

    #[test]
    fn acceptance_shortens_no_pause_in_progress() {
        let now = Instant::now();
        let mut pace = Pace::default();
        pace.spent(now);
        pace.accepted();
        assert_eq!(pace.wait(now), Some(SHORTEST));
    }
}
