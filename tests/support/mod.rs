//! The one harness of all test crates: real brokers, real Airflow, a scripted stand-in for Airflow, a faulty wire, and
//! the built watcher. A test crate takes it in by `#[path = "../support/mod.rs"] mod support;`.
//!
//! | what | for |
//! |---|---|
//! | [`Broker`] | a virtual host of one's own on a shared node, or a node of one's own to break |
//! | [`raw::Publisher`] | messages that no client library would send |
//! | [`corpus`] | header tables and bodies with the conf they lead to |
//! | [`Certificates`] | authorities and what they sign, for TLS |
//! | [`Airflow`] | a shared real instance, looked at over REST as a person would |
//! | [`StubAirflow`] | both REST dialects in memory, with faults on demand |
//! | [`TcpProxy`] | a wire that freezes or resets |
//! | [`Watcher`] | the built `rmq-watcher`, its log and its end |
//! | [`eventually`] | the only way to wait for something that gives no event |
//!
//! It blocks and uses threads freely, so it must not be used inside a test with paused time. Everything listens on
//! loopback below port 32768, and everything ends when its value is dropped; what a killed test leaves, the keeper of
//! `tests/run` ends. Servers come from `tests/env`, through variables named `RMQ_TEST_…`; one that is missing fails the
//! test and says how to get it.

#![allow(
    clippy::allow_attributes,
    clippy::unwrap_used,
    dead_code,
    unreachable_pub,
    unused_imports,
    reason = "each test crate takes in the whole harness and uses its own part of it; a test stops at the first surprise"
)]

pub mod airflow;
pub mod broker;
pub mod certificates;
pub mod corpus;
pub mod http;
pub mod ports;
pub mod proxy;
pub mod publish;
pub mod raw;
pub mod stub_airflow;
pub mod wait;
pub mod watcher;

pub use airflow::{Airflow, AirflowVersion};
pub use broker::{Broker, BrokerVersion, QueueKind};
pub use certificates::Certificates;
pub use proxy::{ProxyMode, TcpProxy};
pub use publish::Message;
pub use stub_airflow::{Dialect, Fault, StubAirflow, What};
pub use wait::{eventually, eventually_some};
pub use watcher::{Setup, Watcher};

/// Whether this is the long round (`tests/run --all`): every fault on every version, more rounds.
pub fn long_round() -> bool {
    std::env::var_os("RMQ_TEST_ALL").is_some()
}

/// The seed of this run's random choices: given by `tests/run --seed`, else fixed, and printed by `tests/run`.
pub fn seed() -> u64 {
    std::env::var("RMQ_TEST_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(20_240_101)
}

/// A variable that `tests/env` sets.
///
/// # Panics
/// If it is not set, saying how to get it.
pub fn provided(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| {
        panic!(
            "{name} is not set: this test needs real servers; use tests/run, or `tests/env up DIR && . DIR/env.sh` first"
        )
    })
}
