//! The command-line tool: one file for each verb. Exit codes: 0 done, 1 failed, 2 wrong usage.

pub mod check;
pub mod status;
pub mod subscriptions;

mod show;
mod state;
