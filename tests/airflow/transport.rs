//! What happens to a request on the wire, and what the client makes of it (L2): every arrow, with a scripted server.

use std::time::Duration;

use rmq_watcher::airflow::AirflowClient;
use rmq_watcher::domain::outcome::{DagLookup, RunLookup, TriggerAnswer};
use rmq_watcher::ports::{Dags as _, Runs as _};
use serde_json::json;
use tokio::net::TcpListener;

use crate::stub::{Act, Stub};
use crate::support::{client, conf, dag, eventually, password, run, run_id, settings};

pub(crate) const RUNS: &str = "POST /api/v2/dags/d/dagRuns";
const ONE_RUN: &str = "GET /api/v2/dags/d/dagRuns/r1";

fn quick(url: &str) -> AirflowClient {
    let mut settings = settings(url, password("u", "p"));
    settings.request_timeout = Duration::from_millis(400);
    AirflowClient::new(settings).unwrap()
}

async fn trigger(client: &AirflowClient) -> TriggerAnswer {
    client.trigger(&dag("d"), &run_id("r1"), &conf(json!({"a": 1}))).await
}

fn is_ambiguous(answer: &TriggerAnswer) -> bool {
    matches!(answer, TriggerAnswer::Ambiguous(_))
}

fn is_unavailable(answer: &TriggerAnswer) -> bool {
    matches!(answer, TriggerAnswer::Unavailable { server_error: false, .. })
}

/// An address nobody listens on.
async fn nobody() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    format!("http://{}", listener.local_addr().unwrap())
}

#[test]
fn a_request_carries_the_body_and_the_token_of_its_generation() {
    run(async {
        let stub = Stub::start().await;
        stub.airflow3().on(RUNS, Act::json(200, r#"{"dag_run_id":"r1"}"#));
        let client = client(&stub.url, password("u", "p"));
        assert_eq!(trigger(&client).await, TriggerAnswer::Created);
        let sent = &stub.seen_of(RUNS)[0];
        assert_eq!(sent.body, r#"{"logical_date":null,"dag_run_id":"r1","conf":{"a":1}}"#);
        assert_eq!(sent.header("authorization"), "Bearer t1");
        assert_eq!(sent.header("content-type"), "application/json");
        assert_eq!(sent.header("referer"), "", "Airflow 3 takes a Referer for its own page");
        assert_eq!(stub.seen_of("POST /auth/token")[0].body, r#"{"username":"u","password":"p"}"#);
        // One connection carries probe, login and trigger.
        assert_eq!(stub.connections(), 1);
    });
}

#[test]
fn a_refused_connection_was_never_sent() {
    run(async {
        let client = quick(&nobody().await);
        let answer = trigger(&client).await;
        assert!(is_unavailable(&answer), "{answer:?}");
        let TriggerAnswer::Unavailable { reason, .. } = answer else { unreachable!() };
        assert!(reason.contains("cannot be reached at http://127.0.0.1"), "{reason}");
        let answer = trigger(&quick("http://no-such-host.invalid")).await;
        assert!(is_unavailable(&answer), "{answer:?}");
    });
}

#[test]
fn airflow_gone_after_the_login_was_never_sent() {
    run(async {
        let stub = Stub::start().await;
        stub.airflow3().on(RUNS, Act::json(200, r#"{"dag_run_id":"r1"}"#));
        let client = quick(&stub.url);
        assert_eq!(trigger(&client).await, TriggerAnswer::Created);
        let url = stub.url.clone();
        drop(stub);
        // The kept connection is served on until it is closed; a fresh client sees that nobody listens.
        let answer = trigger(&quick(&url)).await;
        assert!(is_unavailable(&answer), "{answer:?}");
    });
}

#[test]
fn a_frozen_listener_is_given_up_in_the_connecting_phase_or_as_lost() {
    run(async {
        // Accepts by the kernel alone, never reads: the version question times out, nothing was triggered.
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = quick(&format!("http://{}", listener.local_addr().unwrap()));
        let answer = trigger(&client).await;
        assert!(is_unavailable(&answer), "{answer:?}");
    });
}

#[test]
fn whatever_breaks_after_sending_is_ambiguous() {
    run(async {
        let acts = [
            Act::CloseAfterReading,
            Act::Silence,
            Act::Drip,
            Act::Half(r#"{"dag_run_id":"r1","#.to_owned()),
            Act::Raw("utter garbage\r\n\r\n".to_owned()),
            Act::Raw("HTTP/1.1 200 OK\r\nContent-Le".to_owned()),
            Act::json(200, r#"{"dag_run_id":"r1""#),
        ];
        for act in acts {
            let stub = Stub::start().await;
            stub.airflow3().on(RUNS, act.clone()).on(ONE_RUN, act.clone());
            let client = quick(&stub.url);
            let answer = trigger(&client).await;
            assert!(is_ambiguous(&answer), "{act:?}: {answer:?}");
            assert_eq!(stub.seen_of(RUNS).len(), 1, "{act:?}: a trigger is never repeated by itself");
            let found = client.look_up(&dag("d"), &run_id("r1")).await;
            assert!(matches!(found, RunLookup::Unknown(_)), "{act:?}: {found:?}");
        }
    });
}

#[test]
fn a_connection_closed_before_the_request_was_read_is_ambiguous_too() {
    run(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        // A given token needs no login: the second connection is the trigger's.
        let folder = tempfile::tempdir().unwrap();
        let token = folder.path().join("token");
        std::fs::write(&token, "abc\n").unwrap();
        let mut settings = settings(&url, rmq_watcher::config::airflow::Credentials::TokenFile(token));
        settings.request_timeout = Duration::from_secs(2);
        let client = AirflowClient::new(settings).unwrap();
        let server = tokio::task::spawn_local(async move {
            let (mut first, _) = listener.accept().await.unwrap();
            let mut buffer = vec![0; 4096];
            let _ = tokio::io::AsyncReadExt::read(&mut first, &mut buffer).await.unwrap();
            let body = r#"{"version":"3.3.2"}"#;
            let answer = format!(
                "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
                body.len()
            );
            tokio::io::AsyncWriteExt::write_all(&mut first, answer.as_bytes()).await.unwrap();
            drop(first);
            // The trigger's connection is accepted and closed unread.
            drop(listener.accept().await.unwrap());
        });
        let answer = trigger(&client).await;
        server.await.unwrap();
        assert!(is_ambiguous(&answer), "{answer:?}");
    });
}

#[test]
fn a_kept_connection_that_was_closed_meanwhile_is_replaced() {
    run(async {
        let stub = Stub::start().await;
        let body = r#"{"dag_run_id":"r1"}"#;
        let head =
            format!("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n", body.len());
        stub.airflow3().on(RUNS, Act::Raw(format!("{head}{body}")));
        let client = client(&stub.url, password("u", "p"));
        for _ in 0..3 {
            assert_eq!(trigger(&client).await, TriggerAnswer::Created);
            eventually(5, "the server has closed", || async { stub.open() == 0 }).await;
        }
        assert_eq!(stub.seen_of(RUNS).len(), 3);
    });
}

#[test]
fn answers_are_bounded_but_a_runs_conf_may_be_large() {
    run(async {
        let stub = Stub::start().await;
        let body = "x".repeat(2_000_000);
        let large = json!({"dag_run_id": "r1", "state": "queued", "conf": {"body": body}}).to_string();
        stub.airflow3()
            .on(ONE_RUN, Act::json(200, large))
            .on("GET /api/v2/dags/d", Act::json(200, format!(r#"{{"dag_id":"d","x":"{body}"}}"#)));
        let client = client(&stub.url, password("u", "p"));
        let RunLookup::Found(found) = client.look_up(&dag("d"), &run_id("r1")).await else { panic!("found") };
        assert_eq!(found.conf["body"].as_str().unwrap().len(), 2_000_000);
        let DagLookup::Unknown(reason) = client.look_up_dag(&dag("d")).await else { panic!("unknown") };
        assert!(reason.contains("longer than 262144 bytes"), "{reason}");
    });
}

#[test]
fn retry_after_is_read_in_both_forms() {
    run(async {
        let stub = Stub::start().await;
        let date = "Date: Mon, 30 Nov 2026 16:00:00 GMT\r\nRetry-After: Mon, 30 Nov 2026 16:00:09 GMT\r\n";
        stub.airflow3()
            .on(RUNS, Act::with(429, "text/plain", "Retry-After: 7\r\n", "slow down"))
            .on(RUNS, Act::with(503, "text/html", date, "<html>"));
        let client = client(&stub.url, password("u", "p"));
        for (expected, is_error) in [(7, false), (9, true)] {
            match trigger(&client).await {
                TriggerAnswer::Unavailable { retry_after, server_error, .. } => {
                    assert_eq!((retry_after, server_error), (Some(Duration::from_secs(expected)), is_error));
                }
                other => panic!("{other:?}"),
            }
        }
    });
}

#[test]
fn redirects_are_not_followed_and_pages_are_not_believed() {
    run(async {
        let stub = Stub::start().await;
        let head = format!("Location: {}/login/?next=x\r\n", stub.url);
        stub.airflow3()
            .on(RUNS, Act::with(302, "text/html", &head, ""))
            .on(RUNS, Act::html(200, "<html>log in</html>"));
        let client = client(&stub.url, password("u", "p"));
        for _ in 0..2 {
            let answer = trigger(&client).await;
            assert!(matches!(answer, TriggerAnswer::AccessFault(_)), "{answer:?}");
        }
        assert!(stub.seen().iter().all(|request| !request.path.starts_with("/login")));
    });
}

#[test]
fn an_idle_client_lets_its_connections_go() {
    run(async {
        let stub = Stub::start().await;
        stub.airflow3().on(RUNS, Act::json(200, r#"{"dag_run_id":"r1"}"#));
        let client = client(&stub.url, password("u", "p"));
        assert_eq!(trigger(&client).await, TriggerAnswer::Created);
        assert_eq!(stub.open(), 1);
        eventually(12, "the connection is closed", || async { stub.open() == 0 }).await;
        drop(client);
    });
}
