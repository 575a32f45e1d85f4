//! Listening where no client socket of the kernel and no server of `tests/servers` does.

use std::net::{Ipv4Addr, TcpListener};

/// Below the servers' range (20000 to 31999) and the kernel's range for outgoing connections.
const RANGE: std::ops::Range<u16> = 12_000..20_000;

/// A listener on a free loopback port.
pub fn listen() -> TcpListener {
    loop {
        if let Ok(listener) = TcpListener::bind((Ipv4Addr::LOCALHOST, fastrand::u16(RANGE))) {
            return listener;
        }
    }
}

/// A port on which nothing listens now; for tests of a refused connection, and for servers that take a port number.
pub fn unused() -> u16 {
    listen().local_addr().unwrap().port()
}
