//! Two watchers over one state directory: one consumes, the other says so and takes over.

use std::time::Duration;

use nix::sys::signal::Signal;

use crate::bench::{Bench, LATER, SOON};
use crate::support::{BrokerVersion, Dialect, Message, eventually};

/// The lock is tried each second, and a broker takes a dead client's consumer off at once.
const TAKE_OVER: Duration = Duration::from_secs(10);

#[test]
fn real_second_watcher_attaches_nothing_and_takes_over_from_a_killed_one() {
    let bench = Bench::new(BrokerVersion::V4, Dialect::V2);
    let setup = bench.setup();
    let mut first = setup.start();
    first.wait_event("consumer.attached", SOON);
    let mut second = setup.start();
    second.announce("another watcher holds the state directory");
    let said = second.wait_event("state.locked", SOON);
    assert!(said.contains(&format!("PID {},", first.pid())), "{said}");
    assert!(said.contains(&setup.state_dir().display().to_string()), "{said}");
    bench.broker.publish(&[Message::to_queue("orders", "x").id("m0")]);
    bench.stub.wait_runs("orders", 1, LATER);
    assert_eq!((bench.broker.consumers("orders"), second.count_event("consumer.attached")), (1, 0));
    first.kill();
    second.wait_event("state.taken", TAKE_OVER);
    second.wait_event("consumer.attached", TAKE_OVER);
    bench.broker.publish(&[Message::to_queue("orders", "x").id("m1")]);
    bench.stub.wait_runs("orders", 2, LATER);
    assert_eq!(second.count_event("state.locked"), 1);
    assert!(second.stop(SOON).success());
}

/// A stopped (SIGSTOP) holder holds: it would go on where it was.
#[test]
fn real_watcher_that_is_stopped_keeps_its_state_directory() {
    let bench = Bench::new(BrokerVersion::V3, Dialect::V2);
    let setup = bench.setup();
    let mut first = setup.start();
    first.wait_event("consumer.attached", SOON);
    first.signal(Signal::SIGSTOP);
    let mut second = setup.start();
    second.announce("another watcher holds the state directory");
    let said = second.wait_event("state.locked", SOON);
    assert!(said.contains(&format!("PID {},", first.pid())), "{said}");
    first.signal(Signal::SIGCONT);
    bench.broker.publish(&[Message::to_queue("orders", "x").id("m0")]);
    bench.stub.wait_runs("orders", 1, LATER);
    assert!(second.stop(SOON).success());
    assert!(first.stop(SOON).success());
    eventually(SOON, "no consumer is left", || bench.broker.consumers("orders") == 0);
}
