//! Docs that point somewhere: every link, every named document and every named test is there.

use std::collections::BTreeSet;

use crate::none;
use crate::repository::{Text, files};

/// Links of Markdown to files: `](path)` without a scheme.
fn links(line: &str) -> impl Iterator<Item = &str> {
    line.split("](").skip(1).filter_map(|rest| {
        let target = rest.split([')', ' ']).next()?.split('#').next()?;
        let outside = target.contains("://") || target.starts_with("mailto:");
        (!outside && !target.is_empty()).then_some(target)
    })
}

/// Documents named in any text: `docs/….md`, and decisions by number, `docs/adr/0001`.
fn mentions(line: &str) -> impl Iterator<Item = &str> {
    line.match_indices("docs/").filter_map(|(at, _)| {
        if line[..at].ends_with(|c: char| c.is_alphanumeric() || "/._-".contains(c)) {
            return None; // a part of a longer path or address
        }
        let rest = &line[at..];
        let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || "/._-".contains(c))).unwrap_or(rest.len());
        let name = rest[..end].trim_end_matches('.');
        let number = name.strip_prefix("docs/adr/").is_some_and(|name| name.starts_with(|c: char| c.is_ascii_digit()));
        (name.ends_with(".md") || number).then_some(name)
    })
}

/// `folder/../x/./y` without its dots.
fn resolve(folder: &str, target: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in folder.split('/').chain(target.split('/')) {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

fn dangling(texts: &[Text], there: &BTreeSet<String>) -> Vec<String> {
    let is_there = |path: &str| {
        let folder = format!("{}/", path.trim_end_matches('/'));
        there.contains(path) || there.iter().any(|name| name.starts_with(&folder))
    };
    let mut found = Vec::new();
    for text in texts {
        let folder = text.path.rsplit_once('/').map_or("", |(folder, _)| folder);
        for (line, content) in text.numbered() {
            if text.path.ends_with(".md") {
                for target in links(content).filter(|to| !is_there(&resolve(folder, to))) {
                    found.push(text.at(line, &format!("links to {target}, which is not there")));
                }
            }
            for name in mentions(content) {
                let numbered = there.iter().any(|path| path.starts_with(&format!("{name}-")));
                if !is_there(name) && !numbered {
                    found.push(text.at(line, &format!("names {name}, which is not there")));
                }
            }
        }
    }
    found
}

/// Names of tests: words in back quotes of small letters, digits and at least four underscores.
fn named_tests(line: &str) -> impl Iterator<Item = &str> {
    let is_test = |word: &&str| {
        let plain = word.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
        plain && word.matches('_').count() >= 4
    };
    line.split('`').skip(1).step_by(2).filter(is_test)
}

/// Tests that a document names and that are not among `functions`.
fn missing_tests(texts: &[Text], functions: &BTreeSet<String>) -> Vec<String> {
    let mut found = Vec::new();
    for text in texts {
        for (line, content) in text.numbered() {
            for name in named_tests(content).filter(|name| !functions.contains(*name)) {
                found.push(text.at(line, &format!("names the test {name}, which is not there")));
            }
        }
    }
    found
}

/// The names of all functions, as far as they stand behind `fn ` at their line's beginning.
fn functions(texts: &[Text]) -> BTreeSet<String> {
    let lines = texts.iter().flat_map(|text| text.text.lines());
    let named = lines.filter_map(|line| line.trim_start().trim_start_matches("async ").strip_prefix("fn "));
    named.filter_map(|rest| rest.split(['(', '<']).next()).map(str::to_owned).collect()
}

#[test]
fn tests_that_documents_name_are_there() {
    let code = files(|path| path.ends_with(".rs") && (path.starts_with("src/") || path.starts_with("tests/")));
    let pages = files(|path| path.ends_with(".md") && !path.starts_with("tests/"));
    none(&missing_tests(&pages, &functions(&code)));
}

#[test]
fn named_test_that_is_gone_is_found() {
    let there = functions(&[Text::new(
        "tests/a.rs",
        "#[test]\nfn a_b_c_d_is_so() {\n    async fn a_b_c_d_is_async(x: u8) {}\n",
    )]);
    none(&missing_tests(&[Text::new("docs/a.md", "`a_b_c_d_is_so`, `a_b_c_d_is_async`, `max_in_flight`")], &there));
    assert_eq!(missing_tests(&[Text::new("docs/a.md", "held by `a_b_c_d_is_gone`")], &there).len(), 1);
}

#[test]
fn links_and_named_documents_are_there() {
    let all = files(|path| !path.starts_with("tests/fixtures/") && !path.starts_with("tests/tidy/"));
    let there = files(|_| true).into_iter().map(|file| file.path).collect();
    none(&dangling(&all, &there));
}

#[test]
fn dangling_links_and_names_are_found() {
    let there = ["docs/a.md", "docs/adr/0001-x.md", "README.md"].map(str::to_owned).into();
    let good = "[a](a.md#x) [top](../README.md) [adr](adr/) [w](https://x.y/z) docs/adr/0001, docs/a.md.";
    none(&dangling(&[Text::new("docs/b.md", good)], &there));
    let bad = "[a](c.md) docs/nowhere.md docs/adr/0009";
    assert_eq!(dangling(&[Text::new("docs/b.md", bad)], &there).len(), 3);
}
