//! Nothing outlives the one who asked for it: the keeper, held to its word with processes that try to get away.

use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::support::eventually;

const KEEPER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/packaging/lib/keeper.py");

/// Ignores what can be ignored, detaches one child as a daemon does, says the daemon's PID and stays.
const RUNAWAY: &str = "trap '' TERM HUP INT; setsid sh -c 'sleep 1000 & echo $!' & wait; sleep 1000";

/// A keeper that watches a process, and the PID of the daemon below it.
fn keep(watched: &Child, folder: &Path) -> (Child, i32) {
    let mut keeper = Command::new("python3")
        .arg(KEEPER)
        .args(["--watch", &watched.id().to_string(), "--remove"])
        .arg(folder)
        .args(["--", "sh", "-c", RUNAWAY])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let stdout = keeper.stdout.take().unwrap();
    BufReader::new(stdout).read_line(&mut line).unwrap();
    (keeper, line.trim().parse().unwrap())
}

fn runs(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit(") ").next().unwrap_or_default();
    !state.is_empty() && !state.starts_with('Z')
}

fn sleeper() -> Child {
    Command::new("sleep").arg("1000").spawn().unwrap()
}

#[test]
fn daemon_ends_when_the_watched_process_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let work = folder.path().join("work");
    std::fs::create_dir(&work).unwrap();
    let mut watched = sleeper();
    let (mut keeper, daemon) = keep(&watched, &work);
    assert!(runs(daemon));
    watched.kill().unwrap();
    watched.wait().unwrap();
    eventually(Duration::from_secs(20), "the daemon is gone", || !runs(daemon));
    keeper.wait().unwrap();
    assert!(!work.exists(), "its folder is removed");
}

#[test]
fn daemon_ends_when_the_keeper_is_told_to_stop() {
    let folder = tempfile::tempdir().unwrap();
    let mut watched = sleeper();
    let (mut keeper, daemon) = keep(&watched, folder.path());
    let pid = Pid::from_raw(i32::try_from(keeper.id()).unwrap());
    kill(pid, Signal::SIGTERM).unwrap();
    // The command ignores SIGTERM, so this takes the keeper's grace of 10 s.
    eventually(Duration::from_secs(30), "the daemon is gone", || !runs(daemon));
    let status = keeper.wait().unwrap();
    assert_eq!((status.code(), status.signal()), (Some(137), None));
    watched.kill().unwrap();
    watched.wait().unwrap();
}

#[test]
fn keeper_ends_with_the_commands_exit_code() {
    let run = |script: &str| {
        let done = Command::new("python3").args([KEEPER, "--", "sh", "-c", script]).status();
        done.unwrap().code()
    };
    assert_eq!(run("exit 7"), Some(7));
    assert_eq!(run("kill -9 $$"), Some(137));
}
