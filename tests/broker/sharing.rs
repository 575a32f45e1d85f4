//! The pool: one connection for many, closed when unused; which addresses are tried; what idling costs.

use std::time::Duration;

use rmq_watcher::broker::Pool;
use rmq_watcher::domain::connection::AmqpSettings;
use rmq_watcher::domain::fault::BrokerFaultKind;
use rmq_watcher::ports::{Broker, Consumer};
use tokio::net::{TcpListener, TcpStream};

use crate::harness::{Client, footprint, no_growth, order, pool, refusal, run, run_alone, source};
use crate::node::{Node, versions};

#[test]
fn real_callers_side_by_side_share_one_attempt_and_one_connection() {
    run_alone(async {
        for version in versions(3) {
            let node = Node::shared(version);
            let client = Client::open(&node).await;
            let queue = client.queue("classic", &[]).await;
            let before = footprint();
            let source = source(node.settings());
            let pool = Pool::new(source.clone());
            let attach = || pool.attach(order(&queue, 1));
            let (a, b, c, d) = tokio::join!(attach(), attach(), attach(), attach());
            let consumers = [a.unwrap(), b.unwrap(), c.unwrap(), d.unwrap()];
            assert_eq!(source.resolved.get(), 1);
            assert_eq!(client.counts(&queue).await.1, 4);
            assert_eq!(footprint().lapin_threads, before.lapin_threads + 1);
            let [first, others @ ..] = consumers;
            for consumer in others {
                consumer.close().await;
            }
            assert_eq!(client.counts(&queue).await.1, 1);
            assert_eq!(footprint().lapin_threads, before.lapin_threads + 1);
            // Dropped without a word: the consumer goes all the same, and the connection with it.
            drop(first);
            pool.close().await;
            client.idle(&queue).await;
            no_growth(before).await;
            // Asked again, the pool connects again.
            let consumer = pool.attach(order(&queue, 1)).await.unwrap();
            assert_eq!(source.resolved.get(), 2);
            consumer.close().await;
        }
    });
}

#[test]
fn real_attach_given_up_half_way_leaves_no_consumer() {
    run_alone(async {
        for version in versions(4) {
            let node = Node::shared(version);
            let client = Client::open(&node).await;
            let queue = client.queue("classic", &[]).await;
            let pool = pool(node.settings());
            let keeper = pool.attach(order(&queue, 1)).await.unwrap();
            for micros in (0..4000).step_by(200) {
                let patience = Duration::from_micros(micros);
                drop(tokio::time::timeout(patience, pool.attach(order(&queue, 1))).await);
            }
            let deadline = std::time::Instant::now() + Duration::from_secs(10);
            while client.counts(&queue).await.1 != 1 {
                assert!(std::time::Instant::now() < deadline, "consumers are left behind");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            // And the connection still serves.
            let consumer = pool.attach(order(&queue, 1)).await.unwrap();
            consumer.close().await;
            keeper.close().await;
        }
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
    run(async {
        for version in versions(4) {
            let node = Node::shared(version);
            let client = Client::open(&node).await;
            let queue = client.queue("classic", &[]).await;
            let settings =
                AmqpSettings { hosts: vec!["::1".to_owned()], port: forward_ipv6(node.port).await, ..node.settings() };
            let consumer = pool(settings).attach(order(&queue, 1)).await.unwrap();
            assert_eq!(client.counts(&queue).await.1, 1);
            consumer.close().await;
            let closed = AmqpSettings { hosts: vec!["::1".to_owned()], ..node.settings() };
            let fault = refusal(&pool(closed), &queue).await;
            assert!(fault.text.contains(&format!("[::1]:{}", node.port)), "{}", fault.text);
        }
    });
}

#[test]
fn real_dead_hosts_beside_a_live_one_cost_only_their_share_of_time() {
    run(async {
        for version in versions(3) {
            let node = Node::shared(version);
            let client = Client::open(&node).await;
            let queue = client.queue("classic", &[]).await;
            // One host refuses, one accepts and stays silent, one is the broker.
            let silent = std::net::TcpListener::bind(("127.0.0.3", node.port)).unwrap();
            let settings = AmqpSettings {
                hosts: ["127.0.0.2", "127.0.0.3", "127.0.0.1"].map(str::to_owned).to_vec(),
                connect_timeout: Duration::from_millis(1500),
                ..node.settings()
            };
            // The order is drawn anew each time; eight tries meet every order's kind.
            for _ in 0..8 {
                let pool = pool(settings.clone());
                let consumer = pool.attach(order(&queue, 1)).await.unwrap();
                consumer.close().await;
            }
            let wrong = AmqpSettings { vhost: "no such vhost".to_owned(), ..settings };
            let fault = refusal(&pool(wrong), &queue).await;
            assert_eq!(fault.kind, BrokerFaultKind::VhostRefused, "{}", fault.text);
            drop(silent);
        }
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

#[test]
fn real_idle_consumer_costs_no_wake_ups_and_little_memory() {
    run_alone(async {
        for version in versions(3) {
            let node = Node::shared(version);
            let client = Client::open(&node).await;
            let queue = client.queue("classic", &[]).await;
            client.close().await;
            let pool = pool(node.settings());
            let rss = resident();
            let mut consumer = pool.attach(order(&queue, 32)).await.unwrap();
            let grown = resident().saturating_sub(rss);
            assert!(grown < 4096, "an attached consumer takes {grown} KiB");
            let before = wake_ups();
            let quiet = Duration::from_secs(5);
            assert!(tokio::time::timeout(quiet, consumer.next()).await.is_err());
            let woke = wake_ups() - before;
            // The timer of this test and what the test framework's own thread does.
            assert!(woke <= 6, "{woke} wake-ups in {quiet:?}");
            consumer.close().await;
        }
    });
}

#[test]
fn real_deliveries_survive_a_dropped_next() {
    run(async {
        for version in versions(3) {
            let node = Node::shared(version);
            let client = Client::open(&node).await;
            let queue = client.queue("classic", &[]).await;
            let pool = pool(node.settings());
            let mut consumer = pool.attach(order(&queue, 0)).await.unwrap();
            for n in 0..50 {
                client.publish_text(&queue, &n.to_string()).await;
            }
            // Given up over and over while deliveries arrive: each comes once, in order.
            let mut seen = 0;
            while seen < 50 {
                let patience = Duration::from_micros(fastrand::u64(0..500));
                if let Ok(delivery) = tokio::time::timeout(patience, consumer.next()).await {
                    assert_eq!(delivery.unwrap().body, seen.to_string().as_bytes());
                    seen += 1;
                }
            }
        }
    });
}
