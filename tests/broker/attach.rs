//! Attaching, consuming, settling: what the broker shows afterwards.

use lapin::protocol::BasicProperties;
use rmq_watcher::domain::fault::BrokerFaultKind;
use rmq_watcher::ports::{Broker, Consumer, Settled, Settler, Verb};

use crate::harness::{Client, end_of, next, order, pool, run};
use crate::node::{Node, versions};

#[test]
fn real_attach_consume_ack_leaves_nothing() {
    run(async {
        for version in versions(3) {
            let node = Node::shared(version);
            let client = Client::open(&node).await;
            let queue = client.queue("classic", &[]).await;
            let pool = pool(node.settings());
            let mut consumer = pool.attach(order(&queue, 10)).await.unwrap();
            // Confirmed: the very next question shows the consumer.
            assert_eq!(client.counts(&queue).await, (0, 1));
            client.publish(&queue, BasicProperties::default().with_message_id("m-1".into()), b"hello").await;
            let envelope = next(&mut consumer).await;
            assert_eq!(&envelope.body[..], b"hello");
            assert_eq!(envelope.properties.message_id.as_deref(), Some("m-1"));
            assert_eq!(envelope.routing_key, queue);
            assert!(!envelope.redelivered);
            let settler = consumer.settler();
            assert_eq!(settler.settle(envelope.tag, Verb::Ack).await, Settled::Sent);
            assert!(settler.barrier().await);
            consumer.close().await;
            drop(settler);
            client.idle(&queue).await;
            pool.close().await;
            client.close().await;
        }
    });
}

#[test]
fn real_unsettled_deliveries_come_back_when_the_channel_closes() {
    run(async {
        for version in versions(4) {
            let node = Node::shared(version);
            let client = Client::open(&node).await;
            let queue = client.queue("quorum", &[]).await;
            let pool = pool(node.settings());
            let mut consumer = pool.attach(order(&queue, 10)).await.unwrap();
            client.publish_text(&queue, "a").await;
            let envelope = next(&mut consumer).await;
            let settler = consumer.settler();
            consumer.close().await;
            client.ready(&queue, 1).await;
            assert_eq!(settler.settle(envelope.tag, Verb::Ack).await, Settled::Lost);
            assert!(!settler.barrier().await);
        }
    });
}

#[test]
fn real_cancel_lets_what_is_underway_be_taken_and_settled() {
    run(async {
        for version in versions(3) {
            let node = Node::shared(version);
            let client = Client::open(&node).await;
            let queue = client.queue("classic", &[]).await;
            for n in 0..5 {
                client.publish_text(&queue, &n.to_string()).await;
            }
            let pool = pool(node.settings());
            let mut consumer = pool.attach(order(&queue, 5)).await.unwrap();
            let first = next(&mut consumer).await;
            // The window is full at the broker, so all five are on their way.
            client.ready(&queue, 0).await;
            consumer.cancel().await;
            assert_eq!(client.counts(&queue).await.1, 0);
            let settler = consumer.settler();
            assert_eq!(settler.settle(first.tag, Verb::Ack).await, Settled::Sent);
            for _ in 1..5 {
                let tag = next(&mut consumer).await.tag;
                assert_eq!(settler.settle(tag, Verb::Ack).await, Settled::Sent);
            }
            let fault = end_of(&mut consumer, 5).await;
            assert_eq!(fault.kind, BrokerFaultKind::Cancelled);
            assert!(settler.barrier().await);
            consumer.close().await;
            client.ready(&queue, 0).await;
        }
    });
}
