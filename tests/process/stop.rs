//! Rows 9 to 11, 21 to 30 and 36 to 38: signals, refusals, preparation and the two deadlines.

use std::process::Command;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use crate::harness::{Exit, Run, WATCHER, eventually, launcher, proc, scheduler_script, signal, watcher};

/// SIGALRM.
const ALARM: i32 = 14;

#[test]
fn row_09_term_to_the_group_stops_the_watcher_within_its_loop() {
    let run = Run::start(launcher("", &["sh", "-c", &scheduler_script("0.3", 5)]));
    let watcher = run.started_watcher();
    run.line("ready");
    run.signal_group(Signal::SIGTERM);
    run.line("RMQ Watcher process received SIGTERM — stopping the watcher (sent by PID ");
    run.line("loop stopped");
    assert_eq!(run.exit(), Exit::Code(5));
    eventually("the watcher's end", || (!proc::is_alive(watcher)).then_some(()));
}

#[test]
fn row_09_term_to_the_watcher_alone_names_its_sender_and_ends_with_0() {
    let run = Run::start(launcher("", &["sleep", "600"]));
    let watcher = run.started_watcher();
    signal(watcher, Signal::SIGTERM);
    assert_eq!(Exit::of(watcher), Exit::Code(0));
    let line = run.line("received SIGTERM — stopping the watcher");
    assert!(line.contains(&format!("(sent by PID {}) event=stop.requested", std::process::id())), "{line}");
    run.line("event=loop.stopped");
    assert!(proc::is_alive(run.pid));
}

#[test]
fn row_10_int_stops_the_watcher() {
    let run = Run::start(launcher("", &["sleep", "600"]));
    let watcher = run.started_watcher();
    signal(watcher, Signal::SIGINT);
    assert_eq!(Exit::of(watcher), Exit::Code(0));
    run.line("RMQ Watcher process received SIGINT — stopping the watcher");
}

#[test]
fn row_11_more_signals_during_the_stop_change_nothing() {
    let run = Run::start(watcher("slow_stop"));
    let pid = run.started_watcher();
    signal(pid, Signal::SIGTERM);
    run.line("received SIGTERM");
    for again in [Signal::SIGTERM, Signal::SIGTERM, Signal::SIGINT] {
        signal(pid, again);
    }
    assert_eq!(Exit::of(pid), Exit::Code(0));
    assert_eq!(run.count("received"), 1);
    run.line("loop stopped");
}

#[test]
fn row_21_start_without_the_scheduler_s_pid_ends_with_2() {
    for value in [None, Some(""), Some("abc"), Some("-1"), Some("0"), Some("2147483648"), Some("99999999999999999999")]
    {
        let mut command = Command::new(WATCHER.path());
        command.arg("run").env_remove("RMQ_WATCHER_PARENT_PID");
        if let Some(value) = value {
            command.env("RMQ_WATCHER_PARENT_PID", value);
        }
        let run = Run::start(command).announce(&["start.refused"]);
        assert_eq!(run.exit(), Exit::Code(2), "{value:?}");
        run.line(&format!(
            "RMQ Watcher process {}: RMQ_WATCHER_PARENT_PID does not hold the scheduler's PID — not starting the watcher",
            run.pid
        ));
        let mut command = Command::new(WATCHER.path());
        command.args(["run", "--parent-pid", value.unwrap_or("x")]);
        let run = Run::start(command).announce(&["start.refused"]);
        assert_eq!(run.exit(), Exit::Code(2), "{value:?}");
        run.line("--parent-pid does not hold the scheduler's PID");
    }
}

#[test]
fn row_22_pid_of_another_process_counts_as_a_scheduler_that_is_gone() {
    let mut command = watcher("idle");
    command.env("RMQ_WATCHER_PARENT_PID", "1");
    let run = Run::start(command).announce(&["start.abandoned"]);
    assert_eq!(run.exit(), Exit::Code(0));
    run.line("the scheduler process 1 exited before the watcher started");
}

#[test]
fn row_23_term_during_hung_preparation_ends_it_at_once() {
    for (signal_name, name) in [(Signal::SIGTERM, "SIGTERM"), (Signal::SIGINT, "SIGINT")] {
        let (run, prepared) = hung_preparation(&[]);
        signal(run.pid, signal_name);
        assert_eq!(run.exit(), Exit::Code(0));
        run.line(&format!(
            "RMQ Watcher process {}: received {name} while the watcher was being prepared — exiting",
            run.pid
        ));
        drop(prepared);
    }
}

/// A watcher that hangs in its preparation, with `variables`; the directory holds the file that says so.
fn hung_preparation(variables: &[(&str, &str)]) -> (Run, tempfile::TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("preparing");
    let mut command = watcher("hang_preparation");
    command.env("RMQ_WATCHER_TEST_FILE", &file).envs(variables.iter().copied());
    let run = Run::start(command);
    eventually("the hung preparation", || file.exists().then_some(()));
    (run, directory)
}

#[test]
fn row_24_scheduler_s_death_during_preparation_ends_it_at_once() {
    for (switches, part) in [
        (&[][..], "received SIGTERM while the watcher was being prepared — exiting"),
        (&["RMQ_WATCHER_TEST_NO_PDEATHSIG"], "exited while the watcher was being prepared — exiting"),
        (
            &["RMQ_WATCHER_TEST_NO_PDEATHSIG", "RMQ_WATCHER_TEST_NO_PIDFD"],
            "exited while the watcher was being prepared — exiting",
        ),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("preparing");
        let mut command = launcher("", &["sleep", "600"]);
        command
            .env("RMQ_WATCHER_TEST_LOOP", "hang_preparation")
            .env("RMQ_WATCHER_TEST_FILE", &file)
            .envs(switches.iter().map(|name| (*name, "1")));
        let run = Run::start(command).announce(&["preparation.abandoned", "pdeathsig.refused"]);
        let watcher = run.watcher();
        eventually("the hung preparation", || file.exists().then_some(()));
        run.signal(Signal::SIGKILL);
        assert_eq!(run.exit(), Exit::Signal(9));
        assert_eq!(Exit::of(watcher), Exit::Code(0));
        run.line(part);
    }
}

#[test]
fn row_25_failing_preparation_ends_with_1() {
    let run = Run::start(watcher("fail_preparation")).announce(&["process.failed"]);
    assert_eq!(run.exit(), Exit::Code(1));
    run.line("RMQ Watcher process failed — exiting: a test asked the preparation to fail");
    assert_eq!(run.count("started for"), 0);
}

#[test]
fn row_26_loop_that_fails_ends_with_1() {
    for (fault, part) in [
        ("fail", "a test asked the loop to fail"),
        ("return", "it ended though nothing had asked for it"),
        ("panic", "it panicked: a test asked the loop to panic"),
        ("panic_stuck_blocking", "it panicked: a test asked the loop to panic"),
    ] {
        let run = Run::start(watcher(fault)).announce(&["loop.failed", "thread.panicked"]);
        assert_eq!(run.exit(), Exit::Code(1), "{fault}");
        run.line(&format!("RMQ Watcher loop failed — exiting: {part}"));
        assert_eq!(run.count("event=thread.panicked"), usize::from(fault.starts_with("panic")));
    }
}

#[test]
fn row_27_loop_that_ignores_the_stop_is_left_behind() {
    let mut command = watcher("ignore_stop");
    command.env("RMQ_WATCHER_TEST_LOOP_STOP_SECS", "1.5");
    let run = Run::start(command).announce(&["loop.abandoned"]);
    let pid = run.started_watcher();
    let begin = Instant::now();
    signal(pid, Signal::SIGTERM);
    assert_eq!(Exit::of(pid), Exit::Code(0));
    assert!(begin.elapsed() >= Duration::from_millis(1400), "{:?}", begin.elapsed());
    run.line(&format!("RMQ Watcher process {pid}: the loop is still running 1.5s after the stop — exiting without it"));
}

#[test]
fn row_28_stuck_blocking_task_does_not_hold_the_stop_up() {
    let run = Run::start(watcher("stuck_blocking"));
    let pid = run.started_watcher();
    signal(pid, Signal::SIGTERM);
    assert_eq!(Exit::of(pid), Exit::Code(0));
    run.line("loop stopped");
    assert_eq!(run.count("still running"), 0);
}

#[test]
fn row_29_hang_after_the_loop_is_ended_by_the_kernel() {
    let mut command = watcher("hang_close");
    command.env("RMQ_WATCHER_TEST_HARD_EXIT_SECS", "1.5");
    let run = Run::start(command);
    let pid = run.started_watcher();
    let begin = Instant::now();
    signal(pid, Signal::SIGTERM);
    assert_eq!(Exit::of(pid), Exit::Signal(ALARM));
    assert!(begin.elapsed() >= Duration::from_millis(1400), "{:?}", begin.elapsed());
    run.line("loop stopped");
}

#[test]
fn row_30_stalled_standard_error_on_the_way_out_is_ended_by_the_kernel() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("preparing");
    let mut command = watcher("hang_preparation");
    command.env("RMQ_WATCHER_TEST_FILE", &file).env("RMQ_WATCHER_TEST_HARD_EXIT_SECS", "1.5");
    let (_reader, writer) = crate::logs::full_pipe();
    let run = Run::start_with(command, |command, log| {
        command.stdout(crate::harness::open(log)).stderr(writer);
    });
    eventually("the hung preparation", || file.exists().then_some(()));
    let begin = Instant::now();
    signal(run.pid, Signal::SIGTERM);
    assert_eq!(run.exit(), Exit::Signal(ALARM));
    assert!(begin.elapsed() >= Duration::from_millis(1400), "{:?}", begin.elapsed());
    assert_eq!(run.text(), "");
}

#[test]
fn row_36_signals_meant_for_the_scheduler_leave_the_watcher_running() {
    let script = "trap : HUP QUIT USR1 USR2; echo ready; while :; do sleep 0.02; done";
    let run = Run::start(launcher("", &["sh", "-c", script]));
    let watcher = run.started_watcher();
    run.line("ready");
    for ignored in [Signal::SIGHUP, Signal::SIGQUIT, Signal::SIGUSR1, Signal::SIGUSR2] {
        run.signal_group(ignored);
    }
    // A marker behind them: the loop still runs and stops as it should.
    assert_eq!(proc::mask(watcher, "SigIgn") & 0xa05, 0xa05);
    assert_eq!(proc::mask(watcher, "SigBlk"), 0);
    assert!(proc::is_alive(watcher));
    signal(watcher, Signal::SIGTERM);
    run.line("loop stopped");
    assert_eq!(run.count("received"), 1);
    assert!(proc::is_alive(run.pid));
}

#[test]
fn row_37_stopped_scheduler_is_not_a_dead_one() {
    let run = Run::start(launcher("", &["sleep", "600"]));
    let watcher = run.started_watcher();
    run.signal(Signal::SIGSTOP);
    eventually("the stopped scheduler", || (proc::state(run.pid)? == 'T').then_some(()));
    // Longer than one tick of the watcher's own check.
    std::thread::sleep(Duration::from_millis(1300));
    run.signal(Signal::SIGCONT);
    assert!(proc::is_alive(watcher));
    assert_eq!(run.text().lines().count(), 2, "{}", run.text());
}

#[test]
fn row_38_watcher_that_was_stopped_meanwhile_leaves_once_it_runs_again() {
    let run = Run::start(launcher("", &["sleep", "600"])).announce(&["parent.exited"]);
    let watcher = run.started_watcher();
    signal(watcher, Signal::SIGSTOP);
    eventually("the stopped watcher", || (proc::state(watcher)? == 'T').then_some(()));
    run.signal(Signal::SIGKILL);
    assert_eq!(run.exit(), Exit::Signal(9));
    signal(watcher, Signal::SIGCONT);
    assert_eq!(Exit::of(watcher), Exit::Code(0));
    run.line("loop stopped");
}
