//! An attempt to connect ends within its time and leaves nothing, whatever the peer does. Needs no servers.

use std::rc::Rc;
use std::time::{Duration, Instant};

use rmq_watcher::domain::connection::{AmqpSettings, TlsSettings};
use rmq_watcher::domain::fault::BrokerFaultKind;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::footprint::{footprint, no_growth};
use crate::harness::{PLANTED, check, eventually, pool, refusal, run, run_alone, settings_for};
use crate::peers::{Manner, start};
use crate::support::{Certificates, ports};
use crate::tls::trusting;

const BOUND: Duration = Duration::from_millis(300);
const TRIES: u32 = 10;

/// For a peer that leaves the attempt without an answer.
fn silence(port: u16) -> AmqpSettings {
    AmqpSettings { connect_timeout: BOUND, ..settings_for(port) }
}

/// Ten attempts: each within its time, each the same clear fault, and nothing left behind.
async fn ten_attempts(settings: AmqpSettings, kind: BrokerFaultKind, says: &str) {
    let bound = settings.connect_timeout;
    let pool = pool(settings);
    // The first attempt may start helper threads that stay; they are neither lapin's nor sockets.
    let before = footprint();
    for _ in 0..TRIES {
        let began = Instant::now();
        let fault = refusal(&pool, "q").await;
        assert!(began.elapsed() < bound + Duration::from_secs(1), "{:?}", began.elapsed());
        check(&fault, kind, &[says]);
        assert!(!fault.text.contains(PLANTED));
    }
    no_growth(before).await;
}

/// Ten attempts at a peer that leaves them without an answer.
fn given_up(manner: Manner, tls: Option<TlsSettings>, says: &str) {
    run_alone(async {
        let settings = AmqpSettings { tls, ..silence(start(manner).await) };
        ten_attempts(settings, BrokerFaultKind::TimedOut, says).await;
    });
}

/// Ten attempts at a peer that says this at once and closes.
fn told_apart(words: &'static [u8], kind: BrokerFaultKind, says: &str) {
    run_alone(async {
        let port = start(Manner::Say(words)).await;
        ten_attempts(settings_for(port), kind, says).await;
    });
}

#[test]
fn silent_peer_is_given_up_without_growth() {
    given_up(Manner::Silent, None, "AMQP handshake");
}

#[test]
fn peer_silent_after_tune_is_given_up_without_growth() {
    given_up(Manner::SilentAfterTune, None, "AMQP handshake");
}

#[test]
fn dripping_peer_is_given_up_without_growth() {
    given_up(Manner::Drip, None, "AMQP handshake");
}

#[test]
fn peer_silent_in_the_tls_handshake_is_given_up_without_growth() {
    given_up(Manner::Silent, Some(trusting(&Certificates::make(), "ca.pem")), "TLS handshake");
}

#[test]
fn peer_silent_after_tls_is_given_up_without_growth() {
    let certificates = Certificates::make();
    let chain =
        CertificateDer::pem_file_iter(certificates.path("server.pem")).unwrap().collect::<Result<Vec<_>, _>>().unwrap();
    let key = PrivateKeyDer::from_pem_file(certificates.path("server.key")).unwrap();
    let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
    let server = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .unwrap();
    let tls = Some(trusting(&certificates, "ca.pem"));
    given_up(Manner::SilentAfterTls(Rc::new(server)), tls, "AMQP handshake");
}

#[test]
fn peer_that_closes_at_once_says_so() {
    told_apart(b"", BrokerFaultKind::Unreachable, "before any greeting");
}

#[test]
fn web_server_is_told_apart() {
    told_apart(b"HTTP/1.1 400 Bad Request\r\n\r\n", BrokerFaultKind::Unreachable, "does not speak AMQP");
}

#[test]
fn broker_of_another_protocol_version_is_told_apart() {
    told_apart(b"AMQP\x00\x01\x00\x00", BrokerFaultKind::Unreachable, "does not speak AMQP 0-9-1");
}

#[test]
fn tls_alert_to_a_plain_connection_is_told_apart() {
    told_apart(&[0x15, 3, 3, 0, 2, 2, 10], BrokerFaultKind::Tls, "turn TLS on");
}

#[test]
fn closed_port_and_unknown_name_are_told_apart() {
    run(async {
        let fault = refusal(&pool(settings_for(ports::unused())), "q").await;
        assert_eq!(fault.kind, BrokerFaultKind::Unreachable);
        assert!(fault.text.contains("connection refused"), "{}", fault.text);
        let unknown = AmqpSettings {
            hosts: vec!["no-such-host.invalid".to_owned()],
            connect_timeout: Duration::from_secs(20),
            ..settings_for(5672)
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
        let pool = pool(silence(port));
        let patience = Duration::from_millis(50);
        assert!(tokio::time::timeout(patience, refusal(&pool, "q")).await.is_err());
        // The listener stays; all else goes.
        eventually(5, "the attempt ends", || footprint().lapin_threads == before.lapin_threads).await;
        assert_eq!(refusal(&pool, "q").await.kind, BrokerFaultKind::TimedOut);
    });
}

#[test]
fn closing_the_pool_ends_an_attempt_under_way() {
    run_alone(async {
        let before = footprint();
        let port = start(Manner::Silent).await;
        let slow = AmqpSettings { connect_timeout: Duration::from_secs(100), ..settings_for(port) };
        let pool = pool(slow);
        let (fault, ()) = tokio::join!(refusal(&pool, "q"), async {
            eventually(5, "an attempt", || footprint().lapin_threads > before.lapin_threads).await;
            pool.close().await;
        });
        assert_eq!(fault.kind, BrokerFaultKind::Closed, "{}", fault.text);
        eventually(5, "the attempt ends", || footprint().lapin_threads == before.lapin_threads).await;
    });
}
