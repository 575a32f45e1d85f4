//! Publishing copies: what arrives is the message again, and what is said of it is true.

use std::time::Duration;

use bytes::Bytes;
use lapin::protocol::BasicProperties;
use lapin::types::{AMQPValue, FieldArray, FieldTable, LongString};
use rmq_watcher::domain::connection::{AmqpSettings, Secret};
use rmq_watcher::domain::copy::{CopyHeader, Dressed, Part, Undressed, dress, undress};
use rmq_watcher::domain::envelope::{Envelope, Field, Properties, Table};
use rmq_watcher::domain::fault::BrokerFaultKind;
use rmq_watcher::domain::ids::{ConnId, QueueName};
use rmq_watcher::domain::key::DeliveryKey;
use rmq_watcher::domain::run_id::run_id;
use rmq_watcher::ports::Consumer as _;
use rmq_watcher::ports::{Broker as _, Outgoing, Published, Settler as _, Verb};
use serde_json::json;

use crate::harness::{check, next, pool, run, run_on, within};
use crate::stage::{Stage, declare, settings};
use crate::support::BrokerVersion::{V3, V4};
use crate::support::{Broker, BrokerVersion, Message, QueueKind, publish};

fn outgoing(queue: &str) -> Outgoing {
    Outgoing {
        conn_id: ConnId::new("rmq_test"),
        queue: QueueName::new(queue),
        properties: Properties { delivery_mode: Some(2), ..Properties::default() },
        headers: Table::new(),
        body: Bytes::from_static(b"copy"),
    }
}

fn fault_of(published: Published) -> rmq_watcher::domain::fault::BrokerFault {
    match published {
        Published::Confirmed => panic!("it was confirmed"),
        Published::Refused(fault) | Published::Failed(fault) | Published::Unknown(fault) => fault,
    }
}

/// Everything that a message may carry.
fn rich(queue: &str) -> Message {
    let death = FieldTable::default();
    Message::to_exchange("shop", "orders.new", vec![0, 159, 146, 150])
        .header("kind", "new")
        .header_value(
            "CC",
            AMQPValue::FieldArray(FieldArray::from(vec![AMQPValue::LongString(LongString::from(queue))])),
        )
        .header_value("x-death", AMQPValue::FieldArray(FieldArray::from(vec![AMQPValue::FieldTable(death)])))
        .header_value("small", AMQPValue::ShortInt(-7))
        .header_value("unsigned", AMQPValue::LongUInt(u32::MAX))
        .header_value("bytes", AMQPValue::ByteArray(vec![0, 255].into()))
        .header_value("nothing", AMQPValue::Void)
        .header_value("when", AMQPValue::Timestamp(1_700_000_000))
        .header_value("real", AMQPValue::Double(0.5))
        .with(|p| {
            p.with_user_id("guest".into())
                .with_priority(3)
                .with_content_type("application/octet-stream".into())
                .with_correlation_id("c".into())
                .with_reply_to("elsewhere".into())
                .with_type("order".into())
                .with_app_id("shop".into())
                .with_timestamp(1_700_000_001)
        })
}

/// As it was, but for what tells one delivery from another.
fn told_apart_by_nothing(mut envelope: Envelope, of: &Envelope) -> Envelope {
    (envelope.tag, envelope.redelivered) = (of.tag, of.redelivered);
    envelope
}

#[test]
fn real_copy_arrives_as_the_message_that_it_is_a_copy_of() {
    for version in BrokerVersion::ALL {
        run(async move {
            let node = Broker::shared(version);
            node.declare_exchange("shop", "topic");
            let at = Stage::on(node, QueueKind::Quorum).await;
            at.node.bind("shop", &at.queue, "orders.#");
            publish::send(&at.client.channel, &[rich("nowhere")]).await.unwrap();
            let mut consumer = at.attach(1).await;
            let original = next(&mut consumer).await;
            let key = DeliveryKey::of(&original);
            let run = run_id(&original.queue, &key, 1);
            let parts = vec![Part { target: "dag:a".into(), n: 1, run_id: run, outcome: None }];
            let header = CopyHeader { key, copy: 1, seen: 19, parts };
            let Dressed { properties, headers } = dress(&original, &header);
            let copy = Outgoing { properties, headers, body: original.body.clone(), ..outgoing(&at.queue) };
            assert_eq!(at.pool.publish(copy).await, Published::Confirmed);
            consumer.settler().settle(original.tag, Verb::Ack).await;
            let copy = next(&mut consumer).await;
            assert!(!copy.redelivered && copy.delivery_count().is_none(), "it has its whole budget");
            assert_eq!((copy.exchange.as_str(), &copy.routing_key), ("", &at.queue));
            let follows = |of: &Envelope, part: &Part| run_id(&of.queue, &DeliveryKey::of(of), part.n) == part.run_id;
            let Undressed::Copy(again, read) = undress(&copy, DeliveryKey::of, follows) else { panic!("{copy:?}") };
            assert_eq!((told_apart_by_nothing(*again, &original), read), (original, header));
            consumer.settler().settle(copy.tag, Verb::Ack).await;
            consumer.close().await;
            at.idle().await;
            within(10, at.pool.close()).await;
        });
    }
}

#[test]
fn real_publishing_without_the_right_is_refused_and_costs_no_consumer() {
    for version in BrokerVersion::ALL {
        run(async move {
            let at = Stage::shared(version, QueueKind::Quorum).await;
            at.node.add_user("reader", "secret-word", "", "^only-this$", ".*");
            let at = at.with(|settings| AmqpSettings {
                login: "reader".to_owned(),
                password: Secret::new("secret-word"),
                ..settings
            });
            let mut consumer = at.attach(1).await;
            for _ in 0..2 {
                let published = at.pool.publish(outgoing(&at.queue)).await;
                assert!(matches!(published, Published::Refused(_)), "{published:?}");
                check(
                    &fault_of(published),
                    BrokerFaultKind::AccessRefused,
                    &["publish a copy to", "amq.default", "reader"],
                );
            }
            at.publish("still there").await;
            assert_eq!(&next(&mut consumer).await.body[..], b"still there");
        });
    }
}

#[test]
fn real_queue_that_is_gone_or_full_takes_no_copy() {
    run_on(V3, async |version| {
        let node = Broker::shared(version);
        let full = declare(&node, QueueKind::Classic, json!({"x-max-length": 1, "x-overflow": "reject-publish"}));
        let at = Stage::at(node, full).await;
        assert_eq!(at.pool.publish(outgoing(&at.queue)).await, Published::Confirmed);
        let published = at.pool.publish(outgoing(&at.queue)).await;
        assert!(matches!(&published, Published::Failed(_)), "{published:?}");
        check(&fault_of(published), BrokerFaultKind::Closed, &["full"]);
        let published = at.pool.publish(outgoing("no-such-queue")).await;
        assert!(matches!(&published, Published::Failed(_)), "{published:?}");
        check(&fault_of(published), BrokerFaultKind::QueueMissing, &["no-such-queue"]);
        at.ready(1).await;
    });
}

#[test]
fn real_copy_that_does_not_fit_is_refused_and_the_next_one_is_taken() {
    run_on(V4, async |version| {
        let at = Stage::shared(version, QueueKind::Classic).await;
        let headers = Table::from([("large".to_owned(), Field::Text(vec![b'x'; 140_000]))]);
        let published = at.pool.publish(Outgoing { headers, ..outgoing(&at.queue) }).await;
        assert!(matches!(&published, Published::Refused(_)), "{published:?}");
        check(&fault_of(published), BrokerFaultKind::PreconditionFailed, &["more than one frame"]);
        // More than the frames of those who consume.
        let headers = Table::from([("large".to_owned(), Field::Text(vec![b'x'; 120_000]))]);
        let copy = Outgoing { headers, body: Bytes::from(vec![7; 300_000]), ..outgoing(&at.queue) };
        assert_eq!(at.pool.publish(copy.clone()).await, Published::Confirmed);
        let mut consumer = at.attach(1).await;
        let arrived = next(&mut consumer).await;
        assert_eq!((arrived.headers, arrived.body), (copy.headers, copy.body));
    });
}

#[test]
fn real_broker_that_falls_silent_leaves_it_open_whether_the_copy_is_there() {
    run(async {
        let node = Broker::own(V4, &[]);
        let queue = declare(&node, QueueKind::Classic, serde_json::Value::Null);
        let pool = pool(AmqpSettings { rpc_timeout: Duration::from_secs(3), ..settings(&node) });
        assert_eq!(pool.publish(outgoing(&queue)).await, Published::Confirmed);
        node.pause();
        let published = within(10, pool.publish(outgoing(&queue))).await;
        node.resume();
        assert!(matches!(&published, Published::Unknown(_) | Published::Failed(_)), "{published:?}");
        assert_eq!(fault_of(published).kind, BrokerFaultKind::TimedOut);
        assert_eq!(within(20, pool.publish(outgoing(&queue))).await, Published::Confirmed, "over a new connection");
        within(10, pool.close()).await;
    });
}

#[test]
fn real_broker_in_an_alarm_takes_no_copy_and_goes_on_with_acknowledgements() {
    run(async {
        let node = Broker::own(V3, &[]);
        let at = Stage::on(node, QueueKind::Classic).await;
        at.publish("m").await;
        let mut consumer = at.attach(1).await;
        let at = at.with(|settings| settings);
        let held = next(&mut consumer).await;
        assert_eq!(at.pool.publish(outgoing(&at.queue)).await, Published::Confirmed);
        at.node.ctl(&["set_vm_memory_high_watermark", "0.0001"]);
        let short = Duration::from_secs(40);
        let published = tokio::time::timeout(short, at.pool.publish(outgoing(&at.queue))).await.unwrap();
        assert_ne!(published, Published::Confirmed);
        let settler = consumer.settler();
        settler.settle(held.tag, Verb::Ack).await;
        assert!(within(5, settler.barrier()).await, "the other connection is read");
        at.node.ctl(&["set_vm_memory_high_watermark", "0.4"]);
    });
}

/// Also a message of the plainest kind.
#[test]
fn real_publishing_goes_over_a_connection_of_its_own() {
    run_on(V4, async |version| {
        let at = Stage::shared(version, QueueKind::Classic).await;
        let consumer = at.attach(1).await;
        at.client.publish(&at.queue, BasicProperties::default(), b"x").await;
        assert_eq!(at.pool.publish(outgoing(&at.queue)).await, Published::Confirmed);
        let names = || {
            let connections =
                at.node.management("GET", &format!("vhosts/{}/connections", at.node.vhost()), None).json();
            let name = |one: &serde_json::Value| {
                one["client_properties"]["connection_name"].as_str().unwrap_or_default().to_owned()
            };
            let mut names: Vec<String> = connections.as_array().unwrap().iter().map(name).collect();
            names.retain(|name| name.starts_with("rmq_watcher"));
            names.len()
        };
        crate::harness::eventually(20, "two connections are shown", || names() == 2).await;
        consumer.close().await;
    });
}
