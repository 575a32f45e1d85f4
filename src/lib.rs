//! rmq-watcher: RabbitMQ messages start Apache Airflow DAG runs, beside the scheduler and never in its way.
//!
//! Three flows, one function each (`*` marks pure code in [`domain`]):
//!
//! ```text
//! process   launcher: fork → [child: exec rmq-watcher] / [parent: exec scheduler]
//!           main thread: signals + parent + loop-done → stop → exit code
//! control   each tick:      scan → sync → plan* → apply to consumers → status rows
//! data      each delivery:  receive → record intent → start the target → settle* → record
//! ```
//!
//! Who may use whom is the layer table of `docs/architecture.md`; `tests/tidy` holds it. Modules stand in reading order.

pub mod domain;
pub mod ports;

pub mod config;
pub mod telemetry;

mod http_client;

pub mod airflow;
pub mod broker;
pub mod control;
pub mod discovery;
pub mod store;

pub mod pipeline;
pub mod reconcile;

pub mod app;
pub mod cli;
pub mod process;
