//! From a connection as Airflow reads it to the settings of an AMQP connection.
//!
//! Empty fields take the provider's defaults. What is merely doubtful becomes a [`ConnectionWarning`] and goes on; what
//! cannot be meant becomes an [`AmqpError`]. Neither ever quotes a value, but for the connection's type.
//!
//! Invariant: `amqps` and a true `ssl_enabled` give `tls: Some`; nothing later may turn that back (tests/config/amqp.rs).
//!
//! Source: airflow-provider-rmq 2.6.0 (defaults, TLS keys, timing keys); AMQP 0-9-1 (lengths).

use std::fmt;
use std::net::Ipv6Addr;

use serde_json::Value;
use thiserror::Error;

use super::{AirflowConnection, timing, tls};
use crate::domain::connection::{AmqpSettings, Secret};
use crate::domain::ids::ConnId;

/// The provider's defaults for empty fields.
pub const DEFAULT_HOST: &str = "localhost";
/// See [`DEFAULT_HOST`].
pub const DEFAULT_LOGIN: &str = "guest";
/// See [`DEFAULT_HOST`].
pub const DEFAULT_PASSWORD: &str = "guest";
/// See [`DEFAULT_HOST`].
pub const DEFAULT_VHOST: &str = "/";
/// Source: IANA, amqp.
pub const DEFAULT_PORT: u16 = 5672;
/// Source: IANA, amqps.
pub const DEFAULT_TLS_PORT: u16 = 5671;

/// The connection types that mean AMQP. `generic` is what `airflow connections add --conn-type amqp` stores.
pub const ACCEPTED_TYPES: [&str; 3] = ["amqp", "amqps", "generic"];

/// A short string on the wire holds at most so many bytes (AMQP 0-9-1).
const MAX_VHOST_BYTES: usize = 255;

/// Something doubtful about a connection: one sentence for a WARNING line, without any secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectionWarning(String);

impl ConnectionWarning {
    pub(super) fn new(sentence: impl Into<String>) -> Self {
        Self(sentence.into())
    }
}

impl fmt::Display for ConnectionWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Why no settings can be made of a connection.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum AmqpError {
    /// Not one of [`ACCEPTED_TYPES`].
    #[error("its type is {0}, but only amqp, amqps and generic can be RabbitMQ; change the connection's type")]
    Type(String),
    /// See [`AirflowConnection::is_torn`].
    #[error(
        "its URI has an @ behind the host but no user before it: the password holds one of / ? # ; write it percent-encoded (%2F %3F %23)"
    )]
    Torn,
    /// Out of range.
    #[error("its port is not between 1 and 65535")]
    Port,
    /// Not a host name, address or list of them.
    #[error(
        "its host is not a host name, an address or a comma-separated list of them; the protocol goes into the type, one port for all hosts into the port"
    )]
    Host,
    /// Too long for the protocol.
    #[error("its schema (the virtual host) is longer than 255 bytes")]
    Vhost,
    /// The login mechanism separates its fields by NUL.
    #[error("its {0} holds a NUL character, which AMQP's login cannot carry")]
    Nul(&'static str),
    /// An extra of the wrong kind where guessing would weaken TLS.
    #[error("its extra `{key}` must be {expected}")]
    TlsExtra {
        /// The key.
        key: &'static str,
        /// What it must be.
        expected: &'static str,
    },
}

/// Whether a connection of this type can be RabbitMQ. Airflow lower-cases the type of a URI, not that of a JSON form.
pub fn is_accepted_type(conn_type: &str) -> bool {
    ACCEPTED_TYPES.iter().any(|accepted| accepted.eq_ignore_ascii_case(conn_type))
}

/// Makes settings of a connection.
///
/// # Errors
/// What somebody has to change in the connection before it can be used.
pub fn settings(
    conn_id: &ConnId,
    connection: &AirflowConnection,
) -> Result<(AmqpSettings, Vec<ConnectionWarning>), AmqpError> {
    if connection.is_torn {
        return Err(AmqpError::Torn);
    }
    let conn_type = given(connection.conn_type.as_deref()).unwrap_or("amqp");
    if !is_accepted_type(conn_type) {
        return Err(AmqpError::Type(shown_type(conn_type)));
    }
    let mut warnings: Vec<ConnectionWarning> =
        connection.notes.iter().map(|note| ConnectionWarning::new(*note)).collect();
    let is_amqps = conn_type.eq_ignore_ascii_case("amqps");
    let tls = tls::read(&connection.extra, is_amqps, &mut warnings)?;
    let default_port = if tls.is_some() { DEFAULT_TLS_PORT } else { DEFAULT_PORT };
    let settings = AmqpSettings {
        conn_id: conn_id.clone(),
        hosts: hosts(given(connection.host.as_deref()).unwrap_or(DEFAULT_HOST))?,
        port: port(connection.port, default_port)?,
        login: credential("login", connection.login.as_deref(), DEFAULT_LOGIN)?,
        password: Secret::new(credential(
            "password",
            connection.password.as_ref().map(Secret::expose),
            DEFAULT_PASSWORD,
        )?),
        vhost: vhost(given(connection.schema.as_deref()).unwrap_or(DEFAULT_VHOST))?,
        tls,
        heartbeat_secs: timing::heartbeat(connection.extra.get("heartbeat"), &mut warnings),
        connect_timeout: timing::timeout(
            "connect_timeout",
            connection.extra.get("connect_timeout"),
            timing::DEFAULT_CONNECT_TIMEOUT,
            &mut warnings,
        ),
        rpc_timeout: timing::timeout(
            "rpc_timeout",
            connection.extra.get("rpc_timeout"),
            timing::DEFAULT_RPC_TIMEOUT,
            &mut warnings,
        ),
        management_url: management_url(connection.extra.get("management_url"), &mut warnings),
    };
    Ok((settings, warnings))
}

fn given(text: Option<&str>) -> Option<&str> {
    text.filter(|text| !text.is_empty())
}

/// A type as an error may show it: anything that does not look like one is left out.
fn shown_type(conn_type: &str) -> String {
    let looks_like_one = conn_type.len() <= 30 && conn_type.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    if looks_like_one { format!("`{conn_type}`") } else { "not a word".to_owned() }
}

fn hosts(list: &str) -> Result<Vec<String>, AmqpError> {
    let hosts: Vec<String> =
        list.split(',').map(str::trim).filter(|host| !host.is_empty()).map(host).collect::<Result<_, _>>()?;
    if hosts.is_empty() {
        return Err(AmqpError::Host);
    }
    Ok(hosts)
}

/// One host; brackets around an IPv6 address are taken off.
fn host(host: &str) -> Result<String, AmqpError> {
    let bare = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
    let address = bare.split('%').next().unwrap_or(bare);
    if address.parse::<Ipv6Addr>().is_ok() {
        return Ok(bare.to_owned());
    }
    let is_name = !host.contains(|c: char| c.is_whitespace() || c.is_control() || "/\\?#@:[]%\"<>^`{|}".contains(c));
    if is_name { Ok(host.to_owned()) } else { Err(AmqpError::Host) }
}

/// 0 counts as none, as in Python.
fn port(port: Option<i64>, default: u16) -> Result<u16, AmqpError> {
    match port {
        None | Some(0) => Ok(default),
        Some(port) => u16::try_from(port).map_err(|_| AmqpError::Port),
    }
}

fn credential(name: &'static str, text: Option<&str>, default: &str) -> Result<String, AmqpError> {
    let text = given(text).unwrap_or(default);
    if text.contains('\0') {
        return Err(AmqpError::Nul(name));
    }
    Ok(text.to_owned())
}

fn vhost(vhost: &str) -> Result<String, AmqpError> {
    if vhost.len() > MAX_VHOST_BYTES {
        return Err(AmqpError::Vhost);
    }
    Ok(vhost.to_owned())
}

/// The management API's address. It is not needed for consuming, so a bad one is set aside with a warning.
fn management_url(value: Option<&Value>, warnings: &mut Vec<ConnectionWarning>) -> Option<String> {
    let text = match value {
        None | Some(Value::Null) => return None,
        Some(Value::String(text)) if text.trim().is_empty() => return None,
        Some(Value::String(text)) => text.trim(),
        Some(Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => "",
    };
    let url = crate::config::url::BaseUrl::parse(text);
    if url.is_none() {
        warnings.push(ConnectionWarning::new(
            "its extra `management_url` is not an address like http://host:15672 without user, password or query, and is ignored: the management API is not asked",
        ));
    }
    url.map(crate::config::url::BaseUrl::into_text)
}
