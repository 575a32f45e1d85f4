//! The broker client against real RabbitMQ nodes and against peers that misbehave.
//!
//! Names that begin with `real_` need servers; see `node.rs` for the environment they take.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod harness;
mod node;

mod attach;
mod faults;
mod outage;
mod peers;
mod raw;
mod settle;
mod sharing;
mod silent;
mod strange;
mod tls;
