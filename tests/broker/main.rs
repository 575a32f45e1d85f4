//! The broker client against real RabbitMQ nodes and against peers that misbehave.
//!
//! Names that begin with `real_` need servers; `tests/support` says how to have them.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

#[path = "../support/mod.rs"]
mod support;

mod client;
mod copies;
mod corpus;
mod footprint;
mod harness;
mod stage;

mod attach;
mod faults;
mod management;
mod outage;
mod pausing;
mod peers;
mod settle;
mod sharing;
mod silent;
mod strange;
mod tls;
mod verbs;
