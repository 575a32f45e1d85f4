//! A wire with faults between a client and a server on loopback.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use socket2::SockRef;

use super::ports;

/// What the wire does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProxyMode {
    /// Bytes pass both ways.
    Pass,
    /// Links stay open and no byte moves; new links are accepted and stay silent too. Held bytes pass after [`ProxyMode::Pass`].
    Freeze,
    /// Links that try to move a byte are reset, and new links at once.
    Reset,
}

/// How often a link that moves nothing looks at the mode.
const LOOK_EVERY: Duration = Duration::from_millis(20);

struct Shared {
    target: SocketAddr,
    mode: Mutex<ProxyMode>,
    changed: Condvar,
    accepted: AtomicUsize,
    ended: AtomicBool,
}

/// Both ends of a link. Its two threads hold it together, so that the sockets close, with an RST, when both have ended.
struct Link {
    client: TcpStream,
    server: TcpStream,
    orderly: AtomicUsize,
}

/// A proxy that listens until it is dropped.
pub struct TcpProxy {
    address: SocketAddr,
    shared: Arc<Shared>,
}

impl TcpProxy {
    /// Listens on a free port and passes everything to `target`.
    pub fn to(target: SocketAddr) -> Self {
        let listener = ports::listen();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            target,
            mode: Mutex::new(ProxyMode::Pass),
            changed: Condvar::new(),
            accepted: AtomicUsize::new(0),
            ended: AtomicBool::new(false),
        });
        let accepting = Arc::clone(&shared);
        std::thread::spawn(move || accept(&listener, &accepting));
        Self { address, shared }
    }

    /// Where clients connect to.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Changes what the wire does.
    pub fn set(&self, mode: ProxyMode) {
        *self.shared.mode.lock().unwrap() = mode;
        self.shared.changed.notify_all();
    }

    /// How many links clients have opened so far.
    pub fn accepted(&self) -> usize {
        self.shared.accepted.load(Ordering::SeqCst)
    }
}

impl Drop for TcpProxy {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::SeqCst);
        self.set(ProxyMode::Reset);
        drop(TcpStream::connect(self.address)); // wakes the accepting thread
    }
}

impl Shared {
    /// Waits while the wire is frozen; whether bytes may pass then.
    fn may_pass(&self) -> bool {
        let mut mode = self.mode.lock().unwrap();
        while *mode == ProxyMode::Freeze {
            mode = self.changed.wait(mode).unwrap();
        }
        *mode == ProxyMode::Pass
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        // Where both directions ended in order there is nothing to reset; elsewhere closing sends an RST.
        if self.orderly.load(Ordering::SeqCst) < 2 {
            for socket in [&self.client, &self.server] {
                drop(SockRef::from(socket).set_linger(Some(Duration::ZERO)));
            }
        }
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    for client in listener.incoming() {
        if shared.ended.load(Ordering::SeqCst) {
            return;
        }
        let Ok(client) = client else { continue };
        shared.accepted.fetch_add(1, Ordering::SeqCst);
        let shared = Arc::clone(shared);
        std::thread::spawn(move || carry(client, &shared));
    }
}

/// Connects through, and moves bytes both ways until both directions end.
fn carry(client: TcpStream, shared: &Arc<Shared>) {
    let through = if shared.may_pass() { TcpStream::connect(shared.target).ok() } else { None };
    let Some(server) = through else {
        drop(SockRef::from(&client).set_linger(Some(Duration::ZERO)));
        return;
    };
    for socket in [&client, &server] {
        socket.set_nodelay(true).unwrap();
        socket.set_read_timeout(Some(LOOK_EVERY)).unwrap();
    }
    let link = Arc::new(Link { client, server, orderly: AtomicUsize::new(0) });
    let (back, back_shared) = (Arc::clone(&link), Arc::clone(shared));
    std::thread::spawn(move || pump(&back, &back.server, &back.client, &back_shared));
    pump(&link, &link.client, &link.server, shared);
}

fn pump(link: &Link, mut from: &TcpStream, mut to: &TcpStream, shared: &Shared) {
    let mut buffer = vec![0; 65_536];
    loop {
        let got = from.read(&mut buffer);
        if !shared.may_pass() {
            return;
        }
        match got {
            Ok(0) => {
                link.orderly.fetch_add(1, Ordering::SeqCst);
                drop(to.shutdown(Shutdown::Write));
                return;
            }
            Ok(count) if to.write_all(&buffer[..count]).is_ok() => {}
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Ok(_) | Err(_) => {
                // One end is gone without an end of stream: so shall the other be.
                drop(from.shutdown(Shutdown::Both));
                drop(to.shutdown(Shutdown::Both));
                return;
            }
        }
    }
}
