//! Typed settings: flags > `RMQ_WATCHER__SECTION__KEY` > `rmq-watcher.toml` > Airflow's own configuration > defaults.
//!
//! Loading is pure: sources in, settings or all problems out. Nothing here opens a connection.

pub mod airflow;
pub mod log;
pub mod settings;

pub use settings::Settings;
