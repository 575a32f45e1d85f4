//! Why a client cannot be made, and why a request was not sent.

use std::path::PathBuf;
use std::time::Duration;

use crate::domain::outcome::{DagLookup, RunLookup, TriggerAnswer};

/// Why a client cannot be made from its settings. All of it needs a person.
#[derive(Debug, thiserror::Error)]
pub enum AirflowError {
    /// The base URL cannot be used.
    #[error("the Airflow URL {url:?} cannot be used: {reason}; write it like http://localhost:8080")]
    Url {
        /// As configured, without user and password.
        url: String,
        /// What is wrong.
        reason: &'static str,
    },
    /// The file of authorities cannot be used.
    #[error("the authorities of Airflow's certificate cannot be read from {}: {reason}", path.display())]
    CaFile {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// No authority is trusted on this machine.
    #[error("no certificate authority is installed on this machine; install ca-certificates or set airflow.ca_file")]
    NoSystemRoots,
    /// TLS could not be set up.
    #[error("TLS for Airflow cannot be set up: {0}")]
    Tls(#[from] rustls::Error),
    /// The HTTP client could not be set up.
    #[error("the HTTP client for Airflow cannot be set up: {0}")]
    Client(String),
}

/// Why a request was surely not sent: Airflow's API was not found, or no credentials could be had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Blocked {
    /// Somebody has to change something: credentials, URL, what stands in front.
    Access(String),
    /// It may work later by itself.
    NotNow {
        /// What happened, one sentence.
        reason: String,
        /// How long we were asked to wait.
        retry_after: Option<Duration>,
    },
}

impl Blocked {
    /// What happened, one sentence.
    pub fn reason(&self) -> &str {
        match self {
            Self::Access(reason) | Self::NotNow { reason, .. } => reason,
        }
    }
}

impl From<Blocked> for TriggerAnswer {
    fn from(blocked: Blocked) -> Self {
        match blocked {
            Blocked::Access(reason) => Self::AccessFault(reason),
            Blocked::NotNow { reason, retry_after } => Self::Unavailable { reason, retry_after, server_error: false },
        }
    }
}

impl From<Blocked> for RunLookup {
    fn from(blocked: Blocked) -> Self {
        Self::Unknown(blocked.reason().to_owned())
    }
}

impl From<Blocked> for DagLookup {
    fn from(blocked: Blocked) -> Self {
        Self::Unknown(blocked.reason().to_owned())
    }
}
