//! The answers about Airflow as a whole: its version, its health, and whether it lets us in.
//!
//! Serves `check`, probing and status rows. Must not decide which API is used: that is the client's, from two of these.

use serde_json::Value;

use super::lookup::{Read, read};
use super::reply::{Voice, refused_access, strange, tidy, unwell, voice};
use super::{AccessAnswer, Exchange, HealthAnswer, HealthReport, Part, VersionAnswer};

/// What an exchange means that asked `{prefix}/version`, which both generations answer without credentials.
pub fn classify_version(exchange: &Exchange) -> VersionAnswer {
    let reply = match exchange.reply() {
        Ok(reply) => reply,
        Err(reason) => return VersionAnswer::Unavailable { reason: reason.to_owned(), retry_after: None },
    };
    match (reply.status, voice(reply)) {
        (200, Voice::Json(json)) => match json.get("version").and_then(Value::as_str) {
            Some(version) => VersionAnswer::Is(tidy(version)),
            None => VersionAnswer::AccessFault(strange(reply)),
        },
        (401 | 403, _) => VersionAnswer::AccessFault(refused_access(reply)),
        (404 | 405 | 410, _) => VersionAnswer::NotHere(strange(reply)),
        (408 | 429 | 500..600, _) => {
            VersionAnswer::Unavailable { reason: unwell(reply), retry_after: reply.retry_after }
        }
        _ => VersionAnswer::AccessFault(strange(reply)),
    }
}

/// What an exchange means that asked `/api/v2/monitor/health` or `/health`, which answer without credentials.
pub fn classify_health(exchange: &Exchange) -> HealthAnswer {
    match read(exchange) {
        Read::Json(reply, json) if reply.status == 200 && json.get("metadatabase").is_some() => {
            let part = |name: &str| part(json.get(name));
            HealthAnswer::Report(HealthReport {
                metadatabase: part("metadatabase"),
                scheduler: part("scheduler"),
                triggerer: part("triggerer"),
                dag_processor: part("dag_processor"),
            })
        }
        Read::Json(reply, _) => HealthAnswer::Unknown(strange(reply)),
        Read::Nothing(reason) => HealthAnswer::Unknown(reason),
    }
}

fn part(json: Option<&Value>) -> Part {
    match json.and_then(|part| part.get("status")).and_then(Value::as_str) {
        Some("healthy") => Part::Healthy,
        Some(_) => Part::Unhealthy,
        None => Part::Unknown,
    }
}

/// What an exchange means that asked for one DAG of the list: whether our credentials may read.
pub fn classify_access(exchange: &Exchange) -> AccessAnswer {
    let reply = match exchange.reply() {
        Ok(reply) => reply,
        Err(reason) => return AccessAnswer::Unavailable(reason.to_owned()),
    };
    match (reply.status, voice(reply)) {
        (200, Voice::Json(json)) if json.get("dags").is_some_and(Value::is_array) => AccessAnswer::Granted,
        (401 | 403, _) => AccessAnswer::AccessFault(refused_access(reply)),
        (408 | 429 | 500..600, _) => AccessAnswer::Unavailable(unwell(reply)),
        _ => AccessAnswer::AccessFault(strange(reply)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Reply;
    use super::*;

    fn exchange(status: u16, kind: &str, body: &str) -> Exchange {
        Exchange::Replied(Reply::plain(status, Some(kind), body))
    }

    #[test]
    fn health_is_three_valued_and_read_from_the_body() {
        let body =
            r#"{"metadatabase":{"status":"unhealthy"},"scheduler":{"status":"healthy"},"triggerer":{"status":null}}"#;
        let HealthAnswer::Report(report) = classify_health(&exchange(200, "application/json", body)) else {
            panic!("a report")
        };
        assert_eq!(report.metadatabase, Part::Unhealthy);
        assert_eq!(report.scheduler, Part::Healthy);
        assert_eq!(report.triggerer, Part::Unknown);
        assert_eq!(report.dag_processor, Part::Unknown);
        for other in [
            exchange(200, "text/html", body),
            exchange(200, "application/json", "{}"),
            exchange(500, "application/json", body),
        ] {
            assert!(matches!(classify_health(&other), HealthAnswer::Unknown(_)), "{other:?}");
        }
    }

    #[test]
    fn a_version_needs_airflows_json() {
        let is = exchange(200, "application/json", r#"{"version":"3.3.2"}"#);
        assert_eq!(classify_version(&is), VersionAnswer::Is("3.3.2".to_owned()));
        for status in [404, 405, 410] {
            let gone = exchange(status, "text/html", "");
            assert!(matches!(classify_version(&gone), VersionAnswer::NotHere(_)), "{status}");
        }
        for (status, kind) in [(200, "text/html"), (302, "text/html"), (401, "text/html"), (403, "application/json")] {
            let fault = exchange(status, kind, "{}");
            assert!(matches!(classify_version(&fault), VersionAnswer::AccessFault(_)), "{status}");
        }
        let down = exchange(503, "text/html", "");
        assert!(matches!(classify_version(&down), VersionAnswer::Unavailable { .. }));
    }

    #[test]
    fn access_is_granted_only_by_a_list_of_dags() {
        let granted = exchange(200, "application/json", r#"{"dags":[],"total_entries":0}"#);
        assert_eq!(classify_access(&granted), AccessAnswer::Granted);
        let page = exchange(200, "text/html", "<html>");
        assert!(matches!(classify_access(&page), AccessAnswer::AccessFault(_)));
        let down = exchange(500, "application/json", "{}");
        assert!(matches!(classify_access(&down), AccessAnswer::Unavailable(_)));
    }
}
