//! A log that nobody reads, or that cannot be written, costs lines and never runs.

use std::fs::OpenOptions;
use std::process::{Child, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;

use crate::support::{Broker, BrokerVersion, Dialect, Message, QueueKind, Setup, StubAirflow, eventually};
use crate::waits::{LATER, SOON};

const COUNT: usize = 3000;

#[test]
fn real_stalled_pipe_on_stdout_does_not_stop_consuming() {
    consumes_with(Stdio::piped);
}

#[test]
fn real_full_disk_on_stdout_does_not_stop_consuming() {
    consumes_with(|| OpenOptions::new().write(true).open("/dev/full").unwrap().into());
}

fn consumes_with(stdout: impl FnOnce() -> Stdio) {
    let (broker, stub) = (Broker::shared(BrokerVersion::V3), StubAirflow::with_dag(Dialect::V2, "quiet"));
    broker.declare("quiet", QueueKind::Classic, json!({}));
    let folder = tempfile::tempdir().unwrap();
    let setup = Setup::in_folder(folder.path()).stub(&stub).connection("rmq_default", &broker.url());
    setup.dag("quiet", "quiet", "rmq_default");
    let mut command = setup.command(&["run", "--standalone"]);
    let child = command.stdin(Stdio::null()).stdout(stdout()).stderr(Stdio::null()).spawn().unwrap();
    let mut child = Ended(child);
    // Enough debug lines to fill a pipe of 64 KiB several times over.
    let messages: Vec<Message> = (0..COUNT).map(|n| Message::to_queue("quiet", "x").id(&format!("m{n}"))).collect();
    broker.publish(&messages);
    stub.wait_runs("quiet", COUNT, LATER);
    broker.wait_counts("quiet", 0, 0);
    kill(Pid::from_raw(i32::try_from(child.0.id()).unwrap()), Signal::SIGTERM).unwrap();
    eventually(SOON + Duration::from_secs(10), "it ends", || child.0.try_wait().unwrap().is_some());
    assert_eq!(child.0.wait().unwrap().code(), Some(0));
}

struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}
