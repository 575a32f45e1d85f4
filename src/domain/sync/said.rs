//! What a sync says: one sentence for each state change of a subscription.

use std::fmt;

use super::super::ids::SubscriptionId;
use super::super::subscription::Key;
use super::GRACE_MISSES_INACTIVE;

/// How loud a sentence is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Life.
    Info,
    /// Degraded or surprising, and handled.
    Warning,
}

/// What is said about one subscription. `Display` gives the sentence, without the `RMQ Watcher: ` before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    /// It is new.
    Added {
        /// Which.
        key: Key,
        /// Where it is written.
        origin: String,
    },
    /// Its options changed.
    Changed {
        /// Which.
        key: Key,
        /// Where it is written.
        origin: String,
    },
    /// It was refused before and can be read again.
    Mended {
        /// Which.
        key: Key,
        /// Where it is written.
        origin: String,
    },
    /// It was not in a scan that is believed.
    Missed {
        /// Which.
        key: Key,
        /// Misses in a row, this one included.
        misses: u32,
        /// Misses it still survives.
        left: u32,
    },
    /// It was missed and is there again.
    Returned {
        /// Which.
        key: Key,
        /// Misses that were counted.
        misses: u32,
    },
    /// It was missed too often.
    Deleted {
        /// Which.
        key: Key,
        /// Misses in a row, this one included.
        misses: u32,
        /// Its flag, which is kept for its return.
        enabled: bool,
        /// Earlier than others, because Airflow does not have its DAG.
        inactive: bool,
    },
    /// It was deleted and is declared again.
    Revived {
        /// Which.
        key: Key,
        /// Its flag, as it was when it was deleted.
        enabled: bool,
        /// Where it is written.
        origin: String,
    },
    /// It is declared, and a row made by hand has its key.
    Conflict {
        /// Which.
        key: Key,
        /// The row.
        id: SubscriptionId,
        /// Where it is written.
        origin: String,
    },
}

impl Said {
    /// How loud.
    pub fn level(&self) -> Level {
        match self {
            Self::Added { .. } | Self::Changed { .. } | Self::Mended { .. } | Self::Returned { .. } => Level::Info,
            Self::Missed { .. } | Self::Deleted { .. } | Self::Revived { .. } | Self::Conflict { .. } => Level::Warning,
        }
    }

    /// Of which subscription.
    pub fn key(&self) -> &Key {
        match self {
            Self::Added { key, .. }
            | Self::Changed { key, .. }
            | Self::Mended { key, .. }
            | Self::Missed { key, .. }
            | Self::Returned { key, .. }
            | Self::Deleted { key, .. }
            | Self::Revived { key, .. }
            | Self::Conflict { key, .. } => key,
        }
    }
}

fn attempts(left: u32) -> String {
    match left {
        0 => "no attempts left, the next miss deletes it".to_owned(),
        1 => "1 attempt left".to_owned(),
        left => format!("{left} attempts left"),
    }
}

fn flag(enabled: bool) -> &'static str {
    if enabled { "enabled" } else { "disabled" }
}

impl fmt::Display for Said {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Key { dag_id, queue, conn_id } = self.key();
        write!(f, "subscription of DAG '{dag_id}' to queue '{queue}' (connection '{conn_id}') ")?;
        match self {
            Self::Added { origin, .. } => write!(f, "is new, declared at {origin}"),
            Self::Changed { origin, .. } => write!(f, "has new options, declared at {origin}"),
            Self::Mended { origin, .. } => write!(f, "can be read again, declared at {origin}"),
            Self::Missed { misses, left, .. } => {
                write!(f, "is missing from the scan, miss {misses} in a row: {}; it stays as it is", attempts(*left))
            }
            Self::Returned { misses, .. } => {
                write!(
                    f,
                    "is in the scan again after {misses} counted {}",
                    if *misses == 1 { "miss" } else { "misses" }
                )
            }
            Self::Deleted { misses, enabled, inactive, .. } => {
                let flag = flag(*enabled);
                write!(f, "was deleted, miss {misses} in a row")?;
                if *inactive {
                    write!(
                        f,
                        " (more than {GRACE_MISSES_INACTIVE} are too many for a DAG that Airflow does not have)"
                    )?;
                }
                write!(f, "; if it is declared again it comes back {flag}, as it was")
            }
            Self::Revived { enabled, origin, .. } => {
                write!(f, "was deleted and is declared again at {origin}; it is {} as it was before", flag(*enabled))
            }
            Self::Conflict { id, origin, .. } => write!(
                f,
                "is declared at {origin}, and subscription {id}, which was made by hand, has its place; that one stays as it is: \
                 delete it, or remove the declaration"
            ),
        }
    }
}
