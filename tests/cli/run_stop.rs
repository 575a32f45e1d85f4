//! SIGTERM, whatever `run` is at: the end within 5 s, exit code 0, everything given back.

use std::os::unix::fs::PermissionsExt as _;
use std::time::{Duration, Instant};

use crate::bench::{Bench, SOON};
use crate::proc::{children, lives};
use crate::support::{
    BrokerVersion, Dialect, Fault, Message, ProxyMode, TcpProxy, Watcher, What, eventually, eventually_some, ports,
};

/// A plugin that starts us kills at 5 s.
const END: Duration = Duration::from_secs(5);

fn bench() -> Bench {
    Bench::new(BrokerVersion::V3, Dialect::V2)
}

#[track_caller]
fn assert_stops(mut watcher: Watcher) {
    let began = Instant::now();
    let ended = watcher.stop(SOON);
    assert!(began.elapsed() < END, "took {:?}", began.elapsed());
    assert_eq!(ended.code(), Some(0), "{:#?}", watcher.lines());
}

#[test]
fn real_stop_while_connecting_to_a_silent_broker() {
    let bench = bench();
    let proxy = TcpProxy::to(bench.broker.address());
    proxy.set(ProxyMode::Freeze);
    let watcher = bench.setup_with(&format!("amqp://guest:guest@{}/", proxy.address())).start();
    eventually(SOON, "it connects", || proxy.accepted() > 0);
    assert_stops(watcher);
}

#[test]
fn real_stop_while_a_broker_that_fell_silent_holds_our_consumer() {
    let bench = bench();
    let proxy = TcpProxy::to(bench.broker.address());
    let url = format!("amqp://guest:guest@{}/{}", proxy.address(), bench.broker.vhost());
    let mut watcher = bench.setup_with(&url).start();
    watcher.wait_event("consumer.attached", SOON);
    proxy.set(ProxyMode::Freeze);
    let began = Instant::now();
    let ended = watcher.stop(SOON);
    // Cancel, channel and connection each wait for an answer that never comes.
    assert!(began.elapsed() < Duration::from_secs(15), "took {:?}", began.elapsed());
    assert_eq!(ended.code(), Some(0));
}

#[test]
fn real_stop_while_waiting_for_the_next_attempt() {
    let bench = bench();
    let mut watcher = bench.setup_with(&format!("amqp://guest:guest@127.0.0.1:{}/", ports::unused())).start();
    watcher.announce("consumer.failed");
    watcher.wait_event("consumer.failed", SOON);
    assert_stops(watcher);
}

#[test]
fn real_stop_while_messages_are_held() {
    let bench = bench();
    bench.stub.always(What::Trigger, Fault::status(503));
    bench.broker.publish(&[Message::to_queue("orders", "x").id("m0"), Message::to_queue("orders", "y")]);
    let mut watcher = bench.setup().start();
    watcher.announce("delivery.held");
    watcher.wait_event("delivery.held", SOON);
    assert_stops(watcher);
    eventually(SOON, "both messages are back", || bench.broker.ready("orders") == 2);
}

#[test]
fn real_stop_while_airflow_does_not_answer() {
    let bench = bench();
    bench.stub.always(What::Trigger, Fault::Silent);
    bench.broker.publish(&[Message::to_queue("orders", "x").id("m0")]);
    let watcher = bench.setup().start();
    eventually(SOON, "it asks for a run", || bench.stub.count(What::Trigger) > 0);
    assert_stops(watcher);
    eventually(SOON, "the message is back", || bench.broker.ready("orders") == 1);
    // The next one starts it, once.
    bench.stub.heal();
    let mut next = bench.setup().start();
    next.wait_event("consumer.attached", SOON);
    assert_eq!(bench.stub.wait_runs("orders", 1, SOON).len(), 1);
    eventually(SOON, "it is acknowledged", || bench.broker.ready("orders") == 0);
    assert_stops(next);
}

#[test]
fn real_stop_while_another_watcher_has_the_state() {
    let bench = bench();
    let setup = bench.setup();
    let mut holder = setup.start();
    holder.wait_event("consumer.attached", SOON);
    let mut watcher = setup.start();
    watcher.announce("another watcher holds the state directory");
    watcher.wait_event("state.locked", SOON);
    assert_stops(watcher);
    assert_eq!(bench.broker.consumers("orders"), 1);
    assert_stops(holder);
}

#[test]
fn real_stop_while_airflow_is_asked_for_a_connection() {
    let bench = bench();
    let setup = bench.setup().without("AIRFLOW_CONN_RMQ_DEFAULT");
    let programs = bench.folder.path().join("bin");
    std::fs::create_dir(&programs).unwrap();
    std::fs::write(programs.join("airflow"), "#!/bin/sh\nsleep 1000\n").unwrap();
    std::fs::set_permissions(programs.join("airflow"), std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
    let watcher = setup.env("PATH", &path).start();
    let pid = watcher.pid();
    let find = || {
        let threads = std::fs::read_dir(format!("/proc/{pid}/task")).ok()?;
        let of_thread = |entry: std::io::Result<std::fs::DirEntry>| {
            let children = entry.ok()?.path().join("children");
            std::fs::read_to_string(children).ok()?.split_ascii_whitespace().next()?.parse::<i32>().ok()
        };
        threads.filter_map(of_thread).next()
    };
    let asked = eventually_some(SOON, "it asks", find);
    let sleeper = eventually_some(SOON, "the program runs", || children(asked).first().copied());
    assert_stops(watcher);
    eventually(SOON, "what it ran is gone", || !lives(asked) && !lives(sleeper));
}
