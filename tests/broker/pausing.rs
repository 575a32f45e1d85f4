//! Consuming is stopped and begun again on one channel: what is held stays settleable, nothing is lost and nothing comes twice.

use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::FutureExt as _;
use rmq_watcher::domain::envelope::Envelope;
use rmq_watcher::domain::fault::BrokerFaultKind;
use rmq_watcher::domain::ids::ConsumerTag;
use rmq_watcher::ports::{Consumer, Settled, Settler, Verb};

use crate::harness::{end_of, next, run_on, within};
use crate::stage::Stage;
use crate::support::BrokerVersion::{V3, V4};
use crate::support::QueueKind;

fn fresh_tag() -> ConsumerTag {
    ConsumerTag::new(format!("tag.{:016x}", fastrand::u64(..)))
}

fn number(envelope: &Envelope) -> u32 {
    assert!(!envelope.redelivered, "given back although it was held");
    std::str::from_utf8(&envelope.body).unwrap().parse().unwrap()
}

/// Stops and begins again three times with everything held, then settles all of it in the order it came.
async fn roll(at: &Stage, kind: QueueKind) {
    at.publish_numbers(40).await;
    let mut consumer = at.attach(10).await;
    let (mut held, mut seen) = (Vec::new(), BTreeSet::new());
    for round in 1..=4_u32 {
        // Some are taken before the stop; the others of the window are on their way then.
        for _ in 0..round {
            let envelope = next(&mut consumer).await;
            assert!(seen.insert(number(&envelope)));
            held.push(envelope.tag);
        }
        at.ready(40 - 10 * round).await;
        for envelope in consumer.pause().await {
            assert!(seen.insert(number(&envelope)));
            held.push(envelope.tag);
        }
        assert_eq!(held.len(), 10 * usize::try_from(round).unwrap(), "the whole window, and no more");
        // A quorum queue goes on counting a consumer that was cancelled while deliveries of it are unsettled.
        if kind == QueueKind::Classic {
            assert_eq!(at.counts().await.1, 0, "nobody consumes");
        }
        assert!(consumer.pause().await.is_empty(), "once more changes nothing");
        if round < 4 {
            consumer.resume(fresh_tag(), 10).await.unwrap();
            consumer.resume(fresh_tag(), 10).await.unwrap();
        }
    }
    assert_eq!(seen, (0..40).collect());
    let settler = consumer.settler();
    for tag in held {
        assert_eq!(settler.settle(tag, Verb::Ack).await, Settled::Sent);
    }
    assert!(settler.barrier().await, "the channel took every one of them");
    at.publish("41").await;
    let more = tokio::time::timeout(Duration::from_millis(1500), consumer.next()).await;
    assert!(more.is_err(), "a delivery, or an end, while consuming is paused: {more:?}");
    consumer.resume(fresh_tag(), 10).await.unwrap();
    assert_eq!(number(&next(&mut consumer).await), 41);
    consumer.close().await;
    at.ready(1).await;
}

#[test]
fn real_paused_consumer_of_a_classic_queue_keeps_what_it_holds() {
    for version in [V3, V4] {
        run_on(version, async |version| {
            roll(&Stage::shared(version, QueueKind::Classic).await, QueueKind::Classic).await
        });
    }
}

#[test]
fn real_paused_consumer_of_a_quorum_queue_keeps_what_it_holds() {
    for version in [V3, V4] {
        run_on(version, async |version| {
            roll(&Stage::shared(version, QueueKind::Quorum).await, QueueKind::Quorum).await
        });
    }
}

#[test]
fn real_window_of_a_consumer_outlives_confirmations_in_between() {
    run_on(V4, async |version| {
        let at = Stage::shared(version, QueueKind::Classic).await;
        let mut consumer = at.attach(1).await;
        assert!(consumer.pause().await.is_empty());
        consumer.resume(fresh_tag(), 3).await.unwrap();
        assert!(consumer.settler().barrier().await);
        assert!(consumer.pause().await.is_empty());
        consumer.resume(fresh_tag(), 3).await.unwrap();
        at.publish_numbers(5).await;
        for wanted in 0..3 {
            assert_eq!(number(&next(&mut consumer).await), wanted);
        }
        at.ready(2).await;
    });
}

#[test]
fn real_pause_that_is_given_up_loses_nothing_that_is_on_its_way() {
    run_on(V3, async |version| {
        let at = Stage::shared(version, QueueKind::Classic).await;
        at.publish_numbers(5).await;
        let mut consumer = at.attach(5).await;
        at.ready(0).await;
        assert!(consumer.pause().now_or_never().is_none(), "polled once and dropped");
        let settler = consumer.settler();
        for wanted in 0..5 {
            let envelope = next(&mut consumer).await;
            assert_eq!(number(&envelope), wanted);
            assert_eq!(settler.settle(envelope.tag, Verb::Ack).await, Settled::Sent);
        }
        assert!(consumer.pause().await.is_empty());
        consumer.resume(fresh_tag(), 10).await.unwrap();
        at.publish("5").await;
        assert_eq!(number(&next(&mut consumer).await), 5);
    });
}

#[test]
fn real_paused_consumer_hears_of_its_channels_end() {
    run_on(V4, async |version| {
        let at = Stage::shared(version, QueueKind::Classic).await;
        at.publish("m").await;
        let mut consumer = at.attach(1).await;
        let tag = next(&mut consumer).await.tag;
        assert!(consumer.pause().await.is_empty());
        at.node.ctl(&["close_all_connections", "--vhost", at.node.vhost(), "a test"]);
        let fault = end_of(&mut consumer, 20).await;
        assert_eq!(fault.kind, BrokerFaultKind::Closed, "{}", fault.text);
        assert_eq!(consumer.settler().settle(tag, Verb::Ack).await, Settled::Lost);
        assert_eq!(within(5, consumer.resume(fresh_tag(), 10)).await.unwrap_err(), fault);
    });
}

#[test]
fn real_resume_on_a_queue_that_is_gone_says_so() {
    run_on(V3, async |version| {
        let at = Stage::shared(version, QueueKind::Classic).await;
        let mut consumer = at.attach(1).await;
        assert!(consumer.pause().await.is_empty());
        at.node.ctl(&["delete_queue", "--vhost", at.node.vhost(), &at.queue]);
        let fault = consumer.resume(fresh_tag(), 10).await.unwrap_err();
        assert_eq!(fault.kind, BrokerFaultKind::QueueMissing, "{}", fault.text);
        assert_eq!(end_of(&mut consumer, 5).await.kind, BrokerFaultKind::Closed);
    });
}

#[test]
fn real_resume_may_bring_another_window() {
    for version in [V3, V4] {
        run_on(version, async |version| {
            let at = Stage::shared(version, QueueKind::Classic).await;
            at.publish_numbers(10).await;
            let mut consumer = at.attach(1).await;
            next(&mut consumer).await;
            assert!(consumer.pause().await.is_empty());
            consumer.resume(fresh_tag(), 4).await.unwrap();
            for _ in 0..4 {
                next(&mut consumer).await;
            }
            let more = tokio::time::timeout(Duration::from_millis(1500), consumer.next()).await;
            assert!(more.is_err(), "a fifth delivery beyond the window: {more:?}");
            consumer.close().await;
            at.ready(10).await;
        });
    }
}
