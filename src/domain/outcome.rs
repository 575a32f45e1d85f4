//! What Airflow's answer to a request means for the delivery behind it.

use std::time::Duration;

/// One HTTP exchange as plain data: what the classifying functions judge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Exchange {
    /// An answer came.
    Replied(Reply),
    /// The request surely never reached Airflow (name not found, connection refused, TLS refused).
    NotSent(String),
    /// It may have reached Airflow; no answer came (timeout, connection dropped).
    AnswerLost(String),
}

/// An HTTP answer, its body read up to a bound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The status code.
    pub status: u16,
    /// `Content-Type`, lower-cased, parameters left out.
    pub content_type: Option<String>,
    /// `Location`, for redirects (redirects are never followed).
    pub location: Option<String>,
    /// `Retry-After`, in seconds or as a date, turned into a duration.
    pub retry_after: Option<Duration>,
    /// The body, cut at 256 KiB.
    pub body: Vec<u8>,
}

/// What asking for a DAG run led to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TriggerAnswer {
    /// The run was created.
    Created,
    /// 409: this run id (or, rarely, this logical date) is taken. Only a look-up by run id tells which.
    Conflict(String),
    /// The DAG cannot take a run now: unknown, removed, import errors, manual runs not allowed.
    TargetFault(String),
    /// This message can never become a run of this DAG.
    Refused(String),
    /// Our access is wrong: credentials, permission, or something that is not Airflow answered.
    AccessFault(String),
    /// Airflow cannot answer now; nothing was started.
    Unavailable {
        /// What happened, one sentence.
        reason: String,
        /// How long Airflow asked us to wait.
        retry_after: Option<Duration>,
        /// 5xx with this message: counted, since some messages alone make Airflow fail.
        server_error: bool,
    },
    /// The request may have been carried out; look the run up before sending it again.
    Ambiguous(String),
}

/// What looking up a run by its id said.
#[derive(Clone, Debug, PartialEq)]
pub enum RunLookup {
    /// The run exists; its conf as Airflow holds it.
    Found(FoundRun),
    /// Airflow says in its own words that there is no such run.
    Absent,
    /// No statement: Airflow or our access is unwell.
    Unknown(String),
}

/// A run that Airflow knows.
#[derive(Clone, Debug, PartialEq)]
pub struct FoundRun {
    /// `queued`, `running`, `success`, `failed`, …
    pub state: String,
    /// The run's conf; an empty object where there is none.
    pub conf: serde_json::Value,
}

/// What looking up a DAG said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DagLookup {
    /// Airflow knows the DAG.
    Found(FoundDag),
    /// Airflow says in its own words that there is no such DAG.
    Absent,
    /// No statement: Airflow or our access is unwell.
    Unknown(String),
}

/// A DAG that Airflow knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundDag {
    /// A paused DAG takes runs and leaves them queued.
    pub is_paused: bool,
    /// `is_active` (2.x) or not `is_stale` (3.x): a run can be asked for.
    pub is_active: bool,
    /// Its file fails to import now.
    pub has_import_errors: bool,
}
