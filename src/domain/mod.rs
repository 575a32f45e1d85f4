//! Every decision of the watcher as a function of values: no clock, no I/O, no runtime, no logging.
//!
//! `now`, limits and randomness come in as arguments; reasons are enums with a stable `code()` that goes to log lines
//! and rows. Matches on our own enums name every variant, so a new one breaks the build in each decision it concerns.

pub mod ids;

pub mod attempt;
pub mod breaker;
pub mod budget;
pub mod conf;
pub mod connection;
pub mod content;
pub mod control;
pub mod copy;
pub mod cycle_settings;
pub mod dag_reading;
pub mod dag_state;
pub mod declaration;
pub mod declare;
pub mod dedup;
pub mod encoding;
pub mod envelope;
pub mod fault;
pub mod fields;
pub mod filter;
pub mod fire;
pub mod gate;
pub mod key;
pub mod ledger;
pub mod line_budget;
pub mod miss_series;
pub mod nearest;
pub mod not_ready;
pub mod options;
pub mod outcome;
pub mod park;
pub mod payload;
pub mod plan;
pub mod python;
pub mod queue_facts;
pub mod replay;
pub mod retention;
pub mod retry;
pub mod returns;
pub mod routing;
pub mod run_id;
pub mod settlement;
pub mod shutdown;
pub mod since;
pub mod status;
pub mod subscription;
pub mod sync;
pub mod table;
pub mod target;
pub mod window;

#[cfg(test)]
mod shared_queue_model;
pub mod trust;
pub mod turns;
pub mod view;
