//! Every file of the corpus as the DAG bags of real Airflow 2.11 and 3.3 see it.
//!
//! Where a file is accepted, each DAG that we declare a subscription for is one that Airflow has under just that id, or the
//! file beside it says which ids Airflow has instead, and why. The environments are named by `RMQ_TEST_AIRFLOW2_VENV` and
//! `RMQ_TEST_AIRFLOW3_VENV`; `./tests/run` prepares them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use rmq_watcher::discovery::scan;
use serde_json::Value;

use crate::corpus::{corpus, expected};

/// Imports every file by itself, and prints what each came to: its ids, or `null` for an import error.
const PROGRAM: &str = r#"
import contextlib, json, sys, warnings
from pathlib import Path
warnings.simplefilter("ignore")
corpus = Path(sys.argv[1])
sys.path.append(str(corpus))
sys.dont_write_bytecode = True
with contextlib.redirect_stdout(sys.stderr):
    try:
        from airflow.dag_processing.dagbag import DagBag
    except ImportError:
        from airflow.models.dagbag import DagBag
    found = {}
    for path in sorted(corpus.rglob("*.py")):
        bag = DagBag(dag_folder=str(path), safe_mode=False)
        found[path.relative_to(corpus).as_posix()] = None if bag.import_errors else sorted(bag.dags)
print(json.dumps(found))
"#;

fn bag(variable: &str) -> BTreeMap<String, Option<BTreeSet<String>>> {
    let venv = std::env::var_os(variable)
        .unwrap_or_else(|| panic!("{variable} is not set: run ./tests/run, which prepares Airflow"));
    let home = tempfile::TempDir::new().unwrap();
    let package = Path::new(env!("CARGO_MANIFEST_DIR")).join("packaging/python/airflow-rmq-watcher/src");
    let output = Command::new(PathBuf::from(venv).join("bin/python"))
        .args(["-c", PROGRAM])
        .arg(corpus())
        .env("PYTHONPATH", package)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("AIRFLOW_HOME", home.path())
        .env("AIRFLOW__CORE__LOAD_EXAMPLES", "False")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The ids that a file's expectation names for this version; `None` where it names no list of ids.
fn stated(case: &Value, version: &str) -> Option<BTreeSet<String>> {
    let stated = case.get(version).or_else(|| case.get("airflow"))?;
    serde_json::from_value(stated.clone()).ok()
}

fn check(variable: &str, version: &str) {
    let folder = corpus();
    let scan = scan(&folder).unwrap();
    let mut cases = BTreeMap::new();
    expected(&folder, &folder, &mut cases);
    let bag = bag(variable);
    let (mut compared, mut wrong) = (0, Vec::new());
    for (file, registered) in bag {
        let case = &cases[&file];
        let Some(registered) = registered else { continue };
        let declared = scan.declarations.iter().filter(|declared| declared.origin.file == file);
        let declared: BTreeSet<String> = declared.map(|declared| declared.dag_id.as_str().to_owned()).collect();
        let missing: BTreeSet<_> = declared.difference(&registered).collect();
        compared += declared.len();
        let is_explained = case["about"].is_string() && stated(case, version).as_ref() == Some(&registered);
        if !missing.is_empty() && !is_explained {
            wrong.push(format!("{file}: declared {declared:?}, registered {registered:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(compared >= 60, "only {compared} ids were compared");
}

#[test]
fn real_airflow_2_has_every_dag_that_is_declared() {
    check("RMQ_TEST_AIRFLOW2_VENV", "airflow2");
}

#[test]
fn real_airflow_3_has_every_dag_that_is_declared() {
    check("RMQ_TEST_AIRFLOW3_VENV", "airflow3");
}
