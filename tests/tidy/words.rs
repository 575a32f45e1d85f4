//! Words that may stand only where they belong: outside crates in their adapters, I/O and clocks outside the core, `unsafe` in
//! `process`, and nowhere a word of the place where the project was made.

use crate::none;
use crate::repository::{Text, files, sources};

/// Crates, and the modules that may name them. A crate that is not here may be named anywhere but in `domain`.
const HOMES: &[(&str, &[&str])] = &[
    ("lapin", &["broker"]),
    ("async_rs", &["broker"]),
    ("futures_io", &["broker"]),
    ("socket2", &["broker"]),
    ("tokio_rustls", &["broker"]),
    ("rusqlite", &["store"]),
    ("reqwest", &["airflow", "http_client"]),
    ("rustls", &["broker", "airflow", "http_client"]),
    ("rustls_native_certs", &["broker", "airflow"]),
    ("ruff_python_ast", &["discovery"]),
    ("ruff_python_parser", &["discovery"]),
    ("ruff_text_size", &["discovery"]),
    ("flate2", &["domain"]),
    ("ruzstd", &["domain"]),
    ("toml", &["config"]),
    ("regex", &["domain", "discovery"]),
    ("unicode_width", &["cli"]),
    ("clap", &["cli", "process", "bin"]),
    ("signal_hook", &["process"]),
    ("tracing_subscriber", &["telemetry"]),
    // The system's calls: signals and forks, the log's pipe, the state file's lock, a child's process group.
    ("nix", &["process", "telemetry", "store", "airflow", "discovery", "control"]),
    ("libc", &["process", "telemetry", "store", "airflow", "discovery", "bin"]),
];

/// What the core may not name: runtimes, logs, I/O, clocks, the outside.
const NOT_IN_DOMAIN: &[&str] = &[
    "tokio",
    "tracing",
    "futures_util",
    "fastrand",
    "std::fs",
    "std::net",
    "std::env",
    "std::process",
    "std::thread",
    "std::os",
    "SystemTime",
    "Instant",
];

/// Whether a line names a word as a whole.
fn names(code: &str, word: &str) -> bool {
    let joins = |c: char| c.is_alphanumeric() || c == '_';
    code.match_indices(word).any(|(at, _)| !code[..at].ends_with(joins) && !code[at + word.len()..].starts_with(joins))
}

/// Whether a line names a crate: as the head of a path, or in a `use`.
fn names_crate(code: &str, name: &str) -> bool {
    let path = format!("{name}::");
    let head = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    let used = code.trim_start().strip_prefix("use ");
    used.is_some_and(|used| used.trim_end_matches(';') == name)
        || code.match_indices(&path).any(|(at, _)| !code[..at].ends_with(head))
}

fn misplaced(files: &[Text]) -> Vec<String> {
    let mut found = Vec::new();
    for file in files {
        let own = file.path.trim_start_matches("src/");
        let own = own.split(['/', '.']).next().unwrap_or(own);
        for (line, code) in file.product() {
            for (name, homes) in HOMES {
                if !homes.contains(&own) && names_crate(&code, name) {
                    let text = format!("`{name}` belongs to {}", homes.join(", "));
                    found.push(file.at(line, &text));
                }
            }
            if own == "domain" {
                for word in NOT_IN_DOMAIN.iter().filter(|word| names(&code, word)) {
                    found.push(file.at(line, &format!("`domain` may not name `{word}`")));
                }
            }
            if !["process", "bin"].contains(&own) && names(&code, "unsafe") {
                found.push(file.at(line, "`unsafe` belongs to process and the binaries"));
            }
        }
    }
    found
}

/// Words of the place of making, put together here so that this file does not hold them.
fn places() -> Vec<String> {
    let word = |parts: [&str; 2]| parts.concat();
    vec![
        word(["/wo", "rk/"]),
        word(["/tmp/", "bg"]),
        word(["../sha", "red"]),
        word(["bash_", "jobs"]),
        word(["helper ", "agent"]),
        word(["sub", "agent"]),
        word(["language ", "model"]),
        word(["this ", "session"]),
    ]
}

fn of_the_place(files: &[Text]) -> Vec<String> {
    let places = places();
    let mut found = Vec::new();
    for file in files {
        for (line, text) in file.numbered() {
            for word in places.iter().filter(|word| text.contains(word.as_str())) {
                found.push(file.at(line, &format!("speaks of `{word}`")));
            }
        }
    }
    found
}

#[test]
fn outside_crates_stop_at_their_adapter_and_the_core_stays_pure() {
    none(&misplaced(&sources()));
}

#[test]
fn misplaced_words_are_found() {
    let sample = [
        Text::new("src/pipeline/mod.rs", "use lapin::Channel;"),
        Text::new("src/airflow/x.rs", "fn f(c: &rusqlite::Connection) {}"),
        Text::new("src/domain/plan.rs", "use std::time::Instant;\nuse tokio;"),
        Text::new("src/store/x.rs", "    unsafe { f() }"),
    ];
    let found = misplaced(&sample);
    assert_eq!(found.len(), 5, "{found:?}");
    assert_eq!(found[0], "src/pipeline/mod.rs:1: `lapin` belongs to broker");
}

#[test]
fn words_at_home_and_words_inside_words_are_no_breach() {
    let sample = [
        Text::new("src/broker/link.rs", "use lapin::Channel; // rusqlite::Connection"),
        Text::new("src/domain/x.rs", "struct InstantOrNever; fn my_tokio() {} mod x { use super::toml; }"),
        Text::new("src/process/raw.rs", "unsafe { libc::fork() }"),
    ];
    none(&misplaced(&sample));
}

#[test]
fn nothing_speaks_of_the_place_of_making() {
    none(&of_the_place(&files(|path| !path.ends_with(".lock"))));
}

#[test]
fn word_of_the_place_is_found() {
    let sample = [Text::new("docs/x.md", &format!("made in {}x", places()[0]))];
    assert_eq!(of_the_place(&sample).len(), 1);
}
