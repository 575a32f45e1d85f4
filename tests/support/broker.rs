//! Real RabbitMQ: a virtual host of one's own on a shared node, or a whole node of one's own.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};

use super::http::{self, Answer};
use super::publish::{self, Message};
use super::wait::eventually;

/// Management figures lag behind by up to 5 s.
const STATISTICS_LAG: Duration = Duration::from_secs(30);

/// Which RabbitMQ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BrokerVersion {
    /// 3.10, Debian 12's package.
    V3,
    /// 4.0, from Debian 13.
    V4,
}

impl BrokerVersion {
    /// Both.
    pub const ALL: [Self; 2] = [Self::V3, Self::V4];

    /// Both in the long round, else one of them, by the seed.
    pub fn for_this_round() -> Vec<Self> {
        if super::long_round() {
            return Self::ALL.to_vec();
        }
        vec![Self::ALL[usize::from(super::seed() % 2 == 1)]]
    }

    fn digit(self) -> &'static str {
        match self {
            Self::V3 => "3",
            Self::V4 => "4",
        }
    }
}

/// The type of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueKind {
    /// `x-queue-type: classic`, durable.
    Classic,
    /// `x-queue-type: quorum`, durable.
    Quorum,
}

/// A virtual host to use, on a node that is shared or one's own.
pub struct Broker {
    version: BrokerVersion,
    node: PathBuf,
    own: bool,
    vhost: String,
    host_port: String,
    management: String,
}

impl Broker {
    /// A fresh virtual host on the node that all tests share; deleted on drop. Never stop, pause or re-configure the node.
    ///
    /// # Panics
    /// If `tests/env` has not started the node.
    pub fn shared(version: BrokerVersion) -> Self {
        let node = super::provided(&format!("RMQ_TEST_NODE{}", version.digit()));
        let mut broker = Self::from_node(version, PathBuf::from(node), false);
        broker.vhost = format!("t{:x}-{:x}", std::process::id(), fastrand::u32(..));
        broker.expect_ok("PUT", &format!("vhosts/{}", broker.vhost), None);
        let all = json!({"configure": ".*", "write": ".*", "read": ".*"});
        broker.expect_ok("PUT", &format!("permissions/{}/guest", broker.vhost), Some(&all));
        broker
    }

    /// A node of one's own, for tests that stop, freeze or re-configure it; takes about 6 s. `conf` are lines of
    /// `rabbitmq.conf`. It is killed and its folder removed on drop, or when this process dies.
    ///
    /// # Panics
    /// If it cannot be started.
    pub fn own(version: BrokerVersion, conf: &[&str]) -> Self {
        Self::start_own(version, Self::new_folder(), conf)
    }

    /// The same for a node that reads the files of a folder, of which it gets copies. `conf` is told the folder in which the
    /// node sees them.
    ///
    /// # Panics
    /// If it cannot be started.
    pub fn own_with_files(version: BrokerVersion, files: &Path, conf: impl FnOnce(&str) -> Vec<String>) -> Self {
        let node = Self::new_folder();
        let copies = node.join("files");
        std::fs::create_dir_all(&copies).unwrap();
        for file in std::fs::read_dir(files).unwrap() {
            let file = file.unwrap();
            std::fs::copy(file.path(), copies.join(file.file_name())).unwrap();
        }
        let seen = match version {
            BrokerVersion::V3 => copies.display().to_string(),
            // It runs in a root of its own, where its folder is /node.
            BrokerVersion::V4 => "/node/files".to_owned(),
        };
        let conf = conf(&seen);
        let lines: Vec<&str> = conf.iter().map(String::as_str).collect();
        Self::start_own(version, node, &lines)
    }

    fn new_folder() -> PathBuf {
        let name = format!("rmq-node-{:x}-{:x}", std::process::id(), fastrand::u32(..));
        std::env::temp_dir().join(name)
    }

    fn start_own(version: BrokerVersion, node: PathBuf, conf: &[&str]) -> Self {
        let me = std::process::id().to_string();
        let mut args = vec!["--version", version.digit(), "--with-pid", &me];
        for line in conf {
            args.extend(["--conf", line]);
        }
        node_script("start", &node, &args);
        Self::from_node(version, node, true)
    }

    fn from_node(version: BrokerVersion, node: PathBuf, own: bool) -> Self {
        let facts = std::fs::read(node.join("node.json")).expect("the node's folder");
        let facts: Value = serde_json::from_slice(&facts).unwrap();
        let port = |name: &str| facts[name].as_u64().expect("a port");
        Self {
            version,
            own,
            vhost: facts["vhost"].as_str().unwrap().to_owned(),
            host_port: format!("127.0.0.1:{}", port("amqp_port")),
            management: format!("http://127.0.0.1:{}", port("mgmt_port")),
            node,
        }
    }

    /// The AMQP URL with the right password.
    pub fn url(&self) -> String {
        self.url_as("guest", "guest")
    }

    /// The AMQP URL for a user and a password; both are escaped.
    pub fn url_as(&self, user: &str, password: &str) -> String {
        let (user, password) = (escape(user), escape(password));
        format!("amqp://{user}:{password}@{}/{}", self.host_port, escape(&self.vhost))
    }

    /// The base address of the management API.
    pub fn management_url(&self) -> &str {
        &self.management
    }

    /// `127.0.0.1:PORT` of AMQP, for a proxy.
    pub fn address(&self) -> std::net::SocketAddr {
        self.host_port.parse().unwrap()
    }

    /// The virtual host.
    pub fn vhost(&self) -> &str {
        &self.vhost
    }

    /// Which RabbitMQ this is.
    pub fn version(&self) -> BrokerVersion {
        self.version
    }

    /// The node's folder, with its logs in `log/`.
    pub fn folder(&self) -> &Path {
        &self.node
    }

    // --- the node: own only -----------------------------------------------------------------------------------------------

    /// SIGKILL; data are kept for [`Broker::start`].
    pub fn kill(&self) {
        self.node_verb("kill");
    }

    /// An orderly stop, about 7 s.
    pub fn stop(&self) {
        self.node_verb("stop");
    }

    /// Starts the node again after [`Broker::kill`] or [`Broker::stop`], on the same ports.
    pub fn start(&self) {
        assert!(self.own, "a shared node is never started by a test");
        let me = std::process::id().to_string();
        node_script("start", &self.node, &["--with-pid", &me]);
    }

    /// SIGSTOP: the peer stays connected and silent.
    pub fn pause(&self) {
        self.node_verb("pause");
    }

    /// SIGCONT.
    pub fn resume(&self) {
        self.node_verb("resume");
    }

    /// Runs `rabbitmqctl` (0.5 s; where the management API can do it, that is 100 times quicker) and returns what it prints.
    pub fn ctl(&self, args: &[&str]) -> String {
        node_script("ctl", &self.node, args)
    }

    fn node_verb(&self, verb: &str) {
        assert!(self.own, "a shared node is never disturbed by a test");
        node_script(verb, &self.node, &[]);
    }

    // --- the management API -------------------------------------------------------------------------------------------------

    /// One request to the management API; `path` follows `/api/`.
    pub fn management(&self, method: &str, path: &str, body: Option<&Value>) -> Answer {
        let login = http::basic("guest", "guest");
        let path = format!("/api/{path}");
        http::request(method, &self.management, &path, Some(&login), body).expect("the management API answers")
    }

    fn expect_ok(&self, method: &str, path: &str, body: Option<&Value>) -> Answer {
        let answer = self.management(method, path, body);
        let ok = (200..300).contains(&answer.status);
        assert!(ok, "{method} {path}: {} {}", answer.status, answer.text());
        answer
    }

    /// The management API's path of a thing of this virtual host, such as `("queues", "orders")`.
    fn path(&self, kind: &str, name: &str) -> String {
        format!("{kind}/{}/{}", escape(&self.vhost), escape(name))
    }

    /// Declares a durable queue. `arguments` is an object such as `json!({"x-delivery-limit": 3})`, or `Null`.
    pub fn declare(&self, queue: &str, kind: QueueKind, arguments: Value) {
        let mut arguments = arguments.as_object().cloned().unwrap_or_default();
        let kind = match kind {
            QueueKind::Classic => "classic",
            QueueKind::Quorum => "quorum",
        };
        arguments.insert("x-queue-type".to_owned(), kind.into());
        let body = json!({"durable": true, "arguments": arguments});
        self.expect_ok("PUT", &self.path("queues", queue), Some(&body));
    }

    /// Declares a durable exchange of a type (`direct`, `topic`, `headers`, `fanout`).
    pub fn declare_exchange(&self, exchange: &str, kind: &str) {
        let body = json!({"type": kind, "durable": true});
        self.expect_ok("PUT", &self.path("exchanges", exchange), Some(&body));
    }

    /// Binds a queue to an exchange.
    pub fn bind(&self, exchange: &str, queue: &str, routing_key: &str) {
        let path = format!("bindings/{}/e/{}/q/{}", escape(&self.vhost), escape(exchange), escape(queue));
        self.expect_ok("POST", &path, Some(&json!({"routing_key": routing_key})));
    }

    /// Keeps a copy of every message that is delivered from a queue from now on, in the order of the deliveries; read them by
    /// [`Broker::deliveries`]. For this virtual host's other queues nothing is kept.
    pub fn trace(&self, queue: &str) {
        let trace = format!("trace.{queue}");
        self.declare(&trace, QueueKind::Classic, Value::Null);
        self.bind("amq.rabbitmq.trace", &trace, &format!("deliver.{queue}"));
        self.expect_ok("PUT", &format!("vhosts/{}", escape(&self.vhost)), Some(&json!({"tracing": true})));
    }

    /// How often each message, told apart by its body, was delivered since [`Broker::trace`].
    pub fn deliveries(&self, queue: &str) -> BTreeMap<String, u32> {
        let mut counts = BTreeMap::new();
        loop {
            let copies = self.take(&format!("trace.{queue}"), 1000);
            if copies.is_empty() {
                return counts;
            }
            for copy in &copies {
                let body = copy["payload"].as_str().unwrap_or_default();
                *counts.entry(body.to_owned()).or_default() += 1;
            }
        }
    }

    /// Deletes a queue under whoever consumes it.
    pub fn delete_queue(&self, queue: &str) {
        self.expect_ok("DELETE", &self.path("queues", queue), None);
    }

    /// Adds a user with a password and no permission at all; removed with the node only.
    pub fn add_stranger(&self, user: &str, password: &str) {
        let body = json!({"password": password, "tags": ""});
        self.expect_ok("PUT", &format!("users/{}", escape(user)), Some(&body));
    }

    /// Adds a user with a password and the given permissions on this virtual host; removed with the node only.
    pub fn add_user(&self, user: &str, password: &str, configure: &str, write: &str, read: &str) {
        self.add_stranger(user, password);
        let rights = json!({"configure": configure, "write": write, "read": read});
        let path = format!("permissions/{}/{}", escape(&self.vhost), escape(user));
        self.expect_ok("PUT", &path, Some(&rights));
    }

    /// The same for a user with tags, such as `management`.
    pub fn add_tagged_user(&self, user: &str, password: &str, tags: &str, read: &str) {
        self.add_user(user, password, "^$", "^$", read);
        let body = json!({"password": password, "tags": tags});
        self.expect_ok("PUT", &format!("users/{}", escape(user)), Some(&body));
    }

    /// Sets a policy of queues, an operator's where `operator`.
    pub fn set_policy(&self, operator: bool, pattern: &str, definition: Value) {
        let kind = if operator { "operator-policies" } else { "policies" };
        let body = json!({"pattern": pattern, "definition": definition, "apply-to": "queues"});
        self.expect_ok("PUT", &self.path(kind, &format!("p{}", fastrand::u32(..))), Some(&body));
    }

    /// Lets at most so many connections into this virtual host.
    pub fn limit_connections(&self, most: u32) {
        let path = format!("vhost-limits/{}/max-connections", escape(&self.vhost));
        self.expect_ok("PUT", &path, Some(&json!({"value": most})));
    }

    /// Publishes messages in order and waits until the broker has them.
    pub fn publish(&self, messages: &[Message]) {
        publish::publish(&self.url(), messages);
    }

    /// What the management API knows of a queue; up to 5 s old.
    pub fn queue(&self, queue: &str) -> Value {
        self.expect_ok("GET", &self.path("queues", queue), None).json()
    }

    /// Messages ready in a queue, exact and now (a passive declare).
    pub fn ready(&self, queue: &str) -> u32 {
        publish::passive(&self.url(), queue).0
    }

    /// Consumers of a queue, exact and now (a passive declare).
    pub fn consumers(&self, queue: &str) -> u32 {
        publish::passive(&self.url(), queue).1
    }

    /// Waits until the management API reports exactly so many ready and unacknowledged messages.
    #[track_caller]
    pub fn wait_counts(&self, queue: &str, ready: u64, unacked: u64) {
        let what = format!("{queue} has {ready} ready and {unacked} unacknowledged messages");
        eventually(STATISTICS_LAG, &what, || {
            let now = self.queue(queue);
            now["messages_ready"] == ready && now["messages_unacknowledged"] == unacked
        });
    }

    /// Takes up to `count` messages off a queue and returns them as the management API shows them
    /// (`payload`, `payload_encoding`, `properties`, `routing_key`, `redelivered`).
    pub fn take(&self, queue: &str, count: u32) -> Vec<Value> {
        let body = json!({"count": count, "ackmode": "ack_requeue_false", "encoding": "auto"});
        let path = format!("{}/get", self.path("queues", queue));
        let answer = self.expect_ok("POST", &path, Some(&body)).json();
        answer.as_array().cloned().unwrap_or_default()
    }

    /// Closes every connection of this virtual host, as an operator would; returns how many.
    pub fn close_connections(&self) -> usize {
        let path = format!("vhosts/{}/connections", escape(&self.vhost));
        let connections = self.expect_ok("GET", &path, None).json();
        let names: Vec<_> =
            connections.as_array().into_iter().flatten().filter_map(|connection| connection["name"].as_str()).collect();
        for name in &names {
            self.management("DELETE", &format!("connections/{}", escape(name)), None);
        }
        names.len()
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        if self.own {
            let done = script().arg("kill").arg(&self.node).arg("--purge").status();
            drop(done); // What a failed kill leaves, the node's own watch ends.
        } else {
            let login = http::basic("guest", "guest");
            let path = format!("/api/vhosts/{}", self.vhost);
            let done = http::request("DELETE", &self.management, &path, Some(&login), None);
            drop(done); // The node itself goes with the run.
        }
    }
}

fn escape(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}

fn script() -> Command {
    Command::new(super::provided("RMQ_TEST_NODE_SCRIPT"))
}

/// Runs one verb of `tests/servers/rabbitmq-node`.
#[track_caller]
fn node_script(verb: &str, node: &Path, args: &[&str]) -> String {
    let done = script().arg(verb).arg(node).args(args).output().unwrap();
    assert!(done.status.success(), "rabbitmq-node {verb}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8_lossy(&done.stdout).into_owned()
}
