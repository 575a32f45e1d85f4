//! The data flow: receive → record intent → start the target → settle → record.
//!
//! One `worker` per queue attaches, receives and hands each delivery to `delivery::handle`, a task of its own, which drives
//! its matches (`matched`) beside one another. What comes next is decided in `domain` (`routing`, `settlement`, `ledger`,
//! `attempt`, `target`); here it is carried out.
//!
//! Invariants:
//! - Nothing between receive and settle returns early with the delivery forgotten: a delivery is settled, given back, or
//!   left to its channel's end, which gives it back (`tests/flow`).
//! - A row is driven by one task at a time; a redelivery that binds to it takes that task's seat over (`flights`).
//! - No task outlives its worker, no worker the stop.

mod attached;
mod body;
mod budget;
mod channel;
mod context;
mod copies;
mod dags;
mod delivery;
mod flights;
mod history;
mod hold;
mod in_hand;
mod ledgered;
mod matched;
mod member;
mod parking;
mod places;
mod queue_book;
mod report;
mod sight;
mod signals;
mod targets;
mod worker;

pub use attached::Attached;
pub use context::{Arrow, Clock, Context, Identity, Limits, OnArrow};
pub use dags::{DagBook, ask_waiting, read_dags};
pub use history::tend_history;
pub use queue_book::{QueueBook, look_at_queues};
pub use signals::Order;
pub use worker::run;
