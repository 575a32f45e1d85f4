//! Telling a service manager how far we are (`sd_notify`), in stand-alone mode only: beside a scheduler the socket is the
//! scheduler's, and our READY=1 would be taken for its own.
//!
//! Source: sd_notify(3), "Notes": a datagram of `NAME=value` lines to the socket in `NOTIFY_SOCKET`; `@` in front is an
//! abstract name.

use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// The variable that names the socket.
pub(super) const SOCKET: &str = "NOTIFY_SOCKET";

/// The service manager's socket.
#[derive(Clone, Debug)]
pub(super) struct Notifier {
    name: String,
}

impl Notifier {
    /// The one named in the environment.
    pub(super) fn from_environment() -> Option<Self> {
        let name = std::env::var(SOCKET).ok()?;
        let usable = name.starts_with('/') || name.starts_with('@');
        usable.then_some(Self { name })
    }

    /// Sends one state, such as `READY=1`. Never blocks.
    ///
    /// # Errors
    /// The manager is not there or does not read.
    pub(super) fn send(&self, state: &str) -> io::Result<()> {
        let address = match self.name.strip_prefix('@') {
            Some(abstract_name) => SocketAddr::from_abstract_name(abstract_name)?,
            None => SocketAddr::from_pathname(&self.name)?,
        };
        let socket = UnixDatagram::unbound()?;
        socket.set_nonblocking(true)?;
        socket.send_to_addr(state.as_bytes(), &address)?;
        Ok(())
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]
mod tests {
    use super::*;

    #[test]
    fn state_reaches_a_socket_in_the_file_system_and_an_abstract_one() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("notify");
        let abstract_name = format!("rmq-watcher-test-{}", std::process::id());
        let sockets = [
            (UnixDatagram::bind(&path).unwrap(), path.to_str().unwrap().to_owned()),
            (
                UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&abstract_name).unwrap()).unwrap(),
                format!("@{abstract_name}"),
            ),
        ];
        for (socket, name) in sockets {
            Notifier { name }.send("READY=1").unwrap();
            let mut buffer = [0; 32];
            let count = socket.recv(&mut buffer).unwrap();
            assert_eq!(&buffer[..count], b"READY=1");
        }
        assert!(Notifier { name: "/nonexistent/x".to_owned() }.send("READY=1").is_err());
    }
}
