//! The corpus of header tables, as RabbitMQ hands them out and as a conf shows them.

use rmq_watcher::domain::fields::table_to_json;
use rmq_watcher::ports::{Consumer as _, Settled, Settler as _, Verb};

use crate::harness::{next, run_on};
use crate::stage::Stage;
use crate::support::{BrokerVersion, QueueKind, corpus, raw};

#[test]
fn real_every_header_table_of_the_corpus_has_the_json_beside_it() {
    for (version, kind) in [(BrokerVersion::V3, QueueKind::Classic), (BrokerVersion::V4, QueueKind::Quorum)] {
        run_on(version, async |version| {
            let at = Stage::shared(version, kind).await;
            let cases = corpus::headers();
            assert!(cases.len() >= 60, "{}", cases.len());
            let mut publisher = raw::Publisher::open(&at.node);
            for case in &cases {
                publisher.publish(&at.queue, raw::HEADERS, &raw::long(&case.table), case.name.as_bytes());
            }
            let mut consumer = at.attach(4).await;
            for case in &cases {
                let envelope = next(&mut consumer).await;
                assert_eq!(&envelope.body[..], case.name.as_bytes());
                assert_eq!(table_to_json(&envelope.headers), *case.json(version), "{}", case.name);
                assert_eq!(consumer.settler().settle(envelope.tag, Verb::Ack).await, Settled::Sent);
            }
            assert!(consumer.settler().barrier().await);
            assert_eq!(at.source.resolved.get(), 1, "one connection for all of them");
        });
    }
}

/// If one version begins to take them, their forms must be held here like the others'.
#[test]
fn real_headers_that_rabbitmq_does_not_know_never_reach_us() {
    for version in BrokerVersion::ALL {
        run_on(version, async |version| {
            let at = Stage::shared(version, QueueKind::Classic).await;
            let cases = corpus::headers_never_taken();
            assert!(!cases.is_empty());
            for (name, table) in cases {
                let mut publisher = raw::Publisher::open(&at.node);
                let answer = publisher.try_publish(&at.queue, raw::HEADERS, &raw::long(&table), b"x");
                assert!(answer.is_err(), "{version:?} took: {name}");
            }
        });
    }
}
