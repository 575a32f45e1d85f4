//! Counting what an attempt could leave behind: lapin's threads and this process's sockets.
//!
//! A lapin connection that is dropped ends by itself, but its thread and with it its socket outlive the runtime of their test
//! by a moment, longer on a busy machine. Whoever counts while they last takes them for his own and never meets that count
//! again. So a test that counts waits first until the process is as it was before any test; this also catches what an
//! earlier test leaves for good.

use std::collections::HashSet;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

/// Threads of lapin and open sockets of this process. Sockets of the unix domain are left out: they are no connection's, but
/// tokio's, one for each runtime; and the runtime that `async-compat` makes for the whole process comes with whichever test
/// needs it first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Footprint {
    pub(crate) lapin_threads: usize,
    pub(crate) sockets: usize,
}

/// The process before any test, with what it was started with.
static AT_REST: LazyLock<Footprint> = LazyLock::new(footprint);

/// Takes down how the process is before any test; each test calls it before it makes anything.
pub(crate) fn note_rest() {
    LazyLock::force(&AT_REST);
}

/// Waits until nothing of earlier tests is left.
pub(crate) fn wait_for_rest() {
    let deadline = Instant::now() + Duration::from_secs(30);
    while footprint() != *AT_REST {
        let now = footprint();
        assert!(Instant::now() < deadline, "earlier tests leave {now:?}, where {:?} was before them", *AT_REST);
        crate::support::wait::pause(Duration::from_millis(20));
    }
}

pub(crate) fn footprint() -> Footprint {
    let lapin_threads = std::fs::read_dir("/proc/self/task")
        .unwrap()
        .filter(|t| {
            let comm = t.as_ref().unwrap().path().join("comm");
            std::fs::read_to_string(comm).is_ok_and(|c| c.starts_with("lapin"))
        })
        .count();
    let open: Vec<_> = std::fs::read_dir("/proc/self/fd")
        .unwrap()
        .filter_map(|f| std::fs::read_link(f.as_ref().unwrap().path()).ok())
        .filter_map(|goal| Some(goal.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned()))
        .collect();
    let table = std::fs::read_to_string("/proc/self/net/unix").unwrap();
    let local: HashSet<_> = table.lines().filter_map(|line| line.split_ascii_whitespace().nth(6)).collect();
    let sockets = open.iter().filter(|inode| !local.contains(inode.as_str())).count();
    Footprint { lapin_threads, sockets }
}

/// Waits until the footprint is what it was.
pub(crate) async fn no_growth(before: Footprint) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while footprint() != before {
        let now = footprint();
        assert!(Instant::now() < deadline, "{before:?} has become {now:?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
