//! An attempt to connect ends within its time and leaves nothing, whatever the peer does. Needs no servers.

use std::rc::Rc;
use std::time::{Duration, Instant};

use rmq_watcher::domain::connection::{AmqpSettings, Secret};
use rmq_watcher::domain::fault::BrokerFaultKind;
use rmq_watcher::domain::ids::ConnId;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::harness::{footprint, no_growth, pool, refusal, run, run_alone};
use crate::node::{Certificates, free_port};
use crate::peers::{Manner, start};

const BOUND: Duration = Duration::from_millis(300);
const TRIES: u32 = 10;

fn settings(port: u16) -> AmqpSettings {
    AmqpSettings {
        conn_id: ConnId::new("rmq_test"),
        hosts: vec!["127.0.0.1".to_owned()],
        port,
        login: "user".to_owned(),
        password: Secret::new("planted-secret"),
        vhost: "/".to_owned(),
        tls: None,
        heartbeat_secs: 30,
        connect_timeout: BOUND,
        rpc_timeout: Duration::from_secs(5),
        management_url: None,
    }
}

/// Ten attempts: each within its time, each the same clear fault, and nothing left behind.
async fn ten_attempts(settings: AmqpSettings, kind: BrokerFaultKind, says: &str) {
    let pool = pool(settings);
    // The first attempt may start helper threads that stay; they are neither lapin's nor sockets.
    let before = footprint();
    for _ in 0..TRIES {
        let began = Instant::now();
        let fault = refusal(&pool, "q").await;
        assert!(began.elapsed() < BOUND + Duration::from_secs(1), "{:?}", began.elapsed());
        assert_eq!(fault.kind, kind, "{}", fault.text);
        assert!(fault.text.contains(says), "{}", fault.text);
        assert!(!fault.text.contains("planted-secret"));
    }
    no_growth(before).await;
}

#[test]
fn silent_peer_is_given_up_without_growth() {
    run_alone(async {
        let port = start(Manner::Silent).await;
        ten_attempts(settings(port), BrokerFaultKind::TimedOut, "AMQP handshake").await;
    });
}

#[test]
fn peer_silent_after_tune_is_given_up_without_growth() {
    run_alone(async {
        let port = start(Manner::SilentAfterTune).await;
        ten_attempts(settings(port), BrokerFaultKind::TimedOut, "AMQP handshake").await;
    });
}

#[test]
fn dripping_peer_is_given_up_without_growth() {
    run_alone(async {
        let port = start(Manner::Drip).await;
        ten_attempts(settings(port), BrokerFaultKind::TimedOut, "AMQP handshake").await;
    });
}

#[test]
fn peer_silent_in_the_tls_handshake_is_given_up_without_growth() {
    run_alone(async {
        let certificates = Certificates::make();
        let port = start(Manner::Silent).await;
        let settings = AmqpSettings { tls: Some(certificates.tls("ca.pem")), ..settings(port) };
        ten_attempts(settings, BrokerFaultKind::TimedOut, "TLS handshake").await;
    });
}

#[test]
fn peer_silent_after_tls_is_given_up_without_growth() {
    run_alone(async {
        let certificates = Certificates::make();
        let chain = CertificateDer::pem_file_iter(certificates.path("server.pem"))
            .unwrap()
            .collect::<Result<Vec<_>, _>>()
            .unwrap();
        let key = PrivateKeyDer::from_pem_file(certificates.path("server.key")).unwrap();
        let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
        let server = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .unwrap();
        let port = start(Manner::SilentAfterTls(Rc::new(server))).await;
        let settings = AmqpSettings { tls: Some(certificates.tls("ca.pem")), ..settings(port) };
        ten_attempts(settings, BrokerFaultKind::TimedOut, "AMQP handshake").await;
    });
}

#[test]
fn peer_that_closes_at_once_says_so() {
    run_alone(async {
        let port = start(Manner::Say(b"")).await;
        ten_attempts(settings(port), BrokerFaultKind::Unreachable, "before any greeting").await;
    });
}

#[test]
fn web_server_is_told_apart() {
    run_alone(async {
        let port = start(Manner::Say(b"HTTP/1.1 400 Bad Request\r\n\r\n")).await;
        ten_attempts(settings(port), BrokerFaultKind::Unreachable, "does not speak AMQP").await;
    });
}

#[test]
fn broker_of_another_protocol_version_is_told_apart() {
    run_alone(async {
        let port = start(Manner::Say(b"AMQP\x00\x01\x00\x00")).await;
        ten_attempts(settings(port), BrokerFaultKind::Unreachable, "does not speak AMQP 0-9-1").await;
    });
}

#[test]
fn tls_alert_to_a_plain_connection_is_told_apart() {
    run_alone(async {
        let port = start(Manner::Say(&[0x15, 3, 3, 0, 2, 2, 10])).await;
        ten_attempts(settings(port), BrokerFaultKind::Tls, "turn TLS on").await;
    });
}

#[test]
fn closed_port_and_unknown_name_are_told_apart() {
    run(async {
        let fault = refusal(&pool(settings(free_port())), "q").await;
        assert_eq!(fault.kind, BrokerFaultKind::Unreachable);
        assert!(fault.text.contains("connection refused"), "{}", fault.text);
        let unknown = AmqpSettings {
            hosts: vec!["no-such-host.invalid".to_owned()],
            connect_timeout: Duration::from_secs(20),
            ..settings(5672)
        };
        let fault = refusal(&pool(unknown), "q").await;
        assert_eq!(fault.kind, BrokerFaultKind::Unreachable);
        assert!(fault.text.contains("no-such-host.invalid"), "{}", fault.text);
    });
}

#[test]
fn giving_up_the_caller_lets_the_shared_attempt_end_by_itself() {
    run_alone(async {
        let before = footprint();
        let port = start(Manner::Silent).await;
        let pool = pool(settings(port));
        let patience = Duration::from_millis(50);
        assert!(tokio::time::timeout(patience, refusal(&pool, "q")).await.is_err());
        // The listener stays; all else goes.
        crate::harness::eventually(5, "the attempt ends", || footprint().lapin_threads == before.lapin_threads).await;
        assert_eq!(refusal(&pool, "q").await.kind, BrokerFaultKind::TimedOut);
    });
}

#[test]
fn closing_the_pool_ends_an_attempt_under_way() {
    run_alone(async {
        let before = footprint();
        let port = start(Manner::Silent).await;
        let slow = AmqpSettings { connect_timeout: Duration::from_secs(100), ..settings(port) };
        let pool = pool(slow);
        let (fault, ()) = tokio::join!(refusal(&pool, "q"), async {
            crate::harness::eventually(5, "an attempt", || footprint().lapin_threads > before.lapin_threads).await;
            pool.close().await;
        });
        assert_eq!(fault.kind, BrokerFaultKind::Closed, "{}", fault.text);
        crate::harness::eventually(5, "the attempt ends", || footprint().lapin_threads == before.lapin_threads).await;
    });
}
