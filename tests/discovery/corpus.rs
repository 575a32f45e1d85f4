//! Every file of the corpus against what is written beside it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use rmq_watcher::discovery::{Scan, scan};
use rmq_watcher::domain::declaration::{Declaration, Names, Refusal};
use serde_json::{Value, json};

pub(crate) fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/dagfiles")
}

/// What is written beside the files, by the name of the file.
pub(crate) fn expected(folder: &Path, below: &Path, into: &mut BTreeMap<String, Value>) {
    for entry in fs::read_dir(below).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            expected(folder, &path, into);
        } else if path.extension().is_some_and(|extension| extension == "json") {
            let name = path.with_extension("py");
            let name = name.strip_prefix(folder).unwrap().to_str().unwrap();
            let text = fs::read_to_string(&path).unwrap();
            into.insert(name.to_owned(), serde_json::from_str(&text).unwrap());
        }
    }
}

/// What is declared, in the shape of the files beside them. Options at their defaults are left out, and so are none at all.
fn declaration(declared: &Declaration) -> Value {
    let mut shown = json!({
        "dag_id": declared.dag_id.as_str(),
        "queue": declared.queue.as_str(),
        "conn_id": declared.conn_id.as_str(),
        "line": declared.origin.line,
        "column": declared.origin.column,
    });
    let options = serde_json::to_value(&declared.options).unwrap();
    if options != json!({}) {
        shown["options"] = options;
    }
    shown
}

/// The subscriptions that a refusal names; `null` where nobody can know.
fn names(refused: &Refusal) -> Value {
    match &refused.names {
        Names::Keys(keys) => {
            keys.iter().map(|key| json!([key.dag_id.as_str(), key.queue.as_str(), key.conn_id.as_str()])).collect()
        }
        Names::Unknown => Value::Null,
    }
}

/// What the scan says of one file, in the shape of the files beside it.
fn found(scan: &Scan, file: &str) -> Value {
    let declared = scan.declarations.iter().filter(|declared| declared.origin.file == file);
    let declarations: Vec<Value> = declared.map(declaration).collect();
    let refusals: Vec<Value> = scan
        .refusals
        .iter()
        .filter(|refused| refused.origin.file == file)
        .map(|refused| {
            json!({
                "dag_id": refused.dag_id.as_ref().map(|id| id.as_str()),
                "parameter": refused.parameter,
                "reason": refused.reason.code(),
                "line": refused.origin.line,
                "column": refused.origin.column,
                "names": names(refused),
            })
        })
        .collect();
    let problem = scan.unreadable.iter().find(|problem| problem.file == file);
    let problem = problem.map(|problem| json!({"kind": problem.kind.code(), "line": problem.line}));
    json!({"declarations": declarations, "refusals": refusals, "problem": problem})
}

#[test]
fn corpus_files_are_read_as_written_beside_them() {
    let folder = corpus();
    let scan = scan(&folder).unwrap();
    let mut cases = BTreeMap::new();
    expected(&folder, &folder, &mut cases);
    assert!(cases.len() >= 130, "only {} cases found", cases.len());
    let mut wrong = Vec::new();
    for (file, case) in &cases {
        let want = json!({
            "declarations": case["declarations"],
            "refusals": case["refusals"],
            "problem": case["problem"],
        });
        let have = found(&scan, file);
        if want != have {
            wrong.push(format!("{file}\n  want {want}\n  have {have}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let hidden = cases.keys().filter(|name| name.starts_with('.')).count();
    assert_eq!(scan.listed, cases.len() - hidden);
}

#[test]
fn corpus_sentences_name_file_line_and_parameter() {
    let scan = scan(&corpus()).unwrap();
    for refusal in &scan.refusals {
        let text = refusal.to_string();
        assert!(text.starts_with(&refusal.origin.to_string()), "{text}");
        if let Some(parameter) = &refusal.parameter {
            assert!(text.contains(&format!("`{parameter}`")), "{text}");
        }
    }
    let text: Vec<String> = scan.unreadable.iter().map(ToString::to_string).collect();
    assert!(text.iter().any(|text| text.starts_with("problem_syntax.py:8: is not Python: ")), "{text:?}");
}
