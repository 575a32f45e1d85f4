//! Private RabbitMQ nodes for these tests: shared running ones, and own ones for what destroys them.
//!
//! `RMQ_TEST_NODE3` / `RMQ_TEST_NODE4` name the folders of running nodes; `RMQ_TEST_NODE_SCRIPT` the script that starts,
//! kills and pauses nodes (`start DIR --version N [--conf LINE]…`, `env DIR`, `ctl DIR ARGS`, …). A test whose node cannot be
//! had fails.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use base64::Engine;
use rmq_watcher::domain::connection::{AmqpSettings, Secret, TlsSettings};
use rmq_watcher::domain::ids::ConnId;

/// The versions a test runs on: the given one, or both with `RMQ_TEST_ALL=1`.
pub(crate) fn versions(plain: u8) -> Vec<u8> {
    if std::env::var("RMQ_TEST_ALL").is_ok_and(|v| v == "1") { vec![3, 4] } else { vec![plain] }
}

fn script() -> PathBuf {
    PathBuf::from(
        std::env::var_os("RMQ_TEST_NODE_SCRIPT")
            .expect("RMQ_TEST_NODE_SCRIPT must name the script that starts private RabbitMQ nodes"),
    )
}

fn call(args: &[&str]) -> String {
    let out = Command::new(script()).args(args).output().unwrap();
    assert!(out.status.success(), "{args:?}: {}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8(out.stdout).unwrap()
}

/// A running node.
pub(crate) struct Node {
    dir: PathBuf,
    pub(crate) port: u16,
    mgmt_port: u16,
    pub(crate) vhost: String,
    own: Option<tempfile::TempDir>,
}

impl Node {
    /// The node that the harness keeps running for all tests.
    pub(crate) fn shared(version: u8) -> Self {
        let var = format!("RMQ_TEST_NODE{version}");
        let dir = std::env::var_os(&var)
            .unwrap_or_else(|| panic!("{var} must name the folder of a running RabbitMQ {version} node"));
        let dir = PathBuf::from(dir);
        let printed = call(&["env", dir.to_str().unwrap()]);
        Self::from_printed(dir, &printed, None)
    }

    /// A node of the test's own, killed and removed at its end.
    pub(crate) fn own(version: u8, conf: &[String]) -> Self {
        let home = tempfile::tempdir().unwrap();
        Self::start(version, home, conf)
    }

    /// A node of the test's own that can read these certificates; `conf` is told under which folder it sees them.
    pub(crate) fn own_with(version: u8, certificates: &Certificates, conf: &dyn Fn(&str) -> Vec<String>) -> Self {
        let home = tempfile::tempdir().unwrap();
        let copies = home.path().join("node/certificates");
        std::fs::create_dir_all(&copies).unwrap();
        for file in std::fs::read_dir(certificates.0.path()).unwrap() {
            let file = file.unwrap();
            std::fs::copy(file.path(), copies.join(file.file_name())).unwrap();
        }
        // A version 4 node runs in a root of its own, where its folder is /node.
        let seen = if version == 4 { "/node/certificates".to_owned() } else { copies.to_str().unwrap().to_owned() };
        let conf = conf(&seen);
        Self::start(version, home, &conf)
    }

    fn start(version: u8, home: tempfile::TempDir, conf: &[String]) -> Self {
        let dir = home.path().join("node");
        let version_text = version.to_string();
        let mut args = vec!["start", dir.to_str().unwrap(), "--version", &version_text];
        for line in conf {
            args.extend(["--conf", line]);
        }
        let printed = call(&args);
        Self::from_printed(dir.clone(), &printed, Some(home))
    }

    fn from_printed(dir: PathBuf, printed: &str, own: Option<tempfile::TempDir>) -> Self {
        let value = |name: &str| {
            printed
                .lines()
                .find_map(|l| l.strip_prefix(name)?.strip_prefix('='))
                .unwrap_or_else(|| panic!("no {name} in {printed:?}"))
                .to_owned()
        };
        let amqp = value("AMQP_URL");
        let (authority, vhost) = amqp.strip_prefix("amqp://").unwrap().split_once('/').unwrap();
        let port_of = |text: &str| text.rsplit_once(':').unwrap().1.parse().unwrap();
        Self {
            dir,
            port: port_of(authority),
            mgmt_port: port_of(value("MANAGEMENT_URL").trim_end_matches('/')),
            vhost: vhost.to_owned(),
            own,
        }
    }

    fn dir(&self) -> &str {
        self.dir.to_str().unwrap()
    }

    pub(crate) fn ctl(&self, args: &[&str]) -> String {
        let mut all = vec!["ctl", self.dir()];
        all.extend(args);
        call(&all)
    }

    pub(crate) fn pause(&self) {
        call(&["pause", self.dir()]);
    }

    pub(crate) fn resume(&self) {
        call(&["resume", self.dir()]);
    }

    pub(crate) fn kill(&self) {
        call(&["kill", self.dir()]);
    }

    pub(crate) fn start_again(&self) {
        call(&["start", self.dir()]);
    }

    /// Plain settings for this node's `guest`.
    pub(crate) fn settings(&self) -> AmqpSettings {
        AmqpSettings {
            conn_id: ConnId::new("rmq_test"),
            hosts: vec!["127.0.0.1".to_owned()],
            port: self.port,
            login: "guest".to_owned(),
            password: Secret::new("guest"),
            vhost: self.vhost.clone(),
            tls: None,
            heartbeat_secs: 30,
            connect_timeout: Duration::from_secs(15),
            rpc_timeout: Duration::from_secs(30),
            management_url: None,
        }
    }

    /// One call of the management API, as its status and its body.
    pub(crate) fn management(&self, method: &str, path: &str, body: Option<&str>) -> (u16, serde_json::Value) {
        let mut http = TcpStream::connect(("127.0.0.1", self.mgmt_port)).unwrap();
        http.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let auth = base64::engine::general_purpose::STANDARD.encode("guest:guest");
        let body = body.unwrap_or("");
        write!(
            http,
            "{method} /api/{path} HTTP/1.0\r\nauthorization: Basic {auth}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        )
        .unwrap();
        let mut answer = String::new();
        http.read_to_string(&mut answer).unwrap();
        let status = answer[9..12].parse().unwrap();
        let body = answer.split_once("\r\n\r\n").map_or("", |(_, b)| b);
        (status, serde_json::from_str(body).unwrap_or_default())
    }

    /// Closes the watcher's connection of this id, as an operator would.
    pub(crate) fn close_connection(&self, conn_id: &str, reason: &str) {
        let list = self.ctl(&["list_connections", "pid", "client_properties"]);
        let line = list
            .lines()
            .find(|l| l.contains("rmq_watcher.") && l.contains(conn_id))
            .unwrap_or_else(|| panic!("no connection of {conn_id} in {list}"));
        let pid = line.split('\t').next().unwrap();
        self.ctl(&["close_connection", pid, reason]);
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if self.own.is_some() {
            let done = Command::new(script()).args(["kill", self.dir(), "--purge"]).status();
            drop(done);
        }
    }
}

/// Certificates made with openssl: one authority, a server certificate for `localhost` and `127.0.0.1`, a client certificate.
pub(crate) struct Certificates(tempfile::TempDir);

impl Certificates {
    pub(crate) fn make() -> Self {
        let home = tempfile::tempdir().unwrap();
        let made = Self(home);
        made.authority("ca", "/CN=test authority");
        made.authority("other-ca", "/CN=another authority");
        made.signed("server", "/CN=localhost", "subjectAltName=DNS:localhost,IP:127.0.0.1");
        made.signed("elsewhere", "/CN=elsewhere", "subjectAltName=DNS:broker.example");
        made.signed("client", "/CN=watcher", "extendedKeyUsage=clientAuth");
        made
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn openssl(&self, args: &[&str]) {
        let out = Command::new("openssl").args(args).current_dir(self.0.path()).output().unwrap();
        assert!(out.status.success(), "{args:?}: {}", String::from_utf8_lossy(&out.stderr));
    }

    fn authority(&self, name: &str, subject: &str) {
        let (key, pem) = (format!("{name}.key"), format!("{name}.pem"));
        self.openssl(&[
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
            "-nodes",
            "-days",
            "2",
            "-subj",
            subject,
            "-keyout",
            &key,
            "-out",
            &pem,
        ]);
    }

    fn signed(&self, name: &str, subject: &str, extension: &str) {
        let (key, csr, pem) = (format!("{name}.key"), format!("{name}.csr"), format!("{name}.pem"));
        self.openssl(&[
            "req",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
            "-nodes",
            "-subj",
            subject,
            "-addext",
            extension,
            "-keyout",
            &key,
            "-out",
            &csr,
        ]);
        self.openssl(&[
            "x509",
            "-req",
            "-in",
            &csr,
            "-CA",
            "ca.pem",
            "-CAkey",
            "ca.key",
            "-CAcreateserial",
            "-days",
            "2",
            "-copy_extensions",
            "copy",
            "-out",
            &pem,
        ]);
    }

    /// Configuration lines for a node with a TLS listener on `port`, presenting the certificate `name` from the folder `seen`.
    pub(crate) fn listener(&self, seen: &str, port: u16, name: &str, ask_client: bool) -> Vec<String> {
        let at = |file: String| format!("{seen}/{file}");
        vec![
            format!("listeners.ssl.1 = 127.0.0.1:{port}"),
            format!("ssl_options.cacertfile = {}", at("ca.pem".to_owned())),
            format!("ssl_options.certfile = {}", at(format!("{name}.pem"))),
            format!("ssl_options.keyfile = {}", at(format!("{name}.key"))),
            format!("ssl_options.verify = {}", if ask_client { "verify_peer" } else { "verify_none" }),
            format!("ssl_options.fail_if_no_peer_cert = {ask_client}"),
        ]
    }

    /// Settings for TLS that trust `ca`.
    pub(crate) fn tls(&self, ca: &str) -> TlsSettings {
        TlsSettings { ca_certs: Some(self.path(ca)), ..TlsSettings::default() }
    }

    pub(crate) fn client(&self) -> (PathBuf, PathBuf) {
        (self.path("client.pem"), self.path("client.key"))
    }
}

/// A port below the ephemeral range that nothing listens on now.
pub(crate) fn free_port() -> u16 {
    loop {
        let port = 20_000 + fastrand::u16(..12_000);
        if std::net::TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

/// Waits until something listens on the port.
pub(crate) fn wait_for_port(port: u16) {
    let deadline = std::time::Instant::now() + Duration::from_secs(20);
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(std::time::Instant::now() < deadline, "nothing listens on {port}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
