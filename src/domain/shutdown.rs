//! How far the process is on its way out, as one value that every loop watches.

/// Where the watcher process stands. Only ever moves forward.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Nothing has asked for a stop.
    Running,
    /// A stop was asked for: start nothing new, settle what is started, cancel consumers, close.
    Stopping,
}
