//! The command-line tool: one file for each verb. Exit codes: 0 done, 1 failed, 2 wrong usage, unless the verb says otherwise.

pub mod check;
pub mod filter;
pub mod fires;
pub mod status;
pub mod subscriptions;
pub mod why;

pub mod scan;
mod show;
mod state;
