//! Log events in the code: every name stands in `telemetry::events`, is used, and is logged at the level that is said there.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The file that holds the names.
const NAMES: &str = "src/telemetry/events.rs";
/// Tests, loops that only tests ask for, and the one function that is handed level and event by its callers.
const WITHOUT_EVENTS: [(&str, &str); 3] = [
    ("src/telemetry/layer/tests.rs", ""),
    ("src/process/faults.rs", ""),
    ("src/process/work.rs", "event,\"{message}\""),
];
/// The macros of `tracing`, with the level as `LogLevel` spells it.
const MACROS: [(&str, &str); 4] = [("error!(", "Error"), ("warn!(", "Warn"), ("info!(", "Info"), ("debug!(", "Debug")];

struct Source {
    path: String,
    /// Without spaces and line breaks, so that the layout of a statement does not matter.
    text: String,
}

fn sources() -> Vec<Source> {
    let top = Path::new(env!("CARGO_MANIFEST_DIR"));
    let (mut found, mut folders) = (Vec::new(), vec![top.join("src")]);
    while let Some(folder) = folders.pop() {
        let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let (inner, files): (Vec<PathBuf>, Vec<PathBuf>) = entries.partition(|path| path.is_dir());
        folders.extend(inner);
        for file in files {
            let path = file.strip_prefix(top).unwrap().to_str().unwrap().to_owned();
            let text = std::fs::read_to_string(&file).unwrap().split_whitespace().collect();
            found.push(Source { path, text });
        }
    }
    found
}

fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

fn leading_name(text: &str) -> &str {
    &text[..text.find(|c| !is_name(c)).unwrap_or(text.len())]
}

/// The constants with their levels, as they stand in the file.
fn declared() -> BTreeMap<String, Vec<String>> {
    let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(NAMES)).unwrap();
    let lines = text.lines().filter_map(|line| line.trim().strip_suffix(';')?.split_once(" @ "));
    let named = lines.filter_map(|(left, levels)| Some((left.split_once(" = \"")?.0.to_owned(), levels)));
    named.map(|(name, levels)| (name, levels.split(" | ").map(str::to_owned).collect())).collect()
}

/// What is said in `path`, as (level, constant); `None` where a line has no event.
fn said(source: &Source) -> Vec<(&'static str, Option<String>)> {
    let mut found = Vec::new();
    for (word, level) in MACROS {
        for (at, _) in source.text.match_indices(word) {
            let is_word = !source.text[..at].ends_with(is_name);
            let arguments = &source.text[at + word.len()..];
            let name = arguments.strip_prefix("event=events::").map(|rest| leading_name(rest).to_owned());
            let is_excepted = |(path, opening): &(&str, &str)| *path == source.path && arguments.starts_with(opening);
            if is_word && !WITHOUT_EVENTS.iter().any(is_excepted) {
                found.push((level, name));
            }
        }
    }
    // Lines that go past the log: a level, then the event.
    for level in ["Error", "Warn", "Info"] {
        let pair = format!("LogLevel::{level},events::");
        let after = source.text.match_indices(&pair).map(|(at, _)| leading_name(&source.text[at + pair.len()..]));
        found.extend(after.map(|name| (level, Some(name.to_owned()))));
    }
    found
}

#[test]
fn every_line_from_info_up_has_an_event_at_its_declared_level() {
    let (declared, mut seen, mut wrong) = (declared(), 0, Vec::new());
    for source in sources() {
        let path = &source.path;
        for (level, name) in said(&source) {
            match name {
                None if level == "Debug" => {}
                None => wrong.push(format!("{path}: a line of level {level} does not begin with `event = events::…`")),
                Some(name) if declared[&name].iter().any(|own| own == level) => seen += 1,
                Some(name) => wrong.push(format!("{path}: {name} is logged as {level}")),
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(seen >= 40, "only {seen} lines were found");
}

#[test]
fn every_declared_event_is_used_and_no_other_name_is() {
    let mut used = BTreeSet::new();
    for source in sources().iter().filter(|source| source.path != NAMES) {
        let named =
            source.text.match_indices("events::").map(|(at, word)| leading_name(&source.text[at + word.len()..]));
        used.extend(named.filter(|name| name.starts_with(|c: char| c.is_ascii_uppercase())).map(str::to_owned));
    }
    let declared: BTreeSet<String> = declared().into_keys().collect();
    assert_eq!(declared, used);
}
