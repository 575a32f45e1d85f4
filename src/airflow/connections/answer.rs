//! Reads what `airflow connections get ID -o json` prints.
//!
//! Log lines may stand around the answer, so the last line that is a JSON list of connections counts. In it every value
//! is text, also numbers in the extra; the field `get_uri` still knows their types (`__extra__`), and where Airflow writes
//! extras into the URI's query they were all text. Hence extras come from there, read without conversion.
//!
//! Source: Airflow 2.11.2 and 3.3.2, `connections_get` (tests/config/real_airflow.rs).

use serde_json::{Map, Value};

use crate::config::connections::{AirflowConnection, AirflowDialect, uri};
use crate::domain::connection::Secret;
use crate::domain::python::parse_int;

/// The connection in the output, or `None` where there is none that can be read.
pub(super) fn read(stdout: &str) -> Option<AirflowConnection> {
    stdout.lines().rev().find_map(read_line)
}

fn read_line(line: &str) -> Option<AirflowConnection> {
    let line = line.trim();
    if !line.starts_with('[') {
        return None;
    }
    let rows: Vec<Map<String, Value>> = serde_json::from_str(line).ok()?;
    let row = rows.first().filter(|row| row.contains_key("conn_id"))?;
    let text = |key: &str| row.get(key).and_then(Value::as_str).map(str::to_owned);
    let port = match row.get("port") {
        Some(Value::String(text)) => Some(parse_int(text)?),
        Some(Value::Number(number)) => Some(number.as_i64()?),
        Some(_) | None => None,
    };
    Some(AirflowConnection {
        conn_type: text("conn_type"),
        host: text("host"),
        port,
        login: text("login"),
        password: text("password").map(Secret::new),
        schema: text("schema"),
        extra: extra(row),
        ..AirflowConnection::default()
    })
}

fn extra(row: &Map<String, Value>) -> Map<String, Value> {
    let from_uri = row
        .get("get_uri")
        .and_then(Value::as_str)
        .and_then(|text| uri::parse(text, AirflowDialect::V2).ok())
        .map(|connection| connection.extra)
        .filter(|extra| !extra.is_empty());
    from_uri.unwrap_or_else(|| {
        let lossy = row.get("extra_dejson").and_then(Value::as_object);
        lossy.cloned().unwrap_or_default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As printed by Airflow 3.3.2, shortened.
    const ANSWER: &str = r#"[{"id":"1","conn_id":"rmq1","conn_type":"amqp","description":null,"host":"mq.example","schema":"vh","login":"u","password":"p@w","port":"5672","extra_dejson":{"heartbeat":"30","ssl_enabled":"True"},"get_uri":"amqp://u:p%40w@mq.example:5672/vh?__extra__=%7B%22heartbeat%22%3A+30%2C+%22ssl_enabled%22%3A+true%7D"}]"#;

    #[test]
    fn read_takes_the_last_list_and_typed_extras() {
        let noisy = format!("[2026-11-30] INFO - loading\n[not json]\n[1, 2]\n{ANSWER}\n[\"trailing\"]\nbye\n");
        let connection = read(&noisy).expect("the answer is in there");
        assert_eq!(connection.port, Some(5672));
        assert_eq!(connection.password.map(|p| p.expose().to_owned()).as_deref(), Some("p@w"));
        assert_eq!(Value::Object(connection.extra), serde_json::json!({"heartbeat": 30, "ssl_enabled": true}));
    }

    #[test]
    fn read_falls_back_to_the_text_extras() {
        let answer = r#"[{"conn_id":"c","port":null,"extra_dejson":{"heartbeat":"30"},"get_uri":"amqp://h:bad"}]"#;
        let connection = read(answer).expect("readable");
        assert_eq!(Value::Object(connection.extra), serde_json::json!({"heartbeat": "30"}));
    }

    #[test]
    fn read_finds_nothing_in_noise() {
        assert_eq!(read(""), None);
        assert_eq!(read("[]\n[{\"key\":1}]\n{\"conn_id\":\"x\"}\n"), None);
        assert_eq!(read("[{\"conn_id\":\"c\",\"port\":\"many\"}]"), None);
    }
}
