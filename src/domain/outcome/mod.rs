//! What Airflow's answer to a request means for the delivery behind it.
//!
//! Serves the data flow (start the target, look a run up) and the control flow (look a DAG up, version, health). The
//! Airflow adapter turns HTTP into an [`Exchange`]; the `classify_…` functions here turn that into an answer. They never
//! do I/O and are total: whatever stands in front of Airflow (proxy, login page, another program) gets an answer too.
//!
//! Invariants, held by `tests/airflow/frozen.rs` over frozen replies of real Airflow and by the tables in each file:
//! - a status alone proves nothing: "created", "found" and "absent" need Airflow's own JSON naming what was asked for;
//! - whatever may have been carried out without our knowing is [`TriggerAnswer::Ambiguous`];
//! - Airflow's text reaches people as one line of at most 500 characters without control characters.

mod absence;
mod list;
mod lookup;
mod reply;
mod service;
mod trigger;
mod variable;

use std::time::Duration;

pub use list::DagList;
pub use lookup::{classify_dag, classify_run};
pub use reply::{asks_for_login, from_stranger, tidy};
pub use service::{classify_access, classify_health, classify_version};
pub use trigger::classify_trigger;
pub use variable::classify_variable;

/// The two generations of Airflow's REST API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// `/api/v1`, Airflow 2.9 and later 2.x.
    V1,
    /// `/api/v2`, Airflow 3.x.
    V2,
}

impl Dialect {
    /// The stable name in rows.
    pub fn code(self) -> &'static str {
        match self {
            Self::V1 => "v1",
            Self::V2 => "v2",
        }
    }

    /// The API of that name.
    pub fn parse(code: &str) -> Option<Self> {
        [Self::V1, Self::V2].into_iter().find(|dialect| dialect.code() == code)
    }

    /// The path that every call of this API starts with.
    pub fn prefix(self) -> &'static str {
        match self {
            Self::V1 => "/api/v1",
            Self::V2 => "/api/v2",
        }
    }
}

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

impl Exchange {
    /// The answer, or why there is none, for questions that may be asked again: there it is the same whether the request or
    /// its answer was lost.
    fn reply(&self) -> Result<&Reply, &str> {
        match self {
            Self::Replied(reply) => Ok(reply),
            Self::NotSent(reason) | Self::AnswerLost(reason) => Err(reason),
        }
    }
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
    /// The body, whole: an answer longer than its bound is reported as [`Exchange::AnswerLost`].
    pub body: Vec<u8>,
}

#[cfg(test)]
impl Reply {
    /// An answer that redirects nowhere and asks for no patience.
    fn plain(status: u16, content_type: Option<&str>, body: &str) -> Self {
        Self {
            status,
            content_type: content_type.map(str::to_owned),
            location: None,
            retry_after: None,
            body: body.as_bytes().to_vec(),
        }
    }
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
    /// Airflow cannot take the run now and, as far as it says, started nothing.
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

/// What asking for Airflow's version said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VersionAnswer {
    /// This API is there; the version as Airflow writes it.
    Is(String),
    /// Surely no API of this generation under this URL.
    NotHere(String),
    /// Something that is not Airflow answered, or it let us not in.
    AccessFault(String),
    /// No statement now.
    Unavailable {
        /// What happened, one sentence.
        reason: String,
        /// How long we were asked to wait.
        retry_after: Option<Duration>,
    },
}

/// Whether our credentials may read, as a harmless request showed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AccessAnswer {
    /// The request was let in.
    Granted,
    /// It was not, or something that is not Airflow answered.
    AccessFault(String),
    /// No statement now.
    Unavailable(String),
}

/// What Airflow says about its own parts. Its health address answers 200 whatever the state: only the body counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HealthAnswer {
    /// The parts as reported.
    Report(HealthReport),
    /// No report; why.
    Unknown(String),
}

/// Airflow's parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealthReport {
    /// The metadata database.
    pub metadatabase: Part,
    /// The scheduler.
    pub scheduler: Part,
    /// The triggerer.
    pub triggerer: Part,
    /// The DAG processor; in Airflow 2 usually [`Part::Unknown`], since the scheduler does its work.
    pub dag_processor: Part,
}

impl HealthReport {
    /// How the part is that reads DAG files. In 2.x that is the scheduler, unless a DAG processor of its own was ever seen.
    pub fn reader_of_dags(&self, dialect: Dialect) -> Part {
        match (dialect, self.dag_processor) {
            (Dialect::V1, Part::Unknown) => self.scheduler,
            (Dialect::V1 | Dialect::V2, part) => part,
        }
    }
}

/// How one part of Airflow is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Its heartbeat is young.
    Healthy,
    /// It was seen, and its heartbeat is old or it does not answer.
    Unhealthy,
    /// Airflow makes no statement: never seen, or not reported by this version.
    Unknown,
}
