//! Wrong settings: each its own fault and sentence, found at once, and retried without growth.

use lapin::options::{BasicConsumeOptions, QueueDeclareOptions};
use lapin::types::FieldTable;
use rmq_watcher::broker::{ProbeFinding, ProbeSubject, probe};
use rmq_watcher::domain::connection::{AmqpSettings, Secret};
use rmq_watcher::domain::fault::{BrokerFault, BrokerFaultKind};
use rmq_watcher::domain::ids::QueueName;
use rmq_watcher::ports::{Broker, Consumer};

use crate::harness::{Client, footprint, next, no_growth, order, pool, refusal, run, run_alone, source, within};
use crate::node::{Node, versions};

const PLANTED: &str = "planted-secret";

fn wrong_password(node: &Node) -> AmqpSettings {
    AmqpSettings { password: Secret::new(PLANTED), ..node.settings() }
}

fn wrong_vhost(node: &Node) -> AmqpSettings {
    AmqpSettings { vhost: "no such vhost".to_owned(), ..node.settings() }
}

/// Makes a user and returns settings for it; `read` is its read permission in the vhost, `None` for no permission at all.
fn user(node: &Node, read: Option<&str>) -> AmqpSettings {
    let name = format!("user{:08x}", fastrand::u32(..));
    let body = format!(r#"{{"password":"{PLANTED}","tags":""}}"#);
    let (status, _) = node.management("PUT", &format!("users/{name}"), Some(&body));
    assert_eq!(status, 201);
    if let Some(read) = read {
        let body = format!(r#"{{"configure":".*","write":".*","read":"{read}"}}"#);
        let path = format!("permissions/{}/{name}", node.vhost);
        assert_eq!(node.management("PUT", &path, Some(&body)).0, 201);
    }
    AmqpSettings { login: name, password: Secret::new(PLANTED), ..node.settings() }
}

fn check(fault: &BrokerFault, kind: BrokerFaultKind, says: &[&str]) {
    assert_eq!(fault.kind, kind, "{}", fault.text);
    for words in says {
        assert!(fault.text.contains(words), "{words:?} not in {:?}", fault.text);
    }
    assert!(!fault.text.contains(PLANTED), "{}", fault.text);
    assert!(!fault.text.contains('\n'));
}

#[test]
fn real_wrong_password_is_said_and_the_source_told() {
    run(async {
        for version in versions(3) {
            let node = Node::shared(version);
            let source = source(wrong_password(&node));
            let pool = rmq_watcher::broker::Pool::new(source.clone());
            let fault = within(5, refusal(&pool, "q")).await;
            check(&fault, BrokerFaultKind::LoginRefused, &["\"guest\"", "127.0.0.1", "correct user name and password"]);
            assert_eq!(source.refused.get(), 1);
        }
    });
}

#[test]
fn real_wrong_vhost_and_vhost_without_permission_are_told_apart() {
    run(async {
        for version in versions(4) {
            let node = Node::shared(version);
            let fault = within(5, refusal(&pool(wrong_vhost(&node)), "q")).await;
            check(&fault, BrokerFaultKind::VhostRefused, &["no such vhost", "create it"]);
            let settings = user(&node, None);
            let login = settings.login.clone();
            let fault = within(5, refusal(&pool(settings), "q")).await;
            check(&fault, BrokerFaultKind::VhostRefused, &[&login, "may not use it", "grant permissions"]);
        }
    });
}

#[test]
fn real_connection_limit_is_said_in_the_brokers_words() {
    run(async {
        for version in versions(3) {
            let node = Node::shared(version);
            let vhost = format!("limited{:08x}", fastrand::u32(..));
            assert_eq!(node.management("PUT", &format!("vhosts/{vhost}"), None).0, 201);
            node.ctl(&["set_vhost_limits", "-p", &vhost, r#"{"max-connections": 0}"#]);
            let settings = AmqpSettings { vhost: vhost.clone(), ..node.settings() };
            let fault = within(5, refusal(&pool(settings), "q")).await;
            check(&fault, BrokerFaultKind::VhostRefused, &["limit", "raise the limit"]);
            node.management("DELETE", &format!("vhosts/{vhost}"), None);
        }
    });
}

#[test]
fn real_missing_queue_and_missing_right_are_told_apart() {
    run(async {
        for version in versions(4) {
            let node = Node::shared(version);
            let fault = refusal(&pool(node.settings()), "no such queue").await;
            check(&fault, BrokerFaultKind::QueueMissing, &["\"no such queue\"", "\"test\"", "create it"]);
            let client = Client::open(&node).await;
            let queue = client.queue("classic", &[]).await;
            let settings = user(&node, Some("nothing"));
            let fault = refusal(&pool(settings), &queue).await;
            check(&fault, BrokerFaultKind::AccessRefused, &[&queue, "read permission"]);
        }
    });
}

#[test]
fn real_exclusive_consumer_and_exclusive_queue_are_resource_locked() {
    run(async {
        for version in versions(3) {
            let node = Node::shared(version);
            let client = Client::open(&node).await;
            let queue = client.queue("classic", &[]).await;
            let exclusive = BasicConsumeOptions { exclusive: true, ..BasicConsumeOptions::default() };
            let _holder = client
                .channel
                .basic_consume(queue.as_str().into(), "".into(), exclusive, FieldTable::default())
                .await
                .unwrap();
            let pool = pool(node.settings());
            let fault = refusal(&pool, &queue).await;
            check(&fault, BrokerFaultKind::ResourceLocked, &[&queue, "exclusively"]);
            let own = format!("own{:08x}", fastrand::u32(..));
            let options = QueueDeclareOptions { exclusive: true, ..QueueDeclareOptions::default() };
            client.channel.queue_declare(own.as_str().into(), options, FieldTable::default()).await.unwrap();
            let fault = refusal(&pool, &own).await;
            check(&fault, BrokerFaultKind::ResourceLocked, &[&own, "another connection"]);
        }
    });
}

#[test]
fn names_too_long_for_the_protocol_are_refused_before_anything_is_sent() {
    run(async {
        let settings = AmqpSettings { vhost: "v".repeat(256), hosts: vec!["127.0.0.1".to_owned()], ..offline() };
        let fault = refusal(&pool(settings), "q").await;
        check(&fault, BrokerFaultKind::VhostRefused, &["longer than 255 bytes"]);
    });
}

fn offline() -> AmqpSettings {
    AmqpSettings {
        conn_id: rmq_watcher::domain::ids::ConnId::new("rmq_test"),
        hosts: vec![],
        port: 1,
        login: "user".to_owned(),
        password: Secret::new(PLANTED),
        vhost: "/".to_owned(),
        tls: None,
        heartbeat_secs: 30,
        connect_timeout: std::time::Duration::from_secs(5),
        rpc_timeout: std::time::Duration::from_secs(5),
        management_url: None,
    }
}

#[test]
fn real_fifty_attempts_against_each_wrong_setting_leave_nothing() {
    run_alone(async {
        for version in versions(3) {
            let node = Node::shared(version);
            let before = footprint();
            for settings in [wrong_password(&node), wrong_vhost(&node)] {
                let pool = pool(settings);
                for _ in 0..50 {
                    assert!(refusal(&pool, "q").await.kind.is_configuration());
                }
                pool.close().await;
            }
            no_growth(before).await;
        }
    });
}

#[test]
fn real_fifty_attempts_at_a_missing_queue_leave_the_neighbour_alone() {
    run_alone(async {
        for version in versions(4) {
            let node = Node::shared(version);
            let client = Client::open(&node).await;
            let queue = client.queue("classic", &[]).await;
            let source = source(node.settings());
            let pool = rmq_watcher::broker::Pool::new(source.clone());
            let mut neighbour = pool.attach(order(&queue, 5)).await.unwrap();
            let before = footprint();
            for _ in 0..50 {
                let fault = refusal(&pool, "no such queue").await;
                assert_eq!(fault.kind, BrokerFaultKind::QueueMissing);
            }
            client.publish_text(&queue, "still here").await;
            assert_eq!(&next(&mut neighbour).await.body[..], b"still here");
            assert_eq!(source.resolved.get(), 1, "all over one connection");
            assert_eq!(footprint(), before);
            neighbour.close().await;
        }
    });
}

#[test]
fn real_probe_names_the_step_that_fails_and_counts_what_it_finds() {
    run(async {
        for version in versions(3) {
            let node = Node::shared(version);
            let client = Client::open(&node).await;
            let queue = client.queue("quorum", &[]).await;
            client.publish_text(&queue, "one").await;
            client.ready(&queue, 1).await;
            let queues = [QueueName::new("missing"), QueueName::new(&*queue)];
            let results = probe(&node.settings(), &queues).await;
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

            let results = probe(&wrong_vhost(&node), &queues).await;
            assert_eq!(results.len(), 3);
            assert_eq!(results[1].outcome, Ok(ProbeFinding::Works));
            assert_eq!(results[2].subject, ProbeSubject::Vhost);
            assert!(results[2].outcome.is_err());
            let results = probe(&wrong_password(&node), &queues).await;
            assert_eq!(results.len(), 2);
            assert_eq!(results[1].subject, ProbeSubject::Login);
            assert!(results[1].outcome.is_err());
        }
    });
}
