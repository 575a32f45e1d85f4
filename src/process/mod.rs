//! Process life: the launcher, signals, the parent, deadlines and the loop thread. The only module with `unsafe`.
//!
//! ```text
//! launcher  fork → [child: parent-death signal, getppid check, close fds, exec rmq-watcher] / [parent: exec scheduler]
//! watcher   main thread: adopt parent → listen → start loop thread → wait → stop phase → exit code
//! ```
//!
//! Decided in ADR-0002 (process model and threads), ADR-0003 (signals, deadlines, exit codes), ADR-0004 (parent death).
//! Must not: use tokio outside the loop thread, share a lock between the way out and the loop, or print.

pub mod deadline;
pub mod exit;
pub mod launch;
pub mod loop_thread;
pub mod parent;
pub mod supervisor;

pub mod faults;
mod leave;
mod notify;
mod raw;
mod signals;
mod wait;
mod work;

pub use supervisor::{SupervisorOptions, supervise};
pub use work::{Started, Work};
