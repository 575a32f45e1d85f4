//! The byte stream under lapin: plain TCP or TLS, with frames repaired on their way in.
//!
//! Serves `connect`. Knows nothing of AMQP beyond what [`super::repair`] does.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead as _, AsyncWrite as _, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

use super::repair::{Greeting, Repairer};
use super::stash::Stash;

/// Kept for the repaired bytes that lapin has not taken yet; more is given back after a burst.
const KEPT_CAPACITY: usize = 64 * 1024;

/// The first byte that the peer sent, once it has sent one: enough to tell a TLS alert from AMQP and from HTTP.
pub(super) type FirstByte = Arc<OnceLock<u8>>;

/// Either kind of stream.
pub(super) enum Io {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

/// A connected stream in the form that lapin takes.
pub(super) struct Wire {
    io: Io,
    repairer: Repairer,
    ready: Vec<u8>,
    taken: usize,
    first: FirstByte,
}

impl Wire {
    /// `frame_max` is the frame size that lapin will ask for; headers that need more go into the stash.
    pub(super) fn new(io: Io, frame_max: u32, stash: Stash) -> Self {
        Self { io, repairer: Repairer::new(frame_max, stash), ready: Vec::new(), taken: 0, first: FirstByte::default() }
    }

    pub(super) fn first_byte(&self) -> FirstByte {
        Arc::clone(&self.first)
    }

    pub(super) fn greeting(&self) -> Greeting {
        self.repairer.greeting()
    }

    fn hand_over(&mut self, buf: &mut [u8]) -> usize {
        let waiting = &self.ready[self.taken..];
        let n = waiting.len().min(buf.len());
        buf[..n].copy_from_slice(&waiting[..n]);
        self.taken += n;
        if self.taken == self.ready.len() {
            self.taken = 0;
            self.ready.clear();
            self.ready.shrink_to(KEPT_CAPACITY);
        }
        n
    }
}

impl futures_io::AsyncRead for Wire {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        loop {
            if this.taken < this.ready.len() {
                return Poll::Ready(Ok(this.hand_over(buf)));
            }
            let mut space = ReadBuf::new(buf);
            ready!(match &mut this.io {
                Io::Plain(tcp) => Pin::new(tcp).poll_read(cx, &mut space),
                Io::Tls(tls) => Pin::new(tls).poll_read(cx, &mut space),
            })?;
            let n = space.filled().len();
            let Some(first) = space.filled().first() else {
                return Poll::Ready(Ok(0));
            };
            this.first.get_or_init(|| *first);
            if this.repairer.pass(n) {
                return Poll::Ready(Ok(n));
            }
            this.repairer.feed(space.filled(), &mut this.ready);
        }
    }
}

impl futures_io::AsyncWrite for Wire {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        match &mut self.get_mut().io {
            Io::Plain(tcp) => Pin::new(tcp).poll_write(cx, buf),
            Io::Tls(tls) => Pin::new(tls).poll_write(cx, buf),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().io {
            Io::Plain(tcp) => Pin::new(tcp).poll_flush(cx),
            Io::Tls(tls) => Pin::new(tls).poll_flush(cx),
        }
    }

    fn poll_close(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().io {
            Io::Plain(tcp) => Pin::new(tcp).poll_shutdown(cx),
            Io::Tls(tls) => Pin::new(tls).poll_shutdown(cx),
        }
    }
}
