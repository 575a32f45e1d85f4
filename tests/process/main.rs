//! The process contract against the built binaries: launcher, signals, parent death, deadlines, the log's way out.
//!
//! Each test is named after its row in the contract's table (`row_12_…`). Schedulers are small programs, inits are the real
//! ones, PID namespaces stand in for containers. Deadlines are shortened by the test-only variables of `docs/operations.md`.
//! Needs root, Linux, `dumb-init`, `tini`, `unshare`, `setpriv`, FUSE and loop devices; what is missing fails its test.
//!
//! Repeated rows run short by default and in full with `RMQ_TEST_ALL=1`. With `RMQ_TEST_BINARIES=DIRECTORY` the binaries there are
//! tested instead of those built along, such as the static ones of `packaging/build-static`.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod harness;

mod container;
mod docs;
mod event_names;
mod idle;
mod inherited;
mod kernel;
mod launcher;
mod logs;
mod parent_death;
mod races;
mod standalone;
mod stop;
mod transparency;
