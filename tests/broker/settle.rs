//! The four verbs and the guards around them.

use std::time::Duration;

use rmq_watcher::domain::connection::AmqpSettings;
use rmq_watcher::domain::envelope::Field;
use rmq_watcher::domain::fault::BrokerFaultKind;
use rmq_watcher::domain::ids::DeliveryTag;
use rmq_watcher::ports::{Consumer, Settled, Settler, Verb};
use serde_json::{Value, json};

use crate::harness::{end_of, next, run_on};
use crate::peers::Relay;
use crate::stage::{Stage, declare};
use crate::support::BrokerVersion::{V3, V4};
use crate::support::{Broker, QueueKind};

#[test]
fn real_each_verb_does_at_the_broker_what_it_means() {
    run_on(V4, async |version| {
        let node = Broker::shared(version);
        let dead = declare(&node, QueueKind::Classic, Value::Null);
        let arguments = json!({"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead});
        let queue = declare(&node, QueueKind::Quorum, arguments);
        let at = Stage::at(node, queue).await;
        let mut consumer = at.attach(1).await;
        let settler = consumer.settler();
        at.publish("m").await;

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
        at.client.shows(&dead, |(ready, _)| ready == 1).await;

        at.publish("n").await;
        let fourth = next(&mut consumer).await;
        assert_eq!(settler.settle(fourth.tag, Verb::Ack).await, Settled::Sent);
        assert!(settler.barrier().await);
        consumer.close().await;
        at.idle().await;
        at.client.shows(&dead, |(ready, _)| ready == 1).await;
    });
}

#[test]
fn real_second_settle_of_a_delivery_sends_nothing() {
    run_on(V3, async |version| {
        let at = Stage::shared(version, QueueKind::Classic).await;
        let mut consumer = at.attach(2).await;
        let settler = consumer.settler();
        at.publish("a").await;
        let tag = next(&mut consumer).await.tag;
        assert_eq!(settler.settle(tag, Verb::Ack).await, Settled::Sent);
        assert_eq!(consumer.settler().settle(tag, Verb::GiveBackTried).await, Settled::Lost);
        assert_eq!(settler.settle(DeliveryTag(99), Verb::Ack).await, Settled::Lost);
        // RabbitMQ would have closed the channel over either.
        assert!(settler.barrier().await);
        at.publish("b").await;
        assert_eq!(&next(&mut consumer).await.body[..], b"b");
    });
}

#[test]
fn real_prefetch_bounds_what_is_unsettled() {
    run_on(V3, async |version| {
        let at = Stage::shared(version, QueueKind::Classic).await;
        at.publish_numbers(10).await;
        let mut consumer = at.attach(3).await;
        let mut held = Vec::new();
        for _ in 0..3 {
            held.push(next(&mut consumer).await.tag);
        }
        at.ready(7).await;
        // The barrier's answer comes after whatever the broker sent before it.
        let settler = consumer.settler();
        assert!(settler.barrier().await);
        let more = tokio::time::timeout(Duration::ZERO, consumer.next()).await;
        assert!(more.is_err(), "a fourth delivery beyond the prefetch");
        settler.settle(held[0], Verb::Ack).await;
        assert_eq!(&next(&mut consumer).await.body[..], b"3");
        at.ready(6).await;
    });
}

#[test]
fn real_ack_after_the_brokers_deadline_is_lost_and_the_connection_lives() {
    run_on(V3, async |version| {
        let node = Broker::own(version, &["consumer_timeout = 2000"]);
        node.ctl(&["eval", "application:set_env(rabbit, channel_tick_interval, 500)."]);
        let at = Stage::on(node, QueueKind::Classic).await;
        let mut consumer = at.attach(1).await;
        at.publish("slow").await;
        let tag = next(&mut consumer).await.tag;
        let fault = end_of(&mut consumer, 60).await;
        assert_eq!(fault.kind, BrokerFaultKind::PreconditionFailed, "{}", fault.text);
        assert_eq!(end_of(&mut consumer, 1).await, fault, "the end stays the end");
        let settler = consumer.settler();
        assert_eq!(settler.settle(tag, Verb::Ack).await, Settled::Lost);
        drop(consumer);
        // The same connection serves the next channel.
        let mut consumer = at.attach(1).await;
        let envelope = next(&mut consumer).await;
        assert!(envelope.redelivered);
        assert_eq!(consumer.settler().settle(envelope.tag, Verb::Ack).await, Settled::Sent);
    });
}

#[test]
fn real_barrier_that_is_not_answered_ends_the_connection() {
    run_on(V4, async |version| {
        let node = Broker::shared(version);
        let relay = Relay::start(node.address().port()).await;
        let queue = declare(&node, QueueKind::Classic, Value::Null);
        let at = Stage::at(node, queue).await.with(|settings| AmqpSettings {
            port: relay.port,
            rpc_timeout: Duration::from_secs(1),
            heartbeat_secs: 60,
            ..settings
        });
        at.publish("m").await;
        let mut consumer = at.attach(1).await;
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
    });
}
