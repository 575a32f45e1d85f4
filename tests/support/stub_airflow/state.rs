//! What the stand-in knows: DAGs, runs, logins, the faults to come and the requests that came.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Instant;

use serde_json::Value;

use super::{Dialect, Fault, What};

/// A DAG.
#[derive(Clone, Copy, Debug, Default)]
pub struct StubDag {
    /// Runs are taken and stay queued.
    pub paused: bool,
    /// Its file is gone: looked up it is there, triggered it is not.
    pub stale: bool,
    /// Its file cannot be imported.
    pub import_error: bool,
}

/// A run that was created.
#[derive(Clone, Debug)]
pub struct StubRun {
    /// Its DAG.
    pub dag: String,
    /// Its id.
    pub run_id: String,
    /// Its conf, as it came.
    pub conf: Value,
    /// Its state; `queued` until changed.
    pub state: String,
}

/// A request that was read.
#[derive(Clone, Debug)]
pub struct Seen {
    /// When it had been read.
    pub at: Instant,
    /// What it asked for.
    pub what: What,
    /// `GET`, `POST`, …
    pub method: String,
    /// The path without the query.
    pub path: String,
    /// The run it asks for, where it asks for one.
    pub run_id: Option<String>,
    /// The status it was answered with; `None` if it was not, or not in full.
    pub status: Option<u16>,
}

/// Everything behind the stand-in's lock.
pub struct State {
    pub dialect: Dialect,
    pub user: String,
    pub password: String,
    pub scheduler_healthy: bool,
    pub dags: BTreeMap<String, StubDag>,
    pub runs: Vec<StubRun>,
    /// Where a run stands in `runs`, by DAG and id: the first of that name.
    places: HashMap<(String, String), usize>,
    pub variables: BTreeMap<String, String>,
    /// Tokens (version 3) or session cookies (version 2) that are good.
    pub sessions: BTreeSet<String>,
    pub expired: BTreeSet<String>,
    pub seen: Vec<Seen>,
    /// Each used once, in order, by the first request it is for.
    pub once: Vec<(What, Fault)>,
    /// For every request, until healed.
    pub always: Vec<(What, Fault)>,
    /// How often the faults were healed.
    pub heals: u64,
    pub down: bool,
    pub ended: bool,
    logins: u32,
}

impl State {
    pub fn new(dialect: Dialect) -> Self {
        Self {
            dialect,
            user: "watcher".to_owned(),
            password: "watcher-password".to_owned(),
            scheduler_healthy: true,
            dags: BTreeMap::new(),
            runs: Vec::new(),
            places: HashMap::new(),
            variables: BTreeMap::new(),
            sessions: BTreeSet::new(),
            expired: BTreeSet::new(),
            seen: Vec::new(),
            once: Vec::new(),
            always: Vec::new(),
            heals: 0,
            down: false,
            ended: false,
            logins: 0,
        }
    }

    pub fn new_session(&mut self) -> String {
        self.logins += 1;
        let session = format!("stub-session-{}", self.logins);
        self.sessions.insert(session.clone());
        session
    }

    pub fn run(&self, dag: &str, run_id: &str) -> Option<&StubRun> {
        self.places.get(&(dag.to_owned(), run_id.to_owned())).map(|place| &self.runs[*place])
    }

    pub fn add_run(&mut self, run: StubRun) {
        self.places.entry((run.dag.clone(), run.run_id.clone())).or_insert(self.runs.len());
        self.runs.push(run);
    }

    /// The fault for a request, taken off if it is for once.
    pub fn fault_for(&mut self, what: What) -> Option<Fault> {
        if let Some(index) = self.once.iter().position(|(to, _)| to.is_for(what)) {
            return Some(self.once.remove(index).1);
        }
        let mut always = self.always.iter();
        always.find(|(to, _)| to.is_for(what)).map(|(_, fault)| fault.clone())
    }
}
