//! Runs and DAGs on real Airflow 2.11 and 3.3.

use std::fs;
use std::path::PathBuf;

use futures_util::future::join_all;
use rmq_watcher::airflow::AirflowClient;
use rmq_watcher::domain::conf::{MAX_DEPTH, validate};
use rmq_watcher::domain::outcome::{
    AccessAnswer, DagLookup, Dialect, FoundDag, HealthAnswer, Part, RunLookup, TriggerAnswer,
};
use rmq_watcher::ports::{Dags as _, Runs as _};
use serde_json::{Value, json};

use crate::support::{Real, client, conf, dag, eventually, fresh, on_both, on_real, password};

fn admin(real: &Real) -> AirflowClient {
    client(&real.url, password("admin", "admin"))
}

async fn found_dag(client: &AirflowClient, id: &str) -> FoundDag {
    match client.look_up_dag(&dag(id)).await {
        DagLookup::Found(found) => found,
        other => panic!("{id}: {other:?}"),
    }
}

/// Starts a run with this conf and reads it back.
async fn round_trip(client: &AirflowClient, value: Value) -> Value {
    let (dag, run, conf) = (dag("client_ok"), fresh("conf"), conf(value));
    validate(&conf).unwrap();
    assert_eq!(client.trigger(&dag, &run, &conf).await, TriggerAnswer::Created);
    match client.look_up(&dag, &run).await {
        RunLookup::Found(found) => found.conf,
        other => panic!("{other:?}"),
    }
}

#[test]
fn real_version_health_and_access_are_read() {
    on_both(async |real| {
        let client = admin(&real);
        let (dialect, version) = client.version().await.unwrap();
        assert_eq!(dialect, real.dialect);
        assert!(version.starts_with(if dialect == Dialect::V1 { "2." } else { "3." }), "{version}");
        let HealthAnswer::Report(report) = client.health().await else { panic!("a report") };
        assert_eq!(report.metadatabase, Part::Healthy);
        assert_eq!(client.access().await, AccessAnswer::Granted);
    });
}

#[test]
fn real_run_is_created_once_and_found_with_its_conf() {
    on_both(async |real| {
        let client = admin(&real);
        let (dag, run) = (dag("client_ok"), fresh("once"));
        let conf = conf(json!({"body": "{\"a\": 1}", "headers": {"é": ["ü", 1, 2.5, null, true]}, "queue": "q"}));
        assert_eq!(client.look_up(&dag, &run).await, RunLookup::Absent);
        assert_eq!(client.trigger(&dag, &run, &conf).await, TriggerAnswer::Created);
        let answer = client.trigger(&dag, &run, &conf).await;
        assert!(matches!(answer, TriggerAnswer::Conflict(_)), "{answer:?}");
        match client.look_up(&dag, &run).await {
            RunLookup::Found(found) => assert_eq!(found.conf, Value::Object(conf)),
            other => panic!("{other:?}"),
        }
    });
}

#[test]
fn real_parallel_requests_for_one_run_create_one() {
    // Airflow 3 on SQLite takes one request at a time only.
    on_real(Dialect::V1, async |real| {
        let client = admin(&real);
        let (dag, run, conf) = (dag("client_ok"), fresh("race"), conf(json!({})));
        let answers = join_all((0..8).map(|_| client.trigger(&dag, &run, &conf))).await;
        let created = answers.iter().filter(|answer| **answer == TriggerAnswer::Created).count();
        let taken = answers.iter().filter(|answer| matches!(answer, TriggerAnswer::Conflict(_))).count();
        assert_eq!((created, taken), (1, 7), "{answers:?}");
    });
}

#[test]
fn real_every_conf_that_validates_comes_back_equal() {
    on_both(async |real| {
        let client = admin(&real);
        let odd = json!({
            "text": "\u{1}\u{1f}\"\\/ \u{2028} é 😀 </script>",
            "numbers": [i64::MIN, i64::MAX, u64::MAX, 0, -1, 1e308, 5e-324, 0.1],
            "": {"nested": [[], {}, [null, false]]},
            "a.b$c d": "x",
        });
        assert_eq!(round_trip(&client, odd.clone()).await, odd);
        let mut deep = json!("end");
        for level in 1..MAX_DEPTH {
            deep = if level % 2 == 0 { json!([deep]) } else { json!({"a": deep}) };
        }
        let deep = json!({"deep": deep});
        assert_eq!(round_trip(&client, deep.clone()).await, deep);
    });
}

#[test]
fn real_large_conf_is_refused_by_airflow_2_and_taken_by_3() {
    on_both(async |real| {
        let client = admin(&real);
        let large = json!({"body": "é\n".repeat(500_000)});
        match real.dialect {
            Dialect::V1 => {
                let answer = client.trigger(&dag("client_ok"), &fresh("large"), &conf(large)).await;
                let TriggerAnswer::Refused(reason) = answer else { panic!("{answer:?}") };
                assert!(reason.contains("413") && reason.contains("allowed_payload_size"), "{reason}");
            }
            Dialect::V2 => assert_eq!(round_trip(&client, large.clone()).await, large),
        }
    });
}

#[test]
fn real_unknown_dags_are_the_targets_fault_and_absent() {
    on_both(async |real| {
        let client = admin(&real);
        for id in ["client_nowhere", "client_never_imported"] {
            let answer = client.trigger(&dag(id), &fresh("unknown"), &conf(json!({}))).await;
            let TriggerAnswer::TargetFault(reason) = answer else { panic!("{answer:?}") };
            assert!(reason.contains(id), "{reason}");
            assert_eq!(client.look_up_dag(&dag(id)).await, DagLookup::Absent);
            assert_eq!(client.look_up(&dag(id), &fresh("unknown")).await, RunLookup::Absent);
        }
    });
}

#[test]
fn real_paused_dag_takes_the_run_and_leaves_it_queued() {
    on_both(async |real| {
        let client = admin(&real);
        let flags = found_dag(&client, "client_paused").await;
        assert_eq!(flags, FoundDag { is_paused: true, is_active: true, has_import_errors: false });
        assert!(!found_dag(&client, "client_ok").await.is_paused);
        let (dag, run) = (dag("client_paused"), fresh("paused"));
        assert_eq!(client.trigger(&dag, &run, &conf(json!({}))).await, TriggerAnswer::Created);
        let RunLookup::Found(found) = client.look_up(&dag, &run).await else { panic!("found") };
        assert_eq!((found.state.as_str(), found.conf), ("queued", json!({})));
    });
}

#[test]
fn real_forbidden_manual_runs_are_the_targets_fault() {
    on_real(Dialect::V2, async |real| {
        let answer = admin(&real).trigger(&dag("client_scheduled_only"), &fresh("manual"), &conf(json!({}))).await;
        assert!(matches!(answer, TriggerAnswer::TargetFault(_)), "{answer:?}");
    });
}

#[test]
fn real_params_of_the_dag_refuse_the_conf() {
    on_both(async |real| {
        let client = admin(&real);
        let dag = dag("client_params");
        for refused in [json!({"n": 1}), json!({"n": "x"})] {
            let answer = client.trigger(&dag, &fresh("params"), &conf(refused)).await;
            let TriggerAnswer::Refused(reason) = answer else { panic!("{answer:?}") };
            assert!(reason.contains("param n") && !reason.contains('\n'), "{reason}");
        }
        let taken = client.trigger(&dag, &fresh("params"), &conf(json!({"n": 7, "more": 1}))).await;
        assert_eq!(taken, TriggerAnswer::Created);
    });
}

#[test]
fn real_odd_names_reach_airflow_unharmed() {
    on_both(async |real| {
        let client = admin(&real);
        let dag = dag("client_é.ü-1");
        assert!(found_dag(&client, "client_é.ü-1").await.is_active);
        let stamp = fresh("odd");
        let longest = format!("{stamp}{}", "x".repeat(200 - stamp.as_str().len()));
        for id in [format!("{stamp}.~:+-_Zz"), longest] {
            let run = crate::support::run_id(&id);
            assert_eq!(client.look_up(&dag, &run).await, RunLookup::Absent, "{id}");
            assert_eq!(client.trigger(&dag, &run, &conf(json!({}))).await, TriggerAnswer::Created, "{id}");
            let found = client.look_up(&dag, &run).await;
            assert!(matches!(found, RunLookup::Found(_)), "{id}: {found:?}");
        }
    });
}

/// A DAG file that is removed when the test ends.
struct DagFile(PathBuf);

impl Drop for DagFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// A DAG is known, then its file breaks: from the first answer that shows it, no run is created any more.
async fn breaking_dag(real: Real) {
    let client = admin(&real);
    let id = fresh("x").as_str().replace("rmq__x__", "client_breaks_");
    let file = DagFile(real.dags.join(format!("{id}.py")));
    let good = format!(
        "from datetime import datetime\nfrom airflow.models.dag import DAG\nwith DAG({id:?}, schedule=None, start_date=datetime(2024, 1, 1)):\n    pass\n"
    );
    fs::write(&file.0, good).unwrap();
    eventually(60, "the DAG is known", || async {
        matches!(client.look_up_dag(&dag(&id)).await, DagLookup::Found(found) if found.is_active)
    })
    .await;
    let answer = client.trigger(&dag(&id), &fresh("whole"), &conf(json!({}))).await;
    assert_eq!(answer, TriggerAnswer::Created);
    fs::write(&file.0, "from airflow.models.dag import DAG\nthis does not parse\n").unwrap();
    eventually(80, "the broken file is noticed", || async {
        let found = found_dag(&client, &id).await;
        found.has_import_errors || !found.is_active
    })
    .await;
    let answer = client.trigger(&dag(&id), &fresh("broken"), &conf(json!({}))).await;
    assert!(matches!(answer, TriggerAnswer::TargetFault(_)), "{answer:?}");
    // Airflow still knows the DAG, and the run it had.
    found_dag(&client, &id).await;
}

#[test]
fn real_breaking_dag_is_the_targets_fault_in_airflow_2() {
    on_real(Dialect::V1, breaking_dag);
}

#[test]
fn real_breaking_dag_is_the_targets_fault_in_airflow_3() {
    on_real(Dialect::V2, breaking_dag);
}
