//! The calls: what the flows ask of Airflow, each one request, judged by [`crate::domain::outcome`].
//!
//! Serves the data flow (`Runs`, `Dags`), the control flow (`Dags`) and `check` (version, access, health). Every call is bounded: one request's bound is
//! `airflow.request_timeout`, and besides its own request a call makes at most one probe of the version (two requests) and
//! one new login (two requests). How many calls run at once is the pipeline's business. Must not retry but after a new
//! login, which a request that was not let in cannot have started anything.

use reqwest::header::HeaderMap;
use serde_json::{Map, Value};

use super::auth::{Auth, Pass};
use super::error::{AirflowError, Blocked};
use super::http::{Ask, CONF_BODY, DAGS_BODY, Http};
use super::probe::Probe;
use super::wire;
use crate::config::airflow::AirflowSettings;
use crate::domain::cycle_settings::Variable;
use crate::domain::ids::{DagId, RunId};
use crate::domain::outcome::{
    AccessAnswer, DagList, DagLookup, Dialect, Exchange, HealthAnswer, Part, RunLookup, TriggerAnswer, asks_for_login,
    classify_access, classify_dag, classify_health, classify_run, classify_trigger, classify_variable, from_stranger,
};
use crate::ports::{Dags, Runs};

/// How often one call is sent at most: as it is, after a new login, and (2.x) with Basic in place of a session.
const SENDS: usize = 3;

/// Airflow's REST API, v1 or v2. Cheap when idle: no timer, no task, no connection kept longer than 4 s.
pub struct AirflowClient {
    http: Http,
    auth: Auth,
    probe: Probe,
}

impl AirflowClient {
    /// Prepares the client. Connects nowhere; reads the authorities' file, if one is configured.
    ///
    /// # Errors
    /// A setting that a person has to mend.
    pub fn new(settings: AirflowSettings) -> Result<Self, AirflowError> {
        Ok(Self { http: Http::new(&settings)?, auth: Auth::new(settings.credentials), probe: Probe::default() })
    }

    /// Airflow's version and API, asked now. Needs no credentials.
    ///
    /// # Errors
    /// No Airflow of 2.9 or later was found there, or nothing answered.
    pub async fn version(&self) -> Result<(Dialect, String), Blocked> {
        let headers = self.auth.early_headers(&self.http).await;
        let version = self.probe.ask_anew(&self.http, &headers).await?;
        Ok((version.dialect, version.text))
    }

    /// How Airflow's parts are, by its own word. Needs no credentials.
    pub async fn health(&self) -> HealthAnswer {
        let headers = self.auth.early_headers(&self.http).await;
        let dialect = match self.probe.dialect(&self.http, &headers).await {
            Ok(dialect) => dialect,
            Err(blocked) => return HealthAnswer::Unknown(blocked.reason().to_owned()),
        };
        let mut ask = self.http.get(wire::health_path(dialect));
        ask.headers.extend(headers);
        classify_health(&self.http.send(ask).await)
    }

    /// Whether the credentials are let in, by a request that changes nothing.
    pub async fn access(&self) -> AccessAnswer {
        match self.call(|dialect, http| http.get(wire::any_dag_path(dialect))).await {
            Ok((exchange, _)) => classify_access(&exchange),
            Err(Blocked::Access(reason)) => AccessAnswer::AccessFault(reason),
            Err(Blocked::NotNow { reason, .. }) => AccessAnswer::Unavailable(reason),
        }
    }

    /// One request with a credential, sent again with a new one where the answer asks for it.
    async fn call(&self, ask: impl FnOnce(Dialect, &Http) -> Ask) -> Result<(Exchange, Dialect), Blocked> {
        let early = self.auth.early_headers(&self.http).await;
        let dialect = self.probe.dialect(&self.http, &early).await?;
        let mut pass = self.auth.pass(&self.http, dialect).await?;
        let ask = ask(dialect, &self.http);
        let mut sends = 0;
        loop {
            let exchange = self.http.send(with_pass(&ask, &pass)).await;
            sends += 1;
            let Exchange::Replied(reply) = &exchange else {
                return Ok((exchange, dialect));
            };
            if !asks_for_login(reply, dialect) {
                if reply.status < 500 {
                    self.auth.accepted(&self.http, &pass);
                    self.probe.note(from_stranger(reply));
                }
                return Ok((exchange, dialect));
            }
            if sends >= SENDS {
                return Ok((exchange, dialect));
            }
            match self.auth.renew(&self.http, dialect, &pass).await {
                Some(renewed) => pass = renewed,
                None => {
                    self.probe.note(true);
                    return Ok((exchange, dialect));
                }
            }
        }
    }
}

fn with_pass(ask: &Ask, pass: &Pass) -> Ask {
    let mut ask = ask.clone();
    let (name, value) = pass.header();
    ask.headers.extend(HeaderMap::from_iter([(name, value)]));
    ask
}

impl Runs for AirflowClient {
    async fn trigger(&self, dag: &DagId, run: &RunId, conf: &Map<String, Value>) -> TriggerAnswer {
        let asked = self
            .call(|dialect, http| {
                let body = wire::trigger_body(dialect, run, conf);
                let mut ask = http.post(wire::runs_path(dialect, dag), "application/json", body);
                ask.limit = CONF_BODY;
                ask
            })
            .await;
        match asked {
            Ok((exchange, dialect)) => classify_trigger(&exchange, dialect, dag, run),
            Err(blocked) => blocked.into(),
        }
    }

    async fn look_up(&self, dag: &DagId, run: &RunId) -> RunLookup {
        let asked = self
            .call(|dialect, http| {
                let mut ask = http.get(wire::run_path(dialect, dag, run));
                ask.limit = CONF_BODY;
                ask
            })
            .await;
        match asked {
            Ok((exchange, _)) => classify_run(&exchange, dag, run),
            Err(blocked) => blocked.into(),
        }
    }
}

impl Dags for AirflowClient {
    async fn look_up_dag(&self, dag: &DagId) -> DagLookup {
        match self.call(|dialect, http| http.get(wire::dag_path(dialect, dag))).await {
            Ok((exchange, dialect)) => classify_dag(&exchange, dialect, dag),
            Err(blocked) => blocked.into(),
        }
    }

    async fn list_dags(&self) -> DagList {
        let mut list = DagList::default();
        while let Some(offset) = list.next_offset() {
            let asked = self
                .call(|dialect, http| {
                    let mut ask = http.get(wire::dags_path(dialect, offset));
                    ask.limit = DAGS_BODY;
                    ask
                })
                .await;
            match asked {
                Ok((exchange, dialect)) => list.take(&exchange, dialect),
                Err(blocked) => list.fail(blocked.reason().to_owned()),
            }
        }
        list
    }

    async fn dag_processor(&self) -> Part {
        let health = self.health().await;
        // Known by now, unless there is no health to judge either.
        let headers = self.auth.early_headers(&self.http).await;
        match (health, self.probe.dialect(&self.http, &headers).await) {
            (HealthAnswer::Report(report), Ok(dialect)) => report.reader_of_dags(dialect),
            (HealthAnswer::Report(_) | HealthAnswer::Unknown(_), _) => Part::Unknown,
        }
    }

    async fn variable(&self, key: &str) -> Variable {
        match self.call(|dialect, http| http.get(wire::variable_path(dialect, key))).await {
            Ok((exchange, _)) => classify_variable(&exchange, key),
            Err(blocked) => Variable::Unread(blocked.reason().to_owned()),
        }
    }
}
