//! Peers that accept a connection and then misbehave, each in its own way, made in this process.

use std::rc::Rc;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// What a peer does once a connection has come in.
#[derive(Clone)]
pub(crate) enum Manner {
    /// Takes everything, says nothing.
    Silent,
    /// Says one byte of a greeting that never ends every 10 ms.
    Drip,
    /// Greets, takes the login, tunes, and says nothing more.
    SilentAfterTune,
    /// Says this and closes.
    Say(&'static [u8]),
    /// Finishes the TLS handshake and says nothing more.
    SilentAfterTls(Rc<rustls::ServerConfig>),
}

/// Starts a peer on a port of its own; it serves until its `LocalSet` ends.
pub(crate) async fn start(manner: Manner) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::task::spawn_local(async move {
        while let Ok((tcp, _)) = listener.accept().await {
            let manner = manner.clone();
            tokio::task::spawn_local(async move {
                // A client that goes away ends the conversation; that is what the tests want.
                drop(behave(manner, tcp).await);
            });
        }
    });
    port
}

/// A way to a server that can freeze: from then on nothing passes, while every connection stays open.
pub(crate) struct Relay {
    pub(crate) port: u16,
    frozen: watch::Sender<bool>,
}

impl Relay {
    /// Starts a relay to a port of this machine; it serves until its `LocalSet` ends.
    pub(crate) async fn start(to: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (frozen, is_frozen) = watch::channel(false);
        tokio::task::spawn_local(async move {
            while let Ok((mut near, _)) = listener.accept().await {
                let mut is_frozen = is_frozen.clone();
                tokio::task::spawn_local(async move {
                    let mut far = TcpStream::connect(("127.0.0.1", to)).await.unwrap();
                    tokio::select! {
                        biased;
                        _ = is_frozen.wait_for(|frozen| *frozen) => {
                            // Both ends stay in hand, and so open.
                            std::future::pending::<()>().await;
                        }
                        _ = tokio::io::copy_bidirectional(&mut near, &mut far) => {}
                    }
                });
            }
        });
        Self { port, frozen }
    }

    pub(crate) fn freeze(&self) {
        self.frozen.send(true).unwrap();
    }
}

async fn behave(manner: Manner, mut tcp: tokio::net::TcpStream) -> std::io::Result<()> {
    match manner {
        Manner::Silent => swallow(&mut tcp).await,
        Manner::Say(words) => {
            tcp.write_all(words).await?;
            tcp.shutdown().await?;
            swallow(&mut tcp).await
        }
        Manner::Drip => drip(&mut tcp).await,
        Manner::SilentAfterTune => {
            let mut header = [0; 8];
            tcp.read_exact(&mut header).await?;
            tcp.write_all(&frame(&start_method())).await?;
            let mut login = [0; 16];
            tcp.read_exact(&mut login).await?;
            tcp.write_all(&frame(&tune_method())).await?;
            swallow(&mut tcp).await
        }
        Manner::SilentAfterTls(config) => {
            let acceptor = tokio_rustls::TlsAcceptor::from(std::sync::Arc::new((*config).clone()));
            let mut tls = acceptor.accept(tcp).await?;
            swallow(&mut tls).await
        }
    }
}

async fn drip(tcp: &mut tokio::net::TcpStream) -> std::io::Result<()> {
    // The head of a method frame of a megabyte, which then comes byte by byte.
    let (mut from, mut to) = tcp.split();
    to.write_all(&[1, 0, 0, 0, 0x10, 0, 0]).await?;
    let mut buf = [0; 256];
    loop {
        tokio::select! {
            n = from.read(&mut buf) => if n? == 0 { return Ok(()) },
            () = tokio::time::sleep(std::time::Duration::from_millis(10)) => to.write_all(&[0]).await?,
        }
    }
}

async fn swallow(from: &mut (impl AsyncRead + AsyncWrite + Unpin)) -> std::io::Result<()> {
    let mut buf = [0; 4096];
    while from.read(&mut buf).await? > 0 {}
    Ok(())
}

fn frame(method: &[u8]) -> Vec<u8> {
    let mut whole = vec![1, 0, 0];
    whole.extend(u32::try_from(method.len()).unwrap().to_be_bytes());
    whole.extend(method);
    whole.push(0xce);
    whole
}

/// `connection.start` 0-9 with `PLAIN` and `en_US`.
fn start_method() -> Vec<u8> {
    let mut method = vec![0, 10, 0, 10, 0, 9, 0, 0, 0, 0];
    for text in ["PLAIN", "en_US"] {
        method.extend(u32::try_from(text.len()).unwrap().to_be_bytes());
        method.extend(text.as_bytes());
    }
    method
}

/// `connection.tune`: 2047 channels, frames of 131072, heartbeat 60.
fn tune_method() -> Vec<u8> {
    vec![0, 10, 0, 30, 0x07, 0xff, 0, 2, 0, 0, 0, 60]
}
