//! Configuration as a whole: the loader over made-up sources, Airflow's connections against golden files, and (names that
//! begin with `real_airflow_`) against real Airflow.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod airflow_own;
mod amqp;
mod gather;
mod golden;
mod load;
mod properties;
mod real_airflow;
mod resolve;
mod secrets;
mod state_dir;
mod support;
mod tidy;
