//! The shape of files: length, and how each module opens.

use crate::none;
use crate::repository::{Text, files};

/// Lines of a file at most; most have 100 to 300.
const MOST_LINES: usize = 500;

fn is_code(path: &str) -> bool {
    let ours = ["src/", "tests/", "benches/", "packaging/"];
    let rust_or_python = path.ends_with(".rs") || path.ends_with(".py");
    ours.iter().any(|folder| path.starts_with(folder)) && rust_or_python && !is_fixture(path)
}

fn is_fixture(path: &str) -> bool {
    path.starts_with("tests/fixtures/")
}

fn too_long(files: &[Text]) -> Vec<String> {
    let mut found = Vec::new();
    for file in files {
        let lines = file.text.lines().count();
        if lines > MOST_LINES {
            found.push(file.at(lines, &format!("more than {MOST_LINES} lines: split it by concept")));
        }
    }
    found
}

fn unopened(files: &[Text]) -> Vec<String> {
    // The unit tests of `x.rs` in `x/tests.rs` are opened by `x.rs`.
    let rust = files.iter().filter(|file| file.path.ends_with(".rs") && !file.path.ends_with("tests.rs"));
    rust.filter(|file| !file.text.starts_with("//! "))
        .map(|file| file.at(1, "opens without a doc comment (`//! …`) that says what it is for"))
        .collect()
}

#[test]
fn files_are_short_enough_to_read() {
    none(&too_long(&files(is_code)));
}

#[test]
fn file_that_is_too_long_is_found() {
    let text = "x\n".repeat(MOST_LINES + 1);
    assert_eq!(too_long(&[Text::new("src/a.rs", &text)]).len(), 1);
    assert_eq!(too_long(&[Text::new("src/a.rs", &text[2..])]).len(), 0);
}

#[test]
fn every_module_opens_with_what_it_is_for() {
    none(&unopened(&files(is_code)));
}

#[test]
fn module_without_an_opening_is_found() {
    let sample = [Text::new("src/a.rs", "use std::fs;"), Text::new("src/b.rs", "//! B.\n")];
    assert_eq!(unopened(&sample).len(), 1);
}
