//! Decision records: each in the index, each with a status, none superseded by something that is not there.

use crate::none;
use crate::repository::{Text, files};

const INDEX: &str = "docs/adr/README.md";
/// Two pages.
const MOST_LINES: usize = 150;

/// The number of a record, from its file's name.
fn number(path: &str) -> Option<&str> {
    let name = path.strip_prefix("docs/adr/")?;
    let number = name.get(..4)?;
    (number.bytes().all(|b| b.is_ascii_digit()) && name.get(4..5) == Some("-")).then_some(number)
}

fn breaches(files: &[Text]) -> Vec<String> {
    let mut found = Vec::new();
    let index = files.iter().find(|file| file.path == INDEX);
    let Some(index) = index else {
        return vec![format!("{INDEX} is missing")];
    };
    let records: Vec<_> = files.iter().filter(|file| file.path != INDEX).collect();
    for record in &records {
        let Some(own) = number(&record.path) else {
            found.push(record.at(1, "is not named NNNN-verb-phrase.md"));
            continue;
        };
        if !record.text.starts_with(&format!("# {own} ")) {
            found.push(record.at(1, &format!("does not open with `# {own} …`")));
        }
        let same = |other: &&&Text| number(&other.path) == Some(own);
        if records.iter().filter(same).count() > 1 {
            found.push(record.at(1, "shares its number with another record"));
        }
        let name = record.path.trim_start_matches("docs/adr/");
        if !index.text.contains(&format!("({name})")) {
            found.push(index.at(1, &format!("does not link {name}")));
        }
        found.extend(status(record, &records));
        for part in ["## Context", "## Decision", "## Consequences"] {
            if !record.text.lines().any(|line| line == part) {
                found.push(record.at(1, &format!("has no `{part}`")));
            }
        }
        if record.text.lines().count() > MOST_LINES {
            found.push(record.at(MOST_LINES, "is longer than two pages"));
        }
    }
    found
}

/// `Status: proposed`, `accepted`, or `superseded by NNNN` with that record there.
fn status(record: &Text, records: &[&Text]) -> Option<String> {
    let stated = record.numbered().find_map(|(line, text)| Some((line, text.strip_prefix("Status: ")?)));
    let Some((line, stated)) = stated else {
        return Some(record.at(1, "has no line `Status: …`"));
    };
    let stated = stated.split(" · ").next().unwrap_or_default();
    let known = match stated.strip_prefix("superseded by ") {
        Some(by) => records.iter().any(|other| number(&other.path) == Some(by)),
        None => ["proposed", "accepted"].contains(&stated),
    };
    (!known).then(|| record.at(line, &format!("has the status `{stated}`")))
}

#[test]
fn decisions_are_indexed_and_have_a_status() {
    none(&breaches(&files(|path| path.starts_with("docs/adr/"))));
}

#[test]
fn decisions_that_are_lost_or_without_status_are_found() {
    let body = "## Context\n## Decision\n## Consequences\n";
    let index = Text::new(INDEX, "[1](0001-a.md) [2](0002-b.md)");
    let first = Text::new("docs/adr/0001-a.md", &format!("# 0001 A\nStatus: superseded by 0002 · Date: x\n{body}"));
    let second = Text::new("docs/adr/0002-b.md", &format!("# 0002 B\nStatus: accepted\n{body}"));
    none(&breaches(&[index.clone(), first.clone(), second.clone()]));

    let lost = Text::new("docs/adr/0003-c.md", &format!("# 0003 C\nStatus: accepted\n{body}"));
    let vague = Text::new("docs/adr/0002-b.md", "# 0002 B\nStatus: maybe\n## Context\n## Decision\n");
    let twin = Text::new("docs/adr/0001-z.md", &format!("# 0001 Z\nStatus: superseded by 0009\n{body}"));
    assert_eq!(breaches(&[index.clone(), first.clone(), second.clone(), lost]).len(), 1);
    assert_eq!(breaches(&[index.clone(), first.clone(), vague]).len(), 2);
    let found = breaches(&[index, first, second.clone(), twin]);
    assert_eq!(found.len(), 4, "{found:?}");
    assert_eq!(breaches(&[second]).len(), 1);
}
