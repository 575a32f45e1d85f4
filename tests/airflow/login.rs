//! Logging in and staying logged in (L2), with a scripted server.

use std::time::Duration;

use rmq_watcher::airflow::AirflowClient;
use rmq_watcher::domain::outcome::TriggerAnswer;
use rmq_watcher::ports::{Dags as _, Runs as _};
use serde_json::json;

use crate::stub::{Act, Stub};
use crate::support::{client, conf, dag, eventually, password, run, run_id};

pub(crate) const V1: &str = "POST /api/v1/dags/d/dagRuns";
pub(crate) const V2: &str = "POST /api/v2/dags/d/dagRuns";
pub(crate) const TOKEN: &str = "POST /auth/token";

pub(crate) async fn trigger(client: &AirflowClient) -> TriggerAnswer {
    client.trigger(&dag("d"), &run_id("r1"), &conf(json!({}))).await
}

pub(crate) fn created() -> Act {
    Act::json(200, r#"{"dag_run_id":"r1"}"#)
}

pub(crate) fn forbidden() -> Act {
    Act::json(403, r#"{"detail":null,"status":403,"title":"Forbidden"}"#)
}

/// The reason of an access fault.
pub(crate) fn fault(answer: TriggerAnswer) -> String {
    let TriggerAnswer::AccessFault(reason) = answer else { panic!("{answer:?}") };
    reason
}

#[test]
fn a_refused_token_is_renewed_once_and_the_request_sent_again() {
    run(async {
        for refusal in
            [Act::json(401, r#"{"detail":"Token Expired"}"#), Act::json(403, r#"{"detail":"Invalid JWT token"}"#)]
        {
            let stub = Stub::start().await;
            stub.airflow3().on(V2, refusal).on(V2, created());
            let client = client(&stub.url, password("u", "p"));
            assert_eq!(trigger(&client).await, TriggerAnswer::Created);
            let tokens: Vec<_> = stub.seen_of(V2).iter().map(|sent| sent.header("authorization").to_owned()).collect();
            assert_eq!(tokens, ["Bearer t1", "Bearer t2"]);
        }
    });
}

#[test]
fn a_missing_permission_is_no_reason_for_a_login_in_airflow_3() {
    run(async {
        let stub = Stub::start().await;
        stub.airflow3().on(V2, Act::json(403, r#"{"detail":"Forbidden"}"#));
        let client = client(&stub.url, password("viewer", "p"));
        for _ in 0..3 {
            assert!(fault(trigger(&client).await).contains("Forbidden"));
        }
        assert_eq!(stub.seen_of(TOKEN).len(), 1);
    });
}

#[test]
fn tokens_that_are_never_accepted_are_not_fetched_again_and_again() {
    run(async {
        let stub = Stub::start().await;
        stub.airflow3().on(V2, Act::json(401, r#"{"detail":"Not authenticated"}"#));
        let client = client(&stub.url, password("u", "p"));
        for _ in 0..20 {
            fault(trigger(&client).await);
        }
        assert_eq!(stub.seen_of(TOKEN).len(), 2, "the first, and one renewal within 5 s");
    });
}

#[test]
fn a_wrong_password_is_said_and_not_tried_again_at_once() {
    run(async {
        let stub = Stub::start().await;
        stub.on("GET /api/v2/version", Act::json(200, r#"{"version":"3.3.2"}"#))
            .on(TOKEN, Act::json(401, r#"{"detail":"Invalid credentials"}"#));
        let client = client(&stub.url, password("admin", "s3cret-p4ss"));
        for _ in 0..20 {
            let reason = fault(trigger(&client).await);
            assert!(reason.contains("admin") && reason.contains("airflow.password"), "{reason}");
            assert!(!reason.contains("s3cret-p4ss"), "{reason}");
        }
        assert_eq!(stub.seen_of(TOKEN).len(), 1);
        // The user is mended: found by itself, once the pause of 5 s is over.
        stub.now(TOKEN, Act::json(201, r#"{"access_token":"t"}"#)).on(V2, created());
        eventually(20, "logged in", || async { trigger(&client).await == TriggerAnswer::Created }).await;
        assert_eq!(stub.seen_of(TOKEN).len(), 2);
    });
}

#[test]
fn trouble_at_the_login_is_no_access_fault() {
    run(async {
        let stub = Stub::start().await;
        stub.on("GET /api/v2/version", Act::json(200, r#"{"version":"3.3.2"}"#))
            .on(TOKEN, Act::with(503, "text/html", "Retry-After: 3\r\n", "<html>"))
            .on(TOKEN, Act::CloseAfterReading)
            .on(TOKEN, Act::json(201, r#"{"access_token":"t"}"#))
            .on(V2, created());
        let client = client(&stub.url, password("u", "p"));
        for expected in [Some(Duration::from_secs(3)), None] {
            match trigger(&client).await {
                TriggerAnswer::Unavailable { retry_after, server_error, .. } => {
                    assert_eq!((retry_after, server_error), (expected, false));
                }
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(trigger(&client).await, TriggerAnswer::Created);
    });
}

#[test]
fn a_token_is_renewed_before_its_end() {
    run(async {
        use base64::Engine as _;
        let claims = base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(r#"{"iat":1000,"exp":1001}"#);
        let stub = Stub::start().await;
        stub.on("GET /api/v2/version", Act::json(200, r#"{"version":"3.3.2"}"#))
            .on(TOKEN, Act::json(201, format!(r#"{{"access_token":"e30.{claims}.one"}}"#)))
            .on(TOKEN, Act::html(503, "<html>"))
            .on(TOKEN, Act::json(201, r#"{"access_token":"two"}"#))
            .on(V2, created());
        let client = client(&stub.url, password("u", "p"));
        assert_eq!(trigger(&client).await, TriggerAnswer::Created);
        assert_eq!(trigger(&client).await, TriggerAnswer::Created);
        assert_eq!(stub.seen_of(TOKEN).len(), 1);
        // Its life of one second is counted from its receipt, and as five seconds: no refusal is needed. While no new
        // one can be had, the old one goes on.
        eventually(15, "renewed", || async {
            assert_eq!(trigger(&client).await, TriggerAnswer::Created);
            stub.seen_of(TOKEN).len() == 3
        })
        .await;
        assert_eq!(stub.seen_of(V2).last().unwrap().header("authorization"), "Bearer two");
    });
}

#[test]
fn airflow_2_is_used_with_the_session_of_its_login_form() {
    run(async {
        let stub = Stub::start().await;
        stub.airflow2().on(V1, created());
        let client = client(&stub.url, password("u&v", "p=1"));
        for _ in 0..3 {
            assert_eq!(trigger(&client).await, TriggerAnswer::Created);
        }
        let form = &stub.seen_of("POST /login/");
        assert_eq!(form.len(), 1);
        assert_eq!(form[0].body, "csrf_token=c-1&username=u%26v&password=p%3D1");
        assert_eq!(form[0].header("cookie"), "session=visitor");
        assert_eq!(form[0].header("referer"), format!("{}/login/", stub.url));
        for sent in stub.seen_of(V1) {
            assert_eq!(sent.header("cookie"), "session=s1");
            assert_eq!(sent.header("authorization"), "");
            assert_eq!(sent.body, r#"{"dag_run_id":"r1","conf":{}}"#);
        }
    });
}

#[test]
fn an_ended_session_is_renewed() {
    run(async {
        let stub = Stub::start().await;
        stub.airflow2().on(V1, created()).on(V1, forbidden()).on(V1, created());
        let client = client(&stub.url, password("u", "p"));
        assert_eq!(trigger(&client).await, TriggerAnswer::Created);
        assert_eq!(trigger(&client).await, TriggerAnswer::Created);
        let cookies: Vec<_> = stub.seen_of(V1).iter().map(|sent| sent.header("cookie").to_owned()).collect();
        assert_eq!(cookies, ["session=s1", "session=s1", "session=s2"]);
    });
}

#[test]
fn basic_takes_over_where_the_session_is_not_accepted() {
    run(async {
        let stub = Stub::start().await;
        stub.airflow2().on(V1, forbidden()).on(V1, created());
        let client = client(&stub.url, password("u", "p"));
        for _ in 0..3 {
            assert_eq!(trigger(&client).await, TriggerAnswer::Created);
        }
        let sent = stub.seen_of(V1);
        assert_eq!(sent[0].header("cookie"), "session=s1");
        for later in &sent[1..] {
            assert_eq!(later.header("authorization"), "Basic dTpw");
            assert_eq!(later.header("cookie"), "");
        }
        assert_eq!(sent.len(), 4);
        assert_eq!(stub.seen_of("POST /login/").len(), 1);
    });
}

#[test]
fn basic_takes_over_where_there_is_no_login_form() {
    run(async {
        let stub = Stub::start().await;
        stub.on("GET /api/v2/version", Act::html(404, ""))
            .on("GET /api/v1/version", Act::json(200, r#"{"version":"2.9.0"}"#))
            .on("GET /login/", Act::html(200, "<a href='/login/google'>Sign in</a>"))
            .on(V1, created());
        let client = client(&stub.url, password("u", "p"));
        assert_eq!(trigger(&client).await, TriggerAnswer::Created);
        assert_eq!(stub.seen_of(V1)[0].header("authorization"), "Basic dTpw");
    });
}

#[test]
fn a_role_that_may_not_trigger_costs_few_logins_in_airflow_2() {
    run(async {
        let stub = Stub::start().await;
        stub.airflow2().on(V1, forbidden());
        let client = client(&stub.url, password("viewer", "p"));
        for _ in 0..20 {
            assert!(fault(trigger(&client).await).contains("role"));
        }
        assert_eq!(stub.seen_of("POST /login/").len(), 1);
        let basic = stub.seen_of(V1).iter().filter(|sent| !sent.header("authorization").is_empty()).count();
        assert_eq!(basic, 1);
    });
}

#[test]
fn a_wrong_password_at_the_form_is_said() {
    run(async {
        let stub = Stub::start().await;
        stub.airflow2().now("POST /login/", Act::with(302, "text/html", "Location: /login/?next=/home\r\n", ""));
        let client = client(&stub.url, password("admin", "wrong"));
        for _ in 0..5 {
            assert!(fault(trigger(&client).await).contains("admin"));
        }
        assert_eq!(stub.seen_of("POST /login/").len(), 1);
        assert!(stub.seen_of(V1).is_empty());
    });
}

#[test]
fn basic_bridges_the_time_when_the_form_had_too_many_logins() {
    run(async {
        let stub = Stub::start().await;
        stub.airflow2()
            .now("POST /login/", Act::with(429, "text/html", "Retry-After: 1\r\n", "5 per 40 second"))
            .on(V1, created());
        let client = client(&stub.url, password("u", "p"));
        assert_eq!(trigger(&client).await, TriggerAnswer::Created);
        assert_eq!(trigger(&client).await, TriggerAnswer::Created);
        assert!(stub.seen_of(V1).iter().all(|sent| sent.header("authorization") == "Basic dTpw"));
        assert_eq!(stub.seen_of("POST /login/").len(), 1);
        // A second later the form is asked again, and its session is used from then on.
        stub.now(
            "POST /login/",
            Act::with(302, "text/html", "Location: /home\r\nSet-Cookie: session=s1; Path=/\r\n", ""),
        );
        eventually(5, "the session is used", || async {
            assert_eq!(trigger(&client).await, TriggerAnswer::Created);
            stub.seen_of(V1).last().unwrap().header("cookie") == "session=s1"
        })
        .await;
    });
}
