//! Finding out which Airflow is there, and asking about it as a whole (L2), with a scripted server.

use rmq_watcher::domain::outcome::{AccessAnswer, Dialect, HealthAnswer, TriggerAnswer};

use crate::login::trigger;
use crate::stub::{Act, Stub};
use crate::support::{client, password, run};
use crate::transport::RUNS;

#[test]
fn a_base_url_with_a_path_is_kept() {
    run(async {
        let stub = Stub::start().await;
        stub.on("GET /team/air/api/v2/version", Act::json(200, r#"{"version":"3.0.0"}"#))
            .on("POST /team/air/auth/token", Act::json(201, r#"{"access_token":"t"}"#))
            .on("POST /team/air/api/v2/dags/d/dagRuns", Act::json(201, r#"{"dag_run_id":"r1"}"#));
        let client = client(&format!("{}/team/air/", stub.url), password("u", "p"));
        assert_eq!(trigger(&client).await, TriggerAnswer::Created);
    });
}

#[test]
fn a_probe_without_airflow_names_the_key_to_check() {
    run(async {
        let stub = Stub::start().await;
        let client = client(&stub.url, password("u", "p"));
        let TriggerAnswer::AccessFault(reason) = trigger(&client).await else { panic!("an access fault") };
        assert!(reason.contains("airflow.url") && reason.contains(&stub.url), "{reason}");
        // It appears: no restart is needed.
        stub.now("GET /api/v2/version", Act::json(200, r#"{"version":"3.3.2"}"#))
            .now("POST /auth/token", Act::json(201, r#"{"access_token":"t"}"#))
            .on(RUNS, Act::json(200, r#"{"dag_run_id":"r1"}"#));
        assert_eq!(trigger(&client).await, TriggerAnswer::Created);
    });
}

#[test]
fn an_upgrade_under_a_running_client_is_found() {
    run(async {
        let stub = Stub::start().await;
        let runs_v1 = "POST /api/v1/dags/d/dagRuns";
        stub.airflow2().on(runs_v1, Act::json(200, r#"{"dag_run_id":"r1"}"#));
        let client = client(&stub.url, password("u", "p"));
        assert_eq!(trigger(&client).await, TriggerAnswer::Created);
        assert_eq!(client.version().await.unwrap(), (Dialect::V1, "2.11.2".to_owned()));
        stub.now("GET /api/v2/version", Act::json(200, r#"{"version":"3.3.2"}"#))
            .now(runs_v1, Act::json(405, r#"{"detail":"Method Not Allowed"}"#))
            .on("POST /auth/token", Act::json(201, r#"{"access_token":"t"}"#))
            .on(RUNS, Act::json(200, r#"{"dag_run_id":"r1"}"#));
        for _ in 0..3 {
            assert!(matches!(trigger(&client).await, TriggerAnswer::AccessFault(_)));
        }
        assert_eq!(trigger(&client).await, TriggerAnswer::Created);
        assert_eq!(stub.seen_of("GET /api/v2/version").len(), 3);
    });
}

#[test]
fn many_callers_share_one_probe_and_one_login() {
    run(async {
        let stub = Stub::start().await;
        stub.airflow3().on(RUNS, Act::json(200, r#"{"dag_run_id":"r1"}"#));
        let client = client(&stub.url, password("u", "p"));
        let calls = (0..8).map(|_| trigger(&client));
        for answer in futures_util::future::join_all(calls).await {
            assert_eq!(answer, TriggerAnswer::Created);
        }
        assert_eq!(stub.seen_of("GET /api/v2/version").len(), 1);
        assert_eq!(stub.seen_of("POST /auth/token").len(), 1);
    });
}

#[test]
fn health_and_access_are_read() {
    run(async {
        let stub = Stub::start().await;
        let body = r#"{"metadatabase":{"status":"healthy"},"scheduler":{"status":"unhealthy"}}"#;
        stub.airflow3()
            .on("GET /api/v2/monitor/health", Act::json(200, body))
            .on("GET /api/v2/dags?limit=1", Act::json(200, r#"{"dags":[]}"#));
        let client = client(&stub.url, password("u", "p"));
        assert!(matches!(client.health().await, HealthAnswer::Report(_)));
        assert!(stub.seen_of("POST /auth/token").is_empty(), "health needs no login");
        assert_eq!(client.access().await, AccessAnswer::Granted);
    });
}
