//! How often cycles come and how long one may take, settled anew before each timed one.

use std::time::Duration;

use tokio::time::timeout;

use super::Flow;
use crate::domain::cycle_settings::{Configured, CycleSettings, INTERVAL_VARIABLE, TIMEOUT_VARIABLE, Variable};
use crate::ports::{Broker, Consumer, Dags, Declarations, Runs};
use crate::store::watcher::Started;
use crate::telemetry::events;

/// The bound of reading the Variables.
const READ_TIMEOUT: Duration = Duration::from_secs(15);

/// How the control flow runs.
#[derive(Clone, Debug)]
pub struct Pace {
    /// What our own keys say; it goes before any Variable.
    pub configured: Configured,
    /// What the environment says of Airflow's Variables, the interval's and the budget's; it goes before what Airflow's database says.
    pub environment: [Option<String>; 2],
    /// Whether there are credentials to start anything with. Without them nothing is attached, and every status says so.
    pub can_start: bool,
    /// Whose cycles these are.
    pub hostname: String,
}

impl Pace {
    /// Before Airflow was asked.
    pub(super) fn first(&self) -> CycleSettings {
        let [interval, budget] = self.environment.clone().map(|text| text.map_or(Variable::Unset, Variable::Set));
        CycleSettings::default().next(self.configured, &interval, &budget).0
    }

    pub(super) fn started(&self, settings: CycleSettings) -> Started {
        Started {
            hostname: self.hostname.clone(),
            pid: std::process::id(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            interval_ms: millis(settings.interval),
            budget_ms: millis(settings.budget),
        }
    }
}

impl<R, B, D> Flow<R, B, D>
where
    R: Runs + Dags + 'static,
    B: Broker + 'static,
    <B::Consumer as Consumer>::Settler: 'static,
    D: Declarations + 'static,
{
    /// Reads the Variables. One that cannot be read in time leaves the value in force.
    pub(super) async fn read_settings(&mut self) {
        let Configured { interval, timeout: budget } = self.pace.configured;
        let [in_environment, budget_in_environment] = self.pace.environment.clone();
        let (interval, budget) = tokio::join!(
            self.variable(interval.is_some(), in_environment, INTERVAL_VARIABLE),
            self.variable(budget.is_some(), budget_in_environment, TIMEOUT_VARIABLE),
        );
        self.say_unread([(INTERVAL_VARIABLE, &interval), (TIMEOUT_VARIABLE, &budget)]);
        let (settings, warnings) = self.settings.next(self.pace.configured, &interval, &budget);
        if settings != self.settings {
            tracing::info!(
                event = events::SETTINGS_CHANGED,
                "RMQ Watcher: a cycle every {} s, with a budget of {} s",
                settings.interval.as_secs_f64(),
                settings.budget.as_secs_f64()
            );
            self.settings = settings;
        }
        if warnings.is_empty() {
            self.findings.is_over(events::VARIABLE_REFUSED);
        }
        for warning in warnings {
            if self.findings.is_news(events::VARIABLE_REFUSED, &warning) {
                tracing::warn!(event = events::VARIABLE_REFUSED, "RMQ Watcher: {warning}");
            }
        }
    }

    async fn variable(&self, is_configured: bool, in_environment: Option<String>, name: &str) -> Variable {
        match in_environment {
            // Not looked at.
            _ if is_configured => return Variable::Unset,
            Some(text) => return Variable::Set(text),
            None if !self.pace.can_start => return Variable::Unset,
            None => {}
        }
        let asked = timeout(READ_TIMEOUT, self.context.runs.variable(name)).await;
        asked
            .unwrap_or_else(|_| Variable::Unread(format!("Airflow did not answer within {} s", READ_TIMEOUT.as_secs())))
    }

    fn say_unread(&mut self, read: [(&str, &Variable); 2]) {
        let mut all_read = true;
        for (name, answer) in read {
            if let Variable::Unread(reason) = answer {
                all_read = false;
                let line = format!("the Variable {name} was not read: {reason}; the value in force stays");
                if self.findings.is_news(events::VARIABLE_UNREAD, &line) {
                    tracing::warn!(event = events::VARIABLE_UNREAD, "RMQ Watcher: {line}");
                }
            }
        }
        if all_read {
            self.findings.is_over(events::VARIABLE_UNREAD);
        }
    }
}

pub(super) fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}
