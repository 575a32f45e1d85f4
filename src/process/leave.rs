//! The way out: alarm, stop, line, loop, log, and the sentences said on it.
//!
//! Invariants: the kernel's alarm is armed before the first line (rows 29 and 30 of `tests/process`); from then on the main
//! thread may block anywhere. Lines here go to the log, whose queue never blocks, but for the emergency lines: those are about
//! a loop or a log that may be stuck, and go straight to standard error.

use tokio::sync::watch;

use super::deadline::{self, Deadlines};
use super::loop_thread::{LoopEnd, LoopThread};
use super::parent::Parent;
use super::signals::{StopSignal, Stops};
use super::wait::{self, Reason};
use super::work::{Started, tell};
use super::{exit, raw};
use crate::config::log::LogLevel;
use crate::domain::shutdown::Phase;
use crate::telemetry::{LogHandle, events, line};

/// The process while it runs.
pub(super) struct Process {
    pub(super) stops: Stops,
    pub(super) parent: Parent,
    pub(super) thread: LoopThread,
    pub(super) phase: watch::Sender<Phase>,
    pub(super) started: Started,
    pub(super) log: LogHandle,
}

impl Process {
    /// The way out: alarm, stop, line, loop, log. Returns the exit code.
    pub(super) fn leave(&self, reason: Reason, deadlines: Deadlines) -> i32 {
        deadline::arm_hard_exit(deadlines.hard_exit);
        let code = match reason {
            Reason::LoopEnded(end) => {
                self.tell_failure(end);
                exit::FAILED
            }
            Reason::Stop(_) | Reason::ParentGone(_) if !self.started.is_marked() => {
                let (level, event, sentence) = self.interrupted(&reason);
                raw::stderr_line(line::WATCHER, level, event, &sentence);
                return exit::STOPPED;
            }
            Reason::Stop(_) | Reason::ParentGone(_) => self.stop_loop(&reason, deadlines),
        };
        if !self.log.flush(deadlines.log_flush) {
            self.emergency(
                events::LOG_ABANDONED,
                &format!(
                    "logging did not shut down within {}s — exiting without it",
                    deadlines.log_flush.as_secs_f64()
                ),
            );
        }
        code
    }

    /// Asks the loop to stop and waits for it.
    fn stop_loop(&self, reason: &Reason, deadlines: Deadlines) -> i32 {
        self.phase.send_replace(Phase::Stopping);
        let (level, event, sentence) = self.stopping(reason);
        tell(&self.log, level, event, &sentence);
        self.started.notify("STOPPING=1");
        match wait::for_the_loop(&self.thread, deadlines.loop_stop) {
            Some(LoopEnd::Returned) => {
                tell(&self.log, LogLevel::Info, events::LOOP_STOPPED, "RMQ Watcher process: loop stopped");
                exit::STOPPED
            }
            Some(end) => {
                self.tell_failure(end);
                exit::FAILED
            }
            None => {
                self.emergency(
                    events::LOOP_ABANDONED,
                    &format!(
                        "the loop is still running {}s after the stop — exiting without it",
                        deadlines.loop_stop.as_secs_f64()
                    ),
                );
                exit::STOPPED
            }
        }
    }

    fn stopping(&self, reason: &Reason) -> (LogLevel, &'static str, String) {
        match reason {
            Reason::Stop(signal) => (
                LogLevel::Info,
                events::STOP_REQUESTED,
                format!(
                    "RMQ Watcher process received {} — stopping the watcher ({})",
                    signal.name,
                    self.origin(*signal)
                ),
            ),
            Reason::ParentGone(now) => (
                LogLevel::Error,
                events::PARENT_EXITED,
                format!(
                    "RMQ Watcher process: the scheduler process {} has exited (parent is now {now}) — stopping the watcher",
                    self.parent.pid().unwrap_or_default()
                ),
            ),
            Reason::LoopEnded(_) => (LogLevel::Error, events::LOOP_FAILED, String::new()),
        }
    }

    fn interrupted(&self, reason: &Reason) -> (LogLevel, &'static str, String) {
        let own = std::process::id();
        match reason {
            Reason::Stop(signal) => (
                LogLevel::Info,
                events::PREPARATION_INTERRUPTED,
                format!(
                    "RMQ Watcher process {own}: received {} while the watcher was being prepared — exiting ({})",
                    signal.name,
                    self.origin(*signal)
                ),
            ),
            Reason::ParentGone(_) | Reason::LoopEnded(_) => (
                LogLevel::Error,
                events::PREPARATION_ABANDONED,
                format!(
                    "RMQ Watcher process {own}: the scheduler process {} exited while the watcher was being prepared — exiting",
                    self.parent.pid().unwrap_or_default()
                ),
            ),
        }
    }

    /// Who stopped us, as far as the kernel says: a parent-death signal carries the dying scheduler's PID.
    fn origin(&self, signal: StopSignal) -> String {
        let sender = match signal.sender {
            Some(0) => "sent from outside this PID namespace".to_owned(),
            Some(pid) => format!("sent by PID {pid}"),
            None => "sent by the kernel".to_owned(),
        };
        match self.parent.successor() {
            Some(now) => format!("{sender}; the scheduler process is gone, parent is now {now}"),
            None => sender,
        }
    }

    fn tell_failure(&self, end: LoopEnd) {
        let why = match end {
            LoopEnd::Returned => "it ended though nothing had asked for it".to_owned(),
            LoopEnd::Failed(error) => error,
            LoopEnd::Panicked(message) => format!("it panicked: {message}"),
        };
        let (event, what) = if self.started.is_marked() {
            (events::LOOP_FAILED, "RMQ Watcher loop failed — exiting")
        } else {
            (events::PROCESS_FAILED, "RMQ Watcher process failed — exiting")
        };
        tell(&self.log, LogLevel::Error, event, &format!("{what}: {why}"));
    }

    /// A line past the log, which the loop thread may have filled or whose reader may be stuck.
    fn emergency(&self, event: &str, what: &str) {
        let sentence = format!("RMQ Watcher process {}: {what}", std::process::id());
        raw::stderr_line(line::WATCHER, LogLevel::Error, event, &sentence);
    }
}
