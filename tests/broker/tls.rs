//! TLS: what is trusted, what is shown, and what each mistake is called.

use rmq_watcher::domain::connection::{AmqpSettings, TlsSettings};
use rmq_watcher::domain::fault::{BrokerFault, BrokerFaultKind};
use rmq_watcher::ports::Broker;

use crate::harness::{Client, footprint, next, no_growth, order, pool, refusal, run, run_alone};
use crate::node::{self, Certificates, Node, free_port, versions};

struct TlsNode {
    node: Node,
    certificates: Certificates,
    port: u16,
}

impl TlsNode {
    fn start(version: u8, certificate: &str, ask_client: bool) -> Self {
        let certificates = Certificates::make();
        let port = free_port();
        let node = Node::own_with(version, &certificates, &|visible| {
            certificates.listener(visible, port, certificate, ask_client)
        });
        // The TLS listener opens after the plain one that the node's start waits for.
        node::wait_for_port(port);
        Self { node, certificates, port }
    }

    fn settings(&self, host: &str, tls: TlsSettings) -> AmqpSettings {
        AmqpSettings { hosts: vec![host.to_owned()], port: self.port, tls: Some(tls), ..self.node.settings() }
    }

    async fn works(&self, settings: AmqpSettings) {
        let client = Client::open(&self.node).await;
        let queue = client.queue("classic", &[]).await;
        client.publish_text(&queue, "over tls").await;
        let pool = pool(settings);
        let mut consumer = pool.attach(order(&queue, 1)).await.unwrap();
        assert_eq!(&next(&mut consumer).await.body[..], b"over tls");
    }
}

fn check(fault: &BrokerFault, kind: BrokerFaultKind, says: &[&str]) {
    assert_eq!(fault.kind, kind, "{}", fault.text);
    for words in says {
        assert!(fault.text.contains(words), "{words:?} not in {:?}", fault.text);
    }
}

#[test]
fn real_tls_trusts_the_given_authority_by_name_and_by_address() {
    run(async {
        for version in versions(3) {
            let tls = TlsNode::start(version, "server", false);
            for host in ["localhost", "127.0.0.1"] {
                let settings = tls.settings(host, tls.certificates.tls("ca.pem"));
                tls.works(settings).await;
            }
        }
    });
}

#[test]
fn real_tls_mistakes_are_told_apart() {
    run(async {
        for version in versions(4) {
            let tls = TlsNode::start(version, "server", false);
            let made = &tls.certificates;
            let refused = async |settings| refusal(&pool(settings), "q").await;

            let fault = refused(tls.settings("127.0.0.1", made.tls("other-ca.pem"))).await;
            check(&fault, BrokerFaultKind::Tls, &["not signed by a trusted authority", "ca_certs"]);
            // The system's authorities do not know ours.
            let fault = refused(tls.settings("127.0.0.1", TlsSettings::default())).await;
            check(&fault, BrokerFaultKind::Tls, &["not signed by a trusted authority"]);
            // Trusted authority, but the certificate carries neither this address …
            let fault = refused(tls.settings("127.0.0.2", made.tls("ca.pem"))).await;
            assert_eq!(fault.kind, BrokerFaultKind::Unreachable, "nothing listens there: {}", fault.text);

            let plain_port = AmqpSettings { port: tls.node.port, ..tls.settings("127.0.0.1", made.tls("ca.pem")) };
            check(&refused(plain_port).await, BrokerFaultKind::Tls, &["does not speak TLS", "amqp"]);
            let plain_client = AmqpSettings { tls: None, ..tls.settings("127.0.0.1", TlsSettings::default()) };
            let fault = refused(plain_client).await;
            check(&fault, BrokerFaultKind::Tls, &["speaks TLS", "turn TLS on"]);

            let gone = refused(tls.settings("127.0.0.1", made.tls("no-such-file.pem"))).await;
            check(&gone, BrokerFaultKind::Tls, &["no-such-file.pem", "No such file"]);
            let no_pem = refused(tls.settings("127.0.0.1", made.tls("ca.srl"))).await;
            check(&no_pem, BrokerFaultKind::Tls, &["ca.srl", "does not hold a certificate"]);
            let swapped =
                TlsSettings { client: Some((made.path("client.pem"), made.path("server.key"))), ..made.tls("ca.pem") };
            let fault = refused(tls.settings("127.0.0.1", swapped)).await;
            check(&fault, BrokerFaultKind::Tls, &["client.pem", "server.key", "belong together"]);
        }
    });
}

#[test]
fn real_certificate_of_another_host_is_refused_unless_nothing_is_checked() {
    run(async {
        for version in versions(3) {
            let tls = TlsNode::start(version, "elsewhere", false);
            let settings = tls.settings("127.0.0.1", tls.certificates.tls("ca.pem"));
            let fault = refusal(&pool(settings), "q").await;
            check(&fault, BrokerFaultKind::Tls, &["another host name", "broker.example"]);
            let unchecked = TlsSettings { verify_none: true, ..TlsSettings::default() };
            tls.works(tls.settings("127.0.0.1", unchecked)).await;
        }
    });
}

#[test]
fn real_client_certificate_is_shown_where_asked_for() {
    run(async {
        for version in versions(4) {
            let tls = TlsNode::start(version, "server", true);
            let made = &tls.certificates;
            let with = TlsSettings { client: Some(made.client()), ..made.tls("ca.pem") };
            tls.works(tls.settings("127.0.0.1", with)).await;
            let without = tls.settings("127.0.0.1", made.tls("ca.pem"));
            let fault = refusal(&pool(without), "q").await;
            check(&fault, BrokerFaultKind::Tls, &["client certificate"]);
        }
    });
}

#[test]
fn real_fifty_attempts_with_an_untrusted_certificate_leave_nothing() {
    run_alone(async {
        for version in versions(3) {
            let tls = TlsNode::start(version, "server", false);
            let pool = pool(tls.settings("127.0.0.1", tls.certificates.tls("other-ca.pem")));
            refusal(&pool, "q").await;
            let before = footprint();
            for _ in 0..50 {
                assert_eq!(refusal(&pool, "q").await.kind, BrokerFaultKind::Tls);
            }
            no_growth(before).await;
        }
    });
}
