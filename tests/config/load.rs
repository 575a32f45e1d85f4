//! The loader: precedence, every key, every problem at once.

use std::path::PathBuf;
use std::time::Duration;

use rmq_watcher::config::airflow::{Credentials, PasswordSource};
use rmq_watcher::config::dags::DagFolders;
use rmq_watcher::config::environment::Environment;
use rmq_watcher::config::keys::{Fallback, KEYS};
use rmq_watcher::config::log::{LogFormat, LogLevel};
use rmq_watcher::domain::content::{BodyLimits, LargeBody};

use crate::support::{FILE, given, load, nothing, problems, shown};

#[test]
fn load_of_nothing_gives_the_defaults() {
    let settings = load(&nothing());
    assert_eq!(settings.airflow_home, PathBuf::from("/home/me/airflow"));
    assert_eq!(settings.state_dir, PathBuf::from("/home/me/airflow/rmq-watcher"));
    assert_eq!(settings.dags, DagFolders::one("/home/me/airflow/dags"));
    assert_eq!(settings.airflow.url, "http://localhost:8080");
    assert!(settings.airflow.url_source.starts_with("default"));
    assert_eq!(settings.airflow.credentials, Credentials::Missing);
    assert_eq!(settings.airflow.request_timeout, Duration::from_secs(60));
    assert_eq!(settings.airflow.ca_file, None);
    assert_eq!(settings.airflow.max_in_flight, 1, "Airflow's own default is SQLite");
    assert_eq!((settings.log.level, settings.log.format), (LogLevel::Info, LogFormat::Text));
    assert_eq!(settings.consume.prefetch, 32);
    assert_eq!(settings.consume.ack_deadline, Duration::from_secs(1500));
    assert_eq!(settings.consume.body, BodyLimits { max_bytes: 1 << 20, large: LargeBody::Refuse });
    assert_eq!(settings.consume.body_files_kept_for, Duration::from_secs(7 * 86_400));
    assert_eq!(settings.reconcile.interval, Duration::from_secs(60));
    assert_eq!((settings.file, settings.hostname.as_str()), (None, "host-1"));
    assert!(settings.warnings.is_empty());
}

#[test]
fn the_effective_set_has_every_key_in_order() {
    let settings = load(&nothing());
    let keys: Vec<&str> = settings.effective().iter().map(|s| s.key.as_str()).collect();
    let expected: Vec<String> =
        KEYS.iter().map(|key| key.path()).chain(["Airflow's core.dags_folder".to_owned()]).collect();
    assert_eq!(keys, expected);
    assert_eq!(shown(&settings, "airflow.username"), ("not set".to_owned(), "default".to_owned()));
}

#[test]
fn secrets_are_stars_in_the_effective_set() {
    let file = "[airflow]\nusername = \"u\"\npassword = \"p\"\n";
    assert_eq!(shown(&load(&given(&[], Some(file), None)), "airflow.password").0, "***");
    let file = "[airflow]\ntoken_command = [\"get\"]\n";
    assert_eq!(shown(&load(&given(&[], Some(file), None)), "airflow.token_command").0, "***");
}

#[test]
fn a_variable_that_is_not_text_is_told_once() {
    use std::os::unix::ffi::OsStringExt;
    let bad = std::ffi::OsString::from_vec(vec![0xff]);
    let names = ["RMQ_WATCHER__RECONCILE__INTERVAL_SECS", "RMQ_WATCHER__LOG__LEVEL", "AIRFLOW__CORE__DAGS_FOLDER"];
    let mut sources = nothing();
    sources.environment = Environment::new(names.map(|name| (name, bad.clone())), None);
    let found = problems(&sources);
    assert_eq!(found.0.len(), 3, "{found}");
    assert!(found.0.iter().all(|p| p.sentence == "the variable is not UTF-8 text"), "{found}");
}

#[test]
fn a_higher_layer_wins_and_is_named_as_the_source() {
    let file = "[log]\nlevel = \"warn\"\n";
    let mut sources = given(&[], Some(file), None);
    assert_eq!(load(&sources).log.level, LogLevel::Warn);
    assert_eq!(shown(&load(&sources), "log.level"), ("warn".to_owned(), format!("file {FILE}")));
    sources = given(&[("RMQ_WATCHER__LOG__LEVEL", "debug")], Some(file), None);
    assert_eq!(
        shown(&load(&sources), "log.level"),
        ("debug".to_owned(), "environment variable RMQ_WATCHER__LOG__LEVEL".to_owned())
    );
    sources.flags.insert("log.level".to_owned(), "trace".to_owned());
    assert_eq!(shown(&load(&sources), "log.level"), ("trace".to_owned(), "flag".to_owned()));
}

#[test]
fn every_key_is_read_from_the_file_and_from_the_environment() {
    let values = [
        ("state.dir", "\"/s\"", "/s"),
        ("airflow.url", "\"https://a.example/base/\"", "https://a.example/base/"),
        ("airflow.username", "\"u\"", "u"),
        ("airflow.password", "\"p\"", "p"),
        ("airflow.password_file", "\"/p\"", "/p"),
        ("airflow.token_file", "\"~/t\"", "~/t"),
        ("airflow.token_command", "[\"get\", \"it\"]", "[\"get\", \"it\"]"),
        ("airflow.request_timeout_secs", "5", "5"),
        ("airflow.ca_file", "\"/ca\"", "/ca"),
        ("airflow.max_in_flight", "3", "3"),
        ("log.level", "\"error\"", "error"),
        ("log.format", "\"json\"", "json"),
        ("consume.prefetch", "65535", "65535"),
        ("consume.ack_deadline_secs", "7", "7"),
        ("consume.max_body_bytes", "1024", "1024"),
        ("consume.large_body", "\"file\"", "file"),
        ("consume.body_file_days", "3650", "3650"),
        ("reconcile.interval_secs", "9", "9"),
        ("reconcile.cycle_timeout_secs", "400", "400"),
        ("history.keep_days", "1", "1"),
        ("history.keep_rows", "1000", "1000"),
        ("history.keep_refused_mib", "2", "2"),
    ];
    assert_eq!(values.len(), KEYS.len());
    for (path, toml, text) in values {
        let key = KEYS.iter().find(|key| key.path() == path).unwrap();
        // A user and a password need each other; the password keys are told by the user's absence.
        let partner = match path {
            "airflow.username" => "password_file = \"/x\"",
            "airflow.password" | "airflow.password_file" => "username = \"x\"",
            _ => "",
        };
        let file = format!("[airflow]\n{partner}\n");
        let from_environment = load(&given(&[(&key.environment_name(), text)], Some(&file), None));
        let file = match path.split_once('.').unwrap() {
            ("airflow", name) => format!("{file}{name} = {toml}\n"),
            (section, name) => format!("{file}[{section}]\n{name} = {toml}\n"),
        };
        let from_file = load(&given(&[], Some(&file), None));
        assert_eq!(shown(&from_file, path).0, shown(&from_environment, path).0);
        let strip = |mut s: rmq_watcher::config::Settings| {
            s.airflow.url_source.clear();
            (s.state_dir, s.airflow, s.log, s.consume, s.reconcile, s.history)
        };
        assert_eq!(strip(from_file), strip(from_environment), "{path}");
        assert_ne!(strip(load(&given(&[], Some(&file), None))), strip(load(&nothing())), "{path} changes nothing");
    }
}

#[test]
fn every_default_is_a_value_that_its_key_takes() {
    let settings = load(&nothing());
    for key in KEYS {
        if let Fallback::Text(text) = key.fallback {
            assert_eq!(shown(&settings, &key.path()).0, text);
        }
    }
}

#[test]
fn load_tells_all_problems_at_once() {
    let file = "[airflow]\nurl = \"localhost\"\nmax_in_flight = 0\n[consume]\nprefetch = \"32\"\npretch = 1\n[lgo]\nlevel = 1\n[connections.c]\nport = \"5672\"\nvhost = \"/\"\n";
    let environment = [
        ("RMQ_WATCHER__LOG__LEVEL", "loud"),
        ("RMQ_WATCHER__LOG__LEVLE", "x"),
        ("RMQ_WATCHER__CONNECTIONS__C__HOST", "x"),
        ("RMQ_WATCHER_LAUNCHED", "not ours to judge"),
        ("AIRFLOW__WEBSERVER__BASE_URL", "http://w"),
    ];
    let found = problems(&given(&environment, Some(file), Some("[core]\ndags_folder = 50%\n")));
    let text = found.to_string();
    for part in [
        "connections.c.port (file /etc/test/rmq-watcher.toml): expected a whole number",
        "connections.c.vhost (file /etc/test/rmq-watcher.toml): there is no such field; did you mean schema?",
        "airflow.url (file /etc/test/rmq-watcher.toml) is \"localhost\": expected an http or https address",
        "airflow.max_in_flight (file /etc/test/rmq-watcher.toml) is 0: expected a whole number from 1 to 64",
        "consume.prefetch (file /etc/test/rmq-watcher.toml) is \"32\": expected a whole number from 1 to 65535",
        "consume.pretch (file /etc/test/rmq-watcher.toml): there is no such key; did you mean consume.prefetch?",
        "[lgo] (file /etc/test/rmq-watcher.toml): there is no such key; did you mean [log]?",
        "log.level (environment variable RMQ_WATCHER__LOG__LEVEL) is \"loud\": expected one of error, warn",
        "did you mean RMQ_WATCHER__LOG__LEVEL?",
        "environment variable RMQ_WATCHER__CONNECTIONS__C__HOST: connections are not",
        "use AIRFLOW_CONN_<ID>",
        "Airflow's core.dags_folder ([core] dags_folder in /opt/airflow/airflow.cfg): its value has a lone %",
    ] {
        assert!(text.contains(part), "missing {part:?} in\n{text}");
    }
    assert_eq!(found.0.len(), 11, "{text}");
    assert_eq!(text.lines().count(), 11);
}

#[test]
fn a_broken_file_is_named_by_line_and_column() {
    let text = problems(&given(&[], Some("[log]\nlevel = loud\n"), Some("words\n"))).to_string();
    assert!(text.contains("line 2, column 9 is not TOML"), "{text}");
    assert!(text.contains("airflow.cfg (file /opt/airflow/airflow.cfg): line 1 stands before"), "{text}");
}

#[test]
fn credentials_are_one_way_or_none() {
    let credentials = |file: &str| load(&given(&[], Some(&format!("[airflow]\n{file}")), None)).airflow.credentials;
    let Credentials::Password { username, password: PasswordSource::Value(secret) } =
        credentials("username = \"u\"\npassword = \"p\"\n")
    else {
        panic!("a password was given")
    };
    assert_eq!((username.as_str(), secret.expose()), ("u", "p"));
    let expected = Credentials::Password { username: "u".into(), password: PasswordSource::File("/p".into()) };
    assert_eq!(credentials("username = \"u\"\npassword_file = \"/p\"\n"), expected);
    assert_eq!(credentials("token_file = \"~/t\"\n"), Credentials::TokenFile("/home/me/t".into()));
    assert_eq!(
        credentials("token_command = [\"a\", \"b c\"]\n"),
        Credentials::TokenCommand(vec!["a".into(), "b c".into()])
    );
    for (file, parts) in [
        ("username = \"u\"\n", ["airflow.username", "is missing"]),
        ("password = \"p\"\n", ["airflow.password (", "airflow.username is missing"]),
        ("username = \"u\"\npassword = \"p\"\npassword_file = \"/p\"\n", ["airflow.password (", "is set too"]),
        ("token_file = \"/t\"\ntoken_command = [\"c\"]\n", ["airflow.token_file", "airflow.token_command is set too"]),
        ("token_file = \"/t\"\nusername = \"u\"\npassword = \"p\"\n", ["airflow.token_file", "is set too"]),
        ("token_command = []\n", ["airflow.token_command", "expected a list"]),
        ("password = \"\"\nusername = \"u\"\n", ["airflow.password", "not empty"]),
        ("token_file = \"relative\"\n", ["airflow.token_file", "absolute"]),
    ] {
        let found = problems(&given(&[], Some(&format!("[airflow]\n{file}")), None));
        assert_eq!(found.0.len(), 1, "{found}");
        assert!(parts.iter().all(|part| found.to_string().contains(part)), "{found}");
    }
}

#[test]
fn a_token_command_in_the_environment_is_json_or_one_word() {
    let command = |text: &str| given(&[("RMQ_WATCHER__AIRFLOW__TOKEN_COMMAND", text)], None, None);
    assert_eq!(load(&command("/bin/get")).airflow.credentials, Credentials::TokenCommand(vec!["/bin/get".into()]));
    assert_eq!(load(&command("[\"a\"]")).airflow.credentials, Credentials::TokenCommand(vec!["a".into()]));
    for text in ["get it", "[1]", "[\"\"]", ""] {
        assert_eq!(problems(&command(text)).0.len(), 1, "{text}");
    }
}

#[test]
fn a_connection_in_the_file_is_checked_at_start() {
    for (table, part) in [
        ("uri = \"amqp://u:p@h\"\nhost = \"h\"\n", "connections.c.uri (file /etc/test/rmq-watcher.toml): give either"),
        ("uri = \"amqp://h:x\"\n", "port is not a number"),
        ("conn_type = \"http\"\n", "connections.c.conn_type"),
        ("host = \"a:1\"\n", "connections.c.host"),
        ("port = 70000\n", "connections.c.port"),
        ("password = \"p\"\npassword_file = \"/p\"\n", "connections.c.password_file"),
        ("password_file = \"p\"\n", "absolute path"),
        ("extra = 5\n", "connections.c.extra"),
        ("extra = { a = 1979-05-27 }\n", "no dates"),
        ("heartbeat = 5\n", "did you mean extra?"),
        ("hots = \"h\"\n", "did you mean host?"),
    ] {
        let found = problems(&given(&[], Some(&format!("[connections.c]\n{table}")), None));
        assert_eq!(found.0.len(), 1, "{found}");
        assert!(found.to_string().contains(part), "{found}");
    }
    load(&given(
        &[],
        Some("[connections.c]\nhost = \"h\"\nextra = { heartbeat = 5, ssl_options = { ca_certs = \"/c\" } }\n"),
        None,
    ));
}
