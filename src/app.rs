//! Composition: builds the adapters and hands them to the flows. For now it marks the start and waits for the stop.

use crate::config::log::{LogFormat, LogLevel, LogSettings};
use crate::domain::shutdown::Phase;
use crate::process::Work;
use crate::telemetry;

/// The loop of the watcher process.
///
/// # Errors
/// The supervisor is gone.
pub async fn run(_config: Option<std::path::PathBuf>, mut work: Work) -> Result<(), String> {
    let settings = LogSettings {
        level: LogLevel::Info,
        format: LogFormat::Text,
    };
    telemetry::init(settings, work.log.clone());
    work.started.mark();
    let stop = work.phase.wait_for(|phase| *phase == Phase::Stopping);
    stop.await.map(|_| ()).map_err(|error| error.to_string())
}
