//! Typed settings: flags > `RMQ_WATCHER__SECTION__KEY` > `rmq-watcher.toml` > Airflow's own configuration > defaults.
//!
//! Loading is pure ([`Settings::load`]): sources in, settings or all problems out. Reading the sources is the thin part
//! ([`Sources::gather`]). AMQP connections are read by [`connections`], afresh before every connect.
//!
//! Must not: open a network connection, run a program, or let a secret into an error, a `Debug` or the effective set
//! (tests/config/secrets.rs).

pub mod airflow;
pub mod connections;
pub mod environment;
pub mod files;
pub mod keys;
pub mod log;
pub mod problem;
pub mod settings;
pub mod sources;

mod access;
mod airflow_cfg;
mod airflow_own;
mod credentials;
mod load;
mod reader;
mod state_dir;
mod url;

pub use load::{INTERVAL_VARIABLE, TIMEOUT_VARIABLE};
pub use problem::{Problem, Problems};
pub use settings::Settings;
pub use sources::Sources;
pub use state_dir::{state_dir, state_dir_with};
