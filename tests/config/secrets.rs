//! Secrets planted wherever one can stand: no error, `Debug` or effective set may show them, in any encoding.

use rmq_watcher::config::connections::{AirflowDialect, amqp, is_value_of_a_kind, parse};
use rmq_watcher::config::{Settings, Sources};
use rmq_watcher::domain::ids::ConnId;

use crate::support::given;

const MARKER: &str = "S3CRET-PLANT";

/// The marker with every byte percent-encoded.
fn encoded() -> String {
    MARKER.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

#[track_caller]
fn assert_hidden(what: &str, text: &str) {
    let plain = text.to_ascii_lowercase().replace('_', "-");
    let decoded = percent_encoding::percent_decode_str(&plain).decode_utf8_lossy().to_ascii_lowercase();
    let marker = MARKER.to_ascii_lowercase();
    for text in [&plain, &decoded] {
        assert!(!text.contains(&marker), "{what} shows the secret:\n{text}");
    }
}

/// Everything that a load can show; whether it went well.
fn check_load(sources: &Sources) -> bool {
    assert_hidden("Debug of the sources", &format!("{sources:?}"));
    match Settings::load(sources) {
        Ok(settings) => {
            assert_hidden("Debug of the settings", &format!("{settings:#?}"));
            assert_hidden("the effective set", &format!("{:?}", settings.effective()));
            assert_hidden("the warnings", &format!("{:?}", settings.warnings));
            true
        }
        Err(problems) => {
            assert_hidden("the problems", &problems.to_string());
            assert_hidden("Debug of the problems", &format!("{problems:?}"));
            false
        }
    }
}

fn planted(template: &str) -> [String; 2] {
    [template.replace("{}", MARKER), template.replace("{}", &encoded())]
}

#[test]
fn no_load_shows_a_secret_of_the_file() {
    let files = [
        "[airflow]\nusername = \"u\"\npassword = \"{}\"\n",
        "[airflow]\npassword = \"{}\"\n",
        "[airflow]\npassword = \"{}\"\npassword_file = \"/p\"\nusername = \"u\"\n",
        "[airflow]\npassword = [\"{}\"]\nusername = \"u\"\n",
        "[airflow]\npassword = { value = \"{}\" }\n",
        "[airflow]\npasswrod = \"{}\"\n",
        "[airflow]\nurl = \"http://u:{}@h\"\n",
        "[airflow]\nurl = \"http://h/?token={}\"\n",
        "[airflow]\ntoken_command = [\"get\", \"--key={}\"]\n",
        "[airflow]\ntoken_command = \"get {}\"\n",
        "[airflow]\ntoken_command = [1, \"{}\"]\n",
        "[airflow]\ntoken = \"{}\"\n",
        "[airflow]\npassword = {}\n",
        "[airflow]\npassword = \"{}\n",
        "[airflow]\npassword = '{}\" x\n",
        "[airflow]\npassword = \"{}\" trailing\n",
        "[airflow]\npassword = \"\\q{}\"\n",
        "[airflow]\npassword = \"a\"\npassword = \"{}\"\n",
        "{}\n",
        "= \"{}\"\n",
        "password = \"{}\"\n",
        "airflow = \"{}\"\n",
        "connections = \"{}\"\n",
        "[secrets]\nairflow = \"{}\"\n",
        "[connections]\nc = \"{}\"\n",
        "[connections.c]\npassword = \"{}\"\n",
        "[connections.c]\npassword = \"{}\"\nport = \"x\"\n",
        "[connections.c]\npassword = [\"{}\"]\n",
        "[connections.c]\npasword = \"{}\"\n",
        "[connections.c]\npassword = \"{}\\u0000\"\n",
        "[connections.c]\nextra = { api_key = \"{}\", ca_certs = [\"{}\"], ssl_enabled = true }\n",
        "[connections.c]\nextra = \"{}\"\n",
        "[connections.c]\nextra = { ssl_options = \"{}\" }\n",
        "[connections.c]\nextra = { management_url = \"http://u:{}@m\", heartbeat = \"{}\" }\n",
        "[connections.c]\nuri = \"amqp://u:{}@h/v\"\n",
        "[connections.c]\nuri = \"amqp://u:{}@h:bad/v\"\n",
        "[connections.c]\nuri = \"amqp://u:{}@h/v\"\nhost = \"h\"\n",
        "[connections.c]\nhost = \"u:{}@h\"\n",
    ];
    let mut loaded = 0;
    for file in files.iter().flat_map(|template| planted(template)) {
        loaded += usize::from(check_load(&given(&[], Some(&file), None)));
    }
    assert!(loaded > 0 && loaded < files.len(), "both ways must be tried: {loaded}");
}

#[test]
fn no_load_shows_a_secret_of_the_environment_or_of_airflow() {
    for secret in [MARKER.to_owned(), encoded()] {
        let url = format!("http://u:{secret}@h");
        let database = format!("postgresql://u:{secret}@h/d");
        let command = format!("[\"get\", \"{secret}\"");
        for (name, value) in [
            ("RMQ_WATCHER__AIRFLOW__PASSWORD", secret.as_str()),
            ("RMQ_WATCHER__AIRFLOW__PASSWRD", &secret),
            ("RMQ_WATCHER__AIRFLOW__TOKEN_COMMAND", &command),
            ("RMQ_WATCHER__AIRFLOW__URL", &url),
            ("RMQ_WATCHER__CONNECTIONS__C__PASSWORD", &secret),
            ("AIRFLOW_CONN_C", &url),
            ("AIRFLOW__API__BASE_URL", &url),
            ("AIRFLOW__DATABASE__SQL_ALCHEMY_CONN", &database),
            ("AIRFLOW__CORE__FERNET_KEY", &secret),
            ("AIRFLOW_VAR_RMQ_WATCHER_RECONCILE_INTERVAL", &secret),
            ("AIRFLOW_VAR_RMQ_WATCHER_CYCLE_TIMEOUT", &secret),
        ] {
            check_load(&given(&[(name, value)], None, None));
        }
        for cfg in [
            format!("[database]\nsql_alchemy_conn = postgresql://u:{secret}@h/d\n"),
            format!("[database]\nsql_alchemy_conn = {secret}%\n"),
            format!("[api]\nbase_url = {url}\n[webserver]\nbase_url = %({secret})s\n"),
            format!("{secret} = {secret}\n"),
            format!("[a]\n{secret}\n"),
        ] {
            check_load(&given(&[], None, Some(&cfg)));
        }
    }
}

#[test]
#[expect(clippy::too_many_lines, reason = "a list of values")]
fn no_reading_of_a_connection_shows_a_secret() {
    let values = [
        "amqp://u:{}@h/v",
        "amqp://{}:p@h/v",
        "amqp://u:{}@h:bad/v",
        "amqp://u:{}@h:99999/v",
        "amqp://u:{}/x@h/v",
        "amqp://u:{}?x@h/v",
        "amqp://u:{}#x@h/v",
        "amqp://u:x#{}@h/v",
        "amqp://u:12/{}@h/v",
        "amqp://u:12?{}@h/v",
        "amqp://u:12#{}@h/v",
        "amqp://u:[{}@h/v",
        "amqp://u:[{}]@h/v",
        "amqp://u:{}\u{ff20}@h/v",
        "amqp://a://b://{}",
        "amqp://u:{}@amqps://h",
        "amqps://u:{}@h,h:1/v",
        "u:{}@h",
        "{}",
        "{}:x@h",
        "//u:{}@h",
        "amqp:u:{}@h",
        "{}@h:5672",
        "amqp://u:p@h/v?__extra__={}",
        "amqp://u:p@h/v?api_key={}",
        "amqp://u:p@h/v?heartbeat={}&ca_certs={}",
        "amqp://u:p@h/v?ssl_enabled={}&ssl_options={}",
        "amqp://u:p@h/v?management_url=http://u:{}@m",
        "amqp://u:p@h/v?management_url=http%3A%2F%2Fu:{}@m",
        "amqps://u:p@h/v?cert_reqs={}&certfile={}",
        r#"{"conn_type":"amqp","password":"{}"}"#,
        r#"{"conn_type":"http","password":"{}"}"#,
        r#"{"password":"{}""#,
        r#"{"password":{}}"#,
        r#"{"password":["{}"]}"#,
        r#"{"pass":"{}"}"#,
        r#"{"port":"{}"}"#,
        r#"{"login":["{}"]}"#,
        r#"{"host":"u:{}@h"}"#,
        r#"{"uri":"amqp://u:{}@h:bad"}"#,
        r#"{"uri":"amqp://u:{}@h","host":"h"}"#,
        r#"{"extra":"{}"}"#,
        r#"{"extra":{"api_key":"{}","ssl_options":"{}"}}"#,
        r#"{"password":"{}\u0000"}"#,
    ];
    for value in values.iter().flat_map(|template| planted(template)) {
        for dialect in [AirflowDialect::V2, AirflowDialect::V3] {
            let connection = match parse(&value, dialect) {
                Ok(connection) => connection,
                Err(error) => {
                    assert_hidden(&value, &format!("{error} {error:?}"));
                    continue;
                }
            };
            assert_hidden(&value, &format!("{connection:?}"));
            if !is_value_of_a_kind(&value) {
                // The resolver goes no further with such a value (tests/config/resolve.rs).
                continue;
            }
            match amqp::settings(&ConnId::new("c"), &connection) {
                Err(error) => assert_hidden(&value, &format!("{error} {error:?}")),
                Ok((settings, warnings)) => {
                    assert_hidden(&value, &format!("{warnings:?}"));
                    // A user name is no secret; where the marker stands as one it may be seen.
                    if !value.contains(&format!("{MARKER}:p@"))
                        && !value.contains(&format!("{}:p@", encoded()))
                        && !value.contains("ca_certs=")
                        && !value.contains("certfile=")
                    {
                        assert_hidden(&value, &format!("{settings:?}"));
                    }
                }
            }
        }
    }
}
