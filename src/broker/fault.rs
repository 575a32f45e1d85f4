//! From what lapin, TLS and sockets report to a [`BrokerFault`]: one sentence that says what, where and what to do.
//!
//! Third-party errors stop here. No text can hold a password: none is ever handed to this module.
//!
//! Source for the codes: AMQP 0-9-1 §1.1 (constants); what RabbitMQ 3.10 and 4.0 send in each case was tried, see the
//! `real_` tests in `tests/broker`.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "the errors of other crates grow; what is not known here is passed on in its own words"
)]

mod tls_text;

use std::fmt;
use std::io;
use std::time::Duration;

use crate::domain::connection::AmqpSettings;
use crate::domain::fault::{BrokerFault, BrokerFaultKind};
use crate::domain::ids::{ConnId, QueueName};

const ACCESS_REFUSED: u16 = 403;
const NOT_FOUND: u16 = 404;
const RESOURCE_LOCKED: u16 = 405;
const PRECONDITION_FAILED: u16 = 406;
const CONNECTION_FORCED: u16 = 320;
const NOT_ALLOWED: u16 = 530;

/// Content type 21 of the TLS record layer: an alert, which a TLS server answers to plain AMQP.
const TLS_ALERT: u8 = 0x15;

/// Where something went wrong, in the words of the settings.
#[derive(Clone, Debug)]
pub(super) struct Place {
    conn_id: ConnId,
    host: String,
    port: u16,
    vhost: String,
    login: String,
    tls: bool,
    heartbeat_secs: u16,
}

impl Place {
    pub(super) fn new(settings: &AmqpSettings, host: &str) -> Self {
        Self {
            conn_id: settings.conn_id.clone(),
            host: host.to_owned(),
            port: settings.port,
            vhost: settings.vhost.clone(),
            login: settings.login.clone(),
            tls: settings.tls.is_some(),
            heartbeat_secs: settings.heartbeat_secs,
        }
    }

    pub(super) fn host(&self) -> &str {
        &self.host
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port, conn_id, .. } = self;
        let (open, close) = if host.contains(':') { ("[", "]") } else { ("", "") };
        write!(f, "{open}{host}{close}:{port} (connection {conn_id:?})")
    }
}

/// How far an attempt to connect had come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Reading certificate files.
    Files,
    /// Asking for the host's addresses.
    Resolve,
    /// Opening the TCP connection.
    Tcp,
    /// The TLS handshake.
    Tls,
    /// The AMQP handshake: greeting, login, vhost.
    Amqp,
}

pub(super) fn fault(kind: BrokerFaultKind, text: String) -> BrokerFault {
    BrokerFault { kind, text }
}

/// The time for an attempt ran out.
pub(super) fn connect_timed_out(place: &Place, step: Step, bound: Duration) -> BrokerFault {
    let what = match step {
        Step::Files => "the certificate files could not be read",
        Step::Resolve => "its name was not resolved",
        Step::Tcp => "it did not accept a TCP connection",
        Step::Tls => "it accepted a TCP connection but did not finish the TLS handshake",
        Step::Amqp => "it accepted the connection but did not finish the AMQP handshake",
    };
    fault(BrokerFaultKind::TimedOut, format!("connect to {place}: {what} within {}", secs(bound)))
}

/// The host's addresses could not be had.
pub(super) fn resolve(place: &Place, error: &io::Error) -> BrokerFault {
    fault(
        BrokerFaultKind::Unreachable,
        format!(
            "resolve the host name of {place}: {error}; correct the host of this connection, or see to the name service"
        ),
    )
}

/// No TCP connection.
pub(super) fn tcp(place: &Place, error: &io::Error) -> BrokerFault {
    let what = match error.kind() {
        io::ErrorKind::ConnectionRefused => {
            "nothing listens there (connection refused); start the broker, or correct host and port of this connection"
                .to_owned()
        }
        _ => format!("{error}; see to the network between here and there, or correct host and port of this connection"),
    };
    fault(BrokerFaultKind::Unreachable, format!("connect to {place}: {what}"))
}

/// The TLS handshake failed.
pub(super) fn tls(place: &Place, error: &io::Error) -> BrokerFault {
    if let Some(found) = tls_error(error) {
        return fault(BrokerFaultKind::Tls, format!("TLS to {place}: {}", tls_text::of(found)));
    }
    match error.kind() {
        io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset => fault(
            BrokerFaultKind::Unreachable,
            format!("TLS to {place}: the peer closed the connection during the handshake ({error})"),
        ),
        _ => fault(BrokerFaultKind::Unreachable, format!("TLS to {place}: {error}")),
    }
}

/// The AMQP handshake failed. `first` is the first byte the peer sent, if it sent any.
pub(super) fn handshake(place: &Place, error: &lapin::Error, first: Option<u8>) -> BrokerFault {
    if let lapin::ErrorKind::ProtocolError(said) = error.kind() {
        return handshake_refused(place, said.get_id(), said.get_message().as_str());
    }
    if let Some(found) = lapin_tls_error(error) {
        return fault(BrokerFaultKind::Tls, format!("TLS to {place}: {}", tls_text::of(found)));
    }
    match first {
        Some(TLS_ALERT) if !place.tls => fault(
            BrokerFaultKind::Tls,
            format!(
                "connect to {place}: this port speaks TLS and the connection is set up without; turn TLS on (amqps) or use the plain port"
            ),
        ),
        Some(1) => {
            fault(BrokerFaultKind::Unreachable, format!("connect to {place}: the AMQP handshake broke off ({error})"))
        }
        Some(_) => fault(
            BrokerFaultKind::Unreachable,
            format!("connect to {place}: what answers there does not speak AMQP 0-9-1; check host and port ({error})"),
        ),
        None => {
            // In TLS 1.3 a broker that misses a client certificate says so only after the handshake; where it closes at once, the
            // kernel may drop that alert together with the connection.
            let hint = if place.tls {
                "; a broker that asks for a client certificate may do so"
            } else {
                "; a port that speaks TLS may do so to a plain connection"
            };
            fault(
                BrokerFaultKind::Unreachable,
                format!("connect to {place}: the peer closed the connection before any greeting{hint} ({error})"),
            )
        }
    }
}

fn handshake_refused(place: &Place, code: u16, said: &str) -> BrokerFault {
    let Place { login, vhost, .. } = place;
    match code {
        ACCESS_REFUSED => fault(
            BrokerFaultKind::LoginRefused,
            format!(
                "log in to {place}: user {login:?} was refused; correct user name and password of this connection, and note that \"guest\" may log in from the broker's own host only"
            ),
        ),
        NOT_ALLOWED if said.contains("limit") => fault(
            BrokerFaultKind::VhostRefused,
            format!("open vhost {vhost:?} on {place}: {said:?}; raise the limit or close other connections"),
        ),
        NOT_ALLOWED if said.contains("not found") => fault(
            BrokerFaultKind::VhostRefused,
            format!(
                "open vhost {vhost:?} on {place}: there is no such vhost; create it or correct the vhost of this connection"
            ),
        ),
        NOT_ALLOWED => fault(
            BrokerFaultKind::VhostRefused,
            format!(
                "open vhost {vhost:?} on {place}: user {login:?} may not use it; grant permissions or correct the vhost of this connection (the broker said {said:?})"
            ),
        ),
        _ => fault(
            BrokerFaultKind::Closed,
            format!("connect to {place}: the broker closed the connection: {code} {said:?}"),
        ),
    }
}

/// A call on a channel failed, or its stream of deliveries ended with an error.
pub(super) fn channel(place: &Place, doing: &str, queue: &QueueName, error: &lapin::Error) -> BrokerFault {
    if let lapin::ErrorKind::ProtocolError(said) = error.kind() {
        return channel_refused(place, doing, queue, said.get_id(), said.get_message().as_str());
    }
    lost(place, doing, queue, error)
}

/// A message could not be published. Refusals of the broker are told apart; they close the channel.
pub(super) fn publishing(place: &Place, doing: &str, queue: &QueueName, error: &lapin::Error) -> BrokerFault {
    if let lapin::ErrorKind::ProtocolError(said) = error.kind()
        && said.get_id() == ACCESS_REFUSED
    {
        let (Place { login, vhost, .. }, said) = (place, said.get_message());
        let text = format!(
            "{doing} queue {queue:?} in vhost {vhost:?} of {place}: user {login:?} may not publish through the default exchange; grant \
             the write permission for \"amq.default\" (the broker said {:?})",
            said.as_str()
        );
        return fault(BrokerFaultKind::AccessRefused, text);
    }
    channel(place, doing, queue, error)
}

fn channel_refused(place: &Place, doing: &str, queue: &QueueName, code: u16, said: &str) -> BrokerFault {
    let Place { login, vhost, .. } = place;
    let at = format!("{doing} queue {queue:?} in vhost {vhost:?} of {place}");
    match code {
        NOT_FOUND => fault(
            BrokerFaultKind::QueueMissing,
            format!(
                "{at}: there is no such queue; create it or correct its name or the vhost of the connection (the broker said {said:?})"
            ),
        ),
        ACCESS_REFUSED if said.contains("exclusive") => fault(
            BrokerFaultKind::ResourceLocked,
            format!("{at}: another consumer holds the queue exclusively; stop that one (the broker said {said:?})"),
        ),
        ACCESS_REFUSED => fault(
            BrokerFaultKind::AccessRefused,
            format!("{at}: user {login:?} may not read it; grant the read permission (the broker said {said:?})"),
        ),
        RESOURCE_LOCKED => fault(
            BrokerFaultKind::ResourceLocked,
            format!(
                "{at}: the queue belongs exclusively to another connection; use another queue or declare it without \"exclusive\" (the broker said {said:?})"
            ),
        ),
        PRECONDITION_FAILED => {
            fault(BrokerFaultKind::PreconditionFailed, format!("{at}: the broker refused: {said:?}"))
        }
        CONNECTION_FORCED => fault(
            BrokerFaultKind::Closed,
            format!("{at}: an operator or the broker's shutdown closed the connection: {said:?}"),
        ),
        _ => fault(
            BrokerFaultKind::Closed,
            format!("{at}: the broker closed the channel or connection: {code} {said:?}"),
        ),
    }
}

/// The connection went away under a call or a consumer.
fn lost(place: &Place, doing: &str, queue: &QueueName, error: &lapin::Error) -> BrokerFault {
    let at = format!("{doing} queue {queue:?} over {place}");
    if let Some(found) = lapin_tls_error(error) {
        return fault(BrokerFaultKind::Tls, format!("{at}: TLS: {}", tls_text::of(found)));
    }
    match error.kind() {
        lapin::ErrorKind::MissingHeartbeatError => {
            let within = match place.heartbeat_secs {
                0 => "twice the heartbeat interval that the broker set".to_owned(),
                s => secs(Duration::from_secs(2 * u64::from(s))),
            };
            fault(
                BrokerFaultKind::Unreachable,
                format!("{at}: nothing came from the broker for {within}; the connection was given up"),
            )
        }
        lapin::ErrorKind::IOError(error) => {
            fault(BrokerFaultKind::Unreachable, format!("{at}: the connection was lost ({error})"))
        }
        lapin::ErrorKind::InvalidConnectionState(_)
        | lapin::ErrorKind::InvalidChannelState(..)
        | lapin::ErrorKind::InvalidChannel(_) => {
            fault(BrokerFaultKind::Closed, format!("{at}: the channel or connection was already closed"))
        }
        _ => fault(BrokerFaultKind::Closed, format!("{at}: {error}")),
    }
}

/// A call on a channel got no answer in time.
pub(super) fn call_timed_out(place: &Place, doing: &str, queue: &QueueName, bound: Duration) -> BrokerFault {
    fault(
        BrokerFaultKind::TimedOut,
        format!("{doing} queue {queue:?} over {place}: no answer from the broker within {}", secs(bound)),
    )
}

/// The stream of deliveries ended without an error.
pub(super) fn cancelled(place: &Place, queue: &QueueName) -> BrokerFault {
    fault(
        BrokerFaultKind::Cancelled,
        format!(
            "consume from queue {queue:?} over {place}: the consumer was cancelled; the queue was deleted, or its leader moved"
        ),
    )
}

/// A channel without a consumer, which is told of nothing, is gone.
pub(super) fn channel_lost(place: &Place, queue: &QueueName) -> BrokerFault {
    let text = format!("consume from queue {queue:?} over {place}: the channel was lost while consuming was paused");
    fault(BrokerFaultKind::Closed, text)
}

/// In tenths of a second: what an attempt is given differs by microseconds from one to the next, and a text that differs is
/// news to whoever logs it.
fn secs(bound: Duration) -> String {
    let tenths = (bound.as_millis() + 50) / 100;
    match tenths % 10 {
        0 => format!("{} s", tenths / 10),
        part => format!("{}.{part} s", tenths / 10),
    }
}

fn lapin_tls_error(error: &lapin::Error) -> Option<&rustls::Error> {
    if let lapin::ErrorKind::IOError(io) = error.kind() {
        return tls_error(io);
    }
    None
}

fn tls_error(error: &io::Error) -> Option<&rustls::Error> {
    error.get_ref()?.downcast_ref::<rustls::Error>()
}

#[cfg(test)]
mod tests;
