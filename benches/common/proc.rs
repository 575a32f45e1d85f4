//! Readings of a running process from `/proc`. Source: proc(5), Linux 6.1.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

/// One look at a process.
#[derive(Clone, Debug, Default)]
pub struct Reading {
    /// `VmRSS`, `VmHWM` (the most that it ever was), `RssAnon`, `RssFile`, `Pss`, `Pss_Anon`, in KiB.
    pub kib: BTreeMap<&'static str, u64>,
    /// The threads that live now, by id and name.
    pub threads: BTreeMap<(i32, String), Thread>,
    /// Open descriptors.
    pub descriptors: usize,
}

/// What a thread has done since its start.
#[derive(Clone, Copy, Debug, Default)]
pub struct Thread {
    /// Its time on a processor, to the nanosecond.
    pub cpu: Duration,
    /// How often it slept and was woken.
    pub wakes: u64,
    /// How often it was taken off its processor.
    pub preempted: u64,
}

impl Reading {
    /// Takes it.
    ///
    /// # Panics
    /// When the process is gone.
    pub fn of(pid: i32) -> Self {
        let base = format!("/proc/{pid}");
        let mut reading = Self::default();
        let status = std::fs::read_to_string(format!("{base}/status")).expect("the process runs");
        let rollup = std::fs::read_to_string(format!("{base}/smaps_rollup")).unwrap_or_default();
        for (text, names) in
            [(&status, ["VmRSS", "VmHWM", "RssAnon", "RssFile"].as_slice()), (&rollup, &["Pss", "Pss_Anon"])]
        {
            reading.kib.extend(names.iter().filter_map(|name| Some((*name, number(text, name)?))));
        }
        for task in std::fs::read_dir(format!("{base}/task")).unwrap() {
            reading.add_thread(&task.unwrap().path());
        }
        reading.descriptors = std::fs::read_dir(format!("{base}/fd")).map_or(0, Iterator::count);
        reading
    }

    /// One of [`Reading::kib`] in MiB.
    pub fn mib(&self, name: &str) -> f64 {
        self.kib.get(name).copied().unwrap_or(0) as f64 / 1024.0
    }

    fn add_thread(&mut self, task: &Path) {
        // A thread may end between the listing and the look.
        let Ok(status) = std::fs::read_to_string(task.join("status")) else { return };
        let times = std::fs::read_to_string(task.join("schedstat")).unwrap_or_default();
        let on_cpu = times.split(' ').next().and_then(|text| text.parse().ok()).unwrap_or(0);
        let name = status.lines().find_map(|line| line.strip_prefix("Name:")).unwrap_or("?").trim();
        let id = task.file_name().and_then(|id| id.to_str()?.parse().ok()).unwrap_or(0);
        let thread = Thread {
            cpu: Duration::from_nanos(on_cpu),
            wakes: number(&status, "voluntary_ctxt_switches").unwrap_or(0),
            preempted: number(&status, "nonvoluntary_ctxt_switches").unwrap_or(0),
        };
        self.threads.insert((id, name.to_owned()), thread);
    }

    /// What its threads did since an earlier look, by name. What one did that has ended meanwhile is not known.
    pub fn since(&self, earlier: &Self) -> Vec<(String, Thread)> {
        let since = |(key, now): (&(i32, String), &Thread)| {
            let before = earlier.threads.get(key).copied().unwrap_or_default();
            let thread = Thread {
                cpu: now.cpu - before.cpu,
                wakes: now.wakes - before.wakes,
                preempted: now.preempted - before.preempted,
            };
            (key.1.clone(), thread)
        };
        self.threads.iter().map(since).collect()
    }
}

/// The number after `name:` at the begin of a line.
fn number(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Time on a processor of a process over its whole life, ended threads included, in steps of 10 ms.
///
/// # Panics
/// When the process is gone.
pub fn cpu_in_ticks(pid: i32) -> Duration {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("the process runs");
    let after_name = text.rsplit_once(')').unwrap().1;
    let fields: Vec<_> = after_name.split_whitespace().collect();
    // utime and stime are fields 14 and 15; what follows the name begins with field 3. USER_HZ is 100 on every Linux.
    let ticks: u64 = fields[11..13].iter().map(|ticks| ticks.parse::<u64>().unwrap()).sum();
    Duration::from_millis(ticks * 10)
}

/// The children of a process's main thread.
pub fn children(pid: i32) -> Vec<i32> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    text.split_whitespace().filter_map(|pid| pid.parse().ok()).collect()
}

/// How many transactions were ever committed to an SQLite file in WAL mode, by the counter in its `-shm` file. Reading it
/// takes no lock and disturbs nobody.
///
/// Source: sqlite.org/walformat.html, field `iChange` of the WAL index header, in the machine's own byte order.
///
/// # Panics
/// When the file is not open anywhere.
pub fn commits(database: &Path) -> u32 {
    let shm = format!("{}-shm", database.display());
    let bytes = std::fs::read(shm).expect("the database is open in WAL mode");
    u32::from_ne_bytes(bytes[8..12].try_into().unwrap())
}
