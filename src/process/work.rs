//! What the supervisor and the loop share: the phase, the mark that preparation is done, and the log.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::watch;

use super::notify::Notifier;
use super::parent::getppid;
use crate::config::log::LogLevel;
use crate::domain::shutdown::Phase;
use crate::telemetry::{self, LogHandle, events, line};

/// What the loop is given.
#[derive(Debug)]
pub struct Work {
    /// Where the process stands; moves to [`Phase::Stopping`] once.
    pub phase: watch::Receiver<Phase>,
    /// To be marked when preparation is done.
    pub started: Started,
    /// What [`telemetry::init`] needs once the configuration is read.
    pub log: LogHandle,
    /// Whose watcher this is.
    pub scheduler: Scheduler,
}

/// The scheduler we belong to, for a look before each cycle. The main thread looks for itself, and ends the process.
#[derive(Clone, Copy, Debug)]
pub struct Scheduler(pub(super) Option<i32>);

impl Scheduler {
    /// Says so where the scheduler has exited.
    pub fn exited(self) -> Option<String> {
        let now = getppid();
        let pid = self.0.filter(|pid| *pid != now)?;
        Some(format!(
            "RMQ Watcher: the scheduler process {pid} has exited (parent is now {now}) — stopping the watcher"
        ))
    }
}

/// Says that preparation is done. Until then a stop exits at once: there is nothing to stop yet.
#[derive(Clone, Debug)]
pub struct Started {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    marked: AtomicBool,
    scheduler: Option<i32>,
    notifier: Option<Notifier>,
    log: LogHandle,
}

impl Started {
    pub(super) fn new(scheduler: Option<i32>, notifier: Option<Notifier>, log: LogHandle) -> Self {
        let inner = Inner { marked: AtomicBool::new(false), scheduler, notifier, log };
        Self { inner: Arc::new(inner) }
    }

    /// Preparation is done: logs the start and, stand-alone, tells the service manager. Later calls change nothing.
    pub fn mark(&self) {
        if self.inner.marked.swap(true, Ordering::SeqCst) {
            return;
        }
        let own = std::process::id();
        let sentence = match self.inner.scheduler {
            Some(pid) => {
                format!("RMQ Watcher process {own} started for the scheduler process {pid}")
            }
            None => {
                format!("RMQ Watcher process {own} started on its own, without a scheduler process")
            }
        };
        tell(&self.inner.log, LogLevel::Info, events::PROCESS_STARTED, &sentence);
        self.notify("READY=1");
    }

    pub(super) fn is_marked(&self) -> bool {
        self.inner.marked.load(Ordering::SeqCst)
    }

    /// Stand-alone, tells the service manager; beside a scheduler does nothing.
    pub(super) fn notify(&self, state: &str) {
        if let Some(Err(error)) = self.inner.notifier.as_ref().map(|notifier| notifier.send(state)) {
            let sentence = format!("RMQ Watcher process could not tell the service manager {state}: {error}");
            tell(&self.inner.log, LogLevel::Warn, events::NOTIFY_FAILED, &sentence);
        }
    }
}

/// Logs through the subscriber, or through the same queue in the same shape while there is none yet.
pub(super) fn tell(log: &LogHandle, level: LogLevel, event: &'static str, message: &str) {
    if !telemetry::is_installed() {
        log.push(line::text(line::now(), line::WATCHER, level, &format!("{message} event={event}")));
        return;
    }
    match level {
        LogLevel::Error => tracing::error!(event, "{message}"),
        LogLevel::Warn => tracing::warn!(event, "{message}"),
        LogLevel::Info => tracing::info!(event, "{message}"),
        LogLevel::Debug => tracing::debug!(event, "{message}"),
        LogLevel::Trace => tracing::trace!(event, "{message}"),
    }
}
