//! L3/L4: the built binaries from outside, as the person who runs them meets them: `check`, `run`, faults, and no growth.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

#[path = "../support/mod.rs"]
mod support;

mod bench;
mod check_faults;
mod check_settings;
mod check_works;
mod fires;
mod growth;
mod kept;
mod launched;
mod peek;
mod planted;
mod proc;
mod run_faults;
mod run_folder;
mod run_lock;
mod run_stop;
mod scan;
mod state;
mod status;
mod subscriptions;
mod terminal;
