//! `docs/configuration.md` against the code, both ways.

use std::collections::BTreeMap;

use rmq_watcher::config::connections::file::FIELDS;
use rmq_watcher::config::keys::{Fallback, KEYS};

const DOCUMENT: &str = include_str!("../../docs/configuration.md");

/// The cells of every table row under a heading, without back-ticks around the first.
fn rows(heading: &str) -> Vec<Vec<String>> {
    let section = DOCUMENT.split_once(heading).unwrap_or_else(|| panic!("no heading {heading}")).1;
    let section = section.split("\n#").next().unwrap_or_default();
    let cells = |line: &str| line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect();
    section.lines().filter(|line| line.starts_with("| `")).map(cells).collect()
}

#[test]
fn every_key_has_one_row_with_its_name_form_and_default() {
    let mut documented: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for row in rows("\n## Keys\n") {
        assert_eq!(row.len(), 5, "{row:?}");
        let key = row[0].trim_matches('`').to_owned();
        assert!(documented.insert(key.clone(), row).is_none(), "{key} stands twice");
    }
    for key in KEYS {
        let row = documented.remove(&key.path()).unwrap_or_else(|| panic!("{} is not documented", key.path()));
        assert_eq!(row[1], format!("`{}`", key.environment_name()));
        assert_eq!(row[2], key.expected, "{}", key.path());
        let default = match key.fallback {
            Fallback::Text(text) => format!("`{text}`"),
            Fallback::Derived(text) => text.to_owned(),
            Fallback::Unset => "not set".to_owned(),
        };
        assert_eq!(row[3], default, "{}", key.path());
        assert!(!row[4].is_empty(), "{} has no meaning", key.path());
    }
    assert!(documented.is_empty(), "documented, but not in the code: {:?}", documented.keys());
}

#[test]
fn every_field_of_a_connection_has_one_row() {
    let documented: Vec<String> =
        rows("\n### In the configuration file\n").iter().map(|row| row[0].trim_matches('`').to_owned()).collect();
    let mut expected: Vec<String> = FIELDS.iter().map(|field| (*field).to_owned()).collect();
    let mut found: Vec<String> = documented.into_iter().filter(|f| !f.contains("://")).collect();
    expected.sort();
    found.sort();
    assert_eq!(found, expected);
}
