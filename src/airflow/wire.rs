//! Paths and bodies of both generations of the API.
//!
//! Serves the client. Ids are percent-encoded (a DAG id may hold letters of any script); a conf is written straight from
//! where it lies, never copied as a value. Source: replies of Airflow 2.11.2 and 3.3.2 to these requests.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::domain::ids::{DagId, RunId};
use crate::domain::outcome::Dialect;

/// All but the unreserved characters of RFC 3986.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// 2.x refuses keys it does not know, `logical_date: null` among them.
#[derive(Serialize)]
struct BodyV1<'a> {
    dag_run_id: &'a str,
    conf: &'a Map<String, Value>,
}

/// 3.x demands the logical date; `null` keeps two runs of one moment from clashing.
#[derive(Serialize)]
struct BodyV2<'a> {
    logical_date: (),
    dag_run_id: &'a str,
    conf: &'a Map<String, Value>,
}

/// The body that asks for a run.
pub(super) fn trigger_body(dialect: Dialect, run: &RunId, conf: &Map<String, Value>) -> Vec<u8> {
    let dag_run_id = run.as_str();
    let body = match dialect {
        Dialect::V1 => serde_json::to_vec(&BodyV1 { dag_run_id, conf }),
        Dialect::V2 => serde_json::to_vec(&BodyV2 { logical_date: (), dag_run_id, conf }),
    };
    body.expect("text keys and JSON values always serialise")
}

/// Where a DAG is.
pub(super) fn dag_path(dialect: Dialect, dag: &DagId) -> String {
    format!("{}/dags/{}", dialect.prefix(), segment(dag.as_str()))
}

/// Where a DAG's runs are.
pub(super) fn runs_path(dialect: Dialect, dag: &DagId) -> String {
    format!("{}/dagRuns", dag_path(dialect, dag))
}

/// Where a run is.
pub(super) fn run_path(dialect: Dialect, dag: &DagId, run: &RunId) -> String {
    format!("{}/{}", runs_path(dialect, dag), segment(run.as_str()))
}

/// A request that only needs the right to read DAGs, and costs little.
pub(super) fn any_dag_path(dialect: Dialect) -> String {
    format!("{}/dags?limit=1", dialect.prefix())
}

/// A page of the list of all DAGs, those that are stale among them, in an order that does not change by itself.
pub(super) fn dags_path(dialect: Dialect, offset: usize) -> String {
    let stale_too = match dialect {
        Dialect::V1 => "only_active=false",
        Dialect::V2 => "exclude_stale=false",
    };
    format!("{}/dags?limit=100&offset={offset}&order_by=dag_id&{stale_too}", dialect.prefix())
}

/// Where a Variable is.
pub(super) fn variable_path(dialect: Dialect, key: &str) -> String {
    format!("{}/variables/{}", dialect.prefix(), segment(key))
}

/// Where Airflow tells about its parts.
pub(super) fn health_path(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::V1 => "/health",
        Dialect::V2 => "/api/v2/monitor/health",
    }
}

fn segment(id: &str) -> String {
    utf8_percent_encode(id, SEGMENT).to_string()
}

/// A form's body.
pub(super) fn form(fields: &[(&str, &str)]) -> Vec<u8> {
    let pairs: Vec<_> = fields.iter().map(|(name, value)| format!("{name}={}", segment(value))).collect();
    pairs.join("&").into_bytes()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]
mod tests {
    use super::*;

    #[test]
    fn each_generation_gets_its_own_body() {
        let Value::Object(conf) = serde_json::json!({"a": "é"}) else { panic!("an object") };
        let run = RunId::new("rmq__q__1");
        let text = |dialect| String::from_utf8(trigger_body(dialect, &run, &conf)).unwrap();
        assert_eq!(text(Dialect::V1), r#"{"dag_run_id":"rmq__q__1","conf":{"a":"é"}}"#);
        assert_eq!(text(Dialect::V2), r#"{"logical_date":null,"dag_run_id":"rmq__q__1","conf":{"a":"é"}}"#);
    }

    #[test]
    fn ids_are_percent_encoded() {
        let path = run_path(Dialect::V2, &DagId::new("é.a b/c?"), &RunId::new("x~:+-_"));
        assert_eq!(path, "/api/v2/dags/%C3%A9.a%20b%2Fc%3F/dagRuns/x~%3A%2B-_");
        assert_eq!(any_dag_path(Dialect::V1), "/api/v1/dags?limit=1");
        assert_eq!(variable_path(Dialect::V2, "a/b"), "/api/v2/variables/a%2Fb");
    }

    #[test]
    fn a_form_survives_odd_passwords() {
        let body = form(&[("username", "a&b"), ("password", "p=ä+ %")]);
        assert_eq!(String::from_utf8(body).unwrap(), "username=a%26b&password=p%3D%C3%A4%2B%20%25");
    }
}
