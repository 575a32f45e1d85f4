//! L2: the state file on real SQLite: opening, migrating, breaking, locking, and commands that share a commit.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod backup;
mod copies;
mod history;
mod ledger;
mod migration;
mod opening;
mod rows;
mod statuses;
mod sync;
mod view;
mod watcher;
