//! Rows 1 to 8, 39, 41 and 42: the start, what the scheduler sees of it, and a watcher that cannot be started.

use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use crate::harness::{Exit, LAUNCHER, Run, TEST_LOOP, before_exec, eventually, launcher, proc, signal};

#[test]
fn row_01_start_makes_the_watcher_a_child_of_the_scheduler() {
    let run = Run::start(launcher("", &["sleep", "600"]));
    let watcher = run.watcher();
    assert_eq!(run.started_watcher(), watcher);
    assert_eq!(proc::parent(watcher), Some(run.pid));
    run.becomes("sleep");
    assert_eq!(proc::read(watcher, "cmdline").as_deref(), Some("rmq-watcher\0run\0"));
    assert!(run.line("started with PID").contains(&format!("(scheduler PID {})", run.pid)));
}

#[test]
fn row_01_config_flag_is_handed_on() {
    let run = Run::start(launcher("--config /etc/none.toml", &["sleep", "600"]));
    let watcher = run.started_watcher();
    assert_eq!(proc::read(watcher, "cmdline").as_deref(), Some("rmq-watcher\0run\0--config\0/etc/none.toml\0"));
}

#[test]
fn row_03_exit_code_is_the_scheduler_s() {
    for code in [0, 1, 3, 77, 255] {
        let run = Run::start(launcher("", &["sh", "-c", &format!("exit {code}")])).announce(&["start.abandoned"]);
        assert_eq!(run.exit(), Exit::Code(code));
    }
    for number in [9, 15, 6] {
        let run = Run::start(launcher("", &["sh", "-c", &format!("kill -{number} $$; sleep 5")]))
            .announce(&["start.abandoned"]);
        assert_eq!(run.exit(), Exit::Signal(number));
    }
}

/// A scheduler that prints its children and exits with 7.
const PRINT_CHILDREN: [&str; 3] = ["sh", "-c", "echo \"children: $(cat /proc/$$/task/$$/children | wc -w)\"; exit 7"];

fn assert_scheduler_ran_without_a_watcher(run: &Run, error: &str) {
    assert_eq!(run.exit(), Exit::Code(7));
    let line = run.line("RMQ Watcher process could not be started");
    assert!(line.contains(error), "{line}");
    // The shell's own command substitution is one of its children while cat reads the list.
    assert!(run.line("children:").ends_with("children: 1"), "{}", run.text());
    assert_eq!(run.count("started with PID"), 0);
}

#[test]
fn row_04_missing_watcher_is_named_and_the_scheduler_runs() {
    let run = Run::start(launcher("--watcher /nonexistent/rmq-watcher", &PRINT_CHILDREN)).announce(&["launch.failed"]);
    assert_scheduler_ran_without_a_watcher(&run, "ENOENT");
}

#[test]
fn row_04_watcher_is_looked_for_beside_the_launcher_and_on_path() {
    let alone = tempfile::tempdir().unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    let lone_launcher = alone.path().join("rmq-launcher");
    std::fs::copy(LAUNCHER.path(), &lone_launcher).unwrap();
    std::os::unix::fs::symlink(crate::harness::WATCHER.path(), elsewhere.path().join("rmq-watcher")).unwrap();
    let start = |path: String| {
        let mut command = Command::new(&lone_launcher);
        command.env(TEST_LOOP, "idle");
        command.arg("--").args(PRINT_CHILDREN).env("PATH", path);
        Run::start(command)
    };
    let run = start("/nonexistent:/usr/bin:/bin".to_owned()).announce(&["launch.failed"]);
    assert_scheduler_ran_without_a_watcher(&run, "ENOENT");
    let run = start(format!("/usr/bin:/bin:{}", elsewhere.path().display())).announce(&["start.abandoned"]);
    run.line("started with PID");
    assert_eq!(run.exit(), Exit::Code(7));
}

#[test]
fn row_05_file_that_cannot_be_executed_is_named_and_not_run_by_a_shell() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("watcher");
    let ran = directory.path().join("ran");
    for (mode, content, error) in [
        (0o644, "#!/bin/sh\n", "EACCES"),
        (0o755, "touch RAN\n", "ENOEXEC"),
        (0o755, "\u{7f}ELF garbage", "ENOEXEC"),
        (0o755, "#!/nonexistent/interpreter\n", "ENOENT"),
    ] {
        std::fs::write(&file, content.replace("RAN", &ran.display().to_string())).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
        let options = format!("--watcher {}", file.display());
        let run = Run::start(launcher(&options, &PRINT_CHILDREN)).announce(&["launch.failed"]);
        assert_scheduler_ran_without_a_watcher(&run, error);
    }
    assert!(!Path::new(&ran).exists());
}

#[test]
fn row_05_required_watcher_that_cannot_start_keeps_the_command_from_starting() {
    let run = Run::start(launcher("--require-watcher --watcher /nonexistent/w", &["echo", "ran"]))
        .announce(&["launch.failed"]);
    assert_eq!(run.exit(), Exit::Code(2));
    assert_eq!(run.count("ran"), 0);
}

#[test]
fn row_06_watcher_on_a_hung_file_system_holds_the_scheduler_up_for_two_seconds() {
    for (flag, expected) in [("", Exit::Code(7)), ("--require-watcher", Exit::Code(2))] {
        let hung = crate::kernel::HungFileSystem::mount();
        let options = format!("{flag} --watcher {}/rmq-watcher", hung.path().display());
        let begin = Instant::now();
        let run = Run::start(launcher(&options, &["sh", "-c", "exit 7"])).announce(&["launch.unconfirmed"]);
        assert_eq!(run.exit(), expected);
        assert!(begin.elapsed() >= Duration::from_millis(1900), "{:?}", begin.elapsed());
        assert!(run.line("not confirmed within 2s").contains("RMQ Watcher process"));
        assert_eq!(run.count("started with PID"), 0);
    }
}

#[test]
fn row_06_stalled_standard_error_does_not_keep_the_scheduler_from_starting() {
    for options in ["", "--watcher /nonexistent/w"] {
        let (_reader, writer) = crate::logs::full_pipe();
        let command = launcher(options, &["sh", "-c", "echo ran; exit 7"]);
        let run = Run::start_with(command, |command, log| {
            command.stdout(crate::harness::open(log)).stderr(writer);
        });
        assert_eq!(run.exit(), Exit::Code(7));
        run.line("ran");
    }
}

#[test]
fn row_07_command_that_cannot_start_gives_a_shell_s_codes_and_ends_the_watcher() {
    for (command, code, error) in [
        ("/nonexistent/command", 127, "ENOENT"),
        ("no-such-command-anywhere", 127, "ENOENT"),
        ("/etc/passwd", 126, "EACCES"),
    ] {
        let run = Run::start(launcher("", &[command])).announce(&[
            "command.failed",
            "start.abandoned",
            "preparation.abandoned",
            "parent.exited",
        ]);
        assert_eq!(run.exit(), Exit::Code(code));
        assert!(run.line("could not be started").contains(error));
        assert_eq!(Exit::of(run.watcher()), Exit::Code(0));
    }
}

#[test]
fn row_08_nested_launcher_starts_no_second_watcher() {
    let script = format!("{LAUNCHER} -- sleep 600; true");
    let nestings: [&[&str]; 3] = [
        &[LAUNCHER.path(), "--", "sleep", "600"],
        &["sh", "-c", &script],
        &["bash", "-c", &format!("bash -c '{script}'; true")],
    ];
    for nested in nestings {
        let run = Run::start(launcher("", nested));
        let watcher = run.started_watcher();
        let line = run.line("already started");
        assert!(line.contains(&format!("with PID {watcher} for the process {}", run.pid)), "{line}");
        eventually("the scheduler", || {
            let all = proc::descendants(run.pid).into_iter().chain([run.pid]);
            all.map(|pid| proc::read(pid, "comm")).find(|comm| comm.as_deref() == Some("sleep\n"))
        });
        let watchers = proc::descendants(run.pid)
            .into_iter()
            .filter(|pid| proc::read(*pid, "comm").is_some_and(|comm| comm == "rmq-watcher\n"))
            .collect::<Vec<_>>();
        assert_eq!(watchers, [watcher]);
    }
}

#[test]
fn row_08_stale_marker_does_not_keep_the_watcher_from_starting() {
    // An ancestor of ours that has no watcher; a process that is no ancestor; nonsense.
    for marker in [format!("{}:1", std::process::id()), "1:2".to_owned(), "x".to_owned()] {
        let mut command = launcher("", &["sleep", "600"]);
        command.env("RMQ_WATCHER_LAUNCHED", &marker);
        let run = Run::start(command);
        let watcher = run.started_watcher();
        run.becomes("sleep");
        let environment = proc::read(run.pid, "environ").unwrap();
        let markers: Vec<&str> =
            environment.split('\0').filter(|entry| entry.starts_with("RMQ_WATCHER_LAUNCHED")).collect();
        assert_eq!(markers, [format!("RMQ_WATCHER_LAUNCHED={}:{watcher}", run.pid)]);
    }
}

#[test]
fn row_08_scheduler_that_daemonizes_gets_a_line_and_no_watcher() {
    for flag in ["-D", "--daemon"] {
        let run = Run::start(launcher("", &["sh", "-c", "exit 4", "scheduler", flag])).announce(&["launch.refused"]);
        assert_eq!(run.exit(), Exit::Code(4));
        run.line("the scheduler leaves its process for the background");
        assert_eq!(run.count("started with PID"), 0);
    }
}

#[test]
fn row_39_watcher_killed_outright_stays_a_zombie_and_the_scheduler_runs_on() {
    let run = Run::start(launcher(
        "",
        &["sh", "-c", "trap 'exit 0' TERM; echo ready; while :; do sleep 0.02 & wait $!; done"],
    ));
    let watcher = run.started_watcher();
    run.line("ready");
    signal(watcher, Signal::SIGKILL);
    // dash collects children it never started when it waits for its own; either way nothing runs any more.
    eventually("the watcher's end", || (!proc::is_alive(watcher)).then_some(()));
    assert!(proc::is_alive(run.pid));
    run.signal(Signal::SIGTERM);
    assert_eq!(run.exit(), Exit::Code(0));
}

#[test]
fn row_39_dead_watcher_is_defunct_under_a_scheduler_that_never_waits() {
    let run = Run::start(launcher("", &["sleep", "600"]));
    let watcher = run.started_watcher();
    signal(watcher, Signal::SIGKILL);
    assert_eq!(Exit::of(watcher), Exit::Signal(9));
    assert_eq!(proc::state(watcher), Some('Z'));
    assert_eq!(proc::parent(watcher), Some(run.pid));
    assert!(proc::is_alive(run.pid));
}

#[test]
fn row_41_caller_s_descriptors_stay_out_of_the_watcher() {
    let extra = std::fs::File::open("/etc/hostname").unwrap();
    let fd = extra.as_raw_fd();
    let mut command = launcher("", &["sleep", "600"]);
    before_exec(&mut command, move || {
        crate::harness::copy_descriptor(fd, 77);
        Ok(())
    });
    let run = Run::start_with(command, |command, log| {
        command.stdout(crate::harness::open(log)).stderr(crate::harness::open(log));
        command.stdin(std::fs::File::open("/etc/passwd").unwrap());
    });
    let watcher = run.started_watcher();
    run.becomes("sleep");
    let of_scheduler = proc::descriptors(run.pid);
    assert_eq!(of_scheduler[&77], "/etc/hostname");
    assert_eq!(of_scheduler[&0], "/etc/passwd");
    let of_watcher = proc::descriptors(watcher);
    assert_eq!(of_watcher[&0], "/dev/null");
    assert!(of_watcher.values().all(|target| target != "/etc/hostname"), "{of_watcher:?}");
}

#[test]
fn row_41_watcher_s_environment_has_nothing_of_the_scheduler_s_own() {
    let mut command = launcher("", &["sleep", "600"]);
    command
        .env("NOTIFY_SOCKET", "/run/none")
        .env("LISTEN_FDS", "1")
        .env("LISTEN_PID", "1")
        .env("LD_PRELOAD", "")
        .env("KEPT", "1");
    let run = Run::start(command);
    let environment = proc::read(run.started_watcher(), "environ").unwrap();
    for name in ["NOTIFY_SOCKET=", "LISTEN_FDS=", "LISTEN_PID=", "LD_PRELOAD=", "RMQ_WATCHER_LAUNCHED="] {
        assert!(!environment.contains(name), "{name} in {environment}");
    }
    assert!(environment.contains("KEPT=1"));
    assert!(environment.contains(&format!("RMQ_WATCHER_PARENT_PID={}", run.pid)));
    run.becomes("sleep");
    let of_scheduler = proc::read(run.pid, "environ").unwrap();
    assert!(of_scheduler.contains("NOTIFY_SOCKET=/run/none"));
}

#[test]
fn row_42_shell_entrypoint_and_fork_storm_leave_the_watcher_running() {
    let script = "for n in $(seq 300); do /bin/true; done; (sleep 0.01 &); echo stormed; exec sleep 600";
    let run = Run::start(launcher("", &["bash", "-c", script]));
    let watcher = run.started_watcher();
    run.line("stormed");
    run.becomes("sleep");
    assert!(proc::is_alive(watcher));
    assert_eq!(proc::parent(watcher), Some(run.pid));
    assert_eq!(run.count("received"), 0);
}

#[test]
fn usage_is_printed_when_asked_for_and_named_when_wrong() {
    let answer = |words: &[&str]| Command::new(LAUNCHER.path()).args(words).output().unwrap();
    let help = answer(&["--help"]);
    assert_eq!(help.status.code(), Some(0));
    assert!(String::from_utf8_lossy(&help.stdout).contains("Usage: rmq-launcher [OPTIONS] -- CMD"));
    let version = answer(&["--version"]);
    let expected = format!("rmq-launcher {}\n", env!("CARGO_PKG_VERSION"));
    assert_eq!(String::from_utf8_lossy(&version.stdout), expected);
    let wrong = answer(&["airflow", "scheduler"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("put -- before the command"));
}
