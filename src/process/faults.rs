//! Test-only: misbehaving loops and switched-off mechanisms, chosen by `RMQ_WATCHER_TEST_*`.
//!
//! The process tests run the built binaries, so what they need to go wrong has to be in the binaries. Everything of that kind
//! is in this one file, does nothing while the variables are unset, and is listed in `docs/operations.md`. Deadlines are
//! shortened by the same means (`seconds`).

use std::cell::Cell;
use std::io::Write;
use std::time::Duration;

use super::work::Work;
use crate::config::log::{LogFormat, LogLevel, LogSettings};
use crate::domain::shutdown::Phase;
use crate::telemetry;

/// A duration in seconds, fractions allowed, from a test-only variable.
pub(super) fn seconds(name: &str) -> Option<Duration> {
    let seconds: f64 = std::env::var(name).ok()?.parse().ok()?;
    Duration::try_from_secs_f64(seconds).ok()
}

/// Whether a test-only switch is set to `1`.
pub(super) fn is_switched_on(name: &str) -> bool {
    std::env::var(name).is_ok_and(|value| value == "1")
}

/// `RMQ_WATCHER_TEST_KILL_AT=NAME:N` ends the process by SIGKILL at the N-th passing of the arrow NAME of the data flow.
pub fn kill_at_arrow() -> Box<dyn Fn(&'static str)> {
    let wanted = std::env::var("RMQ_WATCHER_TEST_KILL_AT").ok();
    let Some((name, n)) = wanted.as_deref().and_then(|text| text.split_once(':')) else { return Box::new(|_| {}) };
    let (name, left) = (name.to_owned(), Cell::new(n.parse().unwrap_or(1_u32)));
    Box::new(move |arrow| {
        if arrow == name {
            left.set(left.get().saturating_sub(1));
            if left.get() == 0 {
                let _ = nix::sys::signal::raise(nix::sys::signal::Signal::SIGKILL);
            }
        }
    })
}

/// What `RMQ_WATCHER_TEST_LOOP` puts in place of the loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// Starts and then does nothing but wait for the stop, like a loop without subscriptions.
    Idle,
    /// Fails before it has started.
    FailPreparation,
    /// Never gets through its preparation and blocks its thread there.
    HangPreparation,
    /// Returns an error after it has started.
    Fail,
    /// Returns though nothing asked for it.
    Return,
    /// Panics after it has started.
    Panic,
    /// Panics while a blocking task never returns.
    PanicStuckBlocking,
    /// Starts, and blocks its thread without looking at the stop.
    IgnoreStop,
    /// Stops as asked while a blocking task never returns.
    StuckBlocking,
    /// Logs without a pause; writes the number of its rounds into `RMQ_WATCHER_TEST_FILE`.
    LogFlood,
    /// Runs `sh -c 'exit 7'` and logs the status.
    ChildStatus,
    /// Writes to `RMQ_WATCHER_TEST_FILE` from its own thread, which hangs where that file system does.
    WriteFile,
    /// Stops half a second after it was asked to.
    SlowStop,
    /// Stops as asked; then the main thread hangs on its way out.
    HangClose,
}

/// The fault that the environment asks for. An unknown name panics the loop, so that no test passes by a typing error.
pub(super) fn selected() -> Option<Fault> {
    let name = std::env::var("RMQ_WATCHER_TEST_LOOP").ok()?;
    Some(match name.as_str() {
        "idle" => Fault::Idle,
        "fail_preparation" => Fault::FailPreparation,
        "hang_preparation" => Fault::HangPreparation,
        "fail" => Fault::Fail,
        "return" => Fault::Return,
        "panic" => Fault::Panic,
        "panic_stuck_blocking" => Fault::PanicStuckBlocking,
        "ignore_stop" => Fault::IgnoreStop,
        "stuck_blocking" => Fault::StuckBlocking,
        "log_flood" => Fault::LogFlood,
        "child_status" => Fault::ChildStatus,
        "write_file" => Fault::WriteFile,
        "slow_stop" => Fault::SlowStop,
        "hang_close" => Fault::HangClose,
        unknown => panic!("RMQ_WATCHER_TEST_LOOP={unknown} is not a test loop"),
    })
}

/// Hangs the main thread after the loop has ended, where [`Fault::HangClose`] asks for it.
pub(super) fn on_the_way_out() {
    if std::env::var("RMQ_WATCHER_TEST_LOOP").is_ok_and(|name| name == "hang_close") {
        park_for_ever();
    }
}

impl Fault {
    /// Runs in place of the loop.
    pub(super) async fn run(self, mut work: Work) -> Result<(), String> {
        if self == Self::FailPreparation {
            return Err("a test asked the preparation to fail".to_owned());
        }
        if self == Self::HangPreparation {
            writeln_to_file("preparing");
            park_for_ever();
        }
        let settings = LogSettings { level: LogLevel::Info, format: LogFormat::Text };
        telemetry::init(settings, work.log.clone());
        work.started.mark();
        match self {
            Self::FailPreparation | Self::HangPreparation => Ok(()),
            Self::Idle | Self::HangClose => stop_of(&mut work).await,
            Self::SlowStop => {
                stop_of(&mut work).await?;
                tokio::time::sleep(Duration::from_millis(500)).await;
                Ok(())
            }
            Self::Fail => Err("a test asked the loop to fail".to_owned()),
            Self::Return => Ok(()),
            Self::Panic => panic!("a test asked the loop to panic"),
            Self::PanicStuckBlocking => {
                start_stuck_task().await;
                panic!("a test asked the loop to panic");
            }
            Self::IgnoreStop => park_for_ever(),
            Self::StuckBlocking => {
                start_stuck_task().await;
                stop_of(&mut work).await
            }
            Self::LogFlood => flood(&mut work).await,
            Self::ChildStatus => {
                let status = tokio::process::Command::new("/bin/sh").args(["-c", "exit 7"]).status().await;
                tracing::info!("the child ended with {status:?}");
                stop_of(&mut work).await
            }
            Self::WriteFile => {
                writeln_to_file("written");
                tracing::info!("the write returned");
                stop_of(&mut work).await
            }
        }
    }
}

async fn stop_of(work: &mut Work) -> Result<(), String> {
    let stop = work.phase.wait_for(|phase| *phase == Phase::Stopping);
    stop.await.map(|_| ()).map_err(|error| error.to_string())
}

/// Returns once a blocking task that will never end is running.
async fn start_stuck_task() {
    let (running, is_running) = tokio::sync::oneshot::channel();
    drop(tokio::task::spawn_blocking(move || {
        let _ = running.send(());
        park_for_ever()
    }));
    let _ = is_running.await;
}

async fn flood(work: &mut Work) -> Result<(), String> {
    let mut round: u64 = 0;
    while *work.phase.borrow() == Phase::Running {
        for line in 0..200 {
            tracing::info!(round, line, "a line of a flood, {}", "long ".repeat(40));
        }
        round += 1;
        writeln_to_file(&round.to_string());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Ok(())
}

/// Replaces the content of `RMQ_WATCHER_TEST_FILE`.
fn writeln_to_file(text: &str) {
    if let Some(path) = std::env::var_os("RMQ_WATCHER_TEST_FILE") {
        let written = std::fs::File::create(path).and_then(|mut file| {
            writeln!(file, "{text}")?;
            file.sync_all()
        });
        if let Err(error) = written {
            tracing::warn!("RMQ_WATCHER_TEST_FILE could not be written: {error}");
        }
    }
}

fn park_for_ever() -> ! {
    loop {
        std::thread::park();
    }
}
