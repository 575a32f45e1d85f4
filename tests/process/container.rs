//! Rows 36 and 43 to 46: real inits in PID namespaces, as containers end.
//!
//! Arrangement C (the launcher itself as the init that restarts the watcher) is not built, so its part of row 43 is not here;
//! the launcher as PID 1 that becomes the scheduler is.

use std::process::Command;

use nix::sys::signal::Signal;

use crate::harness::{Exit, LAUNCHER, Run, TEST_LOOP, WATCHER, eventually, proc, scheduler_script, signal};

/// `unshare … INIT COMMAND` in a new PID namespace.
fn container(words: &[&str]) -> Command {
    let mut command = Command::new("unshare");
    command.args(["--pid", "--fork", "--mount-proc", "--kill-child"]).args(words).env(TEST_LOOP, "idle");
    command
}

/// The PID outside of the namespace's PID 1.
fn init_of(run: &Run) -> i32 {
    eventually("the namespace's PID 1", || proc::children(run.pid).first().copied())
}

/// The PID outside of the watcher, once its loop runs.
fn watcher_of(run: &Run, init: i32) -> i32 {
    run.line("started for the scheduler process");
    eventually("the watcher's process", || {
        proc::descendants(init)
            .into_iter()
            .find(|pid| proc::read(*pid, "comm").is_some_and(|comm| comm == "rmq-watcher\n"))
    })
}

fn ended(pids: &[i32]) {
    eventually("the end of everything in the namespace", || pids.iter().all(|pid| !proc::is_alive(*pid)).then_some(()));
}

/// The inits, and whether they hand a stop to the whole group.
const INITS: [(&str, &[&str], &str, bool); 5] = [
    ("dumb-init, SETSID=1", &["dumb-init", "--"], "1", true),
    ("tini -g", &["tini", "-g", "--"], "1", true),
    ("dumb-init, SETSID=0", &["dumb-init", "--"], "0", false),
    ("tini", &["tini", "--"], "1", false),
    ("no init", &[], "1", false),
];

#[test]
fn row_43_container_code_is_the_scheduler_s_under_every_init() {
    for (name, init, setsid, to_the_group) in INITS {
        let script = scheduler_script("0.5", 5);
        let mut words = init.to_vec();
        words.extend([LAUNCHER.path(), "--", "sh", "-c", &script]);
        let mut command = container(&words);
        command.env("DUMB_INIT_SETSID", setsid);
        let run = Run::start(command);
        let init = init_of(&run);
        let watcher = watcher_of(&run, init);
        run.line("ready");
        let everything: Vec<i32> = proc::descendants(init).into_iter().chain([init]).collect();
        signal(init, Signal::SIGTERM);
        assert_eq!(run.exit(), Exit::Code(5), "{name}");
        ended(&everything);
        assert!(everything.contains(&watcher));
        if to_the_group {
            // Quicker than the scheduler, so the whole stop gets out.
            assert_eq!(run.count("received SIGTERM"), 1, "{name}");
            assert_eq!(run.count("event=loop.stopped"), 1, "{name}");
        } else {
            // The kernel ends the namespace with its PID 1; at most the first lines get out.
            assert!(run.count("received SIGTERM") <= 1, "{name}");
        }
    }
}

#[test]
fn row_36_dumb_init_hands_other_signals_to_the_group_and_the_watcher_runs_on() {
    let script = "trap 'echo dumped' USR2; trap : HUP QUIT USR1; echo ready; while :; do sleep 0.02; done";
    let mut command = container(&["dumb-init", "--", LAUNCHER.path(), "--", "sh", "-c", script]);
    command.env("DUMB_INIT_SETSID", "1");
    let run = Run::start(command);
    let init = init_of(&run);
    let watcher = watcher_of(&run, init);
    run.line("ready");
    for handed_on in [Signal::SIGUSR1, Signal::SIGQUIT, Signal::SIGHUP, Signal::SIGUSR2] {
        signal(init, handed_on);
    }
    run.line("dumped");
    assert!(proc::is_alive(watcher));
    assert_eq!(run.count("received"), 0);
}

#[test]
fn row_44_watcher_has_stopped_by_itself_before_a_deaf_scheduler_is_killed() {
    let script = "trap '' TERM; echo ready; while :; do sleep 0.02; done";
    let mut command = container(&["dumb-init", "--", LAUNCHER.path(), "--", "sh", "-c", script]);
    command.env("DUMB_INIT_SETSID", "1");
    let run = Run::start(command);
    let init = init_of(&run);
    let watcher = watcher_of(&run, init);
    run.line("ready");
    let everything: Vec<i32> = proc::descendants(init).into_iter().chain([init]).collect();
    signal(init, Signal::SIGTERM);
    run.line("loop stopped");
    ended(&[watcher]);
    assert!(proc::is_alive(init));
    signal(init, Signal::SIGKILL);
    run.exit();
    ended(&everything);
}

#[test]
fn row_45_kill_9_of_pid_1_leaves_nothing() {
    for init in [&["dumb-init", "--"][..], &["tini", "-g", "--"], &[]] {
        let mut words = init.to_vec();
        words.extend([LAUNCHER.path(), "--", "sleep", "600"]);
        let run = Run::start(container(&words));
        let init = init_of(&run);
        let watcher = watcher_of(&run, init);
        let everything: Vec<i32> = proc::descendants(init).into_iter().chain([init]).collect();
        assert!(everything.contains(&watcher));
        signal(init, Signal::SIGKILL);
        run.exit();
        ended(&everything);
        assert_eq!(run.count("loop stopped"), 0);
    }
}

#[test]
fn row_46_watcher_as_pid_1_with_its_parent_outside_is_refused() {
    let run = Run::start(container(&[WATCHER.path(), "run", "--parent-pid", "12345"])).announce(&["start.refused"]);
    assert_eq!(run.exit(), Exit::Code(2));
    run.line("does not hold the scheduler's PID — not starting the watcher");
}

#[test]
fn row_46_deadline_holds_for_a_watcher_that_is_pid_1() {
    // The kernel drops its own alarm's default action for PID 1, so a handler has to end the process: 128 + 14.
    let mut command = container(&[WATCHER.path(), "run", "--standalone"]);
    command.env("RMQ_WATCHER_TEST_LOOP", "hang_close").env("RMQ_WATCHER_TEST_HARD_EXIT_SECS", "0.5");
    let run = Run::start(command);
    run.line("started on its own");
    signal(init_of(&run), Signal::SIGTERM);
    assert_eq!(run.exit(), Exit::Code(142));
}
