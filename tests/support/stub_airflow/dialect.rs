//! What each REST dialect answers, from the replies of real instances (`tests/fixtures/airflow_replies`).

use serde_json::{Value, json};

use super::state::{State, StubDag, StubRun};
use super::wire::{Reply, Request};
use super::{Dialect, What};
use crate::support::http;

/// What a request asks for.
pub fn what(request: &Request) -> What {
    let parts: Vec<_> = segments(&request.path);
    match (request.method.as_str(), parts.as_slice()) {
        ("POST", ["auth", "token"]) | (_, ["login"]) => What::Login,
        ("POST", ["api", _, "dags", _, "dagRuns"]) => What::Trigger,
        (_, ["api", _, "dags", _, "dagRuns", ..]) => What::Run,
        (_, ["api", _, "dags", ..]) => What::Dag,
        _ => What::Other,
    }
}

fn segments(path: &str) -> Vec<&str> {
    path.split('/').filter(|part| !part.is_empty()).collect()
}

/// Answers a request and does what it asks.
pub fn answer(state: &mut State, request: &Request) -> Reply {
    let parts = segments(&request.path);
    let prefix = match state.dialect {
        Dialect::V1 => "v1",
        Dialect::V2 => "v2",
    };
    match (request.method.as_str(), parts.as_slice()) {
        ("POST", ["auth", "token"]) if state.dialect == Dialect::V2 => token(state, request),
        ("GET", ["login"]) if state.dialect == Dialect::V1 => login_page(),
        ("POST", ["login"]) if state.dialect == Dialect::V1 => login(state, request),
        ("GET", ["health"] | ["api", "v2", "monitor", "health"]) => health(state),
        ("GET", ["api", api, "version"]) if *api == prefix => version(state),
        ("GET", ["api", "v1", "health"]) if state.dialect == Dialect::V1 => health(state),
        (_, ["api", api, rest @ ..]) if *api == prefix => match refuse(state, request) {
            Some(refusal) => refusal,
            None => api_answer(state, request, rest),
        },
        _ => no_route(state.dialect, &request.path),
    }
}

fn version(state: &State) -> Reply {
    let version = match state.dialect {
        Dialect::V1 => "2.11.2",
        Dialect::V2 => "3.3.2",
    };
    Reply::json(200, &json!({"version": version, "git_version": null}))
}

fn health(state: &State) -> Reply {
    let scheduler = if state.scheduler_healthy { "healthy" } else { "unhealthy" };
    let mut body = json!({
        "metadatabase": {"status": "healthy"},
        "scheduler": {"status": scheduler, "latest_scheduler_heartbeat": "2026-11-30T16:00:00+00:00"},
        "triggerer": {"status": null, "latest_triggerer_heartbeat": null},
    });
    if state.dialect == Dialect::V2 {
        body["dag_processor"] = json!({"status": scheduler, "latest_dag_processor_heartbeat": null});
    }
    Reply::json(200, &body)
}

fn no_route(dialect: Dialect, path: &str) -> Reply {
    match dialect {
        Dialect::V1 => Reply::new(404, "text/html; charset=utf-8", "<!DOCTYPE html><title>Airflow 404</title>"),
        Dialect::V2 if path.starts_with("/api/v1") => {
            let text = "/api/v1 has been removed in Airflow 3, please use its upgraded version /api/v2 instead.";
            Reply::json(404, &json!({"error": text}))
        }
        Dialect::V2 => Reply::json(404, &json!({"error": "API route not found"})),
    }
}

// --- who is asking ------------------------------------------------------------------------------------------------------

fn token(state: &mut State, request: &Request) -> Reply {
    let given = request.json().unwrap_or_default();
    if given["username"] != state.user.as_str() || given["password"] != state.password.as_str() {
        return Reply::json(401, &json!({"detail": "Invalid credentials"}));
    }
    Reply::json(201, &json!({"access_token": state.new_session()}))
}

fn login_page() -> Reply {
    let form =
        r#"<form method="post"><input id="csrf_token" name="csrf_token" type="hidden" value="a-csrf-token"></form>"#;
    let page = format!("<!DOCTYPE html><html><title>Sign In - Airflow</title>{form}</html>");
    Reply::new(200, "text/html; charset=utf-8", page)
        .header("Set-Cookie", "session=nobody; HttpOnly; Path=/; SameSite=Lax")
}

fn login(state: &mut State, request: &Request) -> Reply {
    let form = String::from_utf8_lossy(&request.body).into_owned();
    let field = |name: &str| {
        let pair = form.split('&').find_map(|pair| pair.strip_prefix(name))?;
        let value = pair.strip_prefix('=')?.replace('+', " ");
        let value = percent_encoding::percent_decode_str(&value);
        Some(value.decode_utf8_lossy().into_owned())
    };
    let right = field("username").as_ref() == Some(&state.user)
        && field("password").as_ref() == Some(&state.password)
        && field("csrf_token").as_deref() == Some("a-csrf-token");
    if !right {
        return login_page();
    }
    let cookie = format!("session={}; HttpOnly; Path=/; SameSite=Lax", state.new_session());
    Reply::new(302, "text/html; charset=utf-8", "").header("Location", "/home").header("Set-Cookie", &cookie)
}

/// The refusal of a request without a valid login, in the dialect's words.
fn refuse(state: &State, request: &Request) -> Option<Reply> {
    let given = request.header("authorization").unwrap_or("");
    match state.dialect {
        Dialect::V1 => {
            let basic = http::basic(&state.user, &state.password);
            let cookies = request.header("cookie").unwrap_or("");
            let session = cookies.split("; ").find_map(|pair| pair.strip_prefix("session="));
            let known = session.is_some_and(|session| state.sessions.contains(session));
            let problem = problem(403, "Forbidden", Value::Null);
            (given != basic && !known).then_some(problem)
        }
        Dialect::V2 => match given.strip_prefix("Bearer ") {
            None => Some(Reply::json(401, &json!({"detail": "Not authenticated"}))),
            Some(token) if state.sessions.contains(token) => None,
            Some(token) if state.expired.contains(token) => Some(Reply::json(401, &json!({"detail": "Token Expired"}))),
            Some(_) => Some(Reply::json(403, &json!({"detail": "Invalid JWT token"}))),
        },
    }
}

fn problem(status: u16, title: &str, detail: Value) -> Reply {
    let body = json!({"detail": detail, "status": status, "title": title, "type": "about:blank"});
    Reply::new(status, "application/problem+json", body.to_string())
}

fn detail(dialect: Dialect, status: u16, title: &str, text: &str) -> Reply {
    match dialect {
        Dialect::V1 => problem(status, title, text.into()),
        Dialect::V2 => Reply::json(status, &json!({"detail": text})),
    }
}

// --- DAGs and runs ------------------------------------------------------------------------------------------------------

fn api_answer(state: &mut State, request: &Request, parts: &[&str]) -> Reply {
    match (request.method.as_str(), parts) {
        ("GET", ["dags"]) => {
            let number = |name: &str, otherwise: usize| {
                let pair = request.query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
                pair.and_then(|text| text.parse().ok()).unwrap_or(otherwise)
            };
            let all = ["exclude_stale=false", "only_active=false"].iter().any(|flag| request.query.contains(flag));
            let dags: Vec<_> = state.dags.iter().filter(|(_, dag)| all || !dag.stale).collect();
            let (offset, limit) = (number("offset", 0), number("limit", 100).min(100));
            let page = dags.iter().skip(offset).take(limit).map(|(id, dag)| dag_json(state.dialect, id, dag));
            Reply::json(200, &json!({"total_entries": dags.len(), "dags": page.collect::<Vec<_>>()}))
        }
        ("GET", ["dags", id]) => match state.dags.get(*id) {
            Some(dag) => Reply::json(200, &dag_json(state.dialect, id, dag)),
            None => unknown_dag(state.dialect, id),
        },
        ("GET", ["dags", id, "dagRuns"]) => {
            let runs: Vec<_> =
                state.runs.iter().filter(|run| run.dag == *id).map(|run| run_json(state.dialect, run)).collect();
            Reply::json(200, &json!({"total_entries": runs.len(), "dag_runs": runs}))
        }
        ("GET", ["dags", id, "dagRuns", run_id]) => match state.run(id, run_id) {
            Some(run) => Reply::json(200, &run_json(state.dialect, run)),
            None => unknown_run(state.dialect, id, run_id),
        },
        ("POST", ["dags", id, "dagRuns"]) => trigger(state, request, id),
        ("GET", ["variables", key]) => match state.variables.get(*key) {
            Some(value) => Reply::json(200, &json!({"key": key, "value": value, "description": null})),
            None => unknown_variable(state.dialect, key),
        },
        _ => no_route(state.dialect, &request.path),
    }
}

fn unknown_dag(dialect: Dialect, id: &str) -> Reply {
    let text = match dialect {
        Dialect::V1 => format!("The DAG with dag_id: {id} was not found"),
        Dialect::V2 => format!("The Dag with ID: `{id}` was not found"),
    };
    detail(dialect, 404, "DAG not found", &text)
}

fn unknown_run(dialect: Dialect, id: &str, run_id: &str) -> Reply {
    let text = match dialect {
        Dialect::V1 => format!("DAGRun with DAG ID: '{id}' and DagRun ID: '{run_id}' not found"),
        Dialect::V2 => {
            format!("The DagRun with dag_id: `{id}` and run_id: `{run_id}` was not found")
        }
    };
    detail(dialect, 404, "DAGRun not found", &text)
}

fn unknown_variable(dialect: Dialect, key: &str) -> Reply {
    match dialect {
        Dialect::V1 => problem(404, "Variable not found", "Variable does not exist".into()),
        Dialect::V2 => Reply::json(404, &json!({"detail": format!("The Variable with key: `{key}` was not found")})),
    }
}

fn trigger(state: &mut State, request: &Request, id: &str) -> Reply {
    let dialect = state.dialect;
    let Some(body) = request.json() else {
        return detail(dialect, 400, "Bad Request", "the body is not JSON");
    };
    if let Some(refusal) = wrong_body(dialect, &body) {
        return refusal;
    }
    let startable = state.dags.get(id).filter(|dag| !dag.stale);
    if startable.is_none() {
        let word = if dialect == Dialect::V1 { "DAG" } else { "Dag" };
        let text = format!("{word} with dag_id: '{id}' not found");
        return detail(dialect, 404, "DAG not found", &text);
    }
    let given = body["dag_run_id"].as_str().unwrap_or_default();
    let run_id = if given.is_empty() { format!("manual__{}", state.runs.len()) } else { given.to_owned() };
    if state.run(id, &run_id).is_some() {
        return duplicate(dialect, id, &run_id);
    }
    let run = StubRun {
        dag: id.to_owned(),
        run_id,
        conf: body.get("conf").cloned().unwrap_or_else(|| json!({})),
        state: "queued".to_owned(),
    };
    let answer = Reply::json(200, &run_json(dialect, &run));
    state.add_run(run);
    answer
}

/// Real Airflow refuses unknown keys in both versions, and demands `logical_date` in version 3 only.
fn wrong_body(dialect: Dialect, body: &Value) -> Option<Reply> {
    let keys = body.as_object()?;
    match dialect {
        Dialect::V1 => {
            let known = ["dag_run_id", "conf", "note", "logical_date", "data_interval_start", "data_interval_end"];
            let unknown = keys.keys().find(|key| !known.contains(&key.as_str()));
            let null_date = keys.get("logical_date").is_some_and(Value::is_null);
            let text = unknown.map(|key| format!("{{'{key}': ['Unknown field.']}}"));
            text.or_else(|| null_date.then(|| "{'logical_date': ['Field may not be null.']}".to_owned()))
                .map(|text| problem(400, "Bad Request", text.into()))
        }
        Dialect::V2 if !keys.contains_key("logical_date") => {
            let fault = json!([{"type": "missing", "loc": ["body", "logical_date"], "msg": "Field required"}]);
            Some(Reply::json(422, &json!({"detail": fault})))
        }
        Dialect::V2 => None,
    }
}

/// The answer to a second run of one id.
pub fn duplicate(dialect: Dialect, dag: &str, run_id: &str) -> Reply {
    match dialect {
        Dialect::V1 => {
            let text = format!("DAGRun with DAG ID: '{dag}' and DAGRun ID: '{run_id}' already exists");
            problem(409, "Conflict", text.into())
        }
        Dialect::V2 => {
            let fault = json!({"reason": "Unique constraint violation", "statement": "hidden", "orig_error": "hidden",
                "message": "Serious error when handling your request."});
            Reply::json(409, &json!({"detail": fault}))
        }
    }
}

fn dag_json(dialect: Dialect, id: &str, dag: &StubDag) -> Value {
    let mut body = json!({"dag_id": id, "dag_display_name": id, "is_paused": dag.paused,
        "has_import_errors": dag.import_error, "last_parsed_time": "2026-11-30T16:15:58.617841Z"});
    match dialect {
        Dialect::V1 => body["is_active"] = (!dag.stale).into(),
        Dialect::V2 => {
            body["is_stale"] = dag.stale.into();
            body["allowed_run_types"] = Value::Null;
        }
    }
    body
}

fn run_json(dialect: Dialect, run: &StubRun) -> Value {
    let date = "2026-11-30T16:16:00.200129Z";
    let mut body = json!({"dag_run_id": run.run_id, "dag_id": run.dag, "conf": run.conf, "state": run.state,
        "run_type": "manual", "note": null, "start_date": null, "end_date": null});
    match dialect {
        Dialect::V1 => {
            body["logical_date"] = date.into();
            body["execution_date"] = date.into();
            body["external_trigger"] = true.into();
        }
        Dialect::V2 => {
            body["logical_date"] = Value::Null;
            body["queued_at"] = date.into();
            body["run_after"] = date.into();
            body["triggered_by"] = "rest_api".into();
        }
    }
    body
}
