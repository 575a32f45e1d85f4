//! The state file: SQLite, owned by one thread for its whole life.
//!
//! [`Store`] is a handle; every call travels to the thread as one command and comes back after its commit. Commands that
//! arrive while a commit is under way share the next one. SQL stands only in `schema` and in one file per table family.
//! Nothing here decides: the ledger's rules are called from `domain::ledger`, inside the transaction that reads the rows.

mod airflow;
mod backup;
mod begin;
pub mod bodies;
mod dags;
mod error;
pub mod history;
pub mod ledger;
pub mod lock;
pub mod open;
pub mod prune;
mod refusals;
mod schema;
pub mod status;
pub mod subscriptions;
pub mod sync;
mod thread;
mod trust;
mod unwritten;
pub mod view;
pub mod watcher;

pub use backup::Restored;
pub use error::StoreError;
pub use thread::{Closed, Store};
