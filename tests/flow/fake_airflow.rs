//! Airflow by what it guarantees: a run id exists once. Answers can be scripted; requests are recorded.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::time::Duration;

use rmq_watcher::domain::cycle_settings::Variable;
use rmq_watcher::domain::ids::{DagId, RunId};
use rmq_watcher::domain::outcome::{
    DagList, DagLookup, Dialect, Exchange, FoundDag, FoundRun, Part, Reply, RunLookup, TriggerAnswer,
};
use rmq_watcher::ports::{Dags, Runs};
use serde_json::{Map, Value};
use tokio::sync::Semaphore;
use tokio::time::Instant;

/// A scripted turn of a trigger request.
pub(crate) enum Turn {
    /// This answer; nothing is created.
    Answer(TriggerAnswer),
    /// The run is created and this is said.
    CreateAndAnswer(TriggerAnswer),
    /// As usual, after this long.
    After(Duration),
    /// A defect of ours in the middle of it.
    Panic,
}

#[derive(Clone)]
pub(crate) struct FakeAirflow(Rc<Inner>);

struct Inner {
    /// By DAG and run id.
    runs: RefCell<BTreeMap<(String, String), Value>>,
    turns: RefCell<VecDeque<Turn>>,
    lookups: RefCell<VecDeque<RunLookup>>,
    triggers: RefCell<Vec<String>>,
    trigger_times: RefCell<Vec<Instant>>,
    gate: Semaphore,
    /// What is said of every DAG that nothing else is said of.
    all_dags: RefCell<DagLookup>,
    dags: RefCell<BTreeMap<String, DagLookup>>,
    /// What the list says, where it differs.
    flaw: RefCell<Option<String>>,
    dag_turns: RefCell<VecDeque<DagLookup>>,
    asked: RefCell<Vec<String>>,
    lists: Cell<usize>,
    processor: Cell<Part>,
    variables: RefCell<BTreeMap<String, Variable>>,
    /// How long Airflow takes to answer for a DAG.
    thinks: Cell<Duration>,
}

/// A DAG that can take runs, or is paused.
pub(crate) fn dag(is_paused: bool) -> DagLookup {
    DagLookup::Found(FoundDag { is_paused, is_active: true, has_import_errors: false })
}

/// A DAG whose file is gone.
pub(crate) fn stale() -> DagLookup {
    DagLookup::Found(FoundDag { is_paused: false, is_active: false, has_import_errors: false })
}

pub(crate) fn unwell() -> DagLookup {
    DagLookup::Unknown("Airflow answered 503".to_owned())
}

impl FakeAirflow {
    pub(crate) fn new() -> Self {
        Self(Rc::new(Inner {
            runs: RefCell::default(),
            turns: RefCell::default(),
            lookups: RefCell::default(),
            triggers: RefCell::default(),
            trigger_times: RefCell::default(),
            gate: Semaphore::new(Semaphore::MAX_PERMITS),
            all_dags: RefCell::new(dag(false)),
            dags: RefCell::default(),
            flaw: RefCell::default(),
            dag_turns: RefCell::default(),
            asked: RefCell::default(),
            lists: Cell::default(),
            processor: Cell::new(Part::Healthy),
            variables: RefCell::default(),
            thinks: Cell::default(),
        }))
    }

    /// What every DAG is from now on.
    pub(crate) fn set_dags(&self, said: DagLookup) {
        self.0.all_dags.replace(said);
    }

    /// What one DAG is from now on.
    pub(crate) fn set_dag(&self, dag: &str, said: DagLookup) {
        self.0.dags.borrow_mut().insert(dag.to_owned(), said);
    }

    fn said_of(&self, dag: &str) -> DagLookup {
        let said = self.0.dags.borrow().get(dag).cloned();
        said.unwrap_or_else(|| self.0.all_dags.borrow().clone())
    }

    /// The next answers about any DAG.
    pub(crate) fn script_dags(&self, said: impl IntoIterator<Item = DagLookup>) {
        self.0.dag_turns.borrow_mut().extend(said);
    }

    /// The list breaks off from now on.
    pub(crate) fn break_list(&self, flaw: &str) {
        self.0.flaw.replace(Some(flaw.to_owned()));
    }

    pub(crate) fn set_processor(&self, part: Part) {
        self.0.processor.set(part);
    }

    pub(crate) fn set_thinking(&self, time: Duration) {
        self.0.thinks.set(time);
    }

    /// DAGs that were asked for one by one, in order.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.0.asked.borrow().clone()
    }

    /// How often the list was asked for.
    pub(crate) fn lists(&self) -> usize {
        self.0.lists.get()
    }

    pub(crate) fn script(&self, turns: impl IntoIterator<Item = Turn>) {
        self.0.turns.borrow_mut().extend(turns);
    }

    /// What was scripted for requests does not happen.
    pub(crate) fn recover(&self) {
        self.0.turns.borrow_mut().clear();
    }

    pub(crate) fn script_lookups(&self, lookups: impl IntoIterator<Item = RunLookup>) {
        self.0.lookups.borrow_mut().extend(lookups);
    }

    pub(crate) fn create(&self, run: &str, conf: Value) {
        self.0.runs.borrow_mut().insert(("dag".to_owned(), run.to_owned()), conf);
    }

    pub(crate) fn run_ids(&self) -> Vec<String> {
        self.0.runs.borrow().keys().map(|(_, run)| run.clone()).collect()
    }

    pub(crate) fn run_ids_of(&self, dag: &str) -> Vec<String> {
        self.0.runs.borrow().keys().filter(|(of, _)| of == dag).map(|(_, run)| run.clone()).collect()
    }

    pub(crate) fn conf(&self, run: &str) -> Value {
        self.0.runs.borrow()[&("dag".to_owned(), run.to_owned())].clone()
    }

    /// When each of them was asked for.
    pub(crate) fn trigger_times(&self) -> Vec<Instant> {
        self.0.trigger_times.borrow().clone()
    }

    /// What reading a Variable leads to; one that is not named is not set.
    pub(crate) fn set_variable(&self, key: &str, answer: Variable) {
        self.0.variables.borrow_mut().insert(key.to_owned(), answer);
    }

    /// Run ids that were asked for, in order.
    pub(crate) fn triggers(&self) -> Vec<String> {
        self.0.triggers.borrow().clone()
    }
}

fn created() -> TriggerAnswer {
    TriggerAnswer::Created
}

impl Runs for FakeAirflow {
    async fn trigger(&self, dag: &DagId, run: &RunId, conf: &Map<String, Value>) -> TriggerAnswer {
        self.0.triggers.borrow_mut().push(run.as_str().to_owned());
        self.0.trigger_times.borrow_mut().push(Instant::now());
        let _turn = self.0.gate.acquire().await.unwrap();
        let turn = self.0.turns.borrow_mut().pop_front();
        let said = match turn {
            Some(Turn::Answer(answer)) => return answer,
            Some(Turn::Panic) => panic!("a scripted defect"),
            Some(Turn::CreateAndAnswer(answer)) => answer,
            Some(Turn::After(pause)) => {
                tokio::time::sleep(pause).await;
                created()
            }
            None => match self.said_of(dag.as_str()) {
                DagLookup::Found(found) if found.is_active && !found.has_import_errors => created(),
                DagLookup::Found(_) | DagLookup::Absent => {
                    return TriggerAnswer::TargetFault("it cannot be started".to_owned());
                }
                DagLookup::Unknown(reason) => {
                    return TriggerAnswer::Unavailable { reason, retry_after: None, server_error: false };
                }
            },
        };
        let mut runs = self.0.runs.borrow_mut();
        let key = (dag.as_str().to_owned(), run.as_str().to_owned());
        if runs.contains_key(&key) {
            return TriggerAnswer::Conflict("already exists".to_owned());
        }
        runs.insert(key, Value::Object(conf.clone()));
        said
    }

    async fn look_up(&self, dag: &DagId, run: &RunId) -> RunLookup {
        if let Some(lookup) = self.0.lookups.borrow_mut().pop_front() {
            return lookup;
        }
        match self.0.runs.borrow().get(&(dag.as_str().to_owned(), run.as_str().to_owned())) {
            Some(conf) => RunLookup::Found(FoundRun { state: "queued".into(), conf: conf.clone() }),
            None => RunLookup::Absent,
        }
    }
}

impl Dags for FakeAirflow {
    async fn look_up_dag(&self, dag: &DagId) -> DagLookup {
        self.0.asked.borrow_mut().push(dag.as_str().to_owned());
        tokio::time::sleep(self.0.thinks.get()).await;
        if let Some(said) = self.0.dag_turns.borrow_mut().pop_front() {
            return said;
        }
        self.said_of(dag.as_str())
    }

    async fn list_dags(&self) -> DagList {
        self.0.lists.set(self.0.lists.get() + 1);
        let mut entries = Vec::new();
        for (id, said) in &*self.0.dags.borrow() {
            if let DagLookup::Found(FoundDag { is_paused, is_active, has_import_errors }) = said {
                entries.push(serde_json::json!({"dag_id": id, "is_paused": is_paused, "is_stale": !is_active,
                    "has_import_errors": has_import_errors}));
            }
        }
        let body = serde_json::json!({"total_entries": entries.len(), "dags": entries}).to_string().into_bytes();
        let content_type = Some("application/json".to_owned());
        let reply = Reply { status: 200, content_type, location: None, retry_after: None, body };
        let mut list = DagList::default();
        list.take(&Exchange::Replied(reply), Dialect::V2);
        if let Some(flaw) = &*self.0.flaw.borrow() {
            list.fail(flaw.clone());
        }
        list
    }

    async fn dag_processor(&self) -> Part {
        self.0.processor.get()
    }

    async fn variable(&self, key: &str) -> Variable {
        self.0.variables.borrow().get(key).cloned().unwrap_or(Variable::Unset)
    }
}
