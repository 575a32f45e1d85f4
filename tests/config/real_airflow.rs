//! `airflow connections get` of real Airflow 2.11 and 3.3, with a database of its own each.
//!
//! The environments are named by `RMQ_TEST_AIRFLOW2_VENV` and `RMQ_TEST_AIRFLOW3_VENV`; `./tests/run` prepares them.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use rmq_watcher::airflow::connections::{AirflowCli, CliError};
use rmq_watcher::config::connections::{AirflowDialect, amqp};
use rmq_watcher::domain::ids::ConnId;
use serde_json::{Value, json};

use crate::golden;
use crate::resolve::Fake;

const GENERATOR: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/airflow_connections/generate.py");

/// Starting Airflow takes seconds, and many times that on a busy machine.
const PATIENCE: Duration = Duration::from_secs(180);

fn venv(variable: &str) -> PathBuf {
    let path = std::env::var_os(variable)
        .unwrap_or_else(|| panic!("{variable} is not set: run ./tests/run, which prepares Airflow"));
    PathBuf::from(path).join("bin/airflow")
}

/// A stand-in that runs the real program with a home of its own.
fn prepare(variable: &str) -> Fake {
    let airflow = venv(variable);
    let fake = Fake::new("");
    let home = fake.path("home");
    let environment = format!("export AIRFLOW_HOME='{}' AIRFLOW__CORE__LOAD_EXAMPLES=False\n", home.display());
    fake.behave(&format!("{environment}exec '{}' \"$@\"", airflow.display()));
    run(&fake, &["db", "migrate"]);
    fake
}

fn run(fake: &Fake, args: &[&str]) {
    let status = Command::new(fake.path("airflow"))
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .unwrap();
    assert!(status.success(), "airflow {args:?}: {status}");
}

/// Stores connections in Airflow's database, all with one start of the program.
fn import(fake: &Fake, connections: &Value) {
    let file = fake.path("connections.json");
    std::fs::write(&file, connections.to_string()).unwrap();
    run(fake, &["connections", "import", file.to_str().unwrap()]);
}

async fn check(variable: &str) {
    let fake = prepare(variable);
    let cli: AirflowCli = fake.cli(PATIENCE);
    let extra = json!({"heartbeat": 10, "ssl_enabled": false, "ssl_options": {"ca_certs": "/ca.pem"}, "note": "30"});
    let typed = json!({"conn_type": "amqp", "host": "mq.example", "port": 5999, "login": "u@d",
        "password": "p/w%40:#? é", "schema": "my/vhost", "extra": extra});
    let texts = json!({"conn_type": "amqp", "host": "h", "schema": "/", "extra": {"heartbeat": "10"}});
    import(&fake, &json!({"typed": typed, "texts": texts}));

    let typed = cli.get(&ConnId::new("typed")).await.unwrap();
    assert_eq!(Value::Object(typed.extra.clone()), extra);
    let (settings, _) = amqp::settings(&ConnId::new("typed"), &typed).unwrap();
    assert_eq!(
        (settings.hosts.join(","), settings.port, settings.login.as_str()),
        ("mq.example".to_owned(), 5999, "u@d")
    );
    assert_eq!(settings.password.expose(), "p/w%40:#? é");
    assert_eq!((settings.vhost.as_str(), settings.heartbeat_secs, settings.tls), ("my/vhost", 10, None));

    let texts = cli.get(&ConnId::new("texts")).await.unwrap();
    assert_eq!(Value::Object(texts.extra), json!({"heartbeat": "10"}));
    assert_eq!((texts.schema.as_deref(), texts.port, texts.login), (Some("/"), None, None));

    assert_eq!(cli.get(&ConnId::new("nowhere")).await, Err(CliError::NotFound));
    assert_eq!(cli.get(&ConnId::new("-o")).await, Err(CliError::NotFound));
}

/// Made-up values, asked of real Airflow and of us.
#[expect(clippy::print_stdout, reason = "a failure must name its seed")]
fn check_made_up_values(variable: &str, dialect: AirflowDialect) {
    let dir = tempfile::TempDir::new().unwrap();
    let out = dir.path().join("answers.json");
    let seed = std::env::var("RMQ_TEST_SEED").unwrap_or_else(|_| "7".to_owned());
    println!("seed {seed} (RMQ_TEST_SEED)");
    let status = Command::new(venv(variable).with_file_name("python"))
        .arg(GENERATOR)
        .args(["--random", "4000", "--seed", &seed, "--out"])
        .arg(&out)
        .env("AIRFLOW_HOME", dir.path().join("home"))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .unwrap();
    assert!(status.success(), "{GENERATOR}: {status}");
    let answers = std::fs::read_to_string(&out).unwrap();
    assert_eq!(golden::compare(&answers, dialect), 0, "none of them is beyond us");
}

#[test]
fn real_airflow_2_reads_made_up_values_as_we_do() {
    check_made_up_values("RMQ_TEST_AIRFLOW2_VENV", AirflowDialect::V2);
}

#[test]
fn real_airflow_3_reads_made_up_values_as_we_do() {
    check_made_up_values("RMQ_TEST_AIRFLOW3_VENV", AirflowDialect::V3);
}

#[tokio::test]
async fn real_airflow_2_connections_are_read_through_its_command_line() {
    check("RMQ_TEST_AIRFLOW2_VENV").await;
}

#[tokio::test]
async fn real_airflow_3_connections_are_read_through_its_command_line() {
    check("RMQ_TEST_AIRFLOW3_VENV").await;
}
