//! One bounded attempt to connect: addresses → TCP → TLS → AMQP handshake.
//!
//! lapin's own connect has no time limit, and dropping it half-way leaves a thread and a socket for ever. Here the socket is
//! ours: whenever an attempt is given up, [`Cut`] shuts it down, and lapin's thread ends with it. The whole attempt, over all
//! addresses of all hosts, ends within `connect_timeout`, whatever the peers do. See ADR 0013.

use std::cell::Cell;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use lapin::tcp::AsyncTcpStream;
use lapin::uri::{AMQPAuthority, AMQPQueryString, AMQPScheme, AMQPUri, AMQPUserInfo};
use lapin::{Connection, ConnectionProperties};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use socket2::{SockRef, TcpKeepalive};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};
use tokio_rustls::TlsConnector;

use super::fault::{self, Place, Step};
use super::link::{Cut, Opened};
use super::resolve::addresses;
use super::runtime::Kit;
use super::stash::Stash;
use super::tls;
use super::wire::{Io, Wire};
use crate::domain::connection::AmqpSettings;
use crate::domain::fault::{BrokerFault, BrokerFaultKind};

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Consumers, and whatever else gets messages or asks.
    Consume,
    /// Publishing, and nothing else: a broker in an alarm stops reading such connections.
    Publish,
}

impl Purpose {
    /// The frame size asked for. lapin sets aside 64 times as much per connection; larger frames are no faster (tried). Bodies of
    /// any size come in many frames, and headers of any size through the stash. What is published needs a frame that takes all its
    /// headers: the size that brokers offer unless told otherwise.
    fn frame_max(self) -> u32 {
        match self {
            Self::Consume => 8192,
            Self::Publish => 131_072,
        }
    }
}

/// The longest vhost name the protocol can carry (a short string).
const MAX_SHORT: usize = 255;

const KEEPALIVE_IDLE: Duration = Duration::from_secs(30);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
/// How long sent bytes may stay unacknowledged by the peer's kernel, where the heartbeat is the server's or short.
const MIN_USER_TIMEOUT: Duration = Duration::from_secs(20);

/// Connects to the first address that lets us in; addresses are tried in random order, each with its share of the time.
///
/// # Errors
/// What stands in the way: a refusal by a broker ends the attempt at once; otherwise the most telling fault of those met, a
/// wrong setting before weather.
///
/// # Cancel safety
/// Dropping the future ends the attempt and leaves nothing behind.
pub(super) async fn connect(settings: &AmqpSettings, purpose: Purpose) -> Result<Opened, BrokerFault> {
    let deadline = Instant::now() + settings.connect_timeout;
    let first_host = settings.hosts.first().map_or("", String::as_str);
    let place = Place::new(settings, first_host);
    if settings.vhost.len() > MAX_SHORT {
        return Err(fault::fault(
            BrokerFaultKind::VhostRefused,
            format!(
                "connect to {place}: the vhost's name is longer than {MAX_SHORT} bytes; correct the vhost of this connection"
            ),
        ));
    }
    let late = |step| fault::connect_timed_out(&place, step, settings.connect_timeout);
    let tls = match &settings.tls {
        None => None,
        Some(tls) => Some(
            timeout_at(deadline, tls::client_config(tls, &settings.conn_id)).await.map_err(|_| late(Step::Files))??,
        ),
    };
    let (mut targets, mut worst) = (Vec::new(), None);
    for of_host in addresses(settings, deadline).await {
        match of_host {
            Ok(list) => targets.extend(list),
            Err(fault) => worst = Some(telling(worst, fault)),
        }
    }
    fastrand::shuffle(&mut targets);
    while let Some((host, address)) = targets.pop() {
        let now = Instant::now();
        let share = deadline.saturating_duration_since(now)
            / (u32::try_from(targets.len()).unwrap_or(u32::MAX).saturating_add(1));
        let target = Target { settings, purpose, place: Place::new(settings, &host), address, tls: tls.clone() };
        match target.open(now + share).await {
            Ok(opened) => return Ok(opened),
            Err(fault) if is_answer(fault.kind) => return Err(fault),
            Err(fault) => worst = Some(telling(worst, fault)),
        }
    }
    Err(worst.unwrap_or_else(|| late(Step::Resolve)))
}

/// Whether a broker decided; asking its other nodes would give the same answer.
fn is_answer(kind: BrokerFaultKind) -> bool {
    matches!(kind, BrokerFaultKind::LoginRefused | BrokerFaultKind::VhostRefused)
}

/// Of two faults the one to report: a wrong setting before weather, else the first by text, so that the same trouble reads the
/// same whichever address was tried first.
fn telling(before: Option<BrokerFault>, now: BrokerFault) -> BrokerFault {
    match before {
        Some(before) if before.kind.is_configuration() != now.kind.is_configuration() => {
            if before.kind.is_configuration() { before } else { now }
        }
        Some(before) if before.text <= now.text => before,
        Some(_) | None => now,
    }
}

/// One address to try.
struct Target<'a> {
    settings: &'a AmqpSettings,
    purpose: Purpose,
    place: Place,
    address: SocketAddr,
    tls: Option<Arc<ClientConfig>>,
}

impl Target<'_> {
    async fn open(self, deadline: Instant) -> Result<Opened, BrokerFault> {
        let bound = deadline.saturating_duration_since(Instant::now());
        let step = Cell::new(Step::Tcp);
        match timeout_at(deadline, self.steps(&step)).await {
            Ok(outcome) => outcome,
            Err(_) => Err(fault::connect_timed_out(&self.place, step.get(), bound)),
        }
    }

    async fn steps(&self, step: &Cell<Step>) -> Result<Opened, BrokerFault> {
        let tcp = TcpStream::connect(self.address).await.map_err(|e| fault::tcp(&self.place, &e))?;
        let cut = self.tune(&tcp).map_err(|e| fault::tcp(&self.place, &e))?;
        let io = match &self.tls {
            None => Io::Plain(tcp),
            Some(config) => {
                step.set(Step::Tls);
                Io::Tls(Box::new(self.handshake_tls(config, tcp).await?))
            }
        };
        step.set(Step::Amqp);
        let stash = Stash::default();
        let wire = Wire::new(io, self.purpose.frame_max(), stash.clone());
        let (first, greeting) = (wire.first_byte(), wire.greeting());
        match self.handshake_amqp(wire).await {
            Ok(connection) => {
                let (place, release) = (self.place.clone(), greeting.get().copied());
                Ok(Opened { connection, cut, stash, place, release })
            }
            Err(error) => Err(fault::handshake(&self.place, &error, first.get().copied())),
        }
    }

    /// Sets what keeps a dead peer from going unnoticed, and makes the handle that can end the connection.
    fn tune(&self, tcp: &TcpStream) -> std::io::Result<Cut> {
        tcp.set_nodelay(true)?;
        let socket = SockRef::from(tcp);
        socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(KEEPALIVE_IDLE).with_interval(KEEPALIVE_INTERVAL))?;
        let two_beats = Duration::from_secs(2 * u64::from(self.settings.heartbeat_secs));
        socket.set_tcp_user_timeout(Some(two_beats.max(MIN_USER_TIMEOUT)))?;
        Ok(Cut(socket.try_clone()?))
    }

    async fn handshake_tls(
        &self,
        config: &Arc<ClientConfig>,
        tcp: TcpStream,
    ) -> Result<tokio_rustls::client::TlsStream<TcpStream>, BrokerFault> {
        let name = ServerName::try_from(self.place.host().to_owned()).map_err(|_| {
            fault::fault(
                BrokerFaultKind::Tls,
                format!(
                    "TLS to {}: the host name cannot stand in a certificate; correct the host of this connection",
                    self.place
                ),
            )
        })?;
        TlsConnector::from(Arc::clone(config)).connect(name, tcp).await.map_err(|e| fault::tls(&self.place, &e))
    }

    async fn handshake_amqp(&self, wire: Wire) -> lapin::Result<Connection> {
        // lapin asks for a stream once; a second time would be a retry, which is ours to do.
        let once = Mutex::new(Some(wire));
        let hand_over = async move |_: AMQPUri, _: async_rs::Runtime<Kit>| {
            let wire = once.lock().unwrap_or_else(PoisonError::into_inner).take();
            wire.map(AsyncTcpStream::Plain).ok_or_else(|| std::io::Error::from(std::io::ErrorKind::NotConnected).into())
        };
        Connection::connector(self.uri(), Kit::current(), hand_over, self.properties()).await
    }

    /// Made from fields: parsing a URI would lose IPv6 literals and bend the vhost. The scheme is always `amqp`, since the
    /// stream that lapin is given speaks TLS by itself.
    fn uri(&self) -> AMQPUri {
        let settings = self.settings;
        AMQPUri {
            scheme: AMQPScheme::AMQP,
            authority: AMQPAuthority {
                userinfo: AMQPUserInfo {
                    username: settings.login.clone(),
                    password: settings.password.expose().to_owned(),
                },
                host: self.place.host().to_owned(),
                port: settings.port,
            },
            vhost: settings.vhost.clone(),
            query: AMQPQueryString {
                frame_max: Some(self.purpose.frame_max()),
                heartbeat: Some(settings.heartbeat_secs),
                ..AMQPQueryString::default()
            },
        }
    }

    /// What an operator sees of us in the management page and in `rabbitmqctl list_connections`.
    fn properties(&self) -> ConnectionProperties {
        let hostname = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let end = match self.purpose {
            Purpose::Consume => "",
            Purpose::Publish => ".copies",
        };
        let name = format!("rmq_watcher.{}.{}.{}{end}", hostname.trim(), std::process::id(), self.settings.conn_id);
        ConnectionProperties::default()
            .with_client_property("product".into(), "rmq-watcher".into())
            .with_client_property("version".into(), env!("CARGO_PKG_VERSION").into())
            .with_connection_name(name.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn telling_fault_is_the_same_whichever_address_came_first() {
        let of = |kind, text: &str| BrokerFault { kind, text: text.to_owned() };
        let (a, b) = (of(BrokerFaultKind::TimedOut, "a"), of(BrokerFaultKind::Unreachable, "b"));
        assert_eq!(telling(Some(a.clone()), b.clone()), a);
        assert_eq!(telling(Some(b.clone()), a.clone()), a);
        let wrong = of(BrokerFaultKind::Tls, "z");
        assert_eq!(telling(Some(wrong.clone()), a.clone()), wrong);
        assert_eq!(telling(Some(a), wrong.clone()), wrong);
        assert_eq!(telling(None, b.clone()), b);
    }
}
