//! A broker that freezes, dies, or takes the queue away, and what is left here.

use std::time::{Duration, Instant};

use lapin::options::QueueDeleteOptions;
use lapin::protocol::BasicProperties;
use rmq_watcher::domain::connection::AmqpSettings;
use rmq_watcher::domain::fault::BrokerFaultKind;
use rmq_watcher::domain::ids::ConnId;
use rmq_watcher::ports::{Broker, Consumer, Settled, Settler, Verb};

use crate::harness::{
    Client, end_of, eventually, footprint, next, no_growth, order, pool, refusal, run, run_alone, source,
};
use crate::node::{Node, versions};

#[test]
fn real_frozen_broker_is_noticed_at_twice_the_heartbeat() {
    run(async {
        for version in versions(4) {
            let node = Node::own(version, &[]);
            let client = Client::open(&node).await;
            let queue = client.queue("classic", &[]).await;
            client.publish_text(&queue, "held").await;
            client.close().await;
            let settings =
                AmqpSettings { heartbeat_secs: 2, connect_timeout: Duration::from_secs(1), ..node.settings() };
            let pool = pool(settings);
            let mut consumer = pool.attach(order(&queue, 1)).await.unwrap();
            let tag = next(&mut consumer).await.tag;
            node.pause();
            let began = Instant::now();
            let fault = end_of(&mut consumer, 20).await;
            let noticed = began.elapsed();
            assert_eq!(fault.kind, BrokerFaultKind::Unreachable);
            assert!(fault.text.contains("nothing came from the broker for 4 s"), "{}", fault.text);
            assert!(noticed < Duration::from_secs(8), "noticed after {noticed:?}");
            let settler = consumer.settler();
            assert_eq!(settler.settle(tag, Verb::Ack).await, Settled::Lost);
            // A frozen broker's kernel still accepts connections.
            assert_eq!(refusal(&pool, &queue).await.kind, BrokerFaultKind::TimedOut);
            node.resume();
            drop(consumer);
            drop(settler);
            let mut consumer = attached_again(&pool, &queue).await;
            let envelope = next(&mut consumer).await;
            assert!(envelope.redelivered);
        }
    });
}

/// Attaches as the watcher does: again until it works, at most for 30 s.
async fn attached_again(
    pool: &rmq_watcher::broker::Pool<crate::harness::Fixed>,
    queue: &str,
) -> rmq_watcher::broker::LapinConsumer {
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        match pool.attach(order(queue, 1)).await {
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
    run_alone(async {
        for version in versions(3) {
            let node = Node::own(version, &[]);
            let client = Client::open(&node).await;
            let queue = client.queue("classic", &[]).await;
            client.close().await;
            eventually(10, "the client's end", || footprint().lapin_threads == 0).await;
            let before = footprint();
            let settings = AmqpSettings { rpc_timeout: Duration::from_secs(1), ..node.settings() };
            let pool = pool(settings);
            let mut consumer = pool.attach(order(&queue, 1)).await.unwrap();
            let settler = consumer.settler();
            node.pause();
            let began = Instant::now();
            // The signal takes a moment to stop every thread of the broker.
            while settler.barrier().await {
                assert!(began.elapsed() < Duration::from_secs(5), "still answering");
            }
            let began = Instant::now();
            consumer.cancel().await;
            consumer.close().await;
            assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
            drop(settler);
            pool.close().await;
            assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
            no_growth(before).await;
            node.resume();
        }
    });
}

#[test]
fn real_killed_broker_is_noticed_at_once_and_found_again() {
    run(async {
        for version in versions(3) {
            let node = Node::own(version, &[]);
            let client = Client::open(&node).await;
            let queue = client.queue("classic", &[]).await;
            // Not a quorum queue: one killed within seconds of its declaration stays without a leader (RabbitMQ 3.10 and 4.0).
            let persistent = BasicProperties::default().with_delivery_mode(2);
            client.publish(&queue, persistent, b"kept").await;
            let settings = AmqpSettings { rpc_timeout: Duration::from_secs(3), ..node.settings() };
            let pool = pool(settings);
            let mut consumer = pool.attach(order(&queue, 1)).await.unwrap();
            let tag = next(&mut consumer).await.tag;
            node.kill();
            let fault = end_of(&mut consumer, 5).await;
            assert_eq!(fault.kind, BrokerFaultKind::Unreachable);
            assert!(fault.text.contains("connection was lost"), "{}", fault.text);
            assert_eq!(consumer.settler().settle(tag, Verb::Ack).await, Settled::Lost);
            let fault = refusal(&pool, &queue).await;
            assert!(fault.text.contains("connection refused"), "{}", fault.text);
            node.start_again();
            let mut consumer = attached_again(&pool, &queue).await;
            let envelope = next(&mut consumer).await;
            assert!(envelope.redelivered);
            assert_eq!(&envelope.body[..], b"kept");
        }
    });
}

#[test]
fn real_connection_closed_by_an_operator_is_said_in_his_words_and_replaced() {
    run(async {
        for version in versions(4) {
            let node = Node::shared(version);
            let client = Client::open(&node).await;
            let queue = client.queue("classic", &[]).await;
            let name = format!("closed{:08x}", fastrand::u32(..));
            let source = source(AmqpSettings { conn_id: ConnId::new(&*name), ..node.settings() });
            let pool = rmq_watcher::broker::Pool::new(source.clone());
            let mut consumer = pool.attach(order(&queue, 1)).await.unwrap();
            node.close_connection(&name, "maintenance");
            let fault = end_of(&mut consumer, 10).await;
            assert_eq!(fault.kind, BrokerFaultKind::Closed);
            assert!(fault.text.contains("maintenance"), "{}", fault.text);
            // The old consumer still holds the dead connection; the next one gets a new one.
            let mut again = pool.attach(order(&queue, 1)).await.unwrap();
            assert_eq!(source.resolved.get(), 2);
            client.publish_text(&queue, "on the new one").await;
            assert_eq!(&next(&mut again).await.body[..], b"on the new one");
        }
    });
}

#[test]
fn real_queue_deleted_under_a_consumer_is_a_cancel_and_the_channel_lives() {
    run(async {
        for version in versions(3) {
            let node = Node::shared(version);
            let client = Client::open(&node).await;
            let queue = client.queue("classic", &[]).await;
            let pool = pool(node.settings());
            let mut consumer = pool.attach(order(&queue, 1)).await.unwrap();
            client.channel.queue_delete(queue.as_str().into(), QueueDeleteOptions::default()).await.unwrap();
            let fault = end_of(&mut consumer, 10).await;
            assert_eq!(fault.kind, BrokerFaultKind::Cancelled);
            assert!(fault.text.contains(&queue), "{}", fault.text);
            assert_eq!(end_of(&mut consumer, 1).await, fault);
            assert!(consumer.settler().barrier().await);
            consumer.close().await;
            assert_eq!(refusal(&pool, &queue).await.kind, BrokerFaultKind::QueueMissing);
        }
    });
}
