//! Properties over generated text: nothing panics, and what is encoded is read back.

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use proptest::prelude::*;
use rmq_watcher::config::Settings;
use rmq_watcher::config::connections::{AirflowDialect, amqp, is_value_of_a_kind, parse};
use rmq_watcher::domain::ids::ConnId;
use serde_json::json;

use crate::support::given;

const DIALECTS: [AirflowDialect; 2] = [AirflowDialect::V2, AirflowDialect::V3];

/// Text made of what matters to a URI.
fn uri_like() -> impl Strategy<Value = String> {
    proptest::collection::vec(
        prop_oneof![
            Just("amqp".to_owned()),
            Just("://".to_owned()),
            Just("@".to_owned()),
            Just(":".to_owned()),
            Just("/".to_owned()),
            Just("?".to_owned()),
            Just("#".to_owned()),
            Just("%2".to_owned()),
            Just("%2F".to_owned()),
            Just("%ff".to_owned()),
            Just("[".to_owned()),
            Just("]".to_owned()),
            Just("::1".to_owned()),
            Just("__extra__=".to_owned()),
            Just("&".to_owned()),
            Just("{\"a\":1}".to_owned()),
            "[0-9]{1,6}",
            "\\PC{0,4}",
        ],
        0..12,
    )
    .prop_map(|parts| parts.concat())
}

fn run_through(value: &str) {
    for dialect in DIALECTS {
        if let Ok(connection) = parse(value, dialect) {
            let _ = amqp::settings(&ConnId::new("c"), &connection);
        }
    }
    let _ = is_value_of_a_kind(value);
}

#[test]
fn nothing_overflows_on_deep_nesting() {
    let deep = "[".repeat(200_000);
    let tables = "{ x = ".repeat(200_000);
    let dotted = "a.".repeat(100_000);
    for file in [
        format!("x = {deep}"),
        format!("x = {tables}"),
        format!("[connections.c]\nextra = {tables}"),
        format!("{dotted}b = 1"),
    ] {
        assert!(Settings::load(&given(&[], Some(&file), None)).is_err());
    }
    run_through(&format!("{{\"extra\":{deep}"));
    run_through(&format!("amqp://h/?x={deep}&__extra__={deep}"));
    let command = [("RMQ_WATCHER__AIRFLOW__TOKEN_COMMAND", deep.as_str())];
    assert!(Settings::load(&given(&command, None, None)).is_err());
}

proptest! {
    #[test]
    fn parse_never_panics_on_any_text(value in any::<String>()) {
        run_through(&value);
    }

    #[test]
    fn parse_never_panics_on_anything_like_a_uri(value in uri_like()) {
        run_through(&value);
    }

    #[test]
    fn parse_never_panics_on_anything_like_json(tail in "[\\PC]{0,40}", key in "[a-z_]{0,10}", number in any::<f64>()) {
        run_through(&format!("{{{tail}"));
        run_through(&json!({ &key: tail, "port": number, "extra": { &key: number, "heartbeat": number, "rpc_timeout": number } }).to_string());
    }

    #[test]
    fn an_encoded_uri_is_read_back(login in "\\PC{1,20}", password in "\\PC{1,20}", schema in "\\PC{0,20}") {
        let encode = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
        let uri = format!("amqp://{}:{}@host:5672/{}", encode(&login), encode(&password), encode(&schema));
        for dialect in DIALECTS {
            let connection = parse(&uri, dialect).unwrap();
            prop_assert_eq!(connection.login.as_deref(), Some(login.as_str()));
            prop_assert_eq!(connection.password.as_ref().unwrap().expose(), &password);
            prop_assert_eq!(connection.schema.as_deref(), Some(schema.as_str()));
            prop_assert!(!connection.is_torn);
        }
    }

    #[test]
    fn a_json_form_is_read_back(login in "\\PC{1,20}", password in "\\PC{1,20}", schema in "\\PC{1,20}") {
        let value = json!({"conn_type": "amqp", "login": login, "password": password, "schema": schema}).to_string();
        let connection = parse(&value, AirflowDialect::V3).unwrap();
        prop_assert_eq!(connection.login, Some(login));
        prop_assert_eq!(connection.password.as_ref().unwrap().expose(), &password);
        prop_assert_eq!(connection.schema, Some(schema));
    }

    #[test]
    fn load_never_panics_on_any_text(file in any::<String>(), cfg in any::<String>(), value in "[^\0]*") {
        let environment = [("RMQ_WATCHER__AIRFLOW__TOKEN_COMMAND", value.as_str()), ("AIRFLOW_HOME", &value),
            ("AIRFLOW__CORE__DAGS_FOLDER", &value), ("RMQ_WATCHER__AIRFLOW__URL", &value)];
        let _ = Settings::load(&given(&environment, Some(&file), Some(&cfg)));
    }

    #[test]
    fn load_never_panics_on_anything_like_its_files(
        lines in proptest::collection::vec("(\\[[a-z.%()]{0,8}\\]|[ ]{0,3}[a-z_]{1,6} ?[=:] ?[a-z\"$~%()s]{0,10}|#.*|)", 0..12),
    ) {
        let text = lines.join("\n");
        let _ = Settings::load(&given(&[], Some(&text), Some(&text)));
    }
}
