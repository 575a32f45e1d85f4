//! The broker client: connections, consumers, settling and probing, over lapin; and its management API, over HTTP.
//!
//! Serves the data flow through the traits of [`crate::ports`]. Decides nothing: when to attach again, what to settle and
//! how long to wait is `domain`'s and the caller's.
//!
//! ```text
//! attach:  resolve settings → one shared attempt to connect → channel → qos → consume → Consumer
//! publish: the same on connections of their own → channel → confirms → publish → confirmed, refused or not known
//! ```
//!
//! Invariants, each held by a test in `tests/broker`:
//! - Every call ends within a stated time, whatever the peer does; an attempt that is given up leaves no thread and no socket.
//! - lapin's own recovery stays off: a lost channel is lost, and its deliveries can only be `Lost` (ADR 0013).
//! - No message, however strange its properties, can end the connection (`repair`).
//! - No error text holds a password.

mod connect;
mod consumer;
mod convert;
mod fault;
mod link;
mod management;
mod peek;
mod pool;
mod probe;
mod publish;
mod repair;
mod resolve;
mod runtime;
mod settle;
mod stash;
mod tls;
mod wire;

pub use consumer::LapinConsumer;
pub use management::look;
pub use peek::peek;
pub use pool::{OpenLink, Pool};
pub use probe::{ProbeFinding, ProbeResult, ProbeSubject, probe};
pub use settle::LapinSettler;
