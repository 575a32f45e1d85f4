//! `rmq_triggers.yaml`: what it declares, what is refused and where, and what makes the file as a whole unreadable.

use std::fs;

use rmq_watcher::discovery::{Scan, Scanner, scan};
use rmq_watcher::domain::declaration::{FileProblemKind, Names};
use tempfile::TempDir;

use crate::folder::{dag_file, origins, queues, write};

fn read(text: &str) -> Scan {
    let folder = TempDir::new().unwrap();
    write(folder.path(), "rmq_triggers.yaml", text);
    scan(folder.path()).unwrap()
}

#[track_caller]
fn refusals(text: &str) -> Vec<String> {
    let scan = read(text);
    assert_eq!((scan.declarations.len(), scan.unreadable.len()), (0, 0), "{text}");
    scan.refusals.iter().map(ToString::to_string).collect()
}

#[test]
fn entries_declare_what_decorators_declare() {
    let scan = read(
        "# subscriptions of the team\ntriggers:\n  - dag_id: orders\n    queue: orders\n  - dag_id: bills\n    \
         queues: [bills.eu, bills.us]\n    conn_id: other\n    on_paused: run\n",
    );
    assert_eq!(scan.refusals, []);
    let found: Vec<_> = scan.declarations.iter().map(|d| format!("{d:?}")).collect();
    assert_eq!(queues(&scan), ["orders", "bills.eu", "bills.us"], "{found:?}");
    assert_eq!(scan.declarations[0].conn_id.as_str(), "rmq_default");
    assert_eq!(scan.declarations[0].origin.to_string(), "rmq_triggers.yaml:3:5");
    assert_eq!(scan.declarations[1].conn_id.as_str(), "other");
    assert_eq!(scan.declarations[1].origin.to_string(), "rmq_triggers.yaml:5:5");
    assert_eq!(scan.declarations[1].options.on_paused.code(), "run");
}

#[test]
fn values_are_what_they_would_be_in_python() {
    let scan = read(
        "triggers:\n- dag_id: a\n  queue: q\n  cooldown: 300\n  ack_unmatched: true\n  filter_data:\n    filter_headers: {n: 1, s: '1', \
         f: 1.5, l: [a, null]}\n",
    );
    assert_eq!(scan.refusals, []);
    let options = &scan.declarations[0].options;
    assert_eq!((options.cooldown, options.ack_unmatched), (300, true));
    let filter = serde_json::json!({"filter_headers": {"n": 1, "s": "1", "f": 1.5, "l": ["a", null]}});
    assert_eq!(options.filter_data, Some(filter));
}

#[test]
fn both_names_are_read_anywhere_and_no_other_one() {
    let folder = TempDir::new().unwrap();
    for (name, dag) in [("rmq_triggers.yaml", "a"), ("team/deep/rmq_triggers.yml", "b"), ("triggers.yaml", "c")] {
        write(folder.path(), name, &format!("triggers:\n- {{dag_id: {dag}, queue: {dag}}}\n"));
    }
    assert_eq!(origins(&scan(folder.path()).unwrap()), ["rmq_triggers.yaml", "team/deep/rmq_triggers.yml"]);
}

#[test]
fn yes_and_no_are_texts_and_refused_where_true_or_false_is_meant() {
    for word in ["yes", "no", "on", "off", "'true'"] {
        let told = refusals(&format!("triggers:\n- dag_id: a\n  queue: q\n  ack_unmatched: {word}\n"));
        assert_eq!(told.len(), 1);
        assert!(
            told[0].starts_with("rmq_triggers.yaml:4:18: subscription of DAG \"a\" refused, `ack_unmatched`:"),
            "{told:?}"
        );
        assert!(told[0].contains("`True` or `False`") && told[0].contains("a string"), "{told:?}");
    }
}

#[test]
fn refusals_name_line_and_column_and_stop_no_other_entry() {
    let scan = read(
        "triggers:\n  - dag_id: a\n    queue: [q]\n  - {dag_id: b, queu: q}\n  - {queue: q}\n  - just a text\n  - {dag_id: c, queue: q, \
         queue: r}\n  - {dag_id: [d], queue: q}\n  - {dag_id: e, queue: !secret q}\n  - {dag_id: a, dag_id: b, queue: q}\n  - \
         {dag_id: good, queue: q.good}\n",
    );
    assert_eq!(queues(&scan), ["q.good"]);
    let told: Vec<String> = scan.refusals.iter().map(ToString::to_string).collect();
    let expected = [
        "rmq_triggers.yaml:3:12: subscription of DAG \"a\" refused, `queue`: this has to be a string",
        "rmq_triggers.yaml:4:23: subscription of DAG \"b\" refused, `queu`: there is no such argument; did you mean `queue`?",
        "rmq_triggers.yaml:5:5: subscription refused, `dag_id`: no DAG is named",
        "rmq_triggers.yaml:6:5: subscription refused: this has to be a mapping with `dag_id`, and it is a string",
        "rmq_triggers.yaml:7:34: subscription of DAG \"c\" refused, `queue`: the argument is given twice",
        "rmq_triggers.yaml:8:14: subscription refused, `dag_id`: this has to be a string, and it is a list",
        "rmq_triggers.yaml:9:24: subscription of DAG \"e\" refused, `queue`:",
        "rmq_triggers.yaml:10:5: subscription refused, `dag_id`: the argument is given twice",
    ];
    assert_eq!(told.len(), expected.len(), "{told:#?}");
    for (told, expected) in told.iter().zip(expected) {
        assert!(told.starts_with(expected), "{told}\n{expected}");
    }
    let unknown = scan.refusals.iter().filter(|refusal| refusal.names == Names::Unknown).count();
    assert!(unknown >= 5, "{:#?}", scan.refusals);
}

#[test]
fn file_that_is_not_understood_as_a_whole_is_unreadable_with_its_line() {
    for (text, line, said) in [
        ("triggers:\n  - {dag_id: a\n", 3, "is not YAML"),
        ("triggers:\n\t- a\n", 2, "is not YAML"),
        ("trigers:\n  - {dag_id: a, queue: q}\n", 1, "\"trigers\""),
        ("triggers: []\nversion: 1\n", 2, "\"version\""),
        ("triggers: []\ntriggers: []\n", 2, "twice"),
        ("- dag_id: a\n", 1, "no `triggers:`"),
        ("{}\n", 1, "no `triggers:`"),
        ("triggers: text\n", 1, "no list"),
        ("triggers:\n  dag_id: a\n", 2, "no list"),
        ("triggers: []\n---\ntriggers: []\n", 2, "second document"),
        ("triggers:\n- dag_id: a\n  queue: *b\n", 3, "is not YAML"),
    ] {
        let scan = read(text);
        assert_eq!((scan.declarations.len(), scan.refusals.len(), scan.unreadable.len()), (0, 0, 1), "{text}");
        let problem = &scan.unreadable[0];
        assert_eq!((problem.kind, problem.line), (FileProblemKind::Syntax, Some(line)), "{text} {problem}");
        assert!(problem.text.contains(said), "{problem}");
        assert_eq!((scan.listed, scan.readable), (1, 0));
    }
}

#[test]
fn file_without_entries_declares_nothing() {
    for text in ["", "# nothing yet\n", "---\n", "triggers:\n", "triggers: []\n", "\u{feff}triggers: []\r\n"] {
        let scan = read(text);
        assert_eq!(scan, Scan { listed: 1, readable: 1, ..Scan::default() }, "{text:?}");
    }
}

#[test]
fn anchors_are_shared_and_a_bomb_of_them_is_refused() {
    let shared = "triggers:\n- {dag_id: a, queue: a, conn_id: &conn other}\n- {dag_id: b, queue: b, conn_id: *conn}\n";
    assert_eq!(read(shared).declarations[1].conn_id.as_str(), "other");
    let mut bomb = "triggers:\n- &x0 [a, a, a, a, a, a, a, a, a, a]\n".to_owned();
    for level in 1..30 {
        let aliases = vec![format!("*x{}", level - 1); 10].join(", ");
        bomb.push_str(&format!("- &x{level} [{aliases}]\n"));
    }
    assert_eq!(read(&bomb).unreadable[0].kind, FileProblemKind::TooLarge);
    let deep = format!("triggers:\n- {}{}\n", "[".repeat(90), "]".repeat(90));
    assert_eq!(read(&deep).unreadable[0].kind, FileProblemKind::TooDeep);
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("rmq_triggers.yaml"), b"triggers:\n- {dag_id: \xff}\n").unwrap();
    let scan = scan(folder.path()).unwrap();
    assert_eq!((scan.unreadable[0].kind, scan.unreadable[0].line), (FileProblemKind::Encoding, Some(2)));
}

#[test]
fn the_same_subscription_in_yaml_and_python_is_declared_once() {
    let folder = TempDir::new().unwrap();
    write(folder.path(), "a.py", &dag_file("a", "q"));
    write(folder.path(), "rmq_triggers.yaml", "triggers:\n- {dag_id: a, queue: q}\n");
    let mut scanner = Scanner::new(folder.path());
    let scan = scanner.scan().unwrap();
    assert_eq!(origins(&scan), ["a.py"]);
    assert!(scan.refusals[0].to_string().contains("declared at a.py:4:"), "{}", scan.refusals[0]);
    fs::remove_file(folder.path().join("a.py")).unwrap();
    assert_eq!(origins(&scanner.scan().unwrap()), ["rmq_triggers.yaml"]);
}
