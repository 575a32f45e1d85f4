//! Airflow's own sentences for "there is no such DAG" and "there is no such run".
//!
//! Serves every classification of a 404. Invariant: only a whole sentence of Airflow's that names exactly what was asked for
//! counts. Airflow also answers 404 for a path it does not know, so does everything else that speaks HTTP, and a DAG may be
//! called `a`, which stands in any text.

use serde_json::Value;

use super::Reply;

/// What Airflow puts around a name: nothing (2.x, `GET` of a DAG), quotes, or backticks (3.x).
const QUOTES: [&str; 3] = ["", "'", "`"];

/// How a DAG's name is announced. Source: the routes of DAGs and DAG runs in Airflow 2.11.2 and 3.3.2.
const DAG_LABELS: [&str; 5] = ["dag_id: ", "ID: ", "id: ", "id ", "DAG ID: "];

/// How the names of a DAG and a run are announced. Source: as above.
const RUN_LABELS: [(&str, &str); 2] = [("dag_id: ", " and run_id: "), ("DAG ID: ", " and DagRun ID: ")];

/// Whether Airflow says that there is no such DAG, as in ``The Dag with ID: `d` was not found`` (3.x) and `DAG with dag_id: 'd'
/// not found` (both generations).
pub(super) fn says_no_dag(reply: &Reply, json: &Value, dag: &str) -> bool {
    missing(reply, json, "dag with ").is_some_and(|named| {
        DAG_LABELS.iter().any(|label| {
            named.strip_prefix(label).is_some_and(|name| QUOTES.iter().any(|q| name == format!("{q}{dag}{q}")))
        })
    })
}

/// Whether Airflow says that there is no such run of this DAG, as in ``The DagRun with dag_id: `d` and run_id: `r` was not
/// found`` (3.x) and `DAGRun with DAG ID: 'd' and DagRun ID: 'r' not found` (2.x). Both say the same where the DAG is unknown.
pub(super) fn says_no_run(reply: &Reply, json: &Value, dag: &str, run: &str) -> bool {
    missing(reply, json, "dagrun with ").is_some_and(|named| {
        RUN_LABELS
            .iter()
            .any(|(of_dag, of_run)| QUOTES.iter().any(|q| named == format!("{of_dag}{q}{dag}{q}{of_run}{q}{run}{q}")))
    })
}

/// Whether Airflow says that there is no such Variable: ``The Variable with key: `k` was not found`` (3.x), or, without naming
/// it, `Variable does not exist` under the title `Variable not found` (2.x).
pub(super) fn says_no_variable(reply: &Reply, json: &Value, key: &str) -> bool {
    let named = missing(reply, json, "variable with ").is_some_and(|named| named == format!("key: `{key}`"));
    let said = |field: &str, words: &str| json.get(field).and_then(Value::as_str) == Some(words);
    named || (reply.status == 404 && said("detail", "Variable does not exist") && said("title", "Variable not found"))
}

/// What a 404 says is not found, without the words around it.
fn missing<'a>(reply: &Reply, json: &'a Value, kind: &str) -> Option<&'a str> {
    if reply.status != 404 {
        return None;
    }
    let said = json.get("detail")?.as_str()?;
    let said = said.strip_suffix(" not found")?;
    let said = said.strip_suffix(" was").unwrap_or(said);
    let said = said.strip_prefix("The ").unwrap_or(said);
    // "DAG" and "Dag", "DAGRun" and "DagRun": versions differ.
    let (head, named) = said.split_at_checked(kind.len())?;
    head.eq_ignore_ascii_case(kind).then_some(named)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(status: u16) -> Reply {
        Reply { status, content_type: None, location: None, retry_after: None, body: Vec::new() }
    }

    fn no_dag(detail: &str, dag: &str) -> bool {
        says_no_dag(&reply(404), &serde_json::json!({"detail": detail}), dag)
    }

    fn no_run(detail: &str, dag: &str, run: &str) -> bool {
        says_no_run(&reply(404), &serde_json::json!({"detail": detail}), dag, run)
    }

    #[test]
    fn each_sentence_about_a_dag_counts_for_that_dag_only() {
        for (before, after) in [
            ("The DAG with dag_id: ", " was not found"),
            ("DAG with dag_id: '", "' not found"),
            ("Dag with dag_id: '", "' not found"),
            ("The Dag with ID: `", "` was not found"),
            ("Dag with id '", "' not found"),
            ("Dag with id: ", " was not found"),
            ("Dag with id ", " was not found"),
        ] {
            let said = format!("{before}a{after}");
            assert!(no_dag(&said, "a"), "{said}");
            for other in ["b", "", "D", "not", "'a", "id: a", "dag_id: a"] {
                assert!(!no_dag(&said, other), "{said} is not about {other:?}");
            }
            assert!(!no_dag(&format!("{before}ab{after}"), "a"));
            assert!(!says_no_dag(&reply(400), &serde_json::json!({"detail": said}), "a"));
        }
    }

    #[test]
    fn a_short_name_is_not_found_in_other_sentences() {
        let others = [
            "The requested URL was not found on the server. If you entered the URL manually please check your spelling.",
            "Not Found",
            "API route not found",
            "a not found",
            "The DagRun with dag_id: `a` and run_id: `a` was not found",
            "Task with ID: `t` not found in DAG: `a`",
            "Pool with name: a not found",
        ];
        for said in others {
            assert!(!no_dag(said, "a"), "{said}");
        }
        for said in others.iter().filter(|said| !said.contains("DagRun")) {
            assert!(!no_run(said, "a", "a"), "{said}");
        }
        assert!(!says_no_dag(&reply(404), &serde_json::json!({"error": "API route not found"}), "a"));
    }

    #[test]
    fn each_sentence_about_a_run_counts_for_that_run_only() {
        for said in [
            "The DagRun with dag_id: `d` and run_id: `r` was not found",
            "DAGRun with DAG ID: 'd' and DagRun ID: 'r' not found",
        ] {
            assert!(no_run(said, "d", "r"), "{said}");
            for (dag, run) in [("d", "x"), ("x", "r"), ("r", "d"), ("", "r"), ("d", "")] {
                assert!(!no_run(said, dag, run), "{said} is not about {dag:?} {run:?}");
            }
        }
    }
}
