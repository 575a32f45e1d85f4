//! What is taken from Airflow's own settings: its address, its folders, its database, its interval.

use std::path::PathBuf;
use std::time::Duration;

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
    assert_eq!(settings.dags_folder, PathBuf::from("/srv/flows/100%"));
    assert_eq!(settings.state_dir, PathBuf::from("/srv/af/rmq-watcher"));
    let environment = [("AIRFLOW__CORE__DAGS_FOLDER", "~/dags"), ("AIRFLOW_HOME", "/af")];
    assert_eq!(load(&given(&environment, None, Some(cfg))).dags_folder, PathBuf::from("/home/me/dags"));
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

#[test]
fn airflows_variable_gives_the_budget_below_our_key() {
    let variable = "AIRFLOW_VAR_RMQ_WATCHER_CYCLE_TIMEOUT";
    let settings = load(&given(&[(variable, "1.5e2")], None, None));
    assert_eq!((settings.reconcile.timeout_variable.as_deref(), settings.warnings.len()), (Some("1.5e2"), 0));
    let settings = load(&given(&[(variable, "inf")], None, None));
    assert_eq!(settings.warnings.len(), 1);
    let settings = load(&given(&[(variable, "inf"), ("RMQ_WATCHER__RECONCILE__CYCLE_TIMEOUT_SECS", "7")], None, None));
    assert_eq!((settings.reconcile.configured.timeout, settings.warnings.len()), (Some(Duration::from_secs(7)), 0));
}
