//! Lines written straight to standard error, past the log and its queue: before the log exists, and on the way out, where the
//! loop thread may hold anything.
//!
//! Invariant: no lock is shared with another thread. [`stderr_line`] may block on a stalled standard error, so it is called
//! only once the kernel's alarm is armed; [`stderr_line_if_ready`] never blocks and rather loses the line.

use std::io::{self, Write as _};
use std::os::fd::AsFd;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::config::log::LogLevel;
use crate::telemetry::line;

/// Writes one line, waiting for as long as it takes.
pub(super) fn stderr_line(who: &str, level: LogLevel, event: &str, message: &str) {
    write_all(shape(who, level, event, message).as_bytes());
}

/// Writes one line if standard error takes it now.
pub(super) fn stderr_line_if_ready(who: &str, level: LogLevel, event: &str, message: &str) {
    let stderr = io::stderr();
    let mut ready = [PollFd::new(stderr.as_fd(), PollFlags::POLLOUT)];
    if matches!(poll(&mut ready, PollTimeout::ZERO), Ok(1)) {
        write_all(shape(who, level, event, message).as_bytes());
    }
}

/// Writes text to standard output: answers of the launcher's `--help` and `--version`.
pub(super) fn stdout_text(text: &str) {
    // std's buffer is flushed at the last newline, and nothing else of this process writes there.
    let _ = io::stdout().write_all(text.as_bytes());
}

fn shape(who: &str, level: LogLevel, event: &str, message: &str) -> String {
    line::text(line::now(), who, level, &format!("{message} event={event}"))
}

/// `write(2)` until done. A failing standard error cannot be reported anywhere, so the rest is dropped.
fn write_all(mut rest: &[u8]) {
    let stderr = io::stderr();
    while !rest.is_empty() {
        match nix::unistd::write(stderr.as_fd(), rest) {
            Ok(0) => return,
            Ok(count) => rest = rest.get(count..).unwrap_or_default(),
            Err(Errno::EINTR) => {}
            Err(Errno::EAGAIN) => {
                let mut ready = [PollFd::new(stderr.as_fd(), PollFlags::POLLOUT)];
                let _ = poll(&mut ready, PollTimeout::NONE);
            }
            Err(_) => return,
        }
    }
}
