//! The control socket, `control.sock` in the state directory: how the command line talks to the watcher that runs.
//!
//! One JSON object a line, each a [`Request`](crate::domain::control::Request) that gets one
//! [`Answer`](crate::domain::control::Answer). It is there for its owner only: mode 0600 in a directory of mode 0700, and whoever
//! connects must be the watcher's own user or root, by the kernel's word. Everything is bounded: the length of a line, the
//! number of clients, and how long each step may take, so that no client can hold the watcher up or fill its memory.
//!
//! Decides nothing: requests travel to the control flow, which answers them. Who holds the lock of the state directory owns the
//! socket, so what a dead watcher left there is replaced.

mod address;
mod client;
mod line;
mod server;

pub use client::{AskError, ask};
pub use server::{Asked, serve};

use std::time::Duration;

/// The socket's name within the state directory.
pub const FILE_NAME: &str = "control.sock";

/// The longest line, either way, in bytes.
const LONGEST_LINE: usize = 16 * 1024;

/// How long the control flow may take over a request. It finishes what it is at first, which its own bounds keep short.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);
