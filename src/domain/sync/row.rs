//! Rows: subscriptions as the state file holds them.

use super::super::ids::SubscriptionId;
use super::super::options::Options;
use super::super::subscription::Key;

/// Who made a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// A declaration in the DAG folder. The scan may change and delete it.
    DagFile,
    /// A person or a program, by hand. No scan takes it over.
    Ui,
}

impl Source {
    /// The stable name.
    pub fn code(self) -> &'static str {
        match self {
            Self::DagFile => "dag_file",
            Self::Ui => "ui",
        }
    }

    /// The source of that name.
    pub fn parse(code: &str) -> Option<Self> {
        match code {
            "dag_file" => Some(Self::DagFile),
            "ui" => Some(Self::Ui),
            _ => None,
        }
    }
}

/// A subscription as the state file holds it, tombstones included.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Its number, also in `conf.subscription_id`.
    pub id: SubscriptionId,
    /// What makes it this subscription.
    pub key: Key,
    /// Who made it.
    pub source: Source,
    /// Where it is written, with line and column.
    pub origin: String,
    /// The file alone, relative to its folder.
    pub origin_file: String,
    /// Everything else it says.
    pub options: Options,
    /// What people switched; no scan changes it.
    pub enabled: bool,
    /// Why it must not run although it is known. A clause for people.
    pub invalid: Option<String>,
    /// Misses counted so far: trusted timed scans in a row that did not have it.
    pub absent_cycles: u32,
    /// A tombstone: when it was deleted. It must not run, and waits for the return of its key.
    pub deleted_at_ms: Option<i64>,
    /// When it was made.
    pub created_at_ms: i64,
    /// When anything of it last changed.
    pub updated_at_ms: i64,
}

impl Row {
    /// Whether it is deleted.
    pub fn is_tombstone(&self) -> bool {
        self.deleted_at_ms.is_some()
    }

    /// Whether a consumer should be running for it, as far as the row itself says.
    pub fn should_run(&self) -> bool {
        self.enabled && self.invalid.is_none() && !self.is_tombstone()
    }
}
