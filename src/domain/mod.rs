//! Every decision of the watcher as a function of values: no clock, no I/O, no runtime, no logging.
//!
//! `now`, limits and randomness come in as arguments; reasons are enums with a stable `code()` that goes to log lines
//! and rows. Matches on our own enums name every variant, so a new one breaks the build in each decision it concerns.

pub mod ids;

pub mod conf;
pub mod connection;
pub mod envelope;
pub mod fault;
pub mod outcome;
pub mod shutdown;
