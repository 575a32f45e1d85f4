//! Attaching, consuming, settling: what the broker shows afterwards.

use lapin::protocol::BasicProperties;
use rmq_watcher::ports::{Consumer, Settled, Settler, Verb};

use crate::harness::{next, run_on};
use crate::stage::Stage;
use crate::support::BrokerVersion::{V3, V4};
use crate::support::QueueKind;

#[test]
fn real_attach_consume_ack_leaves_nothing() {
    run_on(V3, async |version| {
        let at = Stage::shared(version, QueueKind::Classic).await;
        let mut consumer = at.attach(10).await;
        // Confirmed: the very next question shows the consumer.
        assert_eq!(at.counts().await, (0, 1));
        at.client.publish(&at.queue, BasicProperties::default().with_message_id("m-1".into()), b"hello").await;
        let envelope = next(&mut consumer).await;
        assert_eq!(&envelope.body[..], b"hello");
        assert_eq!(envelope.properties.message_id.as_deref(), Some("m-1"));
        assert_eq!(envelope.routing_key, at.queue);
        assert!(!envelope.redelivered);
        let settler = consumer.settler();
        assert_eq!(settler.settle(envelope.tag, Verb::Ack).await, Settled::Sent);
        assert!(settler.barrier().await);
        consumer.close().await;
        drop(settler);
        at.idle().await;
        at.pool.close().await;
        at.client.close().await;
    });
}

#[test]
fn real_unsettled_deliveries_come_back_when_the_channel_closes() {
    run_on(V4, async |version| {
        let at = Stage::shared(version, QueueKind::Quorum).await;
        let mut consumer = at.attach(10).await;
        at.publish("a").await;
        let envelope = next(&mut consumer).await;
        let settler = consumer.settler();
        consumer.close().await;
        at.ready(1).await;
        assert_eq!(settler.settle(envelope.tag, Verb::Ack).await, Settled::Lost);
        assert!(!settler.barrier().await);
    });
}
