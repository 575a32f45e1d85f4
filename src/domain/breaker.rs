//! A breaker per target: while a target takes no runs its deliveries wait, and one of them at a time is the probe.
//!
//! Serves the data flow. Fed with the answers that [`super::attempt`] acts on; what a run of refusals means is
//! [`super::target`]'s word. Must not hold or settle anything: it says who may ask now.
//!
//! Invariants (tests below): at most one probe is under way; a probe that is never answered does not close the way for ever;
//! one message that Airflow fails on never opens it alone; while it is open somebody may ask at some time.

use std::time::Duration;

use super::attempt::Trouble;
use super::outcome::TriggerAnswer;
use super::retry::{WEATHER, backoff};

/// So many failures in a row, of at least two messages, without a success open the breaker, where a message alone could
/// be the cause.
pub const OPENS_AFTER: u32 = 3;
/// A probe is answered within this time, or the next one may go.
pub const PROBE_LEASE_MS: i64 = 180_000;

/// What an answer says of its target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sign {
    /// It works.
    Works,
    /// It takes no runs.
    Down {
        /// What kind of trouble.
        trouble: Trouble,
        /// One sentence.
        reason: String,
        /// Airflow's own wish.
        at_least: Option<Duration>,
    },
    /// It failed on this message; the message may be the cause.
    Failed {
        /// One sentence.
        reason: String,
        /// Airflow's own wish.
        at_least: Option<Duration>,
    },
}

impl Sign {
    /// Reads an answer. `is_failing`: the target refuses message after message, this one included.
    pub fn of(answer: &TriggerAnswer, is_failing: bool) -> Self {
        let down = |trouble, reason: &String| Self::Down { trouble, reason: reason.clone(), at_least: None };
        match answer {
            TriggerAnswer::Created | TriggerAnswer::Conflict(_) => Self::Works,
            TriggerAnswer::Refused(reason) if is_failing => down(Trouble::Failing, reason),
            // It reads messages and says no to this one.
            TriggerAnswer::Refused(_) => Self::Works,
            TriggerAnswer::TargetFault(reason) => down(Trouble::Target, reason),
            TriggerAnswer::AccessFault(reason) => down(Trouble::Access, reason),
            TriggerAnswer::Unavailable { reason, retry_after, server_error: true } => {
                Self::Failed { reason: reason.clone(), at_least: *retry_after }
            }
            TriggerAnswer::Unavailable { reason, retry_after, server_error: false } => {
                Self::Down { trouble: Trouble::Unavailable, reason: reason.clone(), at_least: *retry_after }
            }
            TriggerAnswer::Ambiguous(reason) => Self::Failed { reason: reason.clone(), at_least: None },
        }
    }
}

/// Whether a delivery may ask its target now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Permission {
    /// Yes.
    Go,
    /// Yes, as the probe: how it ends must be told ([`Breaker::answered`] or [`Breaker::abandoned`]).
    GoAsProbe,
    /// Not before this time.
    Wait {
        /// On the clock of the caller.
        until_ms: i64,
    },
    /// The last probe was this message; another one that waits is to be the next.
    LetAnother,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Cause {
    trouble: Trouble,
    reason: String,
    /// Probes that failed, the answer that opened it included.
    failures: u32,
    /// Airflow wants nothing before this time.
    wish_ms: i64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Closed,
    Open {
        cause: Cause,
        until_ms: i64,
        last_probe: Option<String>,
    },
    Probing {
        cause: Cause,
        probe: String,
        lease_until_ms: i64,
    },
}

/// The breaker of one target. Forgotten at a restart: the first answers then tell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Breaker {
    state: State,
    failures: u32,
    /// Different messages among them, as many as matter.
    failed: Vec<String>,
}

impl Breaker {
    /// Whether the message `key` may ask now. `others_wait`: deliveries of other messages are held for this target.
    pub fn ask(&mut self, key: &str, others_wait: bool, now_ms: i64) -> Permission {
        let cause = match &self.state {
            State::Closed => return Permission::Go,
            State::Open { until_ms, .. } if now_ms < *until_ms => return Permission::Wait { until_ms: *until_ms },
            State::Open { last_probe, .. } if others_wait && last_probe.as_deref() == Some(key) => {
                return Permission::LetAnother;
            }
            State::Probing { probe, lease_until_ms, .. } if probe != key && now_ms < *lease_until_ms => {
                return Permission::Wait { until_ms: *lease_until_ms };
            }
            State::Open { cause, .. } | State::Probing { cause, .. } => cause.clone(),
        };
        self.state = State::Probing { cause, probe: key.to_owned(), lease_until_ms: now_ms + PROBE_LEASE_MS };
        Permission::GoAsProbe
    }

    /// An answer to the message `key`. Returns whether the target can be asked by everybody from now on and could not before.
    pub fn answered(&mut self, key: &str, sign: Sign, now_ms: i64, jitter_seed: u64) -> bool {
        match sign {
            Sign::Works => {
                let was_open = self.state != State::Closed;
                *self = Self::default();
                was_open
            }
            Sign::Down { trouble, reason, at_least } => {
                self.open(key, (trouble, reason), at_least, now_ms, jitter_seed);
                false
            }
            Sign::Failed { reason, at_least } => {
                self.failures = self.failures.saturating_add(1);
                if self.failed.len() < 2 && !self.failed.iter().any(|seen| seen == key) {
                    self.failed.push(key.to_owned());
                }
                let is_the_targets = self.failures >= OPENS_AFTER && self.failed.len() > 1;
                if is_the_targets || self.state != State::Closed {
                    self.open(key, (Trouble::Unavailable, reason), at_least, now_ms, jitter_seed);
                }
                false
            }
        }
    }

    /// The message `key` will not be answered: its delivery was lost, given back or stopped.
    pub fn abandoned(&mut self, key: &str, now_ms: i64) {
        if let State::Probing { cause, probe, .. } = &self.state
            && probe == key
        {
            self.state = State::Open { cause: cause.clone(), until_ms: now_ms, last_probe: None };
        }
    }

    /// Airflow answers again, as another target has found: where that may have been the trouble of this one, its next probe is
    /// not waited for any longer than Airflow itself wishes.
    pub fn look_again(&mut self, now_ms: i64) {
        if let State::Open { cause, until_ms, .. } = &mut self.state {
            match cause.trouble {
                Trouble::Unavailable | Trouble::Access => *until_ms = (*until_ms).min(now_ms.max(cause.wish_ms)),
                Trouble::Target | Trouble::Failing | Trouble::Store => {}
            }
        }
    }

    /// Why its subscriptions cannot run now. `has_held`: deliveries of this target are held. When its time has come and none
    /// is, the target can run as far as consuming goes: its next delivery is the probe.
    pub fn blocked(&self, has_held: bool, now_ms: i64) -> Option<String> {
        let cause = match &self.state {
            State::Closed => return None,
            State::Open { until_ms, .. } if !has_held && now_ms >= *until_ms => return None,
            State::Open { cause, .. } | State::Probing { cause, .. } => cause,
        };
        let Cause { trouble, reason, failures, .. } = cause;
        let tries = if *failures == 1 { "try" } else { "tries" };
        Some(format!("{}: {reason} ({failures} {tries} in a row)", trouble.code()))
    }

    /// What kind of trouble its target has.
    pub fn trouble(&self) -> Option<Trouble> {
        match &self.state {
            State::Closed => None,
            State::Open { cause, .. } | State::Probing { cause, .. } => Some(cause.trouble),
        }
    }

    /// The trouble of its target, with one sentence of Airflow's.
    pub fn cause(&self) -> Option<(Trouble, &str)> {
        match &self.state {
            State::Closed => None,
            State::Open { cause, .. } | State::Probing { cause, .. } => Some((cause.trouble, &cause.reason)),
        }
    }

    /// When a probe may go; `None` where everybody may, or one is under way.
    pub fn next_probe_ms(&self) -> Option<i64> {
        match &self.state {
            State::Closed | State::Probing { .. } => None,
            State::Open { until_ms, .. } => Some(*until_ms),
        }
    }

    fn open(&mut self, key: &str, what: (Trouble, String), at_least: Option<Duration>, now_ms: i64, seed: u64) {
        let (trouble, reason) = what;
        let (failures, last_probe) = match &self.state {
            State::Closed => (1, None),
            State::Probing { cause, probe, .. } if probe == key => {
                (cause.failures.saturating_add(1), Some(key.to_owned()))
            }
            // An answer to a request that was under way when it opened says nothing new; Airflow's own wish counts.
            State::Probing { .. } => return,
            State::Open { .. } => {
                if let (State::Open { until_ms, cause, .. }, Some(wish)) = (&mut self.state, at_least) {
                    cause.wish_ms = cause.wish_ms.max(now_ms.saturating_add(millis(wish)));
                    *until_ms = (*until_ms).max(cause.wish_ms);
                }
                return;
            }
        };
        let pause = backoff(failures - 1, WEATHER.base, WEATHER.cap, seed).max(at_least.unwrap_or_default());
        let until_ms = now_ms.saturating_add(millis(pause));
        let wish_ms = at_least.map_or(0, |wish| now_ms.saturating_add(millis(wish)));
        self.state = State::Open { cause: Cause { trouble, reason, failures, wish_ms }, until_ms, last_probe };
    }
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::domain::target::TargetHistory;

    fn down() -> Sign {
        Sign::Down { trouble: Trouble::Unavailable, reason: "connection refused".into(), at_least: None }
    }

    fn failed() -> Sign {
        Sign::Failed { reason: "500".into(), at_least: None }
    }

    /// Opened at 0 by the message `a`; its time has come at 1,200.
    fn open() -> Breaker {
        let mut breaker = Breaker::default();
        breaker.answered("a", down(), 0, 0);
        breaker
    }

    #[test]
    fn answers_are_signs_of_the_target_or_of_the_message() {
        let unavailable =
            |server_error| TriggerAnswer::Unavailable { reason: "x".into(), retry_after: None, server_error };
        let refused = TriggerAnswer::Refused("no".into());
        for (answer, want) in [
            (TriggerAnswer::Created, None),
            (TriggerAnswer::Conflict("x".into()), None),
            (TriggerAnswer::TargetFault("x".into()), Some(Trouble::Target)),
            (TriggerAnswer::AccessFault("x".into()), Some(Trouble::Access)),
            (unavailable(false), Some(Trouble::Unavailable)),
            (refused.clone(), None),
        ] {
            let mut breaker = Breaker::default();
            breaker.answered("a", Sign::of(&answer, false), 0, 0);
            assert_eq!(breaker.trouble(), want, "{answer:?}");
        }
        for answer in [unavailable(true), TriggerAnswer::Ambiguous("x".into())] {
            assert!(matches!(Sign::of(&answer, false), Sign::Failed { .. }), "{answer:?}");
        }
        let mut breaker = Breaker::default();
        breaker.answered("a", Sign::of(&refused, true), 0, 0);
        assert_eq!(breaker.trouble(), Some(Trouble::Failing));
    }

    #[test]
    fn one_probe_goes_when_its_time_has_come_and_closes_or_opens() {
        let mut b = open();
        let until_ms = b.next_probe_ms().expect("it is open");
        assert!((800..=1_200).contains(&until_ms), "{until_ms}");
        assert_eq!(b.ask("b", true, until_ms - 1), Permission::Wait { until_ms });
        assert_eq!(b.ask("b", true, until_ms), Permission::GoAsProbe);
        assert_eq!(b.ask("b", true, until_ms), Permission::GoAsProbe, "the probe may look up and ask again");
        assert!(matches!(b.ask("c", true, until_ms), Permission::Wait { .. }));
        let mut up = b.clone();
        assert!(up.answered("b", Sign::Works, until_ms, 0));
        assert_eq!((up.ask("c", true, until_ms), up.blocked(true, until_ms)), (Permission::Go, None));
        assert!(!b.answered("b", down(), until_ms, 0));
        assert!(b.next_probe_ms().expect("open again") >= until_ms + 1_600, "twice the pause");
    }

    #[test]
    fn the_next_probe_is_another_message_where_one_waits() {
        let mut b = open();
        b.ask("b", true, 2_000);
        b.answered("b", down(), 2_000, 0);
        assert_eq!(b.ask("b", true, 9_000), Permission::LetAnother);
        assert_eq!(b.clone().ask("b", false, 9_000), Permission::GoAsProbe, "alone it goes again");
        assert_eq!(b.ask("c", true, 9_000), Permission::GoAsProbe);
    }

    #[test]
    fn a_probe_that_is_never_answered_does_not_close_the_way() {
        let mut b = open();
        b.ask("b", true, 2_000);
        assert_eq!(b.ask("c", true, 2_000 + PROBE_LEASE_MS), Permission::GoAsProbe);
        b.abandoned("b", 0);
        assert_eq!(b.next_probe_ms(), None, "not the probe any more");
        b.abandoned("c", 500_000);
        assert_eq!(b.ask("b", true, 500_000), Permission::GoAsProbe);
    }

    #[test]
    fn a_message_alone_never_opens_it_and_two_do() {
        let mut b = Breaker::default();
        for now in 0..50 {
            b.answered("poison", failed(), now, 0);
        }
        assert_eq!(b.ask("other", true, 50), Permission::Go);
        b.answered("other", failed(), 50, 0);
        assert_eq!(b.trouble(), Some(Trouble::Unavailable));
        let mut b = Breaker::default();
        for key in ["a", "b"] {
            b.answered(key, failed(), 0, 0);
        }
        assert_eq!(b.trouble(), None, "two are too few");
        b.answered("c", Sign::Works, 0, 0);
        for key in ["a", "b"] {
            b.answered(key, failed(), 0, 0);
        }
        assert_eq!(b.trouble(), None, "a success begins the count anew");
    }

    #[test]
    fn a_target_that_refuses_five_different_messages_opens_it_and_a_run_closes_it() {
        let (mut history, mut b) = (TargetHistory::default(), Breaker::default());
        let refused = TriggerAnswer::Refused("no".into());
        for key in ["a", "b", "c", "d", "e"] {
            history.refused(key);
            b.answered(key, Sign::of(&refused, history.view(key).is_failing), 0, 0);
            assert_eq!(b.trouble(), (key == "e").then_some(Trouble::Failing));
        }
        assert_eq!(b.ask("f", true, 9_000), Permission::GoAsProbe);
        b.answered("f", Sign::of(&refused, history.view("f").is_failing), 9_000, 0);
        assert_eq!(b.trouble(), Some(Trouble::Failing), "refused once more");
        assert_eq!(b.ask("g", true, 90_000), Permission::GoAsProbe);
        history.passed("g");
        assert!(b.answered("g", Sign::of(&TriggerAnswer::Created, history.view("g").is_failing), 90_000, 0));
    }

    #[test]
    fn answers_that_were_under_way_when_it_opened_change_nothing() {
        let mut b = open();
        let until = b.next_probe_ms();
        for n in 0..20 {
            b.answered(&n.to_string(), down(), 10, n);
        }
        assert_eq!(b.next_probe_ms(), until);
        let wish =
            Sign::Down { trouble: Trouble::Unavailable, reason: "429".into(), at_least: Some(Duration::from_secs(30)) };
        b.answered("x", wish, 10, 0);
        assert_eq!(b.next_probe_ms(), Some(30_010));
        b.ask("p", true, 30_010);
        b.answered("late", down(), 30_020, 0);
        assert!(matches!(b.ask("q", true, 30_020), Permission::Wait { .. }), "the probe is under way still");
    }

    #[test]
    fn what_another_target_found_of_airflow_shortens_the_wait_but_for_airflows_own_wish() {
        let mut b = open();
        assert_ne!(b.ask("x", true, 1), Permission::GoAsProbe);
        b.look_again(1);
        assert_eq!(b.ask("x", true, 1), Permission::GoAsProbe);
        let wish =
            Sign::Down { trouble: Trouble::Unavailable, reason: "429".into(), at_least: Some(Duration::from_secs(30)) };
        b.answered("x", wish, 10, 0);
        b.look_again(20);
        assert_eq!(b.next_probe_ms(), Some(30_010));
        let mut failing = Breaker::default();
        let sign = Sign::Down { trouble: Trouble::Failing, reason: "no".into(), at_least: None };
        failing.answered("x", sign, 0, 0);
        let until = failing.next_probe_ms();
        failing.look_again(1);
        assert_eq!(failing.next_probe_ms(), until, "its own trouble");
    }

    #[test]
    fn the_queue_is_consumed_for_a_probe_only_while_none_is_held() {
        let b = open();
        let until_ms = b.next_probe_ms().expect("open");
        assert_eq!(b.blocked(false, until_ms), None);
        let text = "airflow_unavailable: connection refused (1 try in a row)";
        assert_eq!(b.blocked(true, until_ms).as_deref(), Some(text));
        assert_eq!(b.cause(), Some((Trouble::Unavailable, "connection refused")));
        assert_eq!(b.blocked(false, until_ms - 1).as_deref(), Some(text));
        let mut b = b;
        b.ask("b", false, until_ms);
        assert!(b.blocked(false, until_ms).is_some(), "a probe is under way");
    }

    proptest! {
        /// Whatever happens, of those who ask at the end somebody may go, at the latest after the longest pause and lease.
        #[test]
        fn nobody_is_locked_out_for_ever(steps in prop::collection::vec((0_u8..5, 0_usize..3, 0_i64..90_000, any::<u64>()), 0..60)) {
            let keys = ["a", "b", "c"];
            let (mut b, mut now, mut probing) = (Breaker::default(), 0, 0_usize);
            for (what, key, later, seed) in steps {
                now += later;
                match what {
                    0 | 1 => {
                        if b.ask(keys[key], true, now) == Permission::GoAsProbe {
                            probing += 1;
                        }
                    }
                    2 => { b.answered(keys[key], down(), now, seed); }
                    3 => { b.answered(keys[key], failed(), now, seed); }
                    _ => b.abandoned(keys[key], now),
                }
                prop_assert!(b.next_probe_ms().is_none_or(|until| until <= now + 72_000));
            }
            let later = now + PROBE_LEASE_MS;
            let may = keys.map(|key| b.clone().ask(key, true, later));
            prop_assert!(may.iter().any(|may| matches!(may, Permission::Go | Permission::GoAsProbe)), "{:?} {}", may, probing);
        }
    }
}
