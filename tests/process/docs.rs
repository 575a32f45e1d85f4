//! The tables of `docs/` against the code: log events with their levels, exit codes, test-only variables.

use std::collections::BTreeSet;
use std::path::Path;

use rmq_watcher::config::log::LogLevel;
use rmq_watcher::process::exit;
use rmq_watcher::telemetry::{events, line};

fn document(name: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(name)).unwrap()
}

/// The cells of every table row whose second cell satisfies `wanted`.
fn rows(text: &str) -> Vec<Vec<String>> {
    text.lines()
        .filter(|line| line.starts_with("| ") && !line.starts_with("| ---"))
        .map(|line| line.trim_matches('|').split(" | ").map(|cell| cell.trim().to_owned()).collect())
        .collect()
}

#[test]
fn log_lines_page_lists_exactly_the_events_with_their_levels() {
    let text = document("docs/log-lines.md");
    let documented: BTreeSet<(String, String)> = rows(&text)
        .into_iter()
        .filter(|cells| cells.len() == 4 && cells[2].starts_with('`'))
        .map(|cells| (cells[2].trim_matches('`').to_owned(), cells[1].clone()))
        .collect();
    let words =
        |levels: &[LogLevel]| levels.iter().map(|level| line::level_word(*level)).collect::<Vec<_>>().join(" or ");
    let in_code: BTreeSet<(String, String)> =
        events::ALL.iter().map(|(name, levels)| ((*name).to_owned(), words(levels))).collect();
    assert_eq!(documented, in_code);
}

#[test]
fn operations_page_says_what_to_do_about_every_error() {
    let text = document("docs/operations.md");
    let errors = events::ALL.iter().filter(|(_, levels)| levels.contains(&LogLevel::Error));
    for (name, _) in errors {
        assert!(rows(&text).iter().any(|cells| cells[0].contains(&format!("`{name}`"))), "{name}");
    }
}

#[test]
fn operations_page_lists_every_exit_code() {
    let text = document("docs/operations.md");
    for code in [exit::STOPPED, exit::FAILED, exit::REFUSED, exit::COMMAND_NOT_EXECUTABLE, exit::COMMAND_NOT_FOUND] {
        assert!(text.contains(&format!("| {code} |")), "exit code {code}");
    }
}

#[test]
fn operations_page_lists_every_test_only_variable_and_loop() {
    let text = document("docs/operations.md");
    let mut sources = String::new();
    for file in ["faults.rs", "deadline.rs", "parent.rs"] {
        sources += &document(&format!("src/process/{file}"));
    }
    let variables: BTreeSet<&str> = sources
        .match_indices("\"RMQ_WATCHER_TEST_")
        .map(|(at, _)| sources[at + 1..].split(['"', ' ', '=']).next().unwrap())
        .collect();
    assert!(variables.len() >= 6, "{variables:?}");
    for variable in variables {
        assert!(text.contains(&format!("`{variable}`")), "{variable}");
    }
    let faults = document("src/process/faults.rs");
    let loops: Vec<&str> = faults
        .lines()
        .filter_map(|line| line.trim().strip_prefix('"')?.split_once("\" => Fault::"))
        .map(|(name, _)| name)
        .collect();
    assert!(loops.len() >= 10, "{loops:?}");
    for name in loops {
        assert!(text.contains(&format!("`{name}`")), "the test loop {name}");
    }
}
