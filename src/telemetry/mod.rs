//! Log and metric set-up: what a log line looks like, which events exist, and a writer that cannot hold anybody up.
//!
//! A line goes `tracing` macro → `layer` (one event, one line) → `queue` → `writer` thread → one `write(2)` on standard
//! output. Nothing on that way waits for the reader of the log: a full or broken standard output costs lines, which are
//! counted and said later, and never consuming (`tests/process`, rows 31 and 32).
//!
//! Must not: use `println!` or `eprintln!` (both panic on a broken pipe), set `O_NONBLOCK` on inherited descriptors (the flag
//! is shared with the scheduler), or write a body, a token or a URI with a password.

pub mod events;
pub mod line;

mod fields;
mod layer;
mod queue;
mod writer;

use std::sync::atomic::{AtomicBool, Ordering};

use tracing_subscriber::layer::SubscriberExt;

use crate::config::log::LogSettings;
pub use writer::LogHandle;

static INSTALLED: AtomicBool = AtomicBool::new(false);

/// Installs the process-wide subscriber that writes through `handle`. From here on `tracing` macros produce lines.
///
/// A second call changes nothing: the first settings hold for the life of the process.
pub fn init(settings: LogSettings, handle: LogHandle) {
    handle.set_format(settings.format);
    let subscriber = tracing_subscriber::registry().with(layer::LineLayer::new(settings, handle));
    if tracing::subscriber::set_global_default(subscriber).is_ok() {
        INSTALLED.store(true, Ordering::Release);
    }
}

/// Whether [`init`] has been called, so that an event reaches the log.
pub fn is_installed() -> bool {
    INSTALLED.load(Ordering::Acquire)
}
