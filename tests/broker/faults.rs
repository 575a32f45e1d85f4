//! Wrong settings: each its own fault and sentence, found at once, and retried without growth.

use lapin::options::{BasicConsumeOptions, QueueDeclareOptions};
use lapin::types::FieldTable;
use rmq_watcher::broker::{Pool, ProbeFinding, ProbeSubject, probe};
use rmq_watcher::domain::connection::{AmqpSettings, Secret};
use rmq_watcher::domain::fault::{BrokerFault, BrokerFaultKind};
use rmq_watcher::domain::ids::QueueName;
use rmq_watcher::ports::Consumer;

use crate::footprint::{footprint, no_growth};
use crate::harness::{self, PLANTED, next, pool, refusal, run, run_alone_on, run_on, settings_for, source, within};
use crate::stage::{Stage, settings};
use crate::support::BrokerVersion::{V3, V4};
use crate::support::{Broker, QueueKind};

fn wrong_password(node: &Broker) -> AmqpSettings {
    AmqpSettings { password: Secret::new(PLANTED), ..settings(node) }
}

fn wrong_vhost(node: &Broker) -> AmqpSettings {
    AmqpSettings { vhost: "no such vhost".to_owned(), ..settings(node) }
}

/// Makes a user and returns settings for it; `read` is its read permission in the vhost, `None` for no permission at all.
fn user(node: &Broker, read: Option<&str>) -> AmqpSettings {
    let name = format!("user{:08x}", fastrand::u32(..));
    match read {
        Some(read) => node.add_user(&name, PLANTED, ".*", ".*", read),
        None => node.add_stranger(&name, PLANTED),
    }
    AmqpSettings { login: name, password: Secret::new(PLANTED), ..settings(node) }
}

fn check(fault: &BrokerFault, kind: BrokerFaultKind, says: &[&str]) {
    harness::check(fault, kind, says);
    assert!(!fault.text.contains(PLANTED), "{}", fault.text);
    assert!(!fault.text.contains('\n'));
}

#[test]
fn real_wrong_password_is_said_and_the_source_told() {
    run_on(V3, async |version| {
        let node = Broker::shared(version);
        let source = source(wrong_password(&node));
        let pool = Pool::new(source.clone());
        let fault = within(5, refusal(&pool, "q")).await;
        check(&fault, BrokerFaultKind::LoginRefused, &["\"guest\"", "127.0.0.1", "correct user name and password"]);
        assert_eq!(source.refused.get(), 1);
    });
}

#[test]
fn real_wrong_vhost_and_vhost_without_permission_are_told_apart() {
    run_on(V4, async |version| {
        let node = Broker::shared(version);
        let fault = within(5, refusal(&pool(wrong_vhost(&node)), "q")).await;
        check(&fault, BrokerFaultKind::VhostRefused, &["no such vhost", "create it"]);
        let settings = user(&node, None);
        let login = settings.login.clone();
        let fault = within(5, refusal(&pool(settings), "q")).await;
        check(&fault, BrokerFaultKind::VhostRefused, &[&login, "may not use it", "grant permissions"]);
    });
}

#[test]
fn real_connection_limit_is_said_in_the_brokers_words() {
    run_on(V3, async |version| {
        let node = Broker::shared(version);
        node.limit_connections(0);
        let fault = within(5, refusal(&pool(settings(&node)), "q")).await;
        check(&fault, BrokerFaultKind::VhostRefused, &["limit", "raise the limit"]);
    });
}

#[test]
fn real_missing_queue_and_missing_right_are_told_apart() {
    run_on(V4, async |version| {
        let at = Stage::shared(version, QueueKind::Classic).await;
        let fault = refusal(&at.pool, "no such queue").await;
        let vhost = format!("{:?}", at.node.vhost());
        check(&fault, BrokerFaultKind::QueueMissing, &["\"no such queue\"", &vhost, "create it"]);
        let settings = user(&at.node, Some("nothing"));
        let fault = refusal(&pool(settings), &at.queue).await;
        check(&fault, BrokerFaultKind::AccessRefused, &[&at.queue, "read permission"]);
    });
}

#[test]
fn real_exclusive_consumer_and_exclusive_queue_are_resource_locked() {
    run_on(V3, async |version| {
        let at = Stage::shared(version, QueueKind::Classic).await;
        let exclusive = BasicConsumeOptions { exclusive: true, ..BasicConsumeOptions::default() };
        let channel = &at.client.channel;
        let _holder =
            channel.basic_consume(at.queue.as_str().into(), "".into(), exclusive, FieldTable::default()).await.unwrap();
        let fault = refusal(&at.pool, &at.queue).await;
        check(&fault, BrokerFaultKind::ResourceLocked, &[&at.queue, "exclusively"]);
        let own = format!("own{:08x}", fastrand::u32(..));
        let options = QueueDeclareOptions { exclusive: true, ..QueueDeclareOptions::default() };
        channel.queue_declare(own.as_str().into(), options, FieldTable::default()).await.unwrap();
        let fault = refusal(&at.pool, &own).await;
        check(&fault, BrokerFaultKind::ResourceLocked, &[&own, "another connection"]);
    });
}

#[test]
fn names_too_long_for_the_protocol_are_refused_before_anything_is_sent() {
    run(async {
        let settings = AmqpSettings { vhost: "v".repeat(256), ..settings_for(1) };
        let fault = refusal(&pool(settings), "q").await;
        check(&fault, BrokerFaultKind::VhostRefused, &["longer than 255 bytes"]);
    });
}

#[test]
fn real_fifty_attempts_against_each_wrong_setting_leave_nothing() {
    run_alone_on(V3, async |version| {
        let node = Broker::shared(version);
        let before = footprint();
        for settings in [wrong_password(&node), wrong_vhost(&node)] {
            let pool = pool(settings);
            for _ in 0..50 {
                assert!(refusal(&pool, "q").await.kind.is_configuration());
            }
            pool.close().await;
        }
        no_growth(before).await;
    });
}

#[test]
fn real_fifty_attempts_at_a_missing_queue_leave_the_neighbour_alone() {
    run_alone_on(V4, async |version| {
        let at = Stage::shared(version, QueueKind::Classic).await;
        let mut neighbour = at.attach(5).await;
        let before = footprint();
        for _ in 0..50 {
            let fault = refusal(&at.pool, "no such queue").await;
            assert_eq!(fault.kind, BrokerFaultKind::QueueMissing);
        }
        at.publish("still here").await;
        assert_eq!(&next(&mut neighbour).await.body[..], b"still here");
        assert_eq!(at.source.resolved.get(), 1, "all over one connection");
        assert_eq!(footprint(), before);
        neighbour.close().await;
    });
}

#[test]
fn real_probe_names_the_step_that_fails_and_counts_what_it_finds() {
    run_on(V3, async |version| {
        let at = Stage::shared(version, QueueKind::Quorum).await;
        at.publish("one").await;
        at.ready(1).await;
        let queues = [QueueName::new("missing"), QueueName::new(&*at.queue)];
        let results = probe(&settings(&at.node), &queues).await;
        let subjects: Vec<_> = results.iter().map(|r| r.subject.clone()).collect();
        assert_eq!(
            subjects,
            [
                ProbeSubject::Connection,
                ProbeSubject::Login,
                ProbeSubject::Vhost,
                ProbeSubject::Queue(queues[0].clone()),
                ProbeSubject::Queue(queues[1].clone()),
            ]
        );
        let fault = results[3].outcome.as_ref().unwrap_err();
        check(fault, BrokerFaultKind::QueueMissing, &["\"missing\"", "look at"]);
        let found = ProbeFinding::Queue { messages: 1, consumers: 0 };
        assert_eq!(results[4].outcome, Ok(found));

        let results = probe(&wrong_vhost(&at.node), &queues).await;
        assert_eq!(results.len(), 3);
        assert_eq!(results[1].outcome, Ok(ProbeFinding::Works));
        assert_eq!(results[2].subject, ProbeSubject::Vhost);
        assert!(results[2].outcome.is_err());
        let results = probe(&wrong_password(&at.node), &queues).await;
        assert_eq!(results.len(), 2);
        assert_eq!(results[1].subject, ProbeSubject::Login);
        assert!(results[1].outcome.is_err());
    });
}
