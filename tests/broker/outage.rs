//! A broker that freezes, dies, or takes the queue away, and what is left here.

use std::time::{Duration, Instant};

use lapin::protocol::BasicProperties;
use rmq_watcher::broker::LapinConsumer;
use rmq_watcher::domain::connection::AmqpSettings;
use rmq_watcher::domain::fault::BrokerFaultKind;
use rmq_watcher::domain::ids::ConnId;
use rmq_watcher::ports::{Broker as _, Consumer, Settled, Settler, Verb};

use crate::footprint::{footprint, no_growth};
use crate::harness::{end_of, eventually, next, order, refusal, run_alone_on, run_on};
use crate::stage::Stage;
use crate::support::BrokerVersion::{V3, V4};
use crate::support::{Broker, QueueKind};

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn real_frozen_broker_is_noticed_at_twice_the_heartbeat() {
    run_on(V4, async |version| {
        let at = Stage::on(Broker::own(version, &[]), QueueKind::Classic).await;
        let at = at.with(|plain| AmqpSettings { heartbeat_secs: 2, connect_timeout: SECOND, ..plain });
        at.publish("held").await;
        at.client.close().await;
        let mut consumer = at.attach(1).await;
        let tag = next(&mut consumer).await.tag;
        at.node.pause();
        let began = Instant::now();
        let fault = end_of(&mut consumer, 20).await;
        let noticed = began.elapsed();
        assert_eq!(fault.kind, BrokerFaultKind::Unreachable);
        assert!(fault.text.contains("nothing came from the broker for 4 s"), "{}", fault.text);
        assert!(noticed < Duration::from_secs(8), "noticed after {noticed:?}");
        let settler = consumer.settler();
        assert_eq!(settler.settle(tag, Verb::Ack).await, Settled::Lost);
        // A frozen broker's kernel still accepts connections.
        assert_eq!(refusal(&at.pool, &at.queue).await.kind, BrokerFaultKind::TimedOut);
        at.node.resume();
        drop(consumer);
        drop(settler);
        let mut consumer = attached_again(&at).await;
        let envelope = next(&mut consumer).await;
        assert!(envelope.redelivered);
    });
}

/// Attaches as the watcher does: again until it works, at most for 30 s.
async fn attached_again(at: &Stage) -> LapinConsumer {
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        match at.pool.attach(order(&at.queue, 1)).await {
            Ok(consumer) => return consumer,
            Err(fault) => {
                assert!(Instant::now() < deadline, "{}", fault.text);
                assert!(!fault.kind.is_configuration(), "{}", fault.text);
            }
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

#[test]
fn real_frozen_broker_close_is_bounded_and_leaves_nothing() {
    run_alone_on(V3, async |version| {
        let at = Stage::on(Broker::own(version, &[]), QueueKind::Classic).await;
        let at = at.with(|plain| AmqpSettings { rpc_timeout: SECOND, ..plain });
        at.client.close().await;
        eventually(10, "the client's end", || footprint().lapin_threads == 0).await;
        let before = footprint();
        let mut consumer = at.attach(1).await;
        let settler = consumer.settler();
        at.node.pause();
        let began = Instant::now();
        // The signal takes a moment to stop every thread of the broker.
        while settler.barrier().await {
            assert!(began.elapsed() < Duration::from_secs(5), "still answering");
        }
        let began = Instant::now();
        drop(consumer.pause().await);
        consumer.close().await;
        assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
        drop(settler);
        at.pool.close().await;
        assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
        no_growth(before).await;
        at.node.resume();
    });
}

#[test]
fn real_killed_broker_is_noticed_at_once_and_found_again() {
    run_on(V3, async |version| {
        let at = Stage::on(Broker::own(version, &[]), QueueKind::Classic).await;
        // Not a quorum queue: one killed within seconds of its declaration stays without a leader (RabbitMQ 3.10 and 4.0).
        let persistent = BasicProperties::default().with_delivery_mode(2);
        at.client.publish(&at.queue, persistent, b"kept").await;
        let at = at.with(|plain| AmqpSettings { rpc_timeout: 3 * SECOND, ..plain });
        let mut consumer = at.attach(1).await;
        let tag = next(&mut consumer).await.tag;
        at.node.kill();
        let fault = end_of(&mut consumer, 5).await;
        assert_eq!(fault.kind, BrokerFaultKind::Unreachable);
        assert!(fault.text.contains("connection was lost"), "{}", fault.text);
        assert_eq!(consumer.settler().settle(tag, Verb::Ack).await, Settled::Lost);
        let fault = refusal(&at.pool, &at.queue).await;
        assert!(fault.text.contains("connection refused"), "{}", fault.text);
        at.node.start();
        let mut consumer = attached_again(&at).await;
        let envelope = next(&mut consumer).await;
        assert!(envelope.redelivered);
        assert_eq!(&envelope.body[..], b"kept");
    });
}

/// Closes the watcher's connection of this id, as an operator would.
fn close_connection(node: &Broker, conn_id: &str, reason: &str) {
    let list = node.ctl(&["list_connections", "pid", "client_properties"]);
    let line = list
        .lines()
        .find(|l| l.contains("rmq_watcher.") && l.contains(conn_id))
        .unwrap_or_else(|| panic!("no connection of {conn_id} in {list}"));
    let pid = line.split('\t').next().unwrap();
    node.ctl(&["close_connection", pid, reason]);
}

#[test]
fn real_connection_closed_by_an_operator_is_said_in_his_words_and_replaced() {
    run_on(V4, async |version| {
        let at = Stage::shared(version, QueueKind::Classic).await;
        let name = format!("closed{:08x}", fastrand::u32(..));
        let at = at.with(|plain| AmqpSettings { conn_id: ConnId::new(&*name), ..plain });
        let mut consumer = at.attach(1).await;
        close_connection(&at.node, &name, "maintenance");
        let fault = end_of(&mut consumer, 10).await;
        assert_eq!(fault.kind, BrokerFaultKind::Closed);
        assert!(fault.text.contains("maintenance"), "{}", fault.text);
        // The old consumer still holds the dead connection; the next one gets a new one.
        let mut again = at.attach(1).await;
        assert_eq!(at.source.resolved.get(), 2);
        at.publish("on the new one").await;
        assert_eq!(&next(&mut again).await.body[..], b"on the new one");
    });
}

#[test]
fn real_queue_deleted_under_a_consumer_is_a_cancel_and_the_channel_lives() {
    run_on(V3, async |version| {
        let at = Stage::shared(version, QueueKind::Classic).await;
        let mut consumer = at.attach(1).await;
        at.node.delete_queue(&at.queue);
        let fault = end_of(&mut consumer, 10).await;
        assert_eq!(fault.kind, BrokerFaultKind::Cancelled);
        assert!(fault.text.contains(&at.queue), "{}", fault.text);
        assert_eq!(end_of(&mut consumer, 1).await, fault);
        assert!(consumer.settler().barrier().await);
        consumer.close().await;
        assert_eq!(refusal(&at.pool, &at.queue).await.kind, BrokerFaultKind::QueueMissing);
    });
}
