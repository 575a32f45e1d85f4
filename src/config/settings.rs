//! The typed settings that the rest of the program is built from.
//!
//! Purpose: one plain value, made by [`Settings::load`](crate::config::Settings::load) at start and fixed from then on.
//! Must not: read anything itself. AMQP connections are not in here: they are looked up afresh before every connect
//! ([`crate::config::connections`]).

use std::path::PathBuf;
use std::time::Duration;

use super::airflow::AirflowSettings;
use super::dags::DagFolders;
use super::log::LogSettings;
use crate::domain::content::BodyLimits;
use crate::domain::cycle_settings::Configured;
use crate::domain::retention::Retention;

/// Everything the watcher was told, checked and complete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Where the state file, its lock and the control socket live.
    pub state_dir: PathBuf,
    /// Airflow's own home directory.
    pub airflow_home: PathBuf,
    /// The folders whose DAG files are scanned.
    pub dags: DagFolders,
    /// How Airflow's REST API is reached.
    pub airflow: AirflowSettings,
    /// How the log is written.
    pub log: LogSettings,
    /// How queues are consumed.
    pub consume: ConsumeSettings,
    /// The control flow's pace.
    pub reconcile: ReconcileSettings,
    /// How much of what became of messages is kept; default 30 days, 200,000 rows, 256 MiB of refused messages.
    pub history: Retention,
    /// The configuration file that was read, if there is one.
    pub file: Option<PathBuf>,
    /// This machine's host name; part of every consumer tag.
    pub hostname: String,
    /// Sentences about values that were set aside for a default; each is worth one WARNING line.
    pub warnings: Vec<String>,
    pub(super) effective: Vec<EffectiveSetting>,
}

/// Settings of the section `[consume]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConsumeSettings {
    /// How many unsettled deliveries a consumer may have; default 32.
    pub prefetch: u16,
    /// How long a delivery may stay unsettled before it is given back; default 1500 s.
    pub ack_deadline: Duration,
    /// How large a body may be, and what becomes of a larger one; default 1 MiB, refused.
    pub body: BodyLimits,
    /// How long a body that was written to a file is kept; default 7 days.
    pub body_files_kept_for: Duration,
}

/// Settings of the section `[reconcile]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReconcileSettings {
    /// The wait after a cycle has ended, as far as the configuration and the environment tell; default 60 s.
    pub interval: Duration,
    /// What our own keys say.
    pub configured: Configured,
    /// What the environment says of the Variable `rmq_watcher_reconcile_interval`; to Airflow it goes before its database. Empty
    /// where it cannot be used.
    pub interval_variable: Option<String>,
    /// The same of `rmq_watcher_cycle_timeout`.
    pub timeout_variable: Option<String>,
}

/// One line of what `rmq-watcher check` prints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EffectiveSetting {
    /// The key, such as `airflow.url`.
    pub key: String,
    /// The value, secrets replaced by `***`.
    pub shown_value: String,
    /// Where it came from, for people.
    pub source: String,
}

impl Settings {
    /// Every setting with its value (redacted) and its source, in the order of the documentation.
    pub fn effective(&self) -> &[EffectiveSetting] {
        &self.effective
    }
}
