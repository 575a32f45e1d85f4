//! An AMQP connection's settings as plain values, however they were written down.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use super::ids::ConnId;

/// Text that no log line, error, page or row may show. Has no `Display`, and its `Debug` prints `***`.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Takes a secret into custody.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The secret itself, for the one place that sends it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// Everything needed to reach one broker as one user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AmqpSettings {
    /// The Airflow connection id these settings belong to.
    pub conn_id: ConnId,
    /// Host names or addresses (IPv6 without brackets), at least one.
    pub hosts: Vec<String>,
    /// The port of all of them; default 5672, with TLS 5671.
    pub port: u16,
    /// Default `guest`.
    pub login: String,
    /// Default `guest`.
    pub password: Secret,
    /// Default `/`.
    pub vhost: String,
    /// `None`: plain text.
    pub tls: Option<TlsSettings>,
    /// Seconds between heartbeats; default 30. 0: the server's own value is used.
    pub heartbeat_secs: u16,
    /// Bound of one connection attempt, TCP, TLS and AMQP handshake together; default 15 s.
    pub connect_timeout: Duration,
    /// Bound of one AMQP call; default 30 s.
    pub rpc_timeout: Duration,
    /// Base URL of the broker's management API, if given.
    pub management_url: Option<String>,
}

/// How TLS is spoken. Paths are read at every connect, so a renewed certificate counts at the next one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsSettings {
    /// Only these authorities count; `None`: the system's.
    pub ca_certs: Option<PathBuf>,
    /// Client certificate and its key (PEM).
    pub client: Option<(PathBuf, PathBuf)>,
    /// `cert_reqs: CERT_NONE`: neither the chain nor the host name is checked.
    pub verify_none: bool,
}
