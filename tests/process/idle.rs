//! What an idle watcher costs: one wake-up a second, in one thread, and little memory.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::harness::{Run, proc, watcher};

/// Wake-ups so far (voluntary context switches) of each thread by name.
fn wakeups(pid: i32) -> BTreeMap<String, u64> {
    std::fs::read_dir(format!("/proc/{pid}/task"))
        .unwrap()
        .map(|thread| {
            let status = std::fs::read_to_string(thread.unwrap().path().join("status")).unwrap();
            let field = |name: &str| {
                let line = status.lines().find(|line| line.starts_with(name)).unwrap();
                line.split_ascii_whitespace().nth(1).unwrap().to_owned()
            };
            (field("Name:"), field("voluntary_ctxt_switches:").parse().unwrap())
        })
        .collect()
}

#[test]
fn idle_watcher_wakes_once_a_second_in_its_main_thread_only() {
    let run = Run::start(watcher("idle"));
    let pid = run.started_watcher();
    // The start's own work settles first: a full second without a wake-up of the loop.
    std::thread::sleep(Duration::from_secs(1));
    let before = wakeups(pid);
    let begin = Instant::now();
    std::thread::sleep(Duration::from_secs(3));
    let after = wakeups(pid);
    let ticks = begin.elapsed().as_secs();
    let woken: BTreeMap<&str, u64> = after.iter().map(|(name, count)| (name.as_str(), count - before[name])).collect();
    assert_eq!(woken["loop"], 0, "{woken:?}");
    assert_eq!(woken["log-writer"], 0, "{woken:?}");
    assert!((ticks - 1..=ticks + 1).contains(&woken["rmq-watcher"]), "{woken:?}");
    assert_eq!(woken.len(), 3, "{woken:?}");
    let resident = proc::status(pid, "VmRSS").unwrap();
    let kib: u64 = resident.trim_end_matches(" kB").parse().unwrap();
    assert!(kib < 20 * 1024, "{resident}");
}
