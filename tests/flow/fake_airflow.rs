//! Airflow by what it guarantees: a run id exists once. Answers can be scripted; requests are recorded.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::time::Duration;

use rmq_watcher::domain::ids::{DagId, RunId};
use rmq_watcher::domain::outcome::{DagLookup, FoundRun, RunLookup, TriggerAnswer};
use rmq_watcher::ports::Runs;
use serde_json::{Map, Value};
use tokio::sync::Semaphore;

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
    runs: RefCell<BTreeMap<String, Value>>,
    turns: RefCell<VecDeque<Turn>>,
    lookups: RefCell<VecDeque<RunLookup>>,
    triggers: RefCell<Vec<String>>,
    gate: Semaphore,
}

impl FakeAirflow {
    pub(crate) fn new() -> Self {
        Self(Rc::new(Inner {
            runs: RefCell::default(),
            turns: RefCell::default(),
            lookups: RefCell::default(),
            triggers: RefCell::default(),
            gate: Semaphore::new(Semaphore::MAX_PERMITS),
        }))
    }

    pub(crate) fn script(&self, turns: impl IntoIterator<Item = Turn>) {
        self.0.turns.borrow_mut().extend(turns);
    }

    pub(crate) fn script_lookups(&self, lookups: impl IntoIterator<Item = RunLookup>) {
        self.0.lookups.borrow_mut().extend(lookups);
    }

    pub(crate) fn create(&self, run: &str, conf: Value) {
        self.0.runs.borrow_mut().insert(run.to_owned(), conf);
    }

    pub(crate) fn run_ids(&self) -> Vec<String> {
        self.0.runs.borrow().keys().cloned().collect()
    }

    pub(crate) fn conf(&self, run: &str) -> Value {
        self.0.runs.borrow()[run].clone()
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
    async fn trigger(&self, _: &DagId, run: &RunId, conf: &Map<String, Value>) -> TriggerAnswer {
        self.0.triggers.borrow_mut().push(run.as_str().to_owned());
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
            None => created(),
        };
        let mut runs = self.0.runs.borrow_mut();
        if runs.contains_key(run.as_str()) {
            return TriggerAnswer::Conflict("already exists".to_owned());
        }
        runs.insert(run.as_str().to_owned(), Value::Object(conf.clone()));
        said
    }

    async fn look_up(&self, _: &DagId, run: &RunId) -> RunLookup {
        if let Some(lookup) = self.0.lookups.borrow_mut().pop_front() {
            return lookup;
        }
        match self.0.runs.borrow().get(run.as_str()) {
            Some(conf) => RunLookup::Found(FoundRun { state: "queued".into(), conf: conf.clone() }),
            None => RunLookup::Absent,
        }
    }

    async fn look_up_dag(&self, _: &DagId) -> DagLookup {
        DagLookup::Unknown("not scripted".to_owned())
    }
}
