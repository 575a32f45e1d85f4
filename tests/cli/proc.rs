//! The kernel's view of a process.

/// What a process holds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Held {
    pub(crate) threads: usize,
    pub(crate) descriptors: usize,
    pub(crate) rss_kib: u64,
}

impl Held {
    /// Of a living process.
    pub(crate) fn by(pid: i32) -> Self {
        let count = |what: &str| std::fs::read_dir(format!("/proc/{pid}/{what}")).unwrap().count();
        let rss_kib = status(pid, "VmRSS").and_then(|text| text.trim_end_matches(" kB").parse().ok());
        Self { threads: count("task"), descriptors: count("fd"), rss_kib: rss_kib.unwrap() }
    }

    /// The larger of each.
    pub(crate) fn max(self, other: Self) -> Self {
        Self {
            threads: self.threads.max(other.threads),
            descriptors: self.descriptors.max(other.descriptors),
            rss_kib: self.rss_kib.max(other.rss_kib),
        }
    }
}

/// A field of `/proc/<pid>/status`; `None` where the process is gone.
pub(crate) fn status(pid: i32, field: &str) -> Option<String> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':')).map(|value| value.trim().to_owned())
}

/// Whether a process runs or waits: neither gone nor a zombie.
pub(crate) fn lives(pid: i32) -> bool {
    status(pid, "State").is_some_and(|state| !state.starts_with(['Z', 'X']))
}

/// Its arguments, joined by spaces.
pub(crate) fn command_line(pid: i32) -> String {
    let bytes = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&bytes).replace('\0', " ").trim_end().to_owned()
}

/// The children of a process.
pub(crate) fn children(pid: i32) -> Vec<i32> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    text.split_ascii_whitespace().map(|pid| pid.parse().unwrap()).collect()
}
