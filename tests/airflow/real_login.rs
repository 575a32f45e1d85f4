//! Logging in and staying connected, on real Airflow 2.11 and 3.3.

use std::fs;
use std::time::{Duration, Instant};

use rmq_watcher::airflow::AirflowClient;
use rmq_watcher::config::airflow::Credentials;
use rmq_watcher::domain::outcome::{AccessAnswer, DagLookup, Dialect, TriggerAnswer};
use rmq_watcher::ports::{Dags as _, Runs as _};
use serde_json::json;

use crate::meddler::Meddler;
use crate::support::{client, conf, dag, form_is_free, fresh, on_both, on_real, password, plain};

async fn trigger(client: &AirflowClient) -> TriggerAnswer {
    client.trigger(&dag("client_ok"), &fresh("login"), &conf(json!({}))).await
}

#[test]
fn real_wrong_password_is_an_access_fault() {
    on_both(async |real| {
        form_is_free(&real).await;
        let client = client(&real.url, password("admin", "not-the-p4ssword"));
        let answer = trigger(&client).await;
        let TriggerAnswer::AccessFault(reason) = answer else { panic!("{answer:?}") };
        assert!(reason.contains("admin") && reason.contains("airflow.password"), "{reason}");
        assert!(!reason.contains("p4ssword"), "{reason}");
        assert!(matches!(client.access().await, AccessAnswer::AccessFault(_)));
    });
}

#[test]
fn real_viewer_may_look_and_not_trigger() {
    on_both(async |real| {
        form_is_free(&real).await;
        let client = client(&real.url, password("viewer", "viewer"));
        assert_eq!(client.access().await, AccessAnswer::Granted);
        assert!(matches!(client.look_up_dag(&dag("client_ok")).await, DagLookup::Found(_)));
        for _ in 0..2 {
            let answer = trigger(&client).await;
            let TriggerAnswer::AccessFault(reason) = answer else { panic!("{answer:?}") };
            assert!(reason.contains("403"), "{reason}");
        }
        assert!(matches!(client.look_up_dag(&dag("client_ok")).await, DagLookup::Found(_)));
    });
}

#[test]
fn real_spoiled_credential_is_renewed_within_the_call() {
    on_both(async |real| {
        form_is_free(&real).await;
        let meddler = Meddler::before(&real.url).await;
        let client = client(&meddler.url, password("admin", "admin"));
        assert_eq!(trigger(&client).await, TriggerAnswer::Created);
        meddler.spoil_next();
        assert_eq!(trigger(&client).await, TriggerAnswer::Created);
        assert!(!meddler.is_armed(), "the credential was spoiled");
        assert_eq!(trigger(&client).await, TriggerAnswer::Created);
    });
}

#[test]
fn real_server_that_goes_and_comes_back_is_used_again() {
    on_both(async |real| {
        let meddler = Meddler::before(&real.url).await;
        let client = client(&meddler.url, password("admin", "admin"));
        assert_eq!(trigger(&client).await, TriggerAnswer::Created);
        meddler.go().await;
        for _ in 0..2 {
            let answer = trigger(&client).await;
            assert!(matches!(answer, TriggerAnswer::Unavailable { server_error: false, .. }), "{answer:?}");
        }
        meddler.come_back();
        assert_eq!(trigger(&client).await, TriggerAnswer::Created);
    });
}

#[test]
fn real_token_file_is_refused_then_mended() {
    on_real(Dialect::V2, async |real| {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        fs::write(&path, "garbage\n").unwrap();
        let client = client(&real.url, Credentials::TokenFile(path.clone()));
        let answer = trigger(&client).await;
        let TriggerAnswer::AccessFault(reason) = answer else { panic!("{answer:?}") };
        assert!(reason.contains("Invalid JWT token"), "{reason}");
        let answer = plain()
            .post(format!("{}/auth/token", real.url))
            .header("content-type", "application/json")
            .body(json!({"username": "admin", "password": "admin"}).to_string())
            .send()
            .await
            .unwrap()
            .bytes()
            .await
            .unwrap();
        let answer: serde_json::Value = serde_json::from_slice(&answer).unwrap();
        fs::write(&path, answer["access_token"].as_str().unwrap()).unwrap();
        crate::support::eventually(10, "the new token is used", || async {
            trigger(&client).await == TriggerAnswer::Created
        })
        .await;
    });
}

#[test]
fn real_session_is_faster_than_basic_in_airflow_2() {
    on_real(Dialect::V1, async |real| {
        form_is_free(&real).await;
        let client = client(&real.url, password("admin", "admin"));
        let plain = plain();
        let (mut session, mut basic) = (Vec::new(), Vec::new());
        assert!(matches!(client.look_up_dag(&dag("client_ok")).await, DagLookup::Found(_)));
        for _ in 0..9 {
            let start = Instant::now();
            assert!(matches!(client.look_up_dag(&dag("client_ok")).await, DagLookup::Found(_)));
            session.push(start.elapsed());
            let start = Instant::now();
            let request = plain.get(format!("{}/api/v1/dags/client_ok", real.url)).basic_auth("admin", Some("admin"));
            assert_eq!(request.send().await.unwrap().status(), 200);
            basic.push(start.elapsed());
        }
        // The fastest of each: what the machine does beside this counts for neither.
        let (session, basic) = (fastest(session), fastest(basic));
        assert!(session * 2 < basic, "session {session:?}, Basic {basic:?}");
    });
}

fn fastest(times: Vec<Duration>) -> Duration {
    times.into_iter().min().unwrap()
}
