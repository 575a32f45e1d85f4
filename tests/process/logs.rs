//! Rows 31 and 32: a standard output that is stalled, closed or full holds up neither the loop nor the exit.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::path::Path;

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::signal::Signal;

use crate::harness::{Exit, Run, eventually, open, proc, signal, watcher};

/// A pipe that takes not one byte more, with its ends.
pub(crate) fn full_pipe() -> (OwnedFd, OwnedFd) {
    let (reader, writer) = nix::unistd::pipe2(OFlag::O_CLOEXEC).unwrap();
    fcntl(&writer, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).unwrap();
    let mut filling = File::from(writer.try_clone().unwrap());
    while filling.write(&[b'.'; 4096]).is_ok() {}
    fcntl(&writer, FcntlArg::F_SETFL(OFlag::empty())).unwrap();
    (reader, writer)
}

/// How many rounds the flooding loop has done.
fn rounds(file: &Path) -> u64 {
    std::fs::read_to_string(file).ok().and_then(|text| text.trim().parse().ok()).unwrap_or_default()
}

/// Waits until the loop has done some more rounds than it has now.
fn loop_goes_on(file: &Path) {
    let now = rounds(file);
    eventually("more rounds of the loop", || (rounds(file) > now + 20).then_some(()));
}

#[test]
fn row_31_stalled_standard_output_holds_up_neither_loop_nor_exit() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("rounds");
    let mut command = watcher("log_flood");
    command.env("RMQ_WATCHER_TEST_FILE", &file);
    let (reader, writer) = full_pipe();
    let run = Run::start_with(command, |command, log| {
        command.stdout(writer).stderr(open(log));
    })
    .announce(&["log.abandoned"]);
    loop_goes_on(&file);
    // More than the queue holds has been logged by now, or will be soon.
    eventually("a full queue", || (rounds(&file) > 100).then_some(()));
    assert!(proc::is_alive(run.pid));
    signal(run.pid, Signal::SIGTERM);
    assert_eq!(run.exit(), Exit::Code(0));
    run.line(&format!("RMQ Watcher process {}: logging did not shut down within 2s — exiting without it", run.pid));
    drop(reader);
}

#[test]
fn row_31_stall_that_ends_lets_the_log_flow_again_and_counts_what_was_lost() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("rounds");
    let mut command = watcher("log_flood");
    command.env("RMQ_WATCHER_TEST_FILE", &file);
    let (reader, writer) = full_pipe();
    let run = Run::start_with(command, |command, log| {
        command.stdout(writer).stderr(open(log));
    });
    eventually("a full queue", || (rounds(&file) > 100).then_some(()));
    let mut stdout = File::from(reader);
    let mut text = Vec::new();
    let mut part = [0; 65_536];
    while !String::from_utf8_lossy(&text).contains("event=log.dropped") {
        let count = stdout.read(&mut part).unwrap();
        assert!(count > 0, "the watcher ended");
        text.extend_from_slice(&part[..count]);
        let keep = text.len().saturating_sub(200_000);
        text.drain(..keep);
    }
    let text = String::from_utf8_lossy(&text).into_owned();
    let line = text.lines().find(|line| line.contains("event=log.dropped")).unwrap();
    assert!(line.contains("WARNING - RMQ Watcher log: "), "{line}");
    assert!(line.contains(" lines were lost because standard output did not take them"), "{line}");
    drop(run);
}

#[test]
fn row_32_closed_standard_output_does_not_end_the_watcher() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("rounds");
    let mut command = watcher("log_flood");
    command.env("RMQ_WATCHER_TEST_FILE", &file);
    let (reader, writer) = nix::unistd::pipe2(OFlag::O_CLOEXEC).unwrap();
    drop(reader);
    let run = Run::start_with(command, |command, log| {
        command.stdout(writer).stderr(open(log));
    });
    loop_goes_on(&file);
    signal(run.pid, Signal::SIGTERM);
    assert_eq!(run.exit(), Exit::Code(0));
    assert_eq!(run.text(), "");
}

#[test]
fn row_32_full_disk_under_both_outputs_does_not_end_the_watcher() {
    for fault in ["log_flood", "panic", "fail_preparation"] {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("rounds");
        let mut command = watcher(fault);
        command.env("RMQ_WATCHER_TEST_FILE", &file);
        let run = Run::start_with(command, |command, _| {
            let full = || OpenOptions::new().write(true).open("/dev/full").unwrap();
            command.stdout(full()).stderr(full());
        });
        if fault == "log_flood" {
            loop_goes_on(&file);
            signal(run.pid, Signal::SIGTERM);
            assert_eq!(run.exit(), Exit::Code(0));
        } else {
            assert_eq!(run.exit(), Exit::Code(1));
        }
    }
}

#[test]
fn row_32_line_goes_out_in_one_write() {
    let directory = tempfile::tempdir().unwrap();
    let trace = directory.path().join("trace");
    let mut command = std::process::Command::new("strace");
    command
        .args(["-f", "-e", "trace=write", "-s", "200", "-o"])
        .arg(&trace)
        .args([crate::harness::WATCHER.path(), "run", "--standalone"])
        .env("RMQ_WATCHER_TEST_LOOP", "idle");
    let run = Run::start(command);
    let line = run.line("started on its own");
    run.signal_group(Signal::SIGTERM);
    assert_eq!(run.exit(), Exit::Code(0));
    let writes = std::fs::read_to_string(&trace).unwrap();
    let of_line = writes.lines().filter(|write| write.contains("write(1, \"[")).count();
    assert_eq!(of_line, run.text().lines().count(), "{line}\n{writes}");
}
