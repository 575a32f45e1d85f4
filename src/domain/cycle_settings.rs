//! The pace of the control flow, settled anew for each cycle: what the configuration says, else Airflow's Variables.
//!
//! Invariants (tests below): a value that cannot be used means its default, with a warning, never the value before it; a
//! Variable that could not be read changes nothing.
//!
//! Source: airflow-provider-rmq 2.6.0, `rmq_watcher_reconcile_interval` (read by `int()`) and `rmq_watcher_cycle_timeout`
//! (read by `float()`).

use std::time::Duration;

use super::python::{parse_float, parse_int};

/// The Variable that holds the pause between two cycles, in whole seconds.
pub const INTERVAL_VARIABLE: &str = "rmq_watcher_reconcile_interval";

/// The Variable that holds the budget of one cycle, in seconds.
pub const TIMEOUT_VARIABLE: &str = "rmq_watcher_cycle_timeout";

/// The pause that nobody chose.
pub const DEFAULT_INTERVAL: Duration = Duration::from_secs(60);

/// A budget that nobody chose is never less.
pub const LEAST_DEFAULT_BUDGET: Duration = Duration::from_secs(300);

/// Neither a pause nor a budget may be longer, in seconds.
pub const DAY_SECS: u32 = 86_400;

/// What reading a Variable led to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Variable {
    /// Its text.
    Set(String),
    /// Airflow says that there is none.
    Unset,
    /// It could not be read; why, as a sentence.
    Unread(String),
}

/// What the configuration says, which goes before any Variable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Configured {
    /// `reconcile.interval_secs`, if somebody set it.
    pub interval: Option<Duration>,
    /// `reconcile.cycle_timeout_secs`, if somebody set it.
    pub timeout: Option<Duration>,
}

/// The pace of a cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CycleSettings {
    /// The pause after it.
    pub interval: Duration,
    /// How long it may take.
    pub budget: Duration,
    /// The budget was chosen by somebody; else it follows the interval.
    chosen_budget: Option<Duration>,
}

impl Default for CycleSettings {
    fn default() -> Self {
        Self::new(DEFAULT_INTERVAL, None)
    }
}

impl CycleSettings {
    fn new(interval: Duration, chosen_budget: Option<Duration>) -> Self {
        Self { interval, budget: chosen_budget.unwrap_or_else(|| default_budget(interval)), chosen_budget }
    }

    /// The next cycle's pace, with a sentence for each value that was set aside. `self` is the last good one. A Variable whose
    /// counterpart is configured is not looked at.
    #[must_use]
    pub fn next(self, configured: Configured, interval: &Variable, timeout: &Variable) -> (Self, Vec<String>) {
        let mut warnings = Vec::new();
        let interval = configured.interval.unwrap_or_else(|| match interval {
            Variable::Unread(_) => self.interval,
            Variable::Unset => DEFAULT_INTERVAL,
            Variable::Set(text) => read_interval(text).unwrap_or_else(|| {
                warnings.push(format!(
                    "the Variable {INTERVAL_VARIABLE} is not a whole number of seconds from 1 to {DAY_SECS}; the default of {} s is taken",
                    DEFAULT_INTERVAL.as_secs()
                ));
                DEFAULT_INTERVAL
            }),
        });
        let chosen_budget = configured.timeout.or_else(|| match timeout {
            Variable::Unread(_) => self.chosen_budget,
            Variable::Unset => None,
            Variable::Set(text) => {
                let read = read_timeout(text);
                if read.is_none() {
                    warnings.push(format!(
                        "the Variable {TIMEOUT_VARIABLE} is not a number of seconds above 0 and up to {DAY_SECS}; the default of {} s \
                         is taken",
                        default_budget(interval).as_secs()
                    ));
                }
                read
            }
        });
        (Self::new(interval, chosen_budget), warnings)
    }
}

fn default_budget(interval: Duration) -> Duration {
    (3 * interval).max(LEAST_DEFAULT_BUDGET)
}

/// The interval that a text means.
pub fn read_interval(text: &str) -> Option<Duration> {
    let secs = u32::try_from(parse_int(text)?).ok()?;
    (1..=DAY_SECS).contains(&secs).then(|| Duration::from_secs(u64::from(secs)))
}

/// The budget that a text means.
pub fn read_timeout(text: &str) -> Option<Duration> {
    let secs = parse_float(text)?;
    (secs > 0.0 && secs <= f64::from(DAY_SECS)).then(|| Duration::from_secs_f64(secs))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAST: CycleSettings = CycleSettings { interval: secs(7), budget: secs(11), chosen_budget: Some(secs(11)) };

    const fn secs(secs: u64) -> Duration {
        Duration::from_secs(secs)
    }

    fn set(text: &str) -> Variable {
        Variable::Set(text.to_owned())
    }

    fn unread() -> Variable {
        Variable::Unread("503".to_owned())
    }

    fn next(configured: Configured, interval: &Variable, timeout: &Variable) -> (Duration, Duration, usize) {
        let (settings, warnings) = LAST.next(configured, interval, timeout);
        (settings.interval, settings.budget, warnings.len())
    }

    #[test]
    fn a_variable_counts_and_without_it_the_default() {
        let none = Configured::default();
        assert_eq!(next(none, &Variable::Unset, &Variable::Unset), (secs(60), secs(300), 0));
        assert_eq!(next(none, &set(" 1_20 "), &Variable::Unset), (secs(120), secs(360), 0));
        assert_eq!(next(none, &set("20"), &set("1.5e2")), (secs(20), secs(150), 0));
        assert_eq!(next(none, &set("20"), &set("0.5")), (secs(20), Duration::from_millis(500), 0));
    }

    #[test]
    fn what_python_or_reason_refuses_is_the_default_with_a_warning() {
        let none = Configured::default();
        for text in ["60.5", "0", "-5", "inf", "nan", "", "abc", "1e2", "86401", "99999999999999999999"] {
            assert_eq!(next(none, &set(text), &Variable::Unset), (secs(60), secs(300), 1), "{text:?}");
        }
        for text in ["0", "-5", "inf", "-inf", "nan", "", "abc", "86400.1", "1e-400"] {
            assert_eq!(next(none, &set("200"), &set(text)), (secs(200), secs(600), 1), "{text:?}");
        }
        let (_, warnings) = LAST.next(none, &set("60.5"), &set("inf"));
        assert!(warnings[0].contains("rmq_watcher_reconcile_interval is not a whole number"), "{}", warnings[0]);
        assert!(warnings[1].contains("rmq_watcher_cycle_timeout is not a number"), "{}", warnings[1]);
    }

    #[test]
    fn a_failed_read_keeps_the_last_good_values() {
        let none = Configured::default();
        assert_eq!(next(none, &unread(), &unread()), (secs(7), secs(11), 0));
        assert_eq!(next(none, &set("20"), &unread()), (secs(20), secs(11), 0));
        assert_eq!(next(none, &unread(), &Variable::Unset), (secs(7), secs(300), 0));
        let followed = CycleSettings::new(secs(200), None);
        let (settings, _) = followed.next(none, &set("400"), &unread());
        assert_eq!(settings.budget, secs(1200), "a budget that nobody chose goes on following the interval");
    }

    #[test]
    fn what_is_configured_goes_before_any_variable() {
        let both = Configured { interval: Some(secs(5)), timeout: Some(secs(6)) };
        assert_eq!(next(both, &set("nonsense"), &set("nonsense")), (secs(5), secs(6), 0));
        let interval = Configured { timeout: None, ..both };
        assert_eq!(next(interval, &unread(), &set("50")), (secs(5), secs(50), 0));
        assert_eq!(next(interval, &unread(), &Variable::Unset), (secs(5), secs(300), 0));
    }
}
