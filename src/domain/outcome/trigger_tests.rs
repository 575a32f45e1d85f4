//! Rows of the settle table that no frozen reply shows: what proxies and broken answers mean.

use std::time::Duration;

use super::*;

fn exchange(status: u16, kind: Option<&str>, body: &str) -> Exchange {
    Exchange::Replied(Reply::plain(status, kind, body))
}

fn json(status: u16, body: &str) -> Exchange {
    exchange(status, Some("application/json"), body)
}

fn judge(exchange: &Exchange) -> TriggerAnswer {
    let (dag, run) = (DagId::new("d"), RunId::new("r1"));
    let answer = classify_trigger(exchange, Dialect::V2, &dag, &run);
    // No row depends on the generation but for one word of text.
    assert_eq!(
        std::mem::discriminant(&answer),
        std::mem::discriminant(&classify_trigger(exchange, Dialect::V1, &dag, &run))
    );
    answer
}

#[test]
fn success_needs_json_that_names_our_run() {
    assert_eq!(judge(&json(200, r#"{"dag_run_id":"r1"}"#)), TriggerAnswer::Created);
    assert_eq!(judge(&json(201, r#"{"dag_run_id":"r1"}"#)), TriggerAnswer::Created);
    let ambiguous = [r#"{"dag_run_id":"r2"}"#, r#"{"dag_run_id":"r1""#, "", "[]"];
    for body in ambiguous {
        assert!(matches!(judge(&json(200, body)), TriggerAnswer::Ambiguous(_)), "{body}");
    }
    let strangers = [
        json(200, "{}"),
        exchange(200, Some("text/html"), "<html>log in</html>"),
        exchange(200, None, r#"{"dag_run_id":"r1"}"#),
        exchange(202, Some("application/json"), r#"{"dag_run_id":"r1"}"#),
        exchange(204, None, ""),
    ];
    for stranger in strangers {
        assert!(matches!(judge(&stranger), TriggerAnswer::AccessFault(_)), "{stranger:?}");
    }
}

#[test]
fn errors_count_only_in_airflows_own_json() {
    for status in [400, 404, 405, 409, 410, 411, 414, 415, 418, 422, 431, 451] {
        let page = exchange(status, Some("text/html"), "<html>no</html>");
        assert!(matches!(judge(&page), TriggerAnswer::AccessFault(_)), "{status}");
    }
    for status in [400, 415, 422] {
        let refusal = json(status, r#"{"detail":"no"}"#);
        assert!(matches!(judge(&refusal), TriggerAnswer::Refused(_)), "{status}");
    }
    let other_404 = json(404, r#"{"detail":"Not Found"}"#);
    assert!(matches!(judge(&other_404), TriggerAnswer::AccessFault(_)));
    let absent = json(404, r#"{"detail":"Dag with dag_id: 'd' not found"}"#);
    assert!(matches!(judge(&absent), TriggerAnswer::TargetFault(_)));
}

#[test]
fn a_400_about_the_dag_is_the_targets_fault() {
    for words in [
        "Dag with dag_id: 'd' has import errors",
        "DAG with dag_id: 'd' has import errors and cannot be triggered",
        "Dag with dag_id: 'd' does not allow manual runs",
    ] {
        let body = serde_json::json!({ "detail": words }).to_string();
        assert!(matches!(judge(&json(400, &body)), TriggerAnswer::TargetFault(_)), "{words}");
    }
}

#[test]
fn a_page_with_413_refuses_the_message() {
    let page = exchange(413, Some("text/html"), "<h1>Request Entity Too Large</h1>");
    assert!(matches!(judge(&page), TriggerAnswer::Refused(_)));
}

#[test]
fn redirects_are_access_faults() {
    for status in [301, 302, 303, 307, 308] {
        assert!(matches!(judge(&exchange(status, None, "")), TriggerAnswer::AccessFault(_)), "{status}");
    }
}

#[test]
fn trouble_is_waited_out_and_keeps_its_retry_after() {
    for (status, server_error) in [(429, false), (500, true), (503, true), (507, true), (599, true)] {
        let mut reply = Reply {
            status,
            content_type: Some("text/html".to_owned()),
            location: None,
            retry_after: Some(Duration::from_secs(7)),
            body: b"<html>".to_vec(),
        };
        for kind in [None, Some("application/json".to_owned())] {
            reply.content_type = kind;
            assert_eq!(
                judge(&Exchange::Replied(reply.clone())),
                TriggerAnswer::Unavailable {
                    reason: format!("Airflow answered {status}"),
                    retry_after: Some(Duration::from_secs(7)),
                    server_error,
                }
            );
        }
    }
}

#[test]
fn what_may_have_been_carried_out_is_ambiguous() {
    for status in [408, 502, 504] {
        let page = exchange(status, Some("text/html"), "<html>gateway</html>");
        assert!(matches!(judge(&page), TriggerAnswer::Ambiguous(_)), "{status}");
    }
    let lost = Exchange::AnswerLost("no answer".to_owned());
    assert_eq!(judge(&lost), TriggerAnswer::Ambiguous("no answer".to_owned()));
}

#[test]
fn what_was_never_sent_is_waited_out() {
    assert_eq!(
        judge(&Exchange::NotSent("refused".to_owned())),
        TriggerAnswer::Unavailable { reason: "refused".to_owned(), retry_after: None, server_error: false }
    );
}

#[test]
fn every_status_has_an_answer_and_only_two_can_create() {
    for status in 100..=999 {
        let created = judge(&json(status, r#"{"dag_run_id":"r1"}"#)) == TriggerAnswer::Created;
        assert_eq!(created, status == 200 || status == 201, "{status}");
    }
}
