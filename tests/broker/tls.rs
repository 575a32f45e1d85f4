//! TLS: what is trusted, what is shown, and what each mistake is called.

use lapin::protocol::BasicProperties;
use rmq_watcher::domain::connection::{AmqpSettings, TlsSettings};
use rmq_watcher::domain::fault::BrokerFaultKind;
use rmq_watcher::ports::Broker as _;

use crate::client::Client;
use crate::footprint::{footprint, no_growth};
use crate::harness::{check, next, order, pool, refusal, run_alone_on, run_on};
use crate::stage::{self, declare};
use crate::support::BrokerVersion::{V3, V4};
use crate::support::{Broker, BrokerVersion, Certificates, QueueKind};

struct TlsNode {
    node: Broker,
    certificates: Certificates,
    port: u16,
}

impl TlsNode {
    fn start(version: BrokerVersion, certificate: &str, ask_client: bool) -> Self {
        let certificates = Certificates::make();
        let (node, port) = certificates.node(version, certificate, ask_client);
        Self { node, certificates, port }
    }

    fn settings(&self, host: &str, tls: TlsSettings) -> AmqpSettings {
        AmqpSettings { hosts: vec![host.to_owned()], port: self.port, tls: Some(tls), ..stage::settings(&self.node) }
    }

    async fn works(&self, settings: AmqpSettings) {
        let queue = declare(&self.node, QueueKind::Classic, serde_json::Value::Null);
        let client = Client::open(&self.node).await;
        client.publish(&queue, BasicProperties::default(), b"over tls").await;
        let pool = pool(settings);
        let mut consumer = pool.attach(order(&queue, 1)).await.unwrap();
        assert_eq!(&next(&mut consumer).await.body[..], b"over tls");
    }
}

/// Settings for TLS that trust this authority.
pub(crate) fn trusting(made: &Certificates, authority: &str) -> TlsSettings {
    TlsSettings { ca_certs: Some(made.path(authority)), ..TlsSettings::default() }
}

#[test]
fn real_tls_trusts_the_given_authority_by_name_and_by_address() {
    run_on(V3, async |version| {
        let tls = TlsNode::start(version, "server", false);
        for host in ["localhost", "127.0.0.1"] {
            let settings = tls.settings(host, trusting(&tls.certificates, "ca.pem"));
            tls.works(settings).await;
        }
    });
}

#[test]
fn real_tls_mistakes_are_told_apart() {
    run_on(V4, async |version| {
        let tls = TlsNode::start(version, "server", false);
        let made = &tls.certificates;
        let refused = async |settings| refusal(&pool(settings), "q").await;

        let fault = refused(tls.settings("127.0.0.1", trusting(made, "other-ca.pem"))).await;
        check(&fault, BrokerFaultKind::Tls, &["not signed by a trusted authority", "ca_certs"]);
        // The system's authorities do not know ours.
        let fault = refused(tls.settings("127.0.0.1", TlsSettings::default())).await;
        check(&fault, BrokerFaultKind::Tls, &["not signed by a trusted authority"]);
        // Trusted authority, but the certificate carries neither this address …
        let fault = refused(tls.settings("127.0.0.2", trusting(made, "ca.pem"))).await;
        assert_eq!(fault.kind, BrokerFaultKind::Unreachable, "nothing listens there: {}", fault.text);

        let plain_port =
            AmqpSettings { port: tls.node.address().port(), ..tls.settings("127.0.0.1", trusting(made, "ca.pem")) };
        check(&refused(plain_port).await, BrokerFaultKind::Tls, &["does not speak TLS", "amqp"]);
        let plain_client = AmqpSettings { tls: None, ..tls.settings("127.0.0.1", TlsSettings::default()) };
        let fault = refused(plain_client).await;
        check(&fault, BrokerFaultKind::Tls, &["speaks TLS", "turn TLS on"]);

        let gone = refused(tls.settings("127.0.0.1", trusting(made, "no-such-file.pem"))).await;
        check(&gone, BrokerFaultKind::Tls, &["no-such-file.pem", "No such file"]);
        let no_pem = refused(tls.settings("127.0.0.1", trusting(made, "ca.srl"))).await;
        check(&no_pem, BrokerFaultKind::Tls, &["ca.srl", "does not hold a certificate"]);
        let swapped = TlsSettings {
            client: Some((made.path("client.pem"), made.path("server.key"))),
            ..trusting(made, "ca.pem")
        };
        let fault = refused(tls.settings("127.0.0.1", swapped)).await;
        check(&fault, BrokerFaultKind::Tls, &["client.pem", "server.key", "belong together"]);
    });
}

#[test]
fn real_certificate_of_another_host_is_refused_unless_nothing_is_checked() {
    run_on(V3, async |version| {
        let tls = TlsNode::start(version, "elsewhere", false);
        let settings = tls.settings("127.0.0.1", trusting(&tls.certificates, "ca.pem"));
        let fault = refusal(&pool(settings), "q").await;
        check(&fault, BrokerFaultKind::Tls, &["another host name", "broker.example"]);
        let unchecked = TlsSettings { verify_none: true, ..TlsSettings::default() };
        tls.works(tls.settings("127.0.0.1", unchecked)).await;
    });
}

#[test]
fn real_client_certificate_is_shown_where_asked_for() {
    run_on(V4, async |version| {
        let tls = TlsNode::start(version, "server", true);
        let made = &tls.certificates;
        let with = TlsSettings {
            client: Some((made.path("client.pem"), made.path("client.key"))),
            ..trusting(made, "ca.pem")
        };
        tls.works(tls.settings("127.0.0.1", with)).await;
        let without = tls.settings("127.0.0.1", trusting(made, "ca.pem"));
        let fault = refusal(&pool(without), "q").await;
        // The alert may be lost with the connection; see `broker::fault`.
        assert!(matches!(fault.kind, BrokerFaultKind::Tls | BrokerFaultKind::Unreachable), "{}", fault.text);
        check(&fault, fault.kind, &["client certificate"]);
    });
}

#[test]
fn real_fifty_attempts_with_an_untrusted_certificate_leave_nothing() {
    run_alone_on(V3, async |version| {
        let tls = TlsNode::start(version, "server", false);
        let pool = pool(tls.settings("127.0.0.1", trusting(&tls.certificates, "other-ca.pem")));
        refusal(&pool, "q").await;
        let before = footprint();
        for _ in 0..50 {
            assert_eq!(refusal(&pool, "q").await.kind, BrokerFaultKind::Tls);
        }
        no_growth(before).await;
    });
}
