//! `scan`: what it lists, refuses and explains, for people and for programs, without Airflow, broker or configuration.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::bench::assert_readable;
use crate::support::Setup;

const ORDERS: &str = "from airflow.sdk import dag\nfrom airflow_rmq_watcher import rmq_trigger\n\n\n\
                      @rmq_trigger(queue=\"orders\")\n@dag(schedule=None)\ndef orders():\n    pass\n";

const COMPUTED: &str = "from airflow.sdk import dag\nfrom airflow_rmq_watcher import rmq_trigger\n\n\n\
                        @rmq_trigger(queue=input())\n@dag(schedule=None)\ndef computed():\n    pass\n";

/// How `scan` ended and what it said.
struct Scanned {
    code: Option<i32>,
    out: String,
}

impl Scanned {
    /// With an environment that holds nothing at all, as in other people's CI.
    #[track_caller]
    fn bare(args: &[&str], folder: &Path) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rmq-watcher"));
        Self::of(command.arg("scan").args(args).env_clear().current_dir(folder))
    }

    #[track_caller]
    fn of(command: &mut Command) -> Self {
        let done = command.output().unwrap();
        assert_eq!(String::from_utf8_lossy(&done.stderr), "");
        let out = String::from_utf8(done.stdout).unwrap();
        assert!(!out.contains('\u{1b}'), "no colours but on a terminal: {out:?}");
        assert_readable(out.lines());
        Self { code: done.status.code(), out }
    }

    #[track_caller]
    fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap()
    }
}

fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    folder
}

#[test]
fn everything_declared_is_listed_with_its_place_and_what_is_not_default() {
    let yaml = "triggers:\n- dag_id: bills\n  queues: [eu, us]\n  conn_id: other\n  on_paused: run\n";
    let folder = folder(&[("team/orders.py", ORDERS), ("rmq_triggers.yaml", yaml), ("notes.txt", "")]);
    let scanned = Scanned::bare(&["."], folder.path());
    let expected = "Folder: .\n\n\
        DAG                            QUEUE                        CONNECTION\n\
        bills                          eu                           other\n    rmq_triggers.yaml:2:3\n    on_paused: \"run\"\n\
        bills                          us                           other\n    rmq_triggers.yaml:2:3\n    on_paused: \"run\"\n\
        orders                         orders                       rmq_default\n    team/orders.py:5:1\n\
        \n2 files, 2 of them read: 3 subscriptions, 0 refused, 0 unreadable.\n";
    assert_eq!((scanned.out.as_str(), scanned.code), (expected, Some(0)));
}

#[test]
fn refused_or_unreadable_ends_with_one_and_says_where_and_why() {
    let broken = "import rmq_trigger\ndef (:\n";
    for (files, said) in [
        (
            &[("good.py", ORDERS), ("computed.py", COMPUTED)][..],
            "\nREFUSED\ncomputed.py:5:20: subscription of DAG \"computed\" refused, `queue`: ",
        ),
        (&[("good.py", ORDERS), ("broken.py", broken)], "\nUNREADABLE\nbroken.py:2: is not Python: "),
        (&[("good.py", ORDERS), (".airflowignore", "a[b-a]c")], "\nUNREADABLE\n.airflowignore:1: "),
    ] {
        let folder = folder(files);
        let scanned = Scanned::bare(&["."], folder.path());
        assert!(scanned.out.contains(said), "{said}\n{}", scanned.out);
        assert!(scanned.out.contains("orders                         orders"), "{}", scanned.out);
        assert_eq!(scanned.code, Some(1));
    }
}

#[test]
fn explain_lists_every_file_with_its_verdict() {
    let files =
        [("a.py", ORDERS), ("b.py", "x = 1\n"), ("c/d.py", COMPUTED), ("e.py", ""), (".airflowignore", "# no\ne.py\n")];
    let folder = folder(&files);
    let scanned = Scanned::bare(&[".", "--explain"], folder.path());
    let expected = "\nFILES\na.py: declares 1\nb.py: nothing\nc/d.py: refused 1\ne.py: ignored by .airflowignore:2\n\n";
    assert!(scanned.out.contains(expected), "{}", scanned.out);
    assert!(!Scanned::bare(&["."], folder.path()).out.contains("FILES"));
}

#[test]
fn json_has_the_documented_shape() {
    let files = [
        ("a.py", ORDERS),
        ("b.py", COMPUTED),
        ("c.py", "import rmq_trigger\ndef (:\n"),
        (".airflowignore", "e.py"),
        ("e.py", ""),
    ];
    let folder = folder(&files);
    let scanned = Scanned::bare(&[".", "--json", "--explain"], folder.path());
    let (mut found, syntax) = (scanned.json(), scanned.json()["unreadable"][0]["sentence"].clone());
    assert!(syntax.as_str().unwrap().starts_with("c.py:2: is not Python: "), "{syntax}");
    let refused = found["refusals"][0]["sentence"].take();
    assert!(refused.as_str().unwrap().starts_with("b.py:5:20: subscription of DAG"), "{refused}");
    let why = found["files"][2]["reason"].take();
    assert!(why.as_str().unwrap().starts_with("line 2 is not Python: "), "{why}");
    let file = |file: &str, verdict: &str, declares: u32, refused: u32, reason: Value| json!({"file": file, "verdict": verdict, "declares": declares, "refused": refused, "reason": reason});
    assert_eq!(
        found,
        json!({
            "folders": ["."],
            "listed": 3,
            "readable": 2,
            "declarations": [{"file": "a.py", "line": 5, "column": 1, "dag_id": "orders", "queue": "orders",
                "conn_id": "rmq_default", "options": {}}],
            "refusals": [{"file": "b.py", "line": 5, "column": 20, "dag_id": "computed", "parameter": "queue",
                "code": "not_literal", "sentence": null}],
            "unreadable": [{"file": "c.py", "line": 2, "code": "syntax", "sentence": syntax}],
            "files": [
                file("a.py", "declares", 1, 0, Value::Null),
                file("b.py", "refused", 0, 1, Value::Null),
                file("c.py", "unreadable", 0, 0, Value::Null),
                file("e.py", "ignored", 0, 0, json!(".airflowignore:1")),
            ],
        })
    );
    assert_eq!(scanned.code, Some(1));
    assert!(Scanned::bare(&[".", "--json"], folder.path()).json().get("files").is_none());
}

#[test]
fn no_folder_and_wrong_usage_end_with_two() {
    let folder = folder(&[("file", "")]);
    for missing in ["nowhere", "file"] {
        let scanned = Scanned::bare(&[missing], folder.path());
        assert!(scanned.out.starts_with(&format!("cannot list the DAG folder {missing}: ")), "{}", scanned.out);
        assert_eq!((scanned.code, scanned.out.lines().count()), (Some(2), 1));
        let scanned = Scanned::bare(&[missing, "--json"], folder.path());
        assert_eq!((scanned.code, scanned.json()["errors"].as_array().unwrap().len()), (Some(2), 1));
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_rmq-watcher"));
    let done = command.args(["scan", "--explian"]).env_clear().output().unwrap();
    assert_eq!(done.status.code(), Some(2));
    let empty = Setup::in_folder(folder.path()).env("AIRFLOW__CORE__DAGS_FOLDER", "");
    let scanned = Scanned::of(&mut empty.command(&["scan"]));
    assert!(scanned.out.contains("AIRFLOW__CORE__DAGS_FOLDER) is empty"), "{}", scanned.out);
    assert_eq!(scanned.code, Some(2));
}

#[test]
fn without_a_folder_those_of_airflow_s_settings_are_scanned() {
    let folder = tempfile::tempdir().unwrap();
    let setup = Setup::in_folder(folder.path());
    setup.dag("orders", "orders", "rmq_default");
    let scanned = Scanned::of(&mut setup.command(&["scan", "--json"]));
    assert_eq!(scanned.json()["declarations"][0]["file"], "orders.py");
    let second = self::folder(&[
        ("bills.py", &ORDERS.replace("orders", "bills")),
        (".airflowignore", "b.*ls"),
        ("x.py", ORDERS),
    ]);
    let class = "airflow.dag_processing.bundles.local.LocalDagBundle";
    let bundles = json!([{"name": "main", "classpath": class, "kwargs": {}},
        {"name": "extra", "classpath": class, "kwargs": {"path": second.path()}}]);
    let setup = setup
        .env("AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST", &bundles.to_string())
        .env("AIRFLOW__CORE__DAG_IGNORE_FILE_SYNTAX", "regexp");
    let scanned = Scanned::of(&mut setup.command(&["scan", "--json", "--explain"]));
    let files: Vec<_> =
        scanned.json()["files"].as_array().unwrap().iter().map(|f| format!("{} {}", f["file"], f["verdict"])).collect();
    assert_eq!(
        files,
        ["\"extra:bills.py\" \"ignored\"", "\"extra:x.py\" \"declares\"", "\"main:orders.py\" \"refused\""]
    );
}

#[test]
fn configuration_that_lies_about_does_not_matter_and_one_that_is_named_does() {
    let folder = tempfile::tempdir().unwrap();
    let setup =
        Setup::in_folder(folder.path()).config("[nonsense]\nx = 1").env("AIRFLOW__CORE__DAGS_FOLDER", "/nowhere");
    setup.dag("orders", "orders", "rmq_default");
    let scanned = Scanned::of(&mut setup.command(&["scan", "dags"]));
    assert_eq!(scanned.code, Some(0), "{}", scanned.out);
    let named = Scanned::of(&mut setup.command(&["scan", "dags", "--config", "rmq-watcher.toml"]));
    assert!(named.out.contains("[nonsense]") && named.code == Some(2), "{}", named.out);
    let unnamed = Scanned::of(&mut setup.command(&["scan"]));
    assert!(unnamed.out.contains("[nonsense]") && unnamed.code == Some(2), "{}", unnamed.out);
}

#[test]
fn tables_fit_eighty_columns_and_leave_nothing_out() {
    let (dag, queue, conn) = ("d".repeat(250), "ж".repeat(127), "c".repeat(250));
    let yaml = format!(
        "triggers:\n- {{dag_id: {dag}, queue: {queue}, conn_id: {conn}}}\n- {{dag_id: b, queue: \"two\\nlines\\e[31m\"}}\n"
    );
    let place = format!("{}/{}", "long".repeat(20), "deep".repeat(20));
    let folder = folder(&[(&format!("{place}/rmq_triggers.yaml"), &yaml)]);
    let scanned = Scanned::bare(&["."], folder.path());
    assert_eq!(scanned.code, Some(0), "{}", scanned.out);
    assert!(scanned.out.lines().all(|line| line.chars().count() <= 80), "{}", scanned.out);
    let whole: String = scanned.out.split_whitespace().collect();
    for (name, times) in [("d", 250), ("ж", 127), ("c", 250)] {
        let found = whole.matches(name).count();
        assert!(found >= times, "{name}: {found}");
    }
    assert!(scanned.out.contains("two\\nlines\\u{1b}[31m"), "{}", scanned.out);
}
