//! L4: the built watcher between real brokers and Airflow, real or scripted. What the README promises is held here.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

#[path = "../support/mod.rs"]
mod support;

mod airflow_faults;
mod broker_faults;
mod budget;
mod down;
mod fan_out;
mod folder;
mod foreign;
mod history;
mod kills;
mod log_sinks;
mod patience;
mod payload;
mod shared;
mod spine;
mod waits;
