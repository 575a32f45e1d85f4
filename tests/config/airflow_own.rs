//! What is taken from Airflow's own settings: its address, its folders, its database, its interval.

use std::path::PathBuf;
use std::time::Duration;

use rmq_watcher::config::dags::{DagFolders, DagRoot, IgnoreSyntax};

use crate::support::{CFG, given, load};

#[test]
fn the_url_follows_airflows_own_settings_in_order() {
    let cfg = "[core]\nexecution_api_server_url = http://exec:9000/execution/\n[api]\nbase_url = http://api:1/base/\n[webserver]\nbase_url = http://web:2\n";
    let without = |line: &str| cfg.replace(line, "");
    let url = |cfg: &str| load(&given(&[], None, Some(cfg))).airflow;
    assert_eq!(url(cfg).url, "http://exec:9000");
    assert_eq!(url(cfg).url_source, format!("[core] execution_api_server_url in {CFG}"));
    let cfg = without("execution_api_server_url = http://exec:9000/execution/\n");
    assert_eq!(url(&cfg).url, "http://api:1/base");
    let cfg = cfg.replace("base_url = http://api:1/base/\n", "base_url =\n");
    assert_eq!(url(&cfg).url, "http://web:2");
    let environment = [("AIRFLOW__API__BASE_URL", "$BASE/x"), ("BASE", "http://env")];
    assert_eq!(load(&given(&environment, None, Some(&cfg))).airflow.url, "http://env/x");
    let file = "[airflow]\nurl = \"http://ours/\"\n";
    assert_eq!(load(&given(&environment, Some(file), Some(&cfg))).airflow.url, "http://ours");
}

#[test]
fn an_odd_address_in_airflows_settings_is_passed_over_with_a_warning() {
    let environment = [("AIRFLOW__API__BASE_URL", "/relative"), ("AIRFLOW__WEBSERVER__BASE_URL", "http://w")];
    let settings = load(&given(&environment, None, None));
    assert_eq!(settings.airflow.url, "http://w");
    assert_eq!(settings.warnings.len(), 1);
    assert!(settings.warnings[0].contains("api.base_url"), "{:?}", settings.warnings);
}

#[test]
fn airflows_folders_are_expanded_and_interpolated() {
    let environment = [("AIRFLOW_HOME", "$ROOT/af"), ("ROOT", "/srv")];
    let cfg = "[DEFAULT]\nsub = flows\n[core]\ndags_folder = ${ROOT}/%(sub)s/100%%\n";
    let settings = load(&given(&environment, None, Some(cfg)));
    assert_eq!(settings.dags, DagFolders::one("/srv/flows/100%"));
    assert_eq!(settings.state_dir, PathBuf::from("/srv/af/rmq-watcher"));
    let environment = [("AIRFLOW__CORE__DAGS_FOLDER", "~/dags"), ("AIRFLOW_HOME", "/af")];
    assert_eq!(load(&given(&environment, None, Some(cfg))).dags, DagFolders::one("/home/me/dags"));
}

#[test]
fn requests_are_one_at_a_time_on_sqlite() {
    let conn = "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN";
    let in_flight = |environment: &[(&str, &str)]| {
        let settings = load(&given(environment, None, None));
        (settings.airflow.max_in_flight, settings.warnings.len())
    };
    let ours = ("RMQ_WATCHER__AIRFLOW__MAX_IN_FLIGHT", "4");
    assert_eq!(in_flight(&[(conn, "sqlite:////x.db")]), (1, 0));
    assert_eq!(in_flight(&[(conn, "sqlite:////x.db"), ours]), (1, 1));
    assert_eq!(in_flight(&[(conn, "postgresql://u:p@h/d")]), (8, 0));
    assert_eq!(in_flight(&[(conn, "postgresql://u:p@h/d"), ours]), (4, 0));
    assert_eq!(in_flight(&[("AIRFLOW__CORE__SQL_ALCHEMY_CONN", "mysql://h")]), (8, 0));
    assert_eq!(in_flight(&[("AIRFLOW__DATABASE__SQL_ALCHEMY_CONN_CMD", "cat /x")]), (8, 0));
    assert_eq!(in_flight(&[ours]), (4, 0));
}

#[test]
fn airflows_variable_gives_the_interval_with_the_seeds_rejections() {
    let variable = "AIRFLOW_VAR_RMQ_WATCHER_RECONCILE_INTERVAL";
    let load_with = |text: &str| load(&given(&[(variable, text)], None, None));
    for (text, secs) in [("5", 5), (" 5 ", 5), ("+1_0", 10)] {
        let settings = load_with(text);
        assert_eq!((settings.reconcile.interval, settings.warnings.len()), (Duration::from_secs(secs), 0), "{text}");
    }
    for text in ["60.5", "0", "-1", "inf", "", "abc", "99999999999"] {
        let settings = load_with(text);
        assert_eq!((settings.reconcile.interval, settings.warnings.len()), (Duration::from_secs(60), 1), "{text}");
    }
    let settings = load(&given(&[(variable, "0"), ("RMQ_WATCHER__RECONCILE__INTERVAL_SECS", "7")], None, None));
    assert_eq!((settings.reconcile.interval, settings.warnings.len()), (Duration::from_secs(7), 0));
}

const LOCAL: &str = "airflow.dag_processing.bundles.local.LocalDagBundle";

/// Settings with this list of bundles, in which `LOCAL` stands for the class of local ones.
fn bundled(list: &str) -> rmq_watcher::config::Settings {
    let list = list.replace("LOCAL", LOCAL);
    load(&given(&[("AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST", &list)], None, Some("[core]\ndags_folder = /d\n")))
}

#[test]
fn every_local_bundle_of_airflow_3_is_a_folder_and_each_other_one_is_a_warning() {
    let settings = bundled(
        r#"[{"name": "a", "classpath": "LOCAL", "kwargs": {}}, {"name": "b", "classpath": "LOCAL", "kwargs": {"path": "/b"}},
            {"name": "c", "classpath": "LOCAL", "kwargs": {"path": null, "refresh_interval": 9}, "team_name": null},
            {"name": "g", "classpath": "airflow.providers.git.bundles.git.GitDagBundle", "kwargs": {"repo_url": "https://u:S3CRET@h"}}]"#,
    );
    let root = |bundle: &str, path: &str| DagRoot { bundle: bundle.to_owned(), path: PathBuf::from(path) };
    assert_eq!(settings.dags.roots, [root("a", "/d"), root("b", "/b"), root("c", "/d")]);
    assert_eq!(settings.dags.fault, None);
    assert_eq!(settings.warnings.len(), 1);
    assert!(settings.warnings[0].contains("\"g\"") && settings.warnings[0].contains("GitDagBundle"));
    let shown: Vec<String> = settings.effective().iter().map(|setting| setting.shown_value.clone()).collect();
    assert!(shown.contains(&"a=/d, b=/b, c=/d".to_owned()), "{shown:?}");
    assert!(!format!("{shown:?}{:?}", settings.warnings).contains("S3CRET"));
}

#[test]
fn a_list_of_bundles_that_names_no_folder_is_a_fault_and_never_an_empty_set() {
    for (list, said) in [
        ("[]", "no local bundle"),
        ("{}", "not a JSON list"),
        (r#"[{"name": "a", "classpath": "LOCAL", "kwargs": {"path": "S3CRET" }"#, "not a JSON list"),
        (r#"[{"name": "a", "classpath": "LOCAL"}]"#, "not a JSON list"),
        (r#"[{"name": "a", "classpath": "LOCAL", "kwargs": {"path": 5}}]"#, "is no path"),
        (r#"[{"name": "a", "classpath": "x.Git", "kwargs": {}}]"#, "no local bundle"),
        (
            r#"[{"name": "a", "classpath": "LOCAL", "kwargs": {}}, {"name": "a", "classpath": "LOCAL", "kwargs": {}}]"#,
            "twice",
        ),
    ] {
        let DagFolders { roots, fault, .. } = bundled(list).dags;
        let fault = fault.unwrap();
        assert!(fault.contains(said) && fault.contains("DAG_BUNDLE_CONFIG_LIST"), "{fault}");
        assert!(roots.is_empty() && !fault.contains("S3CRET"), "{fault}");
    }
}

#[test]
fn an_empty_dags_folder_is_a_fault_and_an_indirect_one_a_warning() {
    let empty = load(&given(&[("AIRFLOW__CORE__DAGS_FOLDER", "")], None, Some("[core]\ndags_folder = /d\n"))).dags;
    assert!(empty.roots.is_empty());
    assert!(empty.fault.unwrap().contains("AIRFLOW__CORE__DAGS_FOLDER) is empty"));
    let empty = load(&given(&[], None, Some("[core]\ndags_folder =\n"))).dags;
    assert!(empty.fault.unwrap().contains("is empty"));
    let indirect = load(&given(&[("AIRFLOW__CORE__DAGS_FOLDER_CMD", "cat /x")], None, None));
    assert_eq!(indirect.dags, DagFolders::one("/home/me/airflow/dags"));
    assert!(indirect.warnings[0].contains("not followed"), "{:?}", indirect.warnings);
}

#[test]
fn the_syntax_of_ignore_files_is_airflows_setting_or_left_to_its_version() {
    let syntax = |value: &str| {
        let settings = load(&given(&[("AIRFLOW__CORE__DAG_IGNORE_FILE_SYNTAX", value)], None, None));
        (settings.dags.ignore_syntax, settings.warnings.len())
    };
    assert_eq!(syntax("regexp"), (Some(IgnoreSyntax::Regexp), 0));
    assert_eq!(syntax("glob"), (Some(IgnoreSyntax::Glob), 0));
    assert_eq!(syntax(""), (None, 0));
    assert_eq!(syntax("globe"), (None, 1));
}
