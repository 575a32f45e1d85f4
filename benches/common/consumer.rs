//! Who is measured, and what a number of messages cost him.

use std::path::PathBuf;
use std::time::Duration;

use super::bare::Bare;
use super::proc;
use super::scene::Launched;

/// Who is measured.
pub enum Consumer {
    /// The built watcher.
    Watcher(Launched),
    /// The baseline.
    Bare(Bare),
}

impl Consumer {
    /// The process.
    pub fn pid(&mut self) -> i32 {
        match self {
            Self::Watcher(launched) => launched.watcher(),
            Self::Bare(bare) => bare.pid(),
        }
    }

    fn state_file(&self) -> Option<PathBuf> {
        match self {
            Self::Watcher(launched) => Some(launched.state_file()),
            Self::Bare(_) => None,
        }
    }
}

/// What a message cost.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cost {
    /// Microseconds of processor, the whole process.
    pub cpu_us: f64,
    /// Transactions of the state file.
    pub commits: Option<f64>,
}

/// Counters at the begin.
pub struct Meter {
    cpu: Duration,
    commits: Option<u32>,
}

impl Meter {
    /// Reads them.
    pub fn start(consumer: &mut Consumer) -> Self {
        let commits = consumer.state_file().map(|file| proc::commits(&file));
        Self { cpu: proc::cpu_in_ticks(consumer.pid()), commits }
    }

    /// What each of so many messages cost since then.
    pub fn read(&self, consumer: &mut Consumer, count: usize) -> Cost {
        let now = Self::start(consumer);
        let each = |total: f64| total / count as f64;
        let cpu_us = each((now.cpu - self.cpu).as_secs_f64() * 1e6);
        let commits = self.commits.zip(now.commits).map(|(before, after)| each(f64::from(after - before)));
        Cost { cpu_us, commits }
    }
}

/// The one in the middle, or the lower of two.
pub fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<_> = values.into_iter().collect();
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len().saturating_sub(1) / 2).copied().unwrap_or(f64::NAN)
}
