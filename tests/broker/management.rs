//! The management API: what real brokers say of queues to whom, and what is made of everything else that may answer.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rmq_watcher::broker::look;
use rmq_watcher::domain::connection::{AmqpSettings, TlsSettings};
use rmq_watcher::domain::ids::{ConnId, QueueName};
use rmq_watcher::domain::plan::Place;
use rmq_watcher::domain::queue_facts::{DeadLetters, Limit, NotLooked, QueueFacts, QueueKind, Release};
use rmq_watcher::ports::{Broker as _, Consumer as _};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::json;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpListener;

use crate::harness::{PLANTED, run, settings_for};
use crate::stage::{Stage, declare, settings};
use crate::support::{Broker, BrokerVersion, Certificates, QueueKind as Made};
use crate::tls::trusting;

const OURS: &str = "tag.";

fn with_management(node: &Broker) -> AmqpSettings {
    AmqpSettings { management_url: Some(node.management_url().to_owned()), ..settings(node) }
}

async fn said(settings: &AmqpSettings, queue: &str) -> QueueFacts {
    look(settings, &QueueName::new(queue), OURS).await.unwrap()
}

/// Looks until it says what is wanted: policies and consumers are told some seconds late, 25 s for a quorum queue.
async fn until(settings: &AmqpSettings, queue: &str, wanted: impl Fn(&QueueFacts) -> bool) -> QueueFacts {
    let began = Instant::now();
    loop {
        let facts = said(settings, queue).await;
        if wanted(&facts) {
            return facts;
        }
        assert!(began.elapsed() < Duration::from_secs(90), "{facts:?}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

#[test]
fn real_brokers_tell_kind_limits_dead_letters_and_consumers_of_a_queue() {
    for version in BrokerVersion::ALL {
        run(async {
            let node = Broker::shared(version);
            let settings = with_management(&node);
            node.declare_exchange("dlx", "fanout");
            let arguments = json!({
                "x-delivery-limit": 5, "x-dead-letter-exchange": "dlx", "x-single-active-consumer": true
            });
            let limited = declare(&node, Made::Quorum, arguments);
            let by_policy = declare(&node, Made::Quorum, json!({}));
            let classic = declare(&node, Made::Classic, json!({"x-dead-letter-exchange": "not there"}));
            node.set_policy(false, &by_policy, json!({"delivery-limit": 9, "dead-letter-exchange": "dlx"}));
            node.set_policy(true, &by_policy, json!({"delivery-limit": 7}));

            let facts = said(&settings, &limited).await;
            assert_eq!((facts.kind, facts.single_active_consumer), (Some(QueueKind::Quorum), Some(true)));
            assert_eq!((facts.durable, facts.exclusive, facts.limit_argument), (Some(true), Some(false), Some(5)));
            assert_eq!(facts.dead_letters, DeadLetters::Exchange("dlx".into()));
            assert_eq!(facts.exchange_is_there, Some(false), "nothing is bound to it");
            node.bind("dlx", &classic, "");
            assert_eq!(said(&settings, &limited).await.exchange_is_there, Some(true));

            let facts = said(&settings, &classic).await;
            assert_eq!((facts.kind, facts.exchange_is_there), (Some(QueueKind::Classic), Some(false)));

            let facts = until(&settings, &by_policy, |facts| facts.policy_is_known).await;
            assert_eq!(facts.limit(Some(release_of(version))), Limit::At(7), "{facts:?}");
            assert_eq!(facts.dead_letters, DeadLetters::Exchange("dlx".into()));
            assert_eq!(facts.limit_in_force.is_some(), version == BrokerVersion::V4);
        });
    }
}

fn release_of(version: BrokerVersion) -> Release {
    match version {
        BrokerVersion::V3 => Release(3, 10),
        BrokerVersion::V4 => Release(4, 0),
    }
}

#[test]
fn real_pool_tells_the_brokers_release_and_the_time_it_waits_for_our_consumer() {
    for version in BrokerVersion::ALL {
        run(async {
            let at = Stage::shared(version, Made::Classic).await;
            let place = Place { conn_id: ConnId::new("rmq_test"), queue: QueueName::new(&at.queue) };
            let look = at.pool.look_at(&place, OURS).await;
            assert_eq!((look.release, look.facts), (None, Err(NotLooked::NotConnected)));
            let consumer = at.attach(1).await;
            let look = at.pool.look_at(&place, OURS).await;
            assert_eq!((look.release, look.facts), (Some(release_of(version)), Err(NotLooked::NoManagement)));
            consumer.close().await;

            let url = at.node.management_url().to_owned();
            let at = at.with(|settings| AmqpSettings { management_url: Some(url), ..settings });
            let ours = at.attach(1).await;
            let foreign = at.client.channel.basic_consume(
                at.queue.as_str().into(),
                "somebody else".into(),
                lapin::options::BasicConsumeOptions::default(),
                lapin::types::FieldTable::default(),
            );
            let foreign = foreign.await.unwrap();
            let facts = until(&with_management(&at.node), &at.queue, |facts| facts.foreign_consumers == Some(1)).await;
            // 3.10 does not tell its setting.
            let half_an_hour = Some(Duration::from_secs(1800)).filter(|_| version == BrokerVersion::V4);
            let facts = match half_an_hour {
                Some(_) => until(&with_management(&at.node), &at.queue, |facts| facts.consumer_timeout.is_some()).await,
                None => facts,
            };
            assert_eq!(facts.consumer_timeout, half_an_hour);
            let look = at.pool.look_at(&place, OURS).await;
            assert_eq!(look.facts.unwrap().kind, Some(QueueKind::Classic));
            drop(foreign);
            ours.close().await;
        });
    }
}

#[test]
fn real_vhost_and_queue_names_of_every_kind_are_asked_for_as_they_are() {
    run(async {
        let node = Broker::shared(BrokerVersion::for_this_round()[0]);
        for name in ["a b/c%2F?d#e", "ü.é+&=", "...", "100%"] {
            node.declare(name, Made::Classic, json!({}));
            assert_eq!(said(&with_management(&node), name).await.kind, Some(QueueKind::Classic), "{name:?}");
        }
        let missing = look(&with_management(&node), &QueueName::new("nobody"), OURS).await;
        assert_eq!(missing, Err(NotLooked::NoQueue));
        let dots = look(&with_management(&node), &QueueName::new(".."), OURS).await;
        assert!(matches!(&dots, Err(NotLooked::Failed(reason)) if reason.contains("dots")), "{dots:?}");
        let root = AmqpSettings { vhost: "/".to_owned(), ..with_management(&node) };
        let elsewhere = look(&root, &QueueName::new("100%"), OURS).await;
        assert!(matches!(elsewhere, Err(NotLooked::NoQueue | NotLooked::Failed(_))), "{elsewhere:?}");
    });
}

#[test]
fn real_rights_that_are_missing_are_named_and_the_tag_management_is_enough() {
    for version in BrokerVersion::ALL {
        run(async {
            let node = Broker::shared(version);
            let queue = declare(&node, Made::Quorum, json!({}));
            let user = |tags: &str| format!("{}-{tags}", node.vhost());
            node.add_tagged_user(&user("management"), PLANTED, "management", ".*");
            node.add_user(&user("none"), PLANTED, "", "", ".*");
            node.add_stranger(&user("stranger"), PLANTED);
            let as_user = |name: String, password: &str| AmqpSettings {
                login: name,
                password: rmq_watcher::domain::connection::Secret::new(password),
                ..with_management(&node)
            };
            assert_eq!(said(&as_user(user("management"), PLANTED), &queue).await.kind, Some(QueueKind::Quorum));
            for (settings, says) in [
                (as_user(user("none"), PLANTED), "Not management user"),
                (as_user(user("stranger"), PLANTED), "Not management user"),
                (as_user(user("management"), "another secret"), "is refused"),
            ] {
                let reason = failed(&settings).await;
                assert!(reason.contains(says) && reason.contains(&settings.login), "{reason}");
                assert!(reason.contains("tag `management`"), "{reason}");
                assert!(!reason.contains("secret"), "{reason}");
            }
        });
    }
}

async fn failed(settings: &AmqpSettings) -> String {
    match look(settings, &QueueName::new("q"), OURS).await {
        Err(NotLooked::Failed(reason)) => reason,
        other => panic!("it fails: {other:?}"),
    }
}

/// A web server that reads a request and says this, over and over; nothing where it is empty.
async fn web(says: Vec<u8>, tls: Option<Arc<rustls::ServerConfig>>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::task::spawn_local(async move {
        while let Ok((tcp, _)) = listener.accept().await {
            let (says, tls) = (says.clone(), tls.clone());
            tokio::task::spawn_local(async move {
                match tls {
                    None => answer(tcp, &says).await,
                    Some(config) => {
                        if let Ok(tls) = tokio_rustls::TlsAcceptor::from(config).accept(tcp).await {
                            answer(tls, &says).await;
                        }
                    }
                }
            });
        }
    });
    port
}

async fn answer(mut peer: impl AsyncRead + AsyncWrite + Unpin, says: &[u8]) {
    let (mut request, mut part) = (Vec::new(), [0; 1024]);
    while !request.ends_with(b"\r\n\r\n") {
        match peer.read(&mut part).await {
            Ok(length @ 1..) => request.extend_from_slice(&part[..length]),
            Ok(0) | Err(_) => return,
        }
    }
    if says.is_empty() {
        std::future::pending::<()>().await;
    }
    // A client that has seen enough goes.
    drop(peer.write_all(says).await);
    drop(peer.shutdown().await);
}

fn http(status: &str, kind: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!("HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}")
        .into()
}

fn asked_at(url: String) -> AmqpSettings {
    AmqpSettings { management_url: Some(url), ..settings_for(1) }
}

#[test]
fn whatever_answers_in_its_place_is_told_apart_and_shows_no_secret() {
    run(async {
        let echo = format!(r#"{{"error":"no","reason":"user:{PLANTED}"}}"#);
        let long = format!(r#"{{"type":"{}"}}"#, "x".repeat(3_000_000));
        for (says, reason) in [
            (http("200 OK", "text/html", "<html>log in</html>"), "not the management API: no JSON"),
            (http("200 OK", "application/json", "{"), "not the management API: no JSON"),
            (http("404 Not Found", "text/html", "nothing"), "not the management API: it knows no such page"),
            (http("404 Not Found", "application/json", r#"{"detail":"no"}"#), "it knows no such page"),
            (http("404 Not Found", "application/json", r#"{"error":"API route not found"}"#), "it knows no such page"),
            (http("302 Found", "text/html", ""), "not the management API: it sends us elsewhere"),
            (http("503 Busy", "application/json", &echo), "status 503"),
            (http("401 No", "application/json", &echo), "is refused; give it"),
            (http("403 No", "text/html", &echo), "is refused; give it"),
            (http("200 OK", "application/json", &long), "longer than"),
            (b"no http at all\r\n\r\n".to_vec(), ""),
        ] {
            let port = web(says, None).await;
            let text = failed(&asked_at(format!("http://127.0.0.1:{port}"))).await;
            assert!(text.contains(reason) && !text.contains(PLANTED), "{text}");
        }
        let nobody = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
        let text = failed(&asked_at(format!("http://{nobody}"))).await;
        assert!(text.contains("refused") && !text.contains(PLANTED), "{text}");
    });
}

#[test]
fn a_management_api_that_says_nothing_is_given_up_after_five_seconds() {
    run(async {
        let port = web(Vec::new(), None).await;
        let began = Instant::now();
        failed(&asked_at(format!("http://127.0.0.1:{port}"))).await;
        let took = began.elapsed();
        assert!((Duration::from_millis(4900)..Duration::from_secs(8)).contains(&took), "{took:?}");
    });
}

#[test]
fn https_is_trusted_as_the_amqp_connection_is() {
    run(async {
        let certificates = Certificates::make();
        let chain = CertificateDer::pem_file_iter(certificates.path("server.pem")).unwrap();
        let chain = chain.collect::<Result<Vec<_>, _>>().unwrap();
        let key = PrivateKeyDer::from_pem_file(certificates.path("server.key")).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let server =
            rustls::ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let server = Arc::new(server.with_no_client_auth().with_single_cert(chain, key).unwrap());
        let says = http("200 OK", "application/json", r#"{"type":"quorum"}"#);
        let port = web(says, Some(server)).await;
        let with = |tls| AmqpSettings { tls, ..asked_at(format!("https://localhost:{port}")) };
        let unchecked = TlsSettings { verify_none: true, ..TlsSettings::default() };
        for tls in [trusting(&certificates, "ca.pem"), unchecked] {
            assert_eq!(said(&with(Some(tls)), "q").await.kind, Some(QueueKind::Quorum));
        }
        for tls in [Some(trusting(&certificates, "other-ca.pem")), None] {
            let text = failed(&with(tls)).await;
            assert!(text.to_lowercase().contains("certificate"), "{text}");
        }
        let no_file = TlsSettings { ca_certs: Some("/no/such/file".into()), ..TlsSettings::default() };
        assert!(failed(&with(Some(no_file))).await.contains("/no/such/file"));
    });
}
