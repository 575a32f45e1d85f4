//! Airflow's REST API as the product needs it: start a run, look a run or a DAG up, version, health.
//!
//! Serves the data flow and `check`. The adapter carries requests and answers and holds the login; what an answer means is
//! decided in [`crate::domain::outcome`]. Must not decide about deliveries, retry on its own (but for one new login), or
//! log what it returns. Types of the HTTP library stop in this module.
//!
//! Reading order: `client` (the calls), `probe` (which API), `auth` (who we are), `wire` (paths and bodies), `http`
//! (bytes), `tls`.

mod auth;
mod client;
pub mod connections;
mod echo;
mod error;
mod http;
mod probe;
mod readings;
mod retry_after;
mod tls;
mod wire;

pub use client::AirflowClient;
pub use error::{AirflowError, Blocked};
