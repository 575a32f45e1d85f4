//! The classification over arbitrary answers (L0): it never panics, never believes what does not name what was asked for,
//! and what it says to people is one bounded line.

use proptest::prelude::*;
use rmq_watcher::domain::ids::{DagId, RunId};
use rmq_watcher::domain::outcome::{
    DagLookup, Dialect, Exchange, Reply, RunLookup, TriggerAnswer, asks_for_login, classify_access, classify_dag,
    classify_health, classify_run, classify_trigger, classify_version, from_stranger,
};

/// Pieces that answers are made of, so that chance meets the words that matter.
const PIECES: &[&str] = &[
    "{",
    "}",
    "[",
    "]",
    ":",
    ",",
    "\"detail\"",
    "\"title\"",
    "\"dag_run_id\"",
    "\"dag_id\"",
    "\"r1\"",
    "\"d\"",
    "\"conf\"",
    "\"state\"",
    "\"is_paused\"",
    "true",
    "null",
    "1e9",
    "\"DAG 'd' run 'r1' not found\"",
    "\"has import errors\"",
    "\"loc\"",
    "\"msg\"",
    "\"a\\nb\\u0000\"",
    "<html>",
    "\u{7}",
    "é",
];

fn reply() -> impl Strategy<Value = Reply> {
    let body = prop_oneof![
        prop::collection::vec(prop::sample::select(PIECES), 0..12).prop_map(|pieces| pieces.concat().into_bytes()),
        prop::collection::vec(any::<u8>(), 0..64),
        "[a-z\\n\\t ]{0,2000}".prop_map(|text| serde_json::json!({ "detail": text }).to_string().into_bytes()),
        Just(br#"{"dag_run_id":"r1","state":"queued"}"#.to_vec()),
        Just(br#"{"detail":"DAG 'd' run 'r1' not found"}"#.to_vec()),
    ];
    let kind =
        prop::option::of(prop::sample::select(vec!["application/json", "application/problem+json", "text/html"]));
    (100_u16..1000, kind, prop::option::of("[ -~]{0,300}"), body).prop_map(|(status, kind, location, body)| Reply {
        status,
        content_type: kind.map(str::to_owned),
        location,
        retry_after: None,
        body,
    })
}

/// What an answer says to people; `None` where it is no text.
fn words(answer: &TriggerAnswer) -> Option<&str> {
    match answer {
        TriggerAnswer::Created => None,
        TriggerAnswer::Unavailable { reason: text, .. }
        | TriggerAnswer::Conflict(text)
        | TriggerAnswer::TargetFault(text)
        | TriggerAnswer::Refused(text)
        | TriggerAnswer::AccessFault(text)
        | TriggerAnswer::Ambiguous(text) => Some(text),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_answer_is_classified_and_only_named_things_are_believed(reply in reply(), is_v1: bool) {
        let dialect = if is_v1 { Dialect::V1 } else { Dialect::V2 };
        let (dag, run) = (DagId::new("d"), RunId::new("r1"));
        let body = String::from_utf8_lossy(&reply.body).into_owned();
        let exchange = Exchange::Replied(reply.clone());
        asks_for_login(&reply, dialect);
        from_stranger(&reply);
        classify_health(&exchange);
        classify_version(&exchange);
        classify_access(&exchange);

        let answer = classify_trigger(&exchange, dialect, &dag, &run);
        if answer == TriggerAnswer::Created {
            prop_assert!(matches!(reply.status, 200 | 201) && body.contains(r#""dag_run_id":"r1""#));
        }
        if let Some(text) = words(&answer) {
            prop_assert!(text.chars().count() <= 800 && !text.chars().any(char::is_control), "{text:?}");
        }
        match classify_run(&exchange, &dag, &run) {
            RunLookup::Found(_) => prop_assert!(reply.status == 200 && body.contains("r1")),
            RunLookup::Absent => prop_assert!(reply.status == 404 && body.contains("not found")),
            RunLookup::Unknown(text) => prop_assert!(!text.is_empty()),
        }
        match classify_dag(&exchange, dialect, &dag) {
            DagLookup::Found(_) => prop_assert!(reply.status == 200),
            DagLookup::Absent => prop_assert!(reply.status == 404 && body.contains("not found")),
            DagLookup::Unknown(text) => prop_assert!(!text.is_empty()),
        }
    }
}
