//! `check` and the settings: every problem at once, nothing tried; where Airflow's address comes from; who reads the output.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use crate::bench::{Checked, SOON};
use crate::support::{Dialect, Setup, StubAirflow, What, eventually_some};

#[test]
fn all_wrong_settings_are_told_at_once_and_nothing_is_tried() {
    let stub = StubAirflow::start(Dialect::V2);
    let folder = tempfile::tempdir().unwrap();
    let setup = Setup::in_folder(folder.path())
        .stub(&stub)
        .config("[consume]\nprefetch = 0\nprefetsch = 5\n[nonsense]\nx = 1")
        .env("RMQ_WATCHER__LOG__LEVEL", "loud")
        .env("RMQ_WATCHER__AIRFLOW__PASSWORD_FILE", "relative/S3CRET-PLANT-path")
        .env("RMQ_WATCHER__AIRFLOW__USRNAME", "S3CRET-PLANT");
    let checked = Checked::of(&setup);
    let fails = checked.marked("FAIL");
    // Key, value where it may be shown, expected form, origin.
    for parts in [
        &["consume.prefetch", "is 0", "a whole number from 1 to 65535", "rmq-watcher.toml"][..],
        &["consume.prefetsch", "did you mean", "consume.prefetch", "rmq-watcher.toml"],
        &["nonsense", "rmq-watcher.toml"],
        &["log.level", "\"loud\"", "one of error, warn", "RMQ_WATCHER__LOG__LEVEL"],
        &["airflow.password_file", "an absolute path", "RMQ_WATCHER__AIRFLOW__PASSWORD_FILE"],
        &["RMQ_WATCHER__AIRFLOW__USRNAME", "did you mean RMQ_WATCHER__AIRFLOW__USERNAME"],
    ] {
        let told = fails.iter().filter(|line| parts.iter().all(|part| line.contains(part))).count();
        assert_eq!(told, 1, "{parts:?} in\n{}", checked.out);
    }
    assert_eq!(checked.code, Some(1));
    assert!(
        checked.out.ends_with(&format!("{} settings are wrong; nothing was tried\n", fails.len())),
        "{}",
        checked.out
    );
    assert!(!checked.out.contains("S3CRET-PLANT\""), "{}", checked.out);
    assert_eq!(stub.count(What::Any), 0);
}

#[test]
fn configuration_file_that_is_not_there_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let checked = Checked::with(&Setup::in_folder(folder.path()), &["--config", "/no/such/file.toml"]);
    let fails = checked.marked("FAIL");
    assert_eq!((checked.code, fails.len()), (Some(1), 1), "{}", checked.out);
    assert!(fails[0].contains("/no/such/file.toml") && fails[0].contains("cannot be read"), "{fails:?}");
    assert!(checked.out.ends_with("1 setting is wrong; nothing was tried\n"), "{}", checked.out);
}

#[test]
fn wrong_usage_ends_with_two() {
    let folder = tempfile::tempdir().unwrap();
    let done = Setup::in_folder(folder.path()).command(&["chekc"]).output().unwrap();
    assert_eq!(done.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&done.stderr).contains("check"), "it names what was meant");
}

/// Airflow's address is the first of the chain in `docs/configuration.md`; each entry is tried with all later ones wrong.
#[test]
fn airflow_address_is_the_first_of_its_chain() {
    let stub = StubAirflow::start(Dialect::V2);
    let (right, wrong) = (stub.url(), "http://127.0.0.1:9");
    let chain = [
        ("RMQ_WATCHER__AIRFLOW__URL", ""),
        ("AIRFLOW__CORE__EXECUTION_API_SERVER_URL", "/execution/"),
        ("AIRFLOW__API__BASE_URL", ""),
        ("AIRFLOW__WEBSERVER__BASE_URL", ""),
    ];
    for first in 0..chain.len() {
        let folder = tempfile::tempdir().unwrap();
        let mut setup = Setup::in_folder(folder.path())
            .env("RMQ_WATCHER__AIRFLOW__USERNAME", &stub.user())
            .env("RMQ_WATCHER__AIRFLOW__PASSWORD", &stub.password());
        for (index, (name, suffix)) in chain.iter().enumerate().skip(first) {
            let base = if index == first { &right } else { wrong };
            setup = setup.env(name, &format!("{base}{suffix}"));
        }
        let checked = Checked::of(&setup);
        assert_eq!(checked.code, Some(0), "{}", checked.out);
        let said = format!("answers at {right} (taken from environment variable {})", chain[first].0);
        assert!(checked.out.contains(&said), "{said} in\n{}", checked.out);
    }
}

#[test]
fn output_that_nobody_takes_ends_it_without_a_word() {
    let folder = tempfile::tempdir().unwrap();
    let mut command =
        Setup::in_folder(folder.path()).env("RMQ_WATCHER__AIRFLOW__URL", "http://127.0.0.1:9").command(&["check"]);
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let ended = eventually_some(SOON, "check has ended", || child.try_wait().unwrap());
    assert_eq!(ended.code(), Some(1));
    assert_eq!(BufReader::new(child.stderr.take().unwrap()).lines().count(), 0);
}
