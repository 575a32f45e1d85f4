//! The answer to "does this run exist" and "does this DAG exist".
//!
//! Serves both flows. Invariant: `Absent` is said only where Airflow's own 404 names what was asked for; every other
//! failure to read is `Unknown`, since a failed read is never an empty set.

use serde_json::Value;

use super::absence::{says_no_dag, says_no_run};
use super::reply::{Voice, refused_access, strange, unwell, voice};
use super::{DagLookup, Dialect, Exchange, FoundDag, FoundRun, Reply, RunLookup};
use crate::domain::ids::{DagId, RunId};

/// What an exchange means that looked `run` of `dag` up. Both generations speak alike here.
pub fn classify_run(exchange: &Exchange, dag: &DagId, run: &RunId) -> RunLookup {
    match read(exchange) {
        Read::Json(reply, json) if reply.status == 200 => found_run(&json, run)
            .unwrap_or_else(|| RunLookup::Unknown("Airflow's answer does not describe the run asked for".to_owned())),
        Read::Json(reply, json) if says_no_run(reply, &json, dag.as_str(), run.as_str()) => RunLookup::Absent,
        Read::Json(reply, _) => RunLookup::Unknown(strange(reply)),
        Read::Nothing(reason) => RunLookup::Unknown(reason),
    }
}

fn found_run(json: &Value, run: &RunId) -> Option<RunLookup> {
    (json.get("dag_run_id")?.as_str()? == run.as_str()).then_some(())?;
    let conf = match json.get("conf") {
        None | Some(Value::Null) => Value::Object(serde_json::Map::new()),
        Some(conf) => conf.clone(),
    };
    Some(RunLookup::Found(FoundRun { state: json.get("state")?.as_str()?.to_owned(), conf }))
}

/// What an exchange means that looked `dag` up.
pub fn classify_dag(exchange: &Exchange, dialect: Dialect, dag: &DagId) -> DagLookup {
    match read(exchange) {
        Read::Json(reply, json) if reply.status == 200 => found_dag(&json, dialect, dag)
            .unwrap_or_else(|| DagLookup::Unknown("Airflow's answer does not describe the DAG asked for".to_owned())),
        Read::Json(reply, json) if says_no_dag(reply, &json, dag.as_str()) => DagLookup::Absent,
        Read::Json(reply, _) => DagLookup::Unknown(strange(reply)),
        Read::Nothing(reason) => DagLookup::Unknown(reason),
    }
}

fn found_dag(json: &Value, dialect: Dialect, dag: &DagId) -> Option<DagLookup> {
    (json.get("dag_id")?.as_str()? == dag.as_str()).then_some(())?;
    dag_flags(json, dialect).map(DagLookup::Found)
}

/// The flags of a DAG's description.
pub(super) fn dag_flags(json: &Value, dialect: Dialect) -> Option<FoundDag> {
    let flag = |key: &str| json.get(key).and_then(Value::as_bool);
    let is_active = match dialect {
        Dialect::V1 => flag("is_active")?,
        Dialect::V2 => !flag("is_stale")?,
    };
    Some(FoundDag {
        is_paused: flag("is_paused")?,
        is_active,
        has_import_errors: flag("has_import_errors").unwrap_or(false),
    })
}

/// What a look-up can use of an exchange.
pub(super) enum Read<'a> {
    /// A JSON object with status 200, or 404 and the like.
    Json(&'a Reply, Value),
    /// Nothing; why.
    Nothing(String),
}

/// Sorts out what no look-up can use.
pub(super) fn read(exchange: &Exchange) -> Read<'_> {
    let reply = match exchange.reply() {
        Ok(reply) => reply,
        Err(reason) => return Read::Nothing(reason.to_owned()),
    };
    match (reply.status, voice(reply)) {
        (401 | 403, _) => Read::Nothing(refused_access(reply)),
        (408 | 429 | 500..600, _) => Read::Nothing(unwell(reply)),
        (_, Voice::Json(json)) => Read::Json(reply, json),
        (_, Voice::Redirect | Voice::Other) => Read::Nothing(strange(reply)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exchange(status: u16, kind: &str, body: &str) -> Exchange {
        Exchange::Replied(Reply::plain(status, Some(kind), body))
    }

    fn json(status: u16, body: &str) -> Exchange {
        exchange(status, "application/json", body)
    }

    fn run(exchange: &Exchange) -> RunLookup {
        classify_run(exchange, &DagId::new("d"), &RunId::new("r1"))
    }

    fn dag(exchange: &Exchange, dialect: Dialect) -> DagLookup {
        classify_dag(exchange, dialect, &DagId::new("d"))
    }

    #[test]
    fn a_run_is_found_with_its_conf() {
        let body = r#"{"dag_run_id":"r1","state":"queued","conf":{"a":[1,2.5,"é"]}}"#;
        let RunLookup::Found(found) = run(&json(200, body)) else { panic!("found") };
        assert_eq!((found.state.as_str(), found.conf), ("queued", serde_json::json!({"a":[1,2.5,"é"]})));
        let body = r#"{"dag_run_id":"r1","state":"failed","conf":null}"#;
        let RunLookup::Found(found) = run(&json(200, body)) else { panic!("found") };
        assert_eq!(found.conf, serde_json::json!({}));
    }

    #[test]
    fn a_run_is_absent_only_in_airflows_words() {
        let said = "The DagRun with dag_id: `d` and run_id: `r1` was not found";
        assert_eq!(run(&json(404, &format!(r#"{{"detail":"{said}"}}"#))), RunLookup::Absent);
        for other in [
            json(404, r#"{"detail":"Not Found"}"#),
            json(404, r#"{"error":"API route not found"}"#),
            json(404, r#"{"detail":"The DagRun with dag_id: `d` and run_id: `other` was not found"}"#),
            exchange(404, "text/html", said),
            json(200, r#"{"detail":"run r1 of d was not found"}"#),
            json(200, r#"{"dag_run_id":"other","state":"queued"}"#),
            json(500, r#"{"detail":"d r1 not found"}"#),
            json(403, r#"{"detail":"d r1 not found"}"#),
            json(302, "{}"),
            Exchange::NotSent("x".to_owned()),
            Exchange::AnswerLost("x".to_owned()),
        ] {
            assert!(matches!(run(&other), RunLookup::Unknown(_)), "{other:?}");
        }
    }

    #[test]
    fn a_dags_flags_are_read_per_generation() {
        let v1 = json(200, r#"{"dag_id":"d","is_paused":true,"is_active":false,"has_import_errors":true}"#);
        let v2 = json(200, r#"{"dag_id":"d","is_paused":true,"is_stale":true,"has_import_errors":true}"#);
        let expected = DagLookup::Found(FoundDag { is_paused: true, is_active: false, has_import_errors: true });
        assert_eq!(dag(&v1, Dialect::V1), expected);
        assert_eq!(dag(&v2, Dialect::V2), expected);
        assert!(matches!(dag(&v1, Dialect::V2), DagLookup::Unknown(_)));
        assert!(matches!(dag(&v2, Dialect::V1), DagLookup::Unknown(_)));
    }

    #[test]
    fn a_dag_is_absent_only_in_airflows_words() {
        let absent = json(404, r#"{"detail":"The Dag with ID: `d` was not found"}"#);
        assert_eq!(dag(&absent, Dialect::V2), DagLookup::Absent);
        for other in [
            json(404, r#"{"detail":"Not Found"}"#),
            exchange(404, "text/html", "<html>"),
            json(405, r#"{"detail":"Method Not Allowed"}"#),
            json(200, r#"{"dag_id":"other","is_paused":true,"is_stale":true}"#),
        ] {
            assert!(matches!(dag(&other, Dialect::V2), DagLookup::Unknown(_)), "{other:?}");
        }
    }
}
