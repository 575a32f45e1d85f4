//! The four verbs and the guards around them.

use std::time::Duration;

use lapin::types::AMQPValue;
use rmq_watcher::domain::connection::AmqpSettings;
use rmq_watcher::domain::envelope::Field;
use rmq_watcher::domain::fault::BrokerFaultKind;
use rmq_watcher::domain::ids::DeliveryTag;
use rmq_watcher::ports::{Broker, Consumer, Settled, Settler, Verb};

use crate::harness::{Client, end_of, next, order, pool, run};
use crate::node::{Node, versions};
use crate::peers::Relay;

#[test]
fn real_each_verb_does_at_the_broker_what_it_means() {
    run(async {
        for version in versions(4) {
            let node = Node::shared(version);
            let client = Client::open(&node).await;
            let dead = client.queue("classic", &[]).await;
            let text = |t: &str| AMQPValue::LongString(t.into());
            let arguments = [("x-dead-letter-exchange", text("")), ("x-dead-letter-routing-key", text(&dead))];
            let queue = client.queue("quorum", &arguments).await;
            let pool = pool(node.settings());
            let mut consumer = pool.attach(order(&queue, 1)).await.unwrap();
            let settler = consumer.settler();
            client.publish_text(&queue, "m").await;

            let first = next(&mut consumer).await;
            assert_eq!(first.headers.get("x-delivery-count"), None);
            assert_eq!(settler.settle(first.tag, Verb::GiveBackTried).await, Settled::Sent);
            let second = next(&mut consumer).await;
            assert!(second.redelivered);
            assert_eq!(second.headers["x-delivery-count"], Field::I64(1));
            assert_eq!(settler.settle(second.tag, Verb::GiveBackUntried).await, Settled::Sent);
            let third = next(&mut consumer).await;
            assert!(third.redelivered);
            // Until RabbitMQ 4.3 a nack counts like a reject.
            assert_eq!(third.headers["x-delivery-count"], Field::I64(2));
            assert_eq!(settler.settle(third.tag, Verb::DeadLetter).await, Settled::Sent);
            client.ready(&dead, 1).await;

            client.publish_text(&queue, "n").await;
            let fourth = next(&mut consumer).await;
            assert_eq!(settler.settle(fourth.tag, Verb::Ack).await, Settled::Sent);
            assert!(settler.barrier().await);
            consumer.close().await;
            client.idle(&queue).await;
            client.ready(&dead, 1).await;
        }
    });
}

#[test]
fn real_second_settle_of_a_delivery_sends_nothing() {
    run(async {
        for version in versions(3) {
            let node = Node::shared(version);
            let client = Client::open(&node).await;
            let queue = client.queue("classic", &[]).await;
            let pool = pool(node.settings());
            let mut consumer = pool.attach(order(&queue, 2)).await.unwrap();
            let settler = consumer.settler();
            client.publish_text(&queue, "a").await;
            let tag = next(&mut consumer).await.tag;
            assert_eq!(settler.settle(tag, Verb::Ack).await, Settled::Sent);
            assert_eq!(consumer.settler().settle(tag, Verb::GiveBackTried).await, Settled::Lost);
            assert_eq!(settler.settle(DeliveryTag(99), Verb::Ack).await, Settled::Lost);
            // RabbitMQ would have closed the channel over either.
            assert!(settler.barrier().await);
            client.publish_text(&queue, "b").await;
            assert_eq!(&next(&mut consumer).await.body[..], b"b");
        }
    });
}

#[test]
fn real_prefetch_bounds_what_is_unsettled() {
    run(async {
        for version in versions(3) {
            let node = Node::shared(version);
            let client = Client::open(&node).await;
            let queue = client.queue("classic", &[]).await;
            for n in 0..10 {
                client.publish_text(&queue, &n.to_string()).await;
            }
            let pool = pool(node.settings());
            let mut consumer = pool.attach(order(&queue, 3)).await.unwrap();
            let mut held = Vec::new();
            for _ in 0..3 {
                held.push(next(&mut consumer).await.tag);
            }
            client.ready(&queue, 7).await;
            // The barrier's answer comes after whatever the broker sent before it.
            let settler = consumer.settler();
            assert!(settler.barrier().await);
            let more = tokio::time::timeout(Duration::ZERO, consumer.next()).await;
            assert!(more.is_err(), "a fourth delivery beyond the prefetch");
            settler.settle(held[0], Verb::Ack).await;
            assert_eq!(&next(&mut consumer).await.body[..], b"3");
            client.ready(&queue, 6).await;
        }
    });
}

#[test]
fn real_ack_after_the_brokers_deadline_is_lost_and_the_connection_lives() {
    run(async {
        for version in versions(3) {
            let node = Node::own(version, &["consumer_timeout = 2000".to_owned()]);
            node.ctl(&["eval", "application:set_env(rabbit, channel_tick_interval, 500)."]);
            let client = Client::open(&node).await;
            let queue = client.queue("classic", &[]).await;
            let pool = pool(node.settings());
            let mut consumer = pool.attach(order(&queue, 1)).await.unwrap();
            client.publish_text(&queue, "slow").await;
            let tag = next(&mut consumer).await.tag;
            let fault = end_of(&mut consumer, 60).await;
            assert_eq!(fault.kind, BrokerFaultKind::PreconditionFailed, "{}", fault.text);
            assert_eq!(end_of(&mut consumer, 1).await, fault, "the end stays the end");
            let settler = consumer.settler();
            assert_eq!(settler.settle(tag, Verb::Ack).await, Settled::Lost);
            drop(consumer);
            // The same connection serves the next channel.
            let mut consumer = pool.attach(order(&queue, 1)).await.unwrap();
            let envelope = next(&mut consumer).await;
            assert!(envelope.redelivered);
            assert_eq!(consumer.settler().settle(envelope.tag, Verb::Ack).await, Settled::Sent);
        }
    });
}

#[test]
fn real_barrier_that_is_not_answered_ends_the_connection() {
    run(async {
        for version in versions(4) {
            let node = Node::shared(version);
            let client = Client::open(&node).await;
            let queue = client.queue("classic", &[]).await;
            client.publish_text(&queue, "m").await;
            let relay = Relay::start(node.port).await;
            let settings = AmqpSettings {
                hosts: vec!["127.0.0.1".to_owned()],
                port: relay.port,
                rpc_timeout: Duration::from_secs(1),
                heartbeat_secs: 60,
                ..node.settings()
            };
            let pool = pool(settings);
            let mut consumer = pool.attach(order(&queue, 1)).await.unwrap();
            let settler = consumer.settler();
            let tag = next(&mut consumer).await.tag;
            assert!(settler.barrier().await);
            relay.freeze();
            // The kernel still takes the bytes, so only the barrier can tell.
            assert_eq!(settler.settle(tag, Verb::Ack).await, Settled::Sent);
            assert!(!settler.barrier().await);
            let fault = end_of(&mut consumer, 5).await;
            assert_eq!(fault.kind, BrokerFaultKind::Unreachable, "{}", fault.text);
            assert!(!settler.barrier().await);
        }
    });
}
