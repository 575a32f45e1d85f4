//! How far the process is on its way out, as one value that every loop watches.

use std::time::Duration;

/// Where the watcher process stands. Only ever moves forward.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Nothing has asked for a stop.
    Running,
    /// A stop was asked for: start nothing new, settle what is started, cancel consumers, close.
    Stopping,
}

/// How long all consumers together may take to stop; whatever is left then is cut off, and the broker gives its deliveries
/// back. Below the 45 s after which the process leaves without the loop.
pub const CONSUMER_BUDGET: Duration = Duration::from_secs(30);
