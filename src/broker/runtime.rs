//! The runtime that lapin works on: tokio's, with [`Wire`] as its kind of stream.
//!
//! lapin ties the stream type to the runtime; this pairing is the only way to hand it a stream of our own. lapin asks a
//! runtime to spawn, to block its own I/O thread and to sleep; opening streams stays with `connect`.

use std::future::Future;
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use async_rs::Tokio;
use async_rs::traits::{Executor, Reactor, RuntimeKit};
use async_rs::util::Task;
use futures_io::{AsyncRead, AsyncWrite};
use futures_util::Stream;

use super::wire::Wire;

/// Tokio, bound to the runtime it was made in.
#[derive(Clone, Debug)]
pub(super) struct Kit(Tokio);

impl Kit {
    /// # Panics
    /// Outside of a tokio runtime.
    pub(super) fn current() -> async_rs::Runtime<Self> {
        async_rs::Runtime::new(Self(Tokio::current()))
    }
}

impl RuntimeKit for Kit {}

impl Executor for Kit {
    type Task<T: Send + 'static> = <Tokio as Executor>::Task<T>;

    fn block_on<T, F: Future<Output = T>>(&self, f: F) -> T {
        self.0.block_on(f)
    }

    fn spawn<T: Send + 'static, F: Future<Output = T> + Send + 'static>(&self, f: F) -> Task<Self::Task<T>> {
        self.0.spawn(f)
    }

    fn spawn_blocking<T: Send + 'static, F: FnOnce() -> T + Send + 'static>(&self, f: F) -> Task<Self::Task<T>> {
        self.0.spawn_blocking(f)
    }
}

impl Reactor for Kit {
    type TcpStream = Wire;
    type Sleep = <Tokio as Reactor>::Sleep;

    fn register<H: Read + Write + Send + 'static>(
        &self,
        _socket: H,
    ) -> io::Result<impl AsyncRead + AsyncWrite + Send + Unpin + 'static> {
        Err::<Wire, _>(io::ErrorKind::Unsupported.into())
    }

    fn sleep(&self, dur: Duration) -> Self::Sleep {
        self.0.sleep(dur)
    }

    fn interval(&self, dur: Duration) -> impl Stream<Item = Instant> + Send + 'static {
        self.0.interval(dur)
    }

    fn tcp_connect_addr(&self, _addr: SocketAddr) -> impl Future<Output = io::Result<Wire>> + Send + 'static {
        std::future::ready(Err(io::ErrorKind::Unsupported.into()))
    }
}
