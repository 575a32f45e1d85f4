//! Rows 33 to 35: signal state that survives exec and must not survive the watcher's start.

use std::time::{Duration, Instant};

use nix::sys::signal::{SigSet, SigmaskHow, Signal, pthread_sigmask};

use crate::harness::{Exit, Run, before_exec, proc, signal, watcher};

#[expect(unsafe_code, reason = "dispositions and timers of a child between fork and exec")]
fn ignore(signal: Signal) -> std::io::Result<()> {
    // SAFETY: no handler function is involved.
    unsafe { nix::sys::signal::signal(signal, nix::sys::signal::SigHandler::SigIgn) }?;
    Ok(())
}

#[expect(unsafe_code, reason = "dispositions and timers of a child between fork and exec")]
fn start_alarm(seconds: u32) {
    // SAFETY: a timer of the calling process.
    unsafe { libc::alarm(seconds) };
}

#[test]
fn row_33_inherited_alarm_does_not_hit_and_the_own_deadline_does() {
    for ignored_and_blocked in [false, true] {
        let mut command = watcher("hang_close");
        command.env("RMQ_WATCHER_TEST_HARD_EXIT_SECS", "1.5");
        before_exec(&mut command, move || {
            start_alarm(1);
            if ignored_and_blocked {
                ignore(Signal::SIGALRM)?;
                let mut mask = SigSet::empty();
                mask.add(Signal::SIGALRM);
                pthread_sigmask(SigmaskHow::SIG_BLOCK, Some(&mask), None)?;
            }
            Ok(())
        });
        let run = Run::start(command);
        let pid = run.started_watcher();
        // Past the moment at which the inherited alarm would have rung.
        std::thread::sleep(Duration::from_millis(1200));
        assert!(proc::is_alive(pid));
        let begin = Instant::now();
        signal(pid, Signal::SIGTERM);
        assert_eq!(Exit::of(pid), Exit::Signal(14));
        assert!(begin.elapsed() >= Duration::from_millis(1400), "{:?}", begin.elapsed());
    }
}

#[test]
fn row_33_pending_alarm_does_not_hit() {
    let mut command = watcher("idle");
    before_exec(&mut command, || {
        let mut mask = SigSet::empty();
        mask.add(Signal::SIGALRM);
        pthread_sigmask(SigmaskHow::SIG_BLOCK, Some(&mask), None)?;
        nix::sys::signal::raise(Signal::SIGALRM)?;
        Ok(())
    });
    let run = Run::start(command);
    let pid = run.started_watcher();
    signal(pid, Signal::SIGTERM);
    assert_eq!(Exit::of(pid), Exit::Code(0));
}

#[test]
fn row_34_signals_blocked_and_ignored_on_entry_still_stop_the_watcher() {
    for stop in [Signal::SIGTERM, Signal::SIGINT] {
        let mut command = watcher("idle");
        before_exec(&mut command, || {
            ignore(Signal::SIGTERM)?;
            ignore(Signal::SIGINT)?;
            pthread_sigmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::all()), None)?;
            Ok(())
        });
        let run = Run::start(command);
        let pid = run.started_watcher();
        assert_eq!(proc::mask(pid, "SigBlk"), 0);
        signal(pid, stop);
        assert_eq!(Exit::of(pid), Exit::Code(0));
        run.line(&format!("received {stop}"));
    }
}

#[test]
fn row_35_ignored_sigchld_on_entry_does_not_hide_a_child_s_status() {
    let mut command = watcher("child_status");
    before_exec(&mut command, || ignore(Signal::SIGCHLD));
    let run = Run::start(command);
    run.line("the child ended with Ok(ExitStatus(unix_wait_status(1792)))");
    signal(run.pid, Signal::SIGTERM);
    assert_eq!(run.exit(), Exit::Code(0));
}
