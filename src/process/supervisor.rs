//! The watcher process from its first instruction to its exit code. [`supervise`] reads as the flow.
//!
//! The main thread waits from the first moment and does nothing else; all work, preparation included, runs in the loop thread.
//! So a stop or the scheduler's death is noticed at once however long the preparation takes, and no stuck code of ours can
//! keep the process alive.
//!
//! Invariants: the kernel's alarm is armed before the first line of the way out (rows 29 and 30 of `tests/process`); the
//! main thread takes no lock that the loop thread holds across anything that can hang; the loop thread is never joined.

use std::fmt::Display;
use std::future::Future;

use tokio::sync::watch;

use super::deadline::{self, Deadlines};
use super::leave::Process;
use super::loop_thread::{self, LoopThread};
use super::notify::Notifier;
use super::parent::{Parent, ParentSource};
use super::signals::{self, Stops};
use super::work::{Scheduler, Started, Work};
use super::{exit, faults, raw, wait};
use crate::config::log::LogLevel;
use crate::domain::shutdown::Phase;
use crate::telemetry::{self, LogHandle, events, line};

/// How to supervise.
#[derive(Clone, Debug)]
pub struct SupervisorOptions {
    /// Whose watcher this is.
    pub parent: ParentSource,
    /// The bounds of the way out, and the beat of the wait.
    pub deadlines: Deadlines,
}

impl SupervisorOptions {
    /// With the contract's deadlines.
    pub fn new(parent: ParentSource) -> Self {
        Self { parent, deadlines: Deadlines::from_environment() }
    }
}

/// Runs `work` in the loop thread until a stop signal, the scheduler's death or its own end, and returns the exit code.
///
/// To be called first thing in a process with one thread; the caller leaves with [`exit::leave`], because threads may still run.
/// `work` is called inside the loop thread, on a single-threaded runtime inside a `LocalSet`.
pub fn supervise<F, Fut, E>(options: SupervisorOptions, work: F) -> i32
where
    F: FnOnce(Work) -> Fut + Send + 'static,
    Fut: Future<Output = Result<(), E>> + 'static,
    E: Display,
{
    let deadlines = options.deadlines;
    let code = match set_up(&options, work) {
        Ok(mut process) => {
            let reason =
                wait::for_a_reason(&mut process.stops, &process.parent, &process.thread, deadlines.parent_check);
            process.leave(reason, deadlines)
        }
        Err(refused) => {
            deadline::arm_hard_exit(deadlines.hard_exit);
            raw::stderr_line(line::WATCHER, LogLevel::Error, refused.event, &refused.sentence);
            refused.code
        }
    };
    faults::on_the_way_out();
    code
}

/// Why there is nothing to run.
struct Refused {
    code: i32,
    event: &'static str,
    sentence: String,
}

/// Signals, parent, log, handlers, loop: in this order, each before what could need it.
fn set_up<F, Fut, E>(options: &SupervisorOptions, work: F) -> Result<Process, Refused>
where
    F: FnOnce(Work) -> Fut + Send + 'static,
    Fut: Future<Output = Result<(), E>> + 'static,
    E: Display,
{
    signals::take_over().map_err(|error| failed("take over signals", &error))?;
    let notifier = match options.parent {
        ParentSource::Standalone => Notifier::from_environment(),
        ParentSource::Environment | ParentSource::Argument(_) => None,
    };
    let parent = Parent::adopt(&options.parent).map_err(|refusal| Refused {
        code: refusal.exit_code(),
        event: refusal.event(),
        sentence: refusal.sentence(std::process::id()),
    })?;
    // The log's thread is started while the stop signals are blocked, so that it never runs their handlers.
    let log = LogHandle::start().map_err(|error| failed("start the log thread", &error))?;
    say_panics_in_the_log();
    let stops = Stops::listen().map_err(|error| failed("listen for signals", &error))?;
    let (phase, phase_seen) = watch::channel(Phase::Running);
    let started = Started::new(parent.pid(), notifier, log.clone());
    let scheduler = Scheduler(parent.pid());
    let handed_over = Work { phase: phase_seen, started: started.clone(), log: log.clone(), scheduler };
    let thread = LoopThread::spawn(move || async move {
        match faults::selected() {
            Some(fault) => fault.run(handed_over).await,
            None => work(handed_over).await.map_err(|error| error.to_string()),
        }
    })
    .map_err(|error| failed("start the loop thread", &error))?;
    Ok(Process { stops, parent, thread, phase, started, log })
}

fn failed(what: &str, error: &std::io::Error) -> Refused {
    Refused {
        code: exit::FAILED,
        event: events::PROCESS_FAILED,
        sentence: format!("RMQ Watcher process failed — exiting: could not {what}: {error}"),
    }
}

/// Panics go to the log like any other line. The default hook writes to standard error, and a stalled one would hold the
/// panicking thread for ever while no alarm is armed.
fn say_panics_in_the_log() {
    std::panic::set_hook(Box::new(|panic| {
        let thread = std::thread::current();
        let sentence = format!(
            "RMQ Watcher: the thread {} panicked at {}: {}",
            thread.name().unwrap_or("without a name"),
            panic.location().map(ToString::to_string).unwrap_or_default(),
            loop_thread::message_of(panic.payload())
        );
        if telemetry::is_installed() {
            tracing::error!(event = events::THREAD_PANICKED, "{sentence}");
        } else {
            raw::stderr_line_if_ready(line::WATCHER, LogLevel::Error, events::THREAD_PANICKED, &sentence);
        }
    }));
}
