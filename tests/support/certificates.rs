//! Certificates for tests of TLS, made with openssl, and brokers that present them.

use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::broker::{Broker, BrokerVersion};
use super::ports;
use super::wait::eventually;

/// No node that works takes longer to open its second listener.
const LISTENS_WITHIN: Duration = Duration::from_secs(20);

/// A new key of a kind that is made at once.
const NEW_KEY: [&str; 6] = ["req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"];

/// Two authorities (`ca`, `other-ca`) and, signed by the first, certificates of a server for `localhost` and `127.0.0.1`
/// (`server`), of a server of another name (`elsewhere`) and of a client (`client`); each as `NAME.pem` with `NAME.key`.
pub struct Certificates(tempfile::TempDir);

impl Certificates {
    /// New ones, valid for two days; removed on drop.
    ///
    /// # Panics
    /// If openssl is missing or fails.
    pub fn make() -> Self {
        let made = Self(tempfile::tempdir().unwrap());
        made.authority("ca", "/CN=test authority");
        made.authority("other-ca", "/CN=another authority");
        made.signed("server", "/CN=localhost", "subjectAltName=DNS:localhost,IP:127.0.0.1");
        made.signed("elsewhere", "/CN=elsewhere", "subjectAltName=DNS:broker.example");
        made.signed("client", "/CN=watcher", "extendedKeyUsage=clientAuth");
        made
    }

    /// The folder of them all.
    pub fn folder(&self) -> &Path {
        self.0.path()
    }

    /// One of the files.
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// A node of one's own that presents the certificate `name` to TLS clients, and its port for them. `ask_client` makes it
    /// refuse clients that show no certificate.
    ///
    /// # Panics
    /// If it cannot be started.
    pub fn node(&self, version: BrokerVersion, name: &str, ask_client: bool) -> (Broker, u16) {
        let port = ports::unused();
        let node = Broker::own_with_files(version, self.folder(), |seen| {
            vec![
                format!("listeners.ssl.1 = 127.0.0.1:{port}"),
                format!("ssl_options.cacertfile = {seen}/ca.pem"),
                format!("ssl_options.certfile = {seen}/{name}.pem"),
                format!("ssl_options.keyfile = {seen}/{name}.key"),
                format!("ssl_options.verify = {}", if ask_client { "verify_peer" } else { "verify_none" }),
                format!("ssl_options.fail_if_no_peer_cert = {ask_client}"),
            ]
        });
        // The TLS listener opens after the plain one that the node's start waits for.
        eventually(LISTENS_WITHIN, "the node listens for TLS", || TcpStream::connect(("127.0.0.1", port)).is_ok());
        (node, port)
    }

    fn authority(&self, name: &str, subject: &str) {
        let (key, pem) = (format!("{name}.key"), format!("{name}.pem"));
        self.openssl(&NEW_KEY, &["-x509", "-days", "2", "-subj", subject, "-keyout", &key, "-out", &pem]);
    }

    fn signed(&self, name: &str, subject: &str, extension: &str) {
        let (key, csr, pem) = (format!("{name}.key"), format!("{name}.csr"), format!("{name}.pem"));
        self.openssl(&NEW_KEY, &["-subj", subject, "-addext", extension, "-keyout", &key, "-out", &csr]);
        let by_authority = ["-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2"];
        self.openssl(&["x509", "-req", "-in", &csr, "-copy_extensions", "copy", "-out", &pem], &by_authority);
    }

    fn openssl(&self, args: &[&str], more: &[&str]) {
        let made = Command::new("openssl").args(args).args(more).current_dir(self.folder()).output();
        let made = made.expect("openssl is there");
        assert!(made.status.success(), "{args:?}: {}", String::from_utf8_lossy(&made.stderr));
    }
}
