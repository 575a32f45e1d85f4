//! `.airflowignore` in both syntaxes, held against what Airflow itself leaves out.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use rmq_watcher::config::dags::{DagFolders, IgnoreSyntax};
use rmq_watcher::discovery::{Scan, Scanner};
use rmq_watcher::domain::declaration::FileProblemKind;
use tempfile::TempDir;

use crate::folder::{dag_file, origins, scan_as_nobody, set_mode, write};

fn folders(folder: &Path, syntax: IgnoreSyntax) -> DagFolders {
    DagFolders { ignore_syntax: Some(syntax), ..DagFolders::one(folder) }
}

fn scan(folder: &Path, syntax: IgnoreSyntax) -> Scan {
    Scanner::of(folders(folder, syntax)).scan().unwrap()
}

/// A folder of DAG files of these names, and files of rules.
fn laid_out(names: &[&str], rules: &[(&str, &str)]) -> TempDir {
    let folder = TempDir::new().unwrap();
    for name in names {
        let id = name.trim_end_matches(".py").replace(['/', '[', ']'], ".");
        write(folder.path(), name, &dag_file(&id, &id));
    }
    for (place, text) in rules {
        write(folder.path(), &format!("{place}.airflowignore"), text);
    }
    folder
}

const NAMES: [&str; 10] = [
    "a.py",
    "a_test.py",
    "team/a.py",
    "team/b_test.py",
    "team/lib/helper.py",
    "team/lib/keep.py",
    "other/lib/helper.py",
    "other/tests/t.py",
    "data/x1.py",
    "data/y[1].py",
];

/// Files of rules, and what is left of [`NAMES`].
type Case<'a> = (&'a [(&'a str, &'a str)], &'a [&'a str]);

const REGEXP: [Case<'static>; 6] = [
    (
        &[("", "_test")],
        &[
            "a.py",
            "data/x1.py",
            "data/y[1].py",
            "other/lib/helper.py",
            "other/tests/t.py",
            "team/a.py",
            "team/lib/helper.py",
            "team/lib/keep.py",
        ],
    ),
    (
        &[("", "^team/lib$\ntests # and why\n# all.*\n\n")],
        &["a.py", "a_test.py", "data/x1.py", "data/y[1].py", "other/lib/helper.py", "team/a.py", "team/b_test.py"],
    ),
    (
        &[("", "lib/keep\\.py")],
        &[
            "a.py",
            "a_test.py",
            "data/x1.py",
            "data/y[1].py",
            "other/lib/helper.py",
            "other/tests/t.py",
            "team/a.py",
            "team/b_test.py",
            "team/lib/helper.py",
        ],
    ),
    (
        &[("", "^a\r\n^data\r\n"), ("team/", "^team/a")],
        &["other/lib/helper.py", "other/tests/t.py", "team/b_test.py", "team/lib/helper.py", "team/lib/keep.py"],
    ),
    (
        &[("team/", ".*helper.*")],
        &[
            "a.py",
            "a_test.py",
            "data/x1.py",
            "data/y[1].py",
            "other/lib/helper.py",
            "other/tests/t.py",
            "team/a.py",
            "team/b_test.py",
            "team/lib/keep.py",
        ],
    ),
    (&[("", "(\n^(team|other)\n")], &["a.py", "a_test.py", "data/x1.py", "data/y[1].py"]),
];

const GLOB: [Case<'static>; 8] = [
    (
        &[("", "*_test.py")],
        &[
            "a.py",
            "data/x1.py",
            "data/y[1].py",
            "other/lib/helper.py",
            "other/tests/t.py",
            "team/a.py",
            "team/lib/helper.py",
            "team/lib/keep.py",
        ],
    ),
    (
        &[("", "lib/\n!team/lib/\n")],
        &[
            "a.py",
            "a_test.py",
            "data/x1.py",
            "data/y[1].py",
            "other/tests/t.py",
            "team/a.py",
            "team/b_test.py",
            "team/lib/helper.py",
            "team/lib/keep.py",
        ],
    ),
    (&[("", "*.py\n!keep.py\n!a.py # these two")], &["a.py", "team/a.py", "team/lib/keep.py"]),
    (
        &[("", "/a.py\nteam/*.py\n")],
        &[
            "a_test.py",
            "data/x1.py",
            "data/y[1].py",
            "other/lib/helper.py",
            "other/tests/t.py",
            "team/lib/helper.py",
            "team/lib/keep.py",
        ],
    ),
    (&[("", "*.py"), ("team/", "!*.py\nlib\n")], &["team/a.py", "team/b_test.py"]),
    (
        &[("", "**/lib/**\ndata/x?.py\r\n")],
        &["a.py", "a_test.py", "data/y[1].py", "other/tests/t.py", "team/a.py", "team/b_test.py"],
    ),
    (
        &[("", "/\ny\\[1\\].py\na.py/\n")],
        &[
            "a.py",
            "a_test.py",
            "data/x1.py",
            "other/lib/helper.py",
            "other/tests/t.py",
            "team/a.py",
            "team/b_test.py",
            "team/lib/helper.py",
            "team/lib/keep.py",
        ],
    ),
    (
        &[("team/", "/lib\n"), ("other/", "lib/helper.py\n")],
        &["a.py", "a_test.py", "data/x1.py", "data/y[1].py", "other/tests/t.py", "team/a.py", "team/b_test.py"],
    ),
];

fn cases(syntax: IgnoreSyntax) -> &'static [Case<'static>] {
    match syntax {
        IgnoreSyntax::Regexp => &REGEXP,
        IgnoreSyntax::Glob => &GLOB,
    }
}

#[test]
fn what_the_rules_leave_out_is_not_read() {
    for syntax in [IgnoreSyntax::Regexp, IgnoreSyntax::Glob] {
        for (rules, left) in cases(syntax) {
            let folder = laid_out(&NAMES, rules);
            assert_eq!(origins(&scan(folder.path(), syntax)), *left, "{syntax:?} {rules:?}");
        }
    }
}

/// Prints, for pairs of a folder and a syntax, a line with the files below it that Airflow looks at, relative to it.
const PYTHON: &str = "
import os, sys
try:
    from airflow._shared.module_loading.file_discovery import find_path_from_directory
except ImportError:
    from airflow.utils.file import find_path_from_directory
for folder, syntax in zip(sys.argv[1::2], sys.argv[2::2]):
    found = [os.path.relpath(path, folder) for path in find_path_from_directory(folder, '.airflowignore', syntax)]
    print('FOUND', *sorted(path for path in found if path.endswith('.py')))
";

/// Asks the real Airflow in the environment that the variable names.
#[track_caller]
fn compare_with_airflow(variable: &str) {
    let venv = std::env::var_os(variable)
        .unwrap_or_else(|| panic!("{variable} is not set: run ./tests/run, which prepares Airflow"));
    let home = TempDir::new().unwrap();
    let mut asked = Command::new(PathBuf::from(venv).join("bin/python"));
    asked.args(["-c", PYTHON]).env("AIRFLOW_HOME", home.path());
    let mut expected = Vec::new();
    let mut laid = Vec::new();
    for (syntax, name) in [(IgnoreSyntax::Regexp, "regexp"), (IgnoreSyntax::Glob, "glob")] {
        for (rules, left) in cases(syntax) {
            let folder = laid_out(&NAMES, rules);
            asked.arg(folder.path()).arg(name);
            laid.push(folder);
            expected.push(left.join(" "));
        }
    }
    let output = asked.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let found: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("FOUND ")).collect();
    assert_eq!(found, expected, "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn real_airflow_2_leaves_out_the_same_files() {
    compare_with_airflow("RMQ_TEST_AIRFLOW2_VENV");
}

#[test]
fn real_airflow_3_leaves_out_the_same_files() {
    compare_with_airflow("RMQ_TEST_AIRFLOW3_VENV");
}

#[test]
fn rules_that_change_count_from_the_next_scan_on() {
    let folder = laid_out(&["a.py", "b.py"], &[("", "b.py")]);
    let mut scanner = Scanner::of(folders(folder.path(), IgnoreSyntax::Glob));
    assert_eq!(origins(&scanner.scan().unwrap()), ["a.py"]);
    write(folder.path(), ".airflowignore", "# nothing any more");
    assert_eq!(origins(&scanner.scan().unwrap()), ["a.py", "b.py"]);
    fs::remove_file(folder.path().join(".airflowignore")).unwrap();
    assert_eq!(origins(&scanner.scan().unwrap()), ["a.py", "b.py"]);
}

#[test]
fn the_default_syntax_is_that_of_airflow_3_until_the_version_is_known() {
    let folder = laid_out(&["a.py", "b_test.py"], &[("", ".*_test.*")]);
    let mut scanner = Scanner::new(folder.path());
    let default = scanner.default_syntax();
    assert_eq!(origins(&scanner.scan().unwrap()), ["a.py", "b_test.py"]);
    default.set(Some(IgnoreSyntax::Regexp));
    assert_eq!(origins(&scanner.scan().unwrap()), ["a.py"]);
}

#[test]
fn what_either_syntax_leaves_out_is_undecided_while_none_is_known() {
    let names = ["a.py", "archive/x_draft.py", "b_test.py", "lib/c.py", "team/keep.py", "team/lib/d.py"];
    let rules = [("", ".*_draft.*\n*_test.py\n^lib\n"), ("team/", "*.py\n!keep.py\n")];
    let folder = laid_out(&names, &rules);
    let mut scanner = Scanner::new(folder.path());
    scanner.default_syntax().set(None);
    let scan = scanner.scan().unwrap();
    assert_eq!(origins(&scan), ["a.py", "team/keep.py"]);
    let mut undecided = scan.undecided;
    undecided.sort();
    assert_eq!(undecided, ["archive/x_draft.py", "b_test.py", "lib", "team/lib/d.py"]);
    assert_eq!(scan.unreadable, [], "a line may be one of the other syntax");
    assert_eq!((scan.listed, scan.readable), (2, 2));
    scanner.default_syntax().set(Some(IgnoreSyntax::Regexp));
    assert_eq!(scanner.scan().unwrap().undecided, [] as [String; 0]);
}

#[test]
fn a_line_that_is_no_pattern_is_told_and_passed_over() {
    let folder = laid_out(&["a.py", "b.py"], &[("", "b.py\n(unclosed\n(?=look)ahead\n")]);
    let scan = scan(folder.path(), IgnoreSyntax::Regexp);
    assert_eq!(origins(&scan), ["a.py"]);
    let told: Vec<_> = scan.unreadable.iter().map(|p| (p.file.as_str(), p.line, p.kind)).collect();
    let kind = FileProblemKind::IgnoreRule;
    assert_eq!(told, [(".airflowignore", Some(2), kind), (".airflowignore", Some(3), kind)]);
    assert_eq!((scan.listed, scan.readable), (1, 1));
}

#[test]
fn rules_that_cannot_be_read_leave_their_directory_unknown() {
    let folder = laid_out(&["a.py", "team/b.py"], &[("team/", "b.py")]);
    set_mode(folder.path(), 0o755);
    set_mode(&folder.path().join("team"), 0o755);
    set_mode(&folder.path().join("team/.airflowignore"), 0o000);
    let scan = scan_as_nobody(folder.path()).unwrap();
    assert_eq!(origins(&scan), ["a.py"]);
    assert_eq!(
        (scan.unreadable[0].file.as_str(), scan.unreadable[0].kind),
        ("team", FileProblemKind::DirectoryUnreadable)
    );
    assert!(scan.unreadable[0].text.contains(".airflowignore"), "{}", scan.unreadable[0]);
}

#[test]
fn explain_names_the_rule_that_leaves_a_file_out() {
    let folder = laid_out(&["a.py", "b.py", "lib/c.py"], &[("", "# why\nlib\nb.py\n")]);
    for syntax in [IgnoreSyntax::Regexp, IgnoreSyntax::Glob] {
        let (_, files) = Scanner::of(folders(folder.path(), syntax)).explain().unwrap();
        let files: Vec<_> = files.iter().map(|file| (file.file.as_str(), file.verdict.to_string())).collect();
        let by = |line: u32| format!("ignored by .airflowignore:{line}");
        assert_eq!(files, [("a.py", "declares 1".to_owned()), ("b.py", by(3)), ("lib/", by(2))], "{syntax:?}");
    }
}
