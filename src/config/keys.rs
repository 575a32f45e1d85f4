//! Every key there is: its name, what it takes and its default, in the order of `docs/configuration.md`.
//!
//! This list is the only place that knows them. The loader reads defaults from here, the environment's names follow from
//! it, unknown keys are judged against it, and `tests/config/tidy.rs` compares it with the documentation both ways.

use self::Fallback::{Derived, Text, Unset};

/// What a key means when nobody sets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fallback {
    /// This text, read like a given value.
    Text(&'static str),
    /// Something that follows from other settings; the text is the documentation's.
    Derived(&'static str),
    /// Not set.
    Unset,
}

/// One key.
#[derive(Debug, PartialEq, Eq)]
pub struct Key {
    /// The section of the file.
    pub section: &'static str,
    /// The name within the section.
    pub name: &'static str,
    /// What it takes: type, unit and range, as the end of "expected …".
    pub expected: &'static str,
    /// What it means when nobody sets it.
    pub fallback: Fallback,
    /// Whether its value is never shown.
    pub is_secret: bool,
}

impl Key {
    const fn new(section: &'static str, name: &'static str, expected: &'static str, fallback: Fallback) -> Self {
        Self { section, name, expected, fallback, is_secret: false }
    }

    const fn secret(mut self) -> Self {
        self.is_secret = true;
        self
    }

    /// `section.name`.
    pub fn path(&self) -> String {
        format!("{}.{}", self.section, self.name)
    }

    /// `RMQ_WATCHER__SECTION__NAME`.
    pub fn environment_name(&self) -> String {
        format!("{ENVIRONMENT_PREFIX}{}__{}", self.section, self.name).to_ascii_uppercase()
    }
}

/// What our environment variables begin with; every other variable is none of ours.
pub const ENVIRONMENT_PREFIX: &str = "RMQ_WATCHER__";

/// The section of the file that holds AMQP connections, one table each.
pub const CONNECTIONS: &str = "connections";

const ABSOLUTE_PATH: &str = "an absolute path, or one that starts with ~/";

/// The directory of the state file.
pub static STATE_DIR: Key = Key::new("state", "dir", ABSOLUTE_PATH, Derived("`$AIRFLOW_HOME/rmq-watcher`"));
/// Airflow's base address.
pub static AIRFLOW_URL: Key = Key::new(
    "airflow",
    "url",
    "an http or https address without user, password or query, such as http://localhost:8080",
    Derived("Airflow's own configuration, see below; else `http://localhost:8080`"),
);
/// The user at Airflow.
pub static AIRFLOW_USERNAME: Key = Key::new("airflow", "username", "a user name", Unset);
/// Its password.
pub static AIRFLOW_PASSWORD: Key = Key::new("airflow", "password", "a password that is not empty", Unset).secret();
/// A file with its password.
pub static AIRFLOW_PASSWORD_FILE: Key = Key::new("airflow", "password_file", ABSOLUTE_PATH, Unset);
/// A file with a bearer token.
pub static AIRFLOW_TOKEN_FILE: Key = Key::new("airflow", "token_file", ABSOLUTE_PATH, Unset);
/// A program that prints a bearer token. Its arguments may hold a secret.
pub static AIRFLOW_TOKEN_COMMAND: Key = Key::new(
    "airflow",
    "token_command",
    "a list of a program and its arguments (in the environment a JSON list, or the program alone)",
    Unset,
)
.secret();
/// The bound of one request.
pub static AIRFLOW_REQUEST_TIMEOUT_SECS: Key =
    Key::new("airflow", "request_timeout_secs", "whole seconds from 1 to 600", Text("60"));
/// Authorities to trust.
pub static AIRFLOW_CA_FILE: Key = Key::new("airflow", "ca_file", ABSOLUTE_PATH, Unset);
/// Requests at once.
pub static AIRFLOW_MAX_IN_FLIGHT: Key = Key::new(
    "airflow",
    "max_in_flight",
    "a whole number from 1 to 64",
    Derived("`8`; `1` where Airflow runs on SQLite"),
);
/// The least level.
pub static LOG_LEVEL: Key = Key::new("log", "level", "one of error, warn, info, debug, trace", Text("info"));
/// The line shape.
pub static LOG_FORMAT: Key = Key::new("log", "format", "one of text, json", Text("text"));
/// The window of a consumer.
pub static CONSUME_PREFETCH: Key = Key::new("consume", "prefetch", "a whole number from 1 to 65535", Text("32"));
/// How long a delivery may stay unsettled.
pub static CONSUME_ACK_DEADLINE_SECS: Key =
    Key::new("consume", "ack_deadline_secs", "whole seconds from 1 to 86400", Text("1500"));
/// The largest body.
pub static CONSUME_MAX_BODY_BYTES: Key =
    Key::new("consume", "max_body_bytes", "whole bytes from 1024 to 16777216", Text("1048576"));
/// What becomes of a larger one.
pub static CONSUME_LARGE_BODY: Key = Key::new("consume", "large_body", "one of refuse, file", Text("refuse"));
/// How long files of bodies are kept.
pub static CONSUME_BODY_FILE_DAYS: Key = Key::new("consume", "body_file_days", "whole days from 1 to 3650", Text("7"));
/// The pause between cycles.
pub static RECONCILE_INTERVAL_SECS: Key =
    Key::new("reconcile", "interval_secs", "whole seconds from 1 to 86400", Text("60"));

/// The budget of a cycle.
pub static RECONCILE_CYCLE_TIMEOUT_SECS: Key = Key::new(
    "reconcile",
    "cycle_timeout_secs",
    "whole seconds from 1 to 86400",
    Derived("three times the interval, at least `300`"),
);
/// How long rows of the history are kept.
pub static HISTORY_KEEP_DAYS: Key = Key::new("history", "keep_days", "whole days from 1 to 3650", Text("30"));
/// How many.
pub static HISTORY_KEEP_ROWS: Key =
    Key::new("history", "keep_rows", "a whole number from 1000 to 10000000", Text("200000"));
/// How much of refused messages.
pub static HISTORY_KEEP_REFUSED_MIB: Key =
    Key::new("history", "keep_refused_mib", "whole MiB from 1 to 1048576", Text("256"));

/// All of them.
pub static KEYS: [&Key; 22] = [
    &STATE_DIR,
    &AIRFLOW_URL,
    &AIRFLOW_USERNAME,
    &AIRFLOW_PASSWORD,
    &AIRFLOW_PASSWORD_FILE,
    &AIRFLOW_TOKEN_FILE,
    &AIRFLOW_TOKEN_COMMAND,
    &AIRFLOW_REQUEST_TIMEOUT_SECS,
    &AIRFLOW_CA_FILE,
    &AIRFLOW_MAX_IN_FLIGHT,
    &LOG_LEVEL,
    &LOG_FORMAT,
    &CONSUME_PREFETCH,
    &CONSUME_ACK_DEADLINE_SECS,
    &CONSUME_MAX_BODY_BYTES,
    &CONSUME_LARGE_BODY,
    &CONSUME_BODY_FILE_DAYS,
    &RECONCILE_INTERVAL_SECS,
    &RECONCILE_CYCLE_TIMEOUT_SECS,
    &HISTORY_KEEP_DAYS,
    &HISTORY_KEEP_ROWS,
    &HISTORY_KEEP_REFUSED_MIB,
];
