//! The answer to "start this run": the settle table's left column.
//!
//! Serves the data flow. Must not look anything up or decide about a delivery. Invariant: `Created` is only said of JSON
//! that names our own run id, and `TargetFault` only where Airflow's own words speak about the DAG.
//!
//! Source: replies of Airflow 2.11.2 and 3.3.2, frozen in `tests/fixtures/airflow_replies`.

use serde::Deserialize;
use serde_json::Value;

use super::absence::says_no_dag;
use super::reply::{Voice, claims_json, heard, refused_access, strange, unwell, voice, words};
use super::{Dialect, Exchange, Reply, TriggerAnswer};
use crate::domain::ids::{DagId, RunId};

/// Words of a 400 that speak about the DAG and not about the message.
const ABOUT_THE_DAG: [&str; 3] = ["import errors", "cannot be triggered", "does not allow manual runs"];

/// What an exchange means that asked for `run` of `dag`.
pub fn classify_trigger(exchange: &Exchange, dialect: Dialect, dag: &DagId, run: &RunId) -> TriggerAnswer {
    match exchange {
        Exchange::NotSent(reason) => {
            TriggerAnswer::Unavailable { reason: reason.clone(), retry_after: None, server_error: false }
        }
        Exchange::AnswerLost(reason) => TriggerAnswer::Ambiguous(reason.clone()),
        Exchange::Replied(reply) => classify_reply(reply, dialect, dag, run),
    }
}

fn classify_reply(reply: &Reply, dialect: Dialect, dag: &DagId, run: &RunId) -> TriggerAnswer {
    match reply.status {
        200 | 201 => classify_success(reply, run),
        401 | 403 => TriggerAnswer::AccessFault(refused_access(reply)),
        // A gateway that had already handed the request on gives these when Airflow's answer does not come.
        408 | 502 | 504 => TriggerAnswer::Ambiguous(unwell(reply)),
        429 | 500..600 => TriggerAnswer::Unavailable {
            reason: unwell(reply),
            retry_after: reply.retry_after,
            server_error: reply.status >= 500,
        },
        // 2.x answers with an HTML page here, above `[webserver] allowed_payload_size`; proxies have limits of their own.
        413 => TriggerAnswer::Refused(
            "the conf is too large for Airflow (413); see [webserver] allowed_payload_size, and the limits of any proxy"
                .to_owned(),
        ),
        400 | 404 | 409 | 415 | 422 => match voice(reply) {
            Voice::Json(json) => classify_refusal(reply, &json, dialect, dag),
            Voice::Redirect | Voice::Other => TriggerAnswer::AccessFault(strange(reply)),
        },
        _ => TriggerAnswer::AccessFault(strange(reply)),
    }
}

/// What is read of the answer that tells of a new run.
#[derive(Deserialize)]
struct Made {
    #[serde(default)]
    dag_run_id: Value,
}

fn classify_success(reply: &Reply, run: &RunId) -> TriggerAnswer {
    match heard::<Made>(reply) {
        Voice::Json(made) => match made.dag_run_id.as_str() {
            Some(id) if id == run.as_str() => TriggerAnswer::Created,
            Some(_) => TriggerAnswer::Ambiguous("Airflow's answer names another run".to_owned()),
            None => TriggerAnswer::AccessFault(strange(reply)),
        },
        Voice::Redirect | Voice::Other if claims_json(reply) => {
            TriggerAnswer::Ambiguous("Airflow's answer cannot be read as JSON".to_owned())
        }
        Voice::Redirect | Voice::Other => TriggerAnswer::AccessFault(strange(reply)),
    }
}

fn classify_refusal(reply: &Reply, json: &Value, dialect: Dialect, dag: &DagId) -> TriggerAnswer {
    let said = words(json);
    match reply.status {
        // v1 has its words for it; v2 gives the same opaque text for a taken run id and a taken logical date.
        409 => TriggerAnswer::Conflict(said),
        404 if says_no_dag(reply, json, dag.as_str()) => TriggerAnswer::TargetFault(said),
        404 => TriggerAnswer::AccessFault(strange(reply)),
        400 if ABOUT_THE_DAG.iter().any(|words| said.contains(words)) => TriggerAnswer::TargetFault(said),
        status => TriggerAnswer::Refused(format!(
            "Airflow refuses this conf or run id ({status}, {}): {said}",
            dialect.prefix()
        )),
    }
}

#[cfg(test)]
#[path = "trigger_tests.rs"]
mod tests;
