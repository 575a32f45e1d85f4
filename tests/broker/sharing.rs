//! The pool: one connection for many, closed when unused; which addresses are tried; what idling costs.

use std::time::Duration;

use rmq_watcher::domain::connection::AmqpSettings;
use rmq_watcher::domain::fault::BrokerFaultKind;
use rmq_watcher::ports::{Broker as _, Consumer};
use tokio::net::{TcpListener, TcpStream};

use crate::footprint::{footprint, no_growth};
use crate::harness::{order, pool, refusal, run_alone_on, run_on};
use crate::stage::{Stage, settings};
use crate::support::BrokerVersion::{V3, V4};
use crate::support::QueueKind;

#[test]
fn real_callers_side_by_side_share_one_attempt_and_one_connection() {
    run_alone_on(V3, async |version| {
        let at = Stage::shared(version, QueueKind::Classic).await;
        let before = footprint();
        let attach = || at.attach(1);
        let (a, b, c, d) = tokio::join!(attach(), attach(), attach(), attach());
        assert_eq!(at.source.resolved.get(), 1);
        assert_eq!(at.counts().await.1, 4);
        assert_eq!(footprint().lapin_threads, before.lapin_threads + 1);
        for consumer in [b, c, d] {
            consumer.close().await;
        }
        assert_eq!(at.counts().await.1, 1);
        assert_eq!(footprint().lapin_threads, before.lapin_threads + 1);
        // Dropped without a word: the consumer goes all the same, and the connection with it.
        drop(a);
        at.pool.close().await;
        at.idle().await;
        no_growth(before).await;
        // Asked again, the pool connects again.
        let consumer = at.attach(1).await;
        assert_eq!(at.source.resolved.get(), 2);
        consumer.close().await;
    });
}

#[test]
fn real_attach_given_up_half_way_leaves_no_consumer() {
    run_alone_on(V4, async |version| {
        let at = Stage::shared(version, QueueKind::Classic).await;
        let keeper = at.attach(1).await;
        for micros in (0..4000).step_by(200) {
            let patience = Duration::from_micros(micros);
            drop(tokio::time::timeout(patience, at.pool.attach(order(&at.queue, 1))).await);
        }
        at.client.shows(&at.queue, |(_, consumers)| consumers == 1).await;
        // And the connection still serves.
        let consumer = at.attach(1).await;
        consumer.close().await;
        keeper.close().await;
    });
}

/// Passes connections to `[::1]:port` on to the node.
async fn forward_ipv6(node_port: u16) -> u16 {
    let listener = TcpListener::bind("[::1]:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::task::spawn_local(async move {
        while let Ok((mut from, _)) = listener.accept().await {
            tokio::task::spawn_local(async move {
                let mut to = TcpStream::connect(("127.0.0.1", node_port)).await.unwrap();
                drop(tokio::io::copy_bidirectional(&mut from, &mut to).await);
            });
        }
    });
    port
}

#[test]
fn real_ipv6_literal_is_connected_to_as_it_stands() {
    run_on(V4, async |version| {
        let at = Stage::shared(version, QueueKind::Classic).await;
        let closed = AmqpSettings { hosts: vec!["::1".to_owned()], ..settings(&at.node) };
        let open = AmqpSettings { port: forward_ipv6(closed.port).await, ..closed.clone() };
        let consumer = pool(open).attach(order(&at.queue, 1)).await.unwrap();
        assert_eq!(at.counts().await.1, 1);
        consumer.close().await;
        let there = format!("[::1]:{}", closed.port);
        let fault = refusal(&pool(closed), &at.queue).await;
        assert!(fault.text.contains(&there), "{}", fault.text);
    });
}

#[test]
fn real_dead_hosts_beside_a_live_one_cost_only_their_share_of_time() {
    run_on(V3, async |version| {
        let at = Stage::shared(version, QueueKind::Classic).await;
        // One host refuses, one accepts and stays silent, one is the broker.
        let silent = std::net::TcpListener::bind(("127.0.0.3", at.node.address().port())).unwrap();
        let settings = AmqpSettings {
            hosts: ["127.0.0.2", "127.0.0.3", "127.0.0.1"].map(str::to_owned).to_vec(),
            connect_timeout: Duration::from_millis(1500),
            ..settings(&at.node)
        };
        // The order is drawn anew each time; eight tries meet every order's kind.
        for _ in 0..8 {
            let pool = pool(settings.clone());
            let consumer = pool.attach(order(&at.queue, 1)).await.unwrap();
            consumer.close().await;
        }
        let wrong = AmqpSettings { vhost: "no such vhost".to_owned(), ..settings };
        let fault = refusal(&pool(wrong), &at.queue).await;
        assert_eq!(fault.kind, BrokerFaultKind::VhostRefused, "{}", fault.text);
        drop(silent);
    });
}

/// How often the threads of this process went to sleep, which is how often they woke.
fn wake_ups() -> u64 {
    std::fs::read_dir("/proc/self/task")
        .unwrap()
        .filter_map(|task| {
            let status = std::fs::read_to_string(task.ok()?.path().join("status")).ok()?;
            let line = status.lines().find_map(|l| l.strip_prefix("voluntary_ctxt_switches:"))?;
            line.trim().parse::<u64>().ok()
        })
        .sum()
}

/// Resident memory in kibibytes.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|l| l.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// Runs the named test in a process of its own, where it counts what the whole process does. Returns whether this is that one.
fn is_alone_in_its_process(name: &str) -> bool {
    if std::env::var_os(ALONE_IN_PROCESS).is_some() {
        return true;
    }
    let program = std::env::current_exe().unwrap();
    let mut again = std::process::Command::new(program);
    let ran = again.args(["--exact", name, "--nocapture"]).env(ALONE_IN_PROCESS, "yes").output().unwrap();
    let said = String::from_utf8_lossy(&ran.stdout) + String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success() && said.contains("1 passed"), "{said}");
    false
}

/// Set in the process that runs one test alone.
const ALONE_IN_PROCESS: &str = "RMQ_TEST_ALONE_IN_PROCESS";

#[test]
fn real_idle_consumer_costs_no_wake_ups_and_little_memory() {
    if !is_alone_in_its_process("sharing::real_idle_consumer_costs_no_wake_ups_and_little_memory") {
        return;
    }
    run_alone_on(V3, async |version| {
        let at = Stage::shared(version, QueueKind::Classic).await;
        at.client.close().await;
        let rss = resident();
        let mut consumer = at.attach(32).await;
        let grown = resident().saturating_sub(rss);
        assert!(grown < 4096, "an attached consumer takes {grown} KiB");
        // What the attach leaves to be written and read is no wake-up of an idle consumer.
        assert!(tokio::time::timeout(Duration::from_secs(1), consumer.next()).await.is_err());
        let before = wake_ups();
        let quiet = Duration::from_secs(5);
        assert!(tokio::time::timeout(quiet, consumer.next()).await.is_err());
        let woke = wake_ups() - before;
        // The timer of this test and what the test framework's own thread does.
        assert!(woke <= 6, "{woke} wake-ups in {quiet:?}");
        consumer.close().await;
    });
}

#[test]
fn real_deliveries_survive_a_dropped_next() {
    run_on(V3, async |version| {
        let at = Stage::shared(version, QueueKind::Classic).await;
        let mut consumer = at.attach(0).await;
        at.publish_numbers(50).await;
        // Given up over and over while deliveries arrive: each comes once, in order.
        let mut seen = 0;
        while seen < 50 {
            let patience = Duration::from_micros(fastrand::u64(0..500));
            if let Ok(delivery) = tokio::time::timeout(patience, consumer.next()).await {
                assert_eq!(delivery.unwrap().body, seen.to_string().as_bytes());
                seen += 1;
            }
        }
    });
}
