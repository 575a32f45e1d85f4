use std::sync::Arc;

use lapin::protocol::{AMQPError, AMQPErrorKind, AMQPHardError, AMQPSoftError};
use rustls::{AlertDescription, CertificateError};

use super::*;
use crate::domain::connection::{Secret, TlsSettings};

const PLANTED: &str = "planted-secret";

fn place_at(host: &str, tls: bool) -> Place {
    let settings = AmqpSettings {
        conn_id: ConnId::new("rmq_default"),
        hosts: vec![host.to_owned()],
        port: 5672,
        login: "shop".to_owned(),
        password: Secret::new(PLANTED),
        vhost: "orders".to_owned(),
        tls: tls.then(TlsSettings::default),
        heartbeat_secs: 30,
        connect_timeout: Duration::from_secs(15),
        rpc_timeout: Duration::from_secs(30),
        management_url: None,
    };
    Place::new(&settings, host)
}

fn place() -> Place {
    place_at("broker.example", false)
}

fn said(kind: AMQPErrorKind, text: &str) -> lapin::Error {
    lapin::ErrorKind::ProtocolError(AMQPError::new(kind, text.into())).into()
}

fn broken(kind: io::ErrorKind) -> lapin::Error {
    lapin::ErrorKind::IOError(Arc::new(kind.into())).into()
}

fn tls_broken(error: rustls::Error) -> lapin::Error {
    let io = io::Error::new(io::ErrorKind::InvalidData, error);
    lapin::ErrorKind::IOError(Arc::new(io)).into()
}

#[test]
fn places_read_as_addresses_do() {
    assert_eq!(place().to_string(), "broker.example:5672 (connection \"rmq_default\")");
    assert_eq!(place_at("::1", false).to_string(), "[::1]:5672 (connection \"rmq_default\")");
}

#[test]
fn refusals_at_login_are_told_apart() {
    let hard = AMQPErrorKind::Hard(AMQPHardError::NOTALLOWED);
    let cases = [
        (
            said(AMQPErrorKind::Soft(AMQPSoftError::ACCESSREFUSED), "ACCESS_REFUSED"),
            BrokerFaultKind::LoginRefused,
            "\"shop\"",
        ),
        (said(hard.clone(), "NOT_ALLOWED - vhost orders not found"), BrokerFaultKind::VhostRefused, "create it"),
        (
            said(hard.clone(), "NOT_ALLOWED - access to vhost 'orders' refused for user 'shop'"),
            BrokerFaultKind::VhostRefused,
            "grant permissions",
        ),
        (said(hard, "NOT_ALLOWED - connection limit (1) is reached"), BrokerFaultKind::VhostRefused, "raise the limit"),
        (
            said(AMQPErrorKind::Hard(AMQPHardError::CONNECTIONFORCED), "CONNECTION_FORCED - x"),
            BrokerFaultKind::Closed,
            "320",
        ),
        (broken(io::ErrorKind::ConnectionReset), BrokerFaultKind::Unreachable, "before any greeting"),
    ];
    for (error, kind, words) in cases {
        let fault = handshake(&place(), &error, None);
        assert_eq!(fault.kind, kind, "{}", fault.text);
        assert!(fault.text.contains(words), "{}", fault.text);
        assert!(fault.text.contains("broker.example:5672"), "{}", fault.text);
        assert!(!fault.text.contains(PLANTED));
    }
}

#[test]
fn the_first_byte_tells_what_answered() {
    let error = broken(io::ErrorKind::ConnectionAborted);
    let text = |first| handshake(&place(), &error, first).text;
    assert!(text(Some(0x15)).contains("speaks TLS"));
    assert!(text(Some(b'H')).contains("does not speak AMQP"));
    assert!(text(Some(1)).contains("broke off"));
}

#[test]
fn refusals_on_a_channel_are_told_apart() {
    let soft = |e, text| said(AMQPErrorKind::Soft(e), text);
    let cases = [
        (soft(AMQPSoftError::NOTFOUND, "NOT_FOUND - no queue"), BrokerFaultKind::QueueMissing),
        (soft(AMQPSoftError::ACCESSREFUSED, "ACCESS_REFUSED - read access"), BrokerFaultKind::AccessRefused),
        (
            soft(AMQPSoftError::ACCESSREFUSED, "ACCESS_REFUSED - queue 'q' in exclusive use"),
            BrokerFaultKind::ResourceLocked,
        ),
        (soft(AMQPSoftError::RESOURCELOCKED, "RESOURCE_LOCKED"), BrokerFaultKind::ResourceLocked),
        (soft(AMQPSoftError::PRECONDITIONFAILED, "PRECONDITION_FAILED - timeout"), BrokerFaultKind::PreconditionFailed),
        (
            said(AMQPErrorKind::Hard(AMQPHardError::CONNECTIONFORCED), "CONNECTION_FORCED - bye"),
            BrokerFaultKind::Closed,
        ),
        (said(AMQPErrorKind::Hard(AMQPHardError::INTERNALERROR), "INTERNAL_ERROR"), BrokerFaultKind::Closed),
        (broken(io::ErrorKind::ConnectionReset), BrokerFaultKind::Unreachable),
        (lapin::ErrorKind::MissingHeartbeatError.into(), BrokerFaultKind::Unreachable),
        (lapin::ErrorKind::InvalidChannel(1).into(), BrokerFaultKind::Closed),
        (tls_broken(rustls::Error::AlertReceived(AlertDescription::CertificateRequired)), BrokerFaultKind::Tls),
    ];
    let queue = QueueName::new("in");
    for (error, kind) in cases {
        let fault = channel(&place(), "consume from", &queue, &error);
        assert_eq!(fault.kind, kind, "{}", fault.text);
        assert!(fault.text.starts_with("consume from queue \"in\""), "{}", fault.text);
        assert!(fault.text.contains("broker.example:5672"), "{}", fault.text);
    }
}

#[test]
fn missed_heartbeats_name_the_time_waited() {
    let error = lapin::ErrorKind::MissingHeartbeatError.into();
    let fault = channel(&place(), "consume from", &QueueName::new("in"), &error);
    assert!(fault.text.contains("for 60 s"), "{}", fault.text);
}

#[test]
fn tls_errors_say_what_to_do() {
    let certificate = |e| rustls::Error::InvalidCertificate(e);
    let cases = [
        (certificate(CertificateError::UnknownIssuer), "ca_certs"),
        (certificate(CertificateError::NotValidForName), "another host name"),
        (certificate(CertificateError::Expired), "has expired"),
        (certificate(CertificateError::NotValidYet), "check the clocks"),
        (certificate(CertificateError::BadEncoding), "cannot be accepted"),
        (rustls::Error::AlertReceived(AlertDescription::CertificateRequired), "certfile"),
        (rustls::Error::AlertReceived(AlertDescription::UnknownCA), "its authority signed"),
        (rustls::Error::AlertReceived(AlertDescription::HandshakeFailure), "client certificate"),
        (rustls::Error::InvalidMessage(rustls::InvalidMessage::InvalidContentType), "does not speak TLS"),
    ];
    let place = place_at("broker.example", true);
    for (error, words) in cases {
        let fault = tls(&place, &io::Error::new(io::ErrorKind::InvalidData, error));
        assert_eq!(fault.kind, BrokerFaultKind::Tls);
        assert!(fault.text.contains(words), "{}", fault.text);
    }
    let cut = tls(&place, &io::ErrorKind::UnexpectedEof.into());
    assert_eq!(cut.kind, BrokerFaultKind::Unreachable);
}

#[test]
fn times_out_by_step() {
    let text = |step| connect_timed_out(&place(), step, Duration::from_millis(1500)).text;
    assert!(text(Step::Tcp).contains("did not accept a TCP connection within 1.5 s"));
    assert!(text(Step::Tls).contains("TLS handshake"));
    assert!(text(Step::Amqp).contains("AMQP handshake"));
    assert!(text(Step::Files).contains("certificate files"));
    assert!(text(Step::Resolve).contains("name"));
}

#[test]
fn times_out_in_the_same_words_each_time() {
    let text = |micros| connect_timed_out(&place(), Step::Amqp, Duration::from_micros(micros)).text;
    assert_eq!(text(999_989), text(1_000_000));
    assert!(text(999_989).ends_with("within 1 s"));
    assert!(text(249_999).ends_with("within 0.2 s"));
}
