//! Rows 12 to 18: the scheduler dies, in every way in which one of the three notices fails.

use nix::sys::signal::Signal;

use crate::harness::{Exit, Run, TEST_LOOP, WATCHER, eventually, launcher, number_after, proc};

/// Each takes one of the three notices out of play.
const NO_SIGNAL: (&str, &str) = ("RMQ_WATCHER_TEST_NO_PDEATHSIG", "1");
const NO_PIDFD: (&str, &str) = ("RMQ_WATCHER_TEST_NO_PIDFD", "1");
/// Takes the comparison of PIDs out of play, so that only signal or pidfd can have noticed.
const NO_CHECK: (&str, &str) = ("RMQ_WATCHER_TEST_PARENT_CHECK_SECS", "600");

#[test]
fn row_12_kill_9_scheduler_reaches_the_watcher_as_a_term() {
    let mut command = launcher("", &["sleep", "600"]);
    command.envs([NO_PIDFD, NO_CHECK]);
    let run = Run::start(command);
    let watcher = run.started_watcher();
    run.signal(Signal::SIGKILL);
    assert_eq!(run.exit(), Exit::Signal(9));
    assert_eq!(Exit::of(watcher), Exit::Code(0));
    let line = run.line("RMQ Watcher process received SIGTERM — stopping the watcher");
    assert!(
        line.contains(&format!(
            "(sent by PID {}; the scheduler process is gone, parent is now {})",
            run.pid,
            std::process::id()
        )),
        "{line}"
    );
    run.line("loop stopped");
}

#[test]
fn row_13_kill_9_scheduler_without_the_signal_is_noticed_by_the_pidfd() {
    killed_scheduler_is_noticed(&[NO_SIGNAL, NO_CHECK]);
}

#[test]
fn row_14_kill_9_scheduler_without_signal_and_pidfd_is_noticed_by_the_check() {
    killed_scheduler_is_noticed(&[NO_SIGNAL, NO_PIDFD]);
}

fn killed_scheduler_is_noticed(switches: &[(&str, &str)]) {
    let mut command = launcher("", &["sleep", "600"]);
    command.envs(switches.iter().copied());
    let run = Run::start(command).announce(&["pdeathsig.refused", "parent.exited"]);
    let watcher = run.started_watcher();
    run.line(&format!("RMQ Watcher process {watcher}: prctl(PR_SET_PDEATHSIG) failed: EPERM"));
    run.signal(Signal::SIGKILL);
    assert_eq!(run.exit(), Exit::Signal(9));
    assert_eq!(Exit::of(watcher), Exit::Code(0));
    run.line(&format!(
        "RMQ Watcher process: the scheduler process {} has exited (parent is now {}) — stopping the watcher",
        run.pid,
        std::process::id()
    ));
    run.line("loop stopped");
    assert_eq!(run.count("received"), 0);
}

#[test]
fn row_15_scheduler_that_had_dropped_its_uid_is_noticed_without_a_signal() {
    let drop_uid = ["setpriv", "--reuid", "65534", "--clear-groups", "sleep", "600"];
    let mut command = launcher("", &drop_uid);
    command.envs([NO_CHECK]);
    let run = Run::start(command).announce(&["parent.exited"]);
    let watcher = run.started_watcher();
    eventually("the dropped uid", || {
        (proc::read(run.pid, "comm")? == "sleep\n" && proc::status(run.pid, "Uid")?.starts_with("65534")).then_some(())
    });
    run.signal(Signal::SIGKILL);
    assert_eq!(run.exit(), Exit::Signal(9));
    assert_eq!(Exit::of(watcher), Exit::Code(0));
    run.line(&format!("the scheduler process {} has exited (parent is now", run.pid));
    assert_eq!(run.count("received"), 0);
}

#[test]
fn row_16_scheduler_that_ends_and_tells_nobody_takes_the_watcher_along() {
    for code in [0, 3] {
        let run = Run::start(launcher("", &["sh", "-c", &format!("echo ready; read line; exit {code}")]))
            .announce(&["start.abandoned", "preparation.abandoned"]);
        assert_eq!(run.exit(), Exit::Code(code));
        assert_eq!(Exit::of(run.watcher()), Exit::Code(0));
    }
}

#[test]
fn row_16_watcher_started_by_a_shell_beside_the_scheduler_needs_no_launcher() {
    for start in ["RMQ_WATCHER_PARENT_PID=$$ WATCHER run", "WATCHER run --parent-pid $$"] {
        let script = format!("{} & exec sleep 600", start.replace("WATCHER run", &format!("{WATCHER} run")));
        let mut command = std::process::Command::new("sh");
        command.args(["-c", &script]).env(TEST_LOOP, "idle");
        let run = Run::start(command);
        let watcher = run.started_watcher();
        assert_eq!(proc::parent(watcher), Some(run.pid));
        run.signal(Signal::SIGKILL);
        assert_eq!(run.exit(), Exit::Signal(9));
        assert_eq!(Exit::of(watcher), Exit::Code(0));
        run.line("loop stopped");
    }
}

#[test]
fn row_17_scheduler_gone_before_the_checks_is_said_and_ends_with_0() {
    // The subshell starts the watcher once its parent is gone, under the PID that it had.
    let script = format!(
        "export RMQ_WATCHER_PARENT_PID=$$; (while [ -d /proc/$$ ] && [ \"$(cut -d' ' -f3 /proc/$$/stat)\" != Z ]; do \
         sleep 0.02; done; exec {WATCHER} run) & echo \"watcher $!\""
    );
    let mut command = std::process::Command::new("sh");
    command.args(["-c", &script]);
    let run = Run::start(command).announce(&["start.abandoned"]);
    let watcher = number_after(&run.line("watcher "), "watcher ");
    assert_eq!(run.exit(), Exit::Code(0));
    assert_eq!(Exit::of(watcher), Exit::Code(0));
    run.line(&format!(
        "RMQ Watcher process {watcher}: the scheduler process {} exited before the watcher started",
        run.pid
    ));
}

#[test]
fn row_18_reused_pid_of_the_scheduler_is_not_taken_for_it() {
    // In a PID namespace of its own the next PID can be chosen: the scheduler dies, a stranger gets its number, then the
    // watcher starts with that number handed over.
    let script = format!(
        "sh -c 'echo $$ > \"$0/pid\"; (while [ ! -e \"$0/reused\" ]; do sleep 0.01; done; \
            RMQ_WATCHER_PARENT_PID=$(cat \"$0/pid\") {WATCHER} run; echo \"code $?\") & exit 0' \"$0\"; \
         pid=$(cat \"$0/pid\"); \
         echo $((pid - 1)) > /proc/sys/kernel/ns_last_pid; sleep 600 & \
         echo \"scheduler $pid stranger $!\"; touch \"$0/reused\"; wait"
    );
    let directory = tempfile::tempdir().unwrap();
    let mut command = std::process::Command::new("unshare");
    command.args(["--pid", "--fork", "--mount-proc", "--kill-child", "sh", "-c", &script]);
    command.arg(directory.path());
    let run = Run::start(command).announce(&["start.abandoned"]);
    let line = run.line("stranger");
    let scheduler = number_after(&line, "scheduler ");
    assert_eq!(number_after(&line, "stranger "), scheduler, "the kernel did not reuse the PID");
    run.line(&format!("the scheduler process {scheduler} exited before the watcher started"));
    run.line("code 0");
}
