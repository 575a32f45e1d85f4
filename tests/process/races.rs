//! Rows 19 and 20: kills and stops at every moment of the start, many times.

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use crate::harness::{Exit, Run, all_rounds, launcher, proc, signal};

/// Lines that a watcher may write when its scheduler dies while it starts.
const ANY_ENDING: [&str; 3] = ["start.abandoned", "preparation.abandoned", "parent.exited"];

#[test]
fn row_19_kill_9_at_random_moments_of_the_start_leaves_no_survivor() {
    let rounds = if all_rounds() { 660 } else { 60 };
    let seed = u64::from(std::process::id());
    let mut random = fastrand::Rng::with_seed(seed);
    let mut endings = [0_u32; 2];
    for round in 0..rounds {
        let switches: &[&str] = match round % 3 {
            0 => &[],
            1 => &["RMQ_WATCHER_TEST_NO_PIDFD"],
            _ => &["RMQ_WATCHER_TEST_NO_PDEATHSIG"],
        };
        let mut command = launcher("", &["sleep", "600"]);
        command.envs(switches.iter().map(|name| (*name, "1")));
        let run = Run::start(command).announce(&ANY_ENDING).announce(&["pdeathsig.refused"]);
        let begin = Instant::now();
        let wait = Duration::from_micros(random.u64(0..8000));
        while begin.elapsed() < wait {
            std::hint::spin_loop();
        }
        run.signal(Signal::SIGKILL);
        assert_eq!(run.exit(), Exit::Signal(9), "round {round}, seed {seed}");
        // Whoever had been forked by then has fallen to this process and is still in the session of its own.
        let left = proc::session_members(run.pid);
        for pid in &left {
            assert_eq!(Exit::of(*pid), Exit::Code(0), "round {round}, seed {seed}");
        }
        endings[usize::from(!left.is_empty())] += 1;
    }
    assert!(endings[1] > rounds / 4, "too few rounds met a watcher: {endings:?}, seed {seed}");
}

#[test]
fn row_20_term_right_after_the_fork_ends_with_0() {
    let rounds = if all_rounds() { 400 } else { 60 };
    for round in 0..rounds {
        let run = Run::start(launcher("", &["sleep", "600"]));
        let begin = Instant::now();
        let watcher = loop {
            if let Some(child) = proc::children(run.pid).first() {
                break *child;
            }
            assert!(begin.elapsed() < crate::harness::PATIENCE, "no watcher was forked");
        };
        signal(watcher, Signal::SIGTERM);
        assert_eq!(Exit::of(watcher), Exit::Code(0), "round {round}");
        assert_eq!(run.count("received SIGTERM"), 1, "round {round}");
    }
}
