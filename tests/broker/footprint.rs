//! Counting what an attempt could leave behind: lapin's threads and this process's sockets.

use std::time::{Duration, Instant};

/// Threads of lapin and open sockets of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Footprint {
    pub(crate) lapin_threads: usize,
    pub(crate) sockets: usize,
}

pub(crate) fn footprint() -> Footprint {
    let lapin_threads = std::fs::read_dir("/proc/self/task")
        .unwrap()
        .filter(|t| {
            let comm = t.as_ref().unwrap().path().join("comm");
            std::fs::read_to_string(comm).is_ok_and(|c| c.starts_with("lapin"))
        })
        .count();
    let sockets = std::fs::read_dir("/proc/self/fd")
        .unwrap()
        .filter(|f| {
            std::fs::read_link(f.as_ref().unwrap().path()).is_ok_and(|l| l.to_string_lossy().starts_with("socket:"))
        })
        .count();
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
