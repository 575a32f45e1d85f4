//! Filters: the comparison table, the operators, refusals, properties, Python's own answers, and the verb that tries one.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod cli;
mod operators;
mod properties;
mod python;
mod refusals;
mod support;
mod table;
mod unreadable;
