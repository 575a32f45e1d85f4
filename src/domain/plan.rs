//! What the control flow does next, given what is declared and what runs.

use std::collections::{HashMap, HashSet};

use super::declaration::Declaration;
use super::ids::{ConnId, DagId, QueueName};
use super::subscription::Key;

/// What to do about one declaration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Start a worker for the declaration with this index.
    Start(usize),
    /// Do not: its queue is served for another DAG already, and two consumers would each get half of the messages.
    QueueTaken {
        /// The index of the declaration.
        index: usize,
        /// The DAG that the queue is served for.
        by: DagId,
    },
}

/// Plans. What runs keeps running: a declaration that is gone is left alone until the watcher starts again.
///
/// Planning again once the plan was carried out starts nothing.
pub fn plan(declared: &[Declaration], running: &HashSet<Key>) -> Vec<Action> {
    let mut taken: HashMap<(&QueueName, &ConnId), &DagId> =
        running.iter().map(|key| ((&key.queue, &key.conn_id), &key.dag_id)).collect();
    let mut actions = Vec::new();
    for (index, d) in declared.iter().enumerate() {
        match taken.get(&(&d.queue, &d.conn_id)) {
            None => {
                taken.insert((&d.queue, &d.conn_id), &d.dag_id);
                actions.push(Action::Start(index));
            }
            Some(by) if **by != d.dag_id => actions.push(Action::QueueTaken { index, by: (*by).clone() }),
            Some(_) => {}
        }
    }
    actions
}

/// Why a declaration does not run, as a sentence.
pub fn queue_taken(declaration: &Declaration, by: &DagId) -> String {
    let Declaration { dag_id, queue, origin, .. } = declaration;
    format!(
        "{origin}: subscription of DAG '{dag_id}' refused: queue '{queue}' is served for DAG '{by}' already, and this version \
         serves a queue for one DAG; give each DAG a queue of its own"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::declaration::Origin;

    fn declared(dag: &str, queue: &str, conn: &str) -> Declaration {
        let origin = Origin { file: "a.py".into(), line: 1, column: 1 };
        Declaration::new(dag, queue, conn, origin).expect("valid names")
    }

    fn key(d: &Declaration) -> Key {
        d.key()
    }

    #[test]
    fn what_is_declared_is_started_once() {
        let all = [declared("a", "q1", "c"), declared("b", "q2", "c"), declared("a", "q1", "c2")];
        assert_eq!(plan(&all, &HashSet::new()), [Action::Start(0), Action::Start(1), Action::Start(2)]);
        let running: HashSet<Key> = all.iter().map(key).collect();
        assert_eq!(plan(&all, &running), [], "planning again does nothing");
        assert_eq!(plan(&[], &running), [], "what is gone is left alone");
    }

    #[test]
    fn a_queue_is_served_for_one_dag() {
        let all = [declared("a", "q", "c"), declared("b", "q", "c")];
        let taken = Action::QueueTaken { index: 1, by: DagId::new("a") };
        assert_eq!(plan(&all, &HashSet::new()), [Action::Start(0), taken.clone()]);
        let running = HashSet::from([key(&all[0])]);
        assert_eq!(plan(&all, &running), [taken], "whoever runs keeps it");
        let running = HashSet::from([key(&all[1])]);
        assert_eq!(plan(&all, &running), [Action::QueueTaken { index: 0, by: DagId::new("b") }]);
    }
}
