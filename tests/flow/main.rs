//! L1: the data flow and the control flow on a test clock, with real SQLite (inline) and hand-written fakes at the network
//! edges. What the fakes stand for is tested on the real thing in `tests/broker`, `tests/airflow` and `tests/e2e`.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod book;
mod breaking;
mod budget;
mod control;
mod facts;
mod fake_airflow;
mod fake_broker;
mod fanout;
mod flowing;
mod gate;
mod history;
mod holding;
mod one_run;
mod shown;
mod stopping;
mod world;
