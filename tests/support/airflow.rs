//! Real Airflow: the instances that `tests/env` started, looked at over REST.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};

use super::http::{self, Answer};
use super::wait::{eventually, eventually_some};

/// Which Airflow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AirflowVersion {
    /// 2.11, REST v1.
    V2,
    /// 3.3, REST v2.
    V3,
}

impl AirflowVersion {
    /// Both.
    pub const ALL: [Self; 2] = [Self::V2, Self::V3];

    /// Both in the long round, else one of them, by the seed.
    pub fn for_this_round() -> Vec<Self> {
        if super::long_round() {
            return Self::ALL.to_vec();
        }
        vec![Self::ALL[usize::from(super::seed() / 2 % 2 == 1)]]
    }

    fn digit(self) -> &'static str {
        match self {
            Self::V2 => "2",
            Self::V3 => "3",
        }
    }
}

/// A running instance with a scheduler. Shared: use DAGs and run ids of your own.
pub struct Airflow {
    version: AirflowVersion,
    url: String,
    authorization: String,
}

impl Airflow {
    /// The instance that all tests share.
    ///
    /// # Panics
    /// If `tests/env` has not started it, or it refuses the login.
    pub fn shared(version: AirflowVersion) -> Self {
        let url = super::provided(&format!("RMQ_TEST_AIRFLOW{}", version.digit()));
        Self::at(version, &url)
    }

    /// An instance at a base URL, logged in as admin/admin.
    ///
    /// # Panics
    /// If it refuses the login.
    pub fn at(version: AirflowVersion, url: &str) -> Self {
        let authorization = match version {
            AirflowVersion::V2 => http::basic("admin", "admin"),
            AirflowVersion::V3 => {
                let login = json!({"username": "admin", "password": "admin"});
                let answer = http::request("POST", url, "/auth/token", None, Some(&login)).expect("Airflow answers");
                let token = answer.json()["access_token"].as_str().map(str::to_owned);
                format!("Bearer {}", token.expect("a token"))
            }
        };
        Self { version, url: url.trim_end_matches('/').to_owned(), authorization }
    }

    /// The base URL, for the watcher's `airflow.url`.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Which Airflow this is.
    pub fn version(&self) -> AirflowVersion {
        self.version
    }

    /// The folder its DAG files are read from; a new file is parsed within some seconds.
    pub fn dags_folder(&self) -> PathBuf {
        super::provided(&format!("RMQ_TEST_AIRFLOW{}_DAGS", self.version.digit())).into()
    }

    /// The environment that an `airflow` command of this instance needs (`AIRFLOW_HOME`, `AIRFLOW__…`, `PATH`).
    pub fn environment(&self) -> BTreeMap<String, String> {
        let file = super::provided(&format!("RMQ_TEST_AIRFLOW{}_ENV", self.version.digit()));
        let text = format!(". '{file}' && env -0");
        let done = std::process::Command::new("sh").args(["-c", &text]).output().unwrap();
        assert!(done.status.success(), "cannot source {file}");
        String::from_utf8_lossy(&done.stdout)
            .split('\0')
            .filter_map(|pair| pair.split_once('='))
            .filter(|(key, _)| key.starts_with("AIRFLOW") || *key == "PATH")
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect()
    }

    /// One REST request; `path` follows `/api/v1/` or `/api/v2/`.
    pub fn rest(&self, method: &str, path: &str, body: Option<&Value>) -> Answer {
        let api = match self.version {
            AirflowVersion::V2 => "v1",
            AirflowVersion::V3 => "v2",
        };
        let path = format!("/api/{api}/{path}");
        http::request(method, &self.url, &path, Some(&self.authorization), body).expect("Airflow answers")
    }

    /// All runs of a DAG as Airflow shows them, oldest first.
    pub fn runs(&self, dag: &str) -> Vec<Value> {
        let mut all = Vec::new();
        loop {
            let path = format!("dags/{}/dagRuns?limit=100&offset={}&order_by=id", escape(dag), all.len());
            let answer = self.rest("GET", &path, None);
            assert_eq!(answer.status, 200, "runs of {dag}: {}", answer.text());
            let page = answer.json();
            let runs = page["dag_runs"].as_array().cloned().unwrap_or_default();
            let end = runs.is_empty();
            all.extend(runs);
            if end || all.len() as u64 >= page["total_entries"].as_u64().unwrap_or(0) {
                return all;
            }
        }
    }

    /// One run, or `None`.
    pub fn run(&self, dag: &str, run_id: &str) -> Option<Value> {
        let path = format!("dags/{}/dagRuns/{}", escape(dag), escape(run_id));
        let answer = self.rest("GET", &path, None);
        (answer.status == 200).then(|| answer.json())
    }

    /// Waits until there is a run of that id, and returns it.
    #[track_caller]
    pub fn wait_run(&self, dag: &str, run_id: &str, deadline: Duration) -> Value {
        let what = format!("{dag} has the run {run_id}");
        eventually_some(deadline, &what, || self.run(dag, run_id))
    }

    /// Waits until a run has a state (`queued`, `running`, `success`, `failed`), and returns it.
    #[track_caller]
    pub fn wait_state(&self, dag: &str, run_id: &str, state: &str, deadline: Duration) -> Value {
        let what = format!("{dag}'s run {run_id} is {state}");
        eventually_some(deadline, &what, || self.run(dag, run_id).filter(|run| run["state"] == state))
    }

    /// Waits until Airflow answers for a DAG, so that it can be triggered.
    #[track_caller]
    pub fn wait_dag(&self, dag: &str, deadline: Duration) {
        eventually(deadline, &format!("Airflow knows {dag}"), || {
            let answer = self.rest("GET", &format!("dags/{}", escape(dag)), None);
            let facts = answer.json();
            let live = match self.version {
                AirflowVersion::V2 => facts["is_active"] == true,
                AirflowVersion::V3 => facts["is_stale"] == false,
            };
            answer.status == 200 && live
        });
    }

    /// Pauses or unpauses a DAG.
    pub fn set_paused(&self, dag: &str, paused: bool) {
        let path = format!("dags/{}", escape(dag));
        let answer = self.rest("PATCH", &path, Some(&json!({"is_paused": paused})));
        assert_eq!(answer.status, 200, "pausing {dag}: {}", answer.text());
    }

    /// Deletes every run of a DAG and unpauses it.
    pub fn reset(&self, dag: &str) {
        for run in self.runs(dag) {
            let id = run["dag_run_id"].as_str().expect("a run id");
            let path = format!("dags/{}/dagRuns/{}", escape(dag), escape(id));
            self.rest("DELETE", &path, None);
        }
        self.set_paused(dag, false);
    }
}

fn escape(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}
