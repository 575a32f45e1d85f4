//! A TCP relay before a real Airflow that can spoil one credential, and can be away for a while.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::JoinHandle;

/// The relay.
pub(crate) struct Meddler {
    pub(crate) url: String,
    address: SocketAddr,
    upstream: String,
    /// Spoil the next credential that passes.
    armed: Rc<Cell<bool>>,
    tasks: Rc<RefCell<Vec<JoinHandle<()>>>>,
}

impl Meddler {
    pub(crate) async fn before(url: &str) -> Self {
        let upstream = url.trim_start_matches("http://").trim_end_matches('/').to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let meddler = Self {
            url: format!("http://{address}"),
            address,
            upstream,
            armed: Rc::new(Cell::new(false)),
            tasks: Rc::default(),
        };
        meddler.serve(listener);
        meddler
    }

    fn serve(&self, listener: TcpListener) {
        let (armed, upstream) = (Rc::clone(&self.armed), self.upstream.clone());
        let tasks = Rc::downgrade(&self.tasks);
        let accepting = tokio::task::spawn_local(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let relay = relay(stream, upstream.clone(), Rc::clone(&armed));
                let Some(tasks) = tasks.upgrade() else { return };
                tasks.borrow_mut().push(tokio::task::spawn_local(relay));
            }
        });
        self.tasks.borrow_mut().push(accepting);
    }

    /// Spoils the next bearer token or session that passes.
    pub(crate) fn spoil_next(&self) {
        self.armed.set(true);
    }

    pub(crate) fn is_armed(&self) -> bool {
        self.armed.get()
    }

    /// Closes every connection and the listener, as a server does that is stopped.
    pub(crate) async fn go(&self) {
        let tasks: Vec<_> = self.tasks.borrow_mut().drain(..).collect();
        for task in tasks {
            task.abort();
            // Cancelled is what it should be.
            let _ = task.await;
        }
    }

    /// Is there again, under the same address.
    pub(crate) fn come_back(&self) {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_reuseaddr(true).unwrap();
        socket.bind(self.address).unwrap();
        self.serve(socket.listen(64).unwrap());
    }
}

impl Drop for Meddler {
    fn drop(&mut self) {
        for task in self.tasks.borrow().iter() {
            task.abort();
        }
    }
}

async fn relay(mut client: TcpStream, upstream: String, armed: Rc<Cell<bool>>) {
    let Ok(mut server) = TcpStream::connect(upstream).await else {
        return;
    };
    let (mut from_client, mut from_server) = (vec![0; 65536], vec![0; 65536]);
    loop {
        tokio::select! {
            read = client.read(&mut from_client) => {
                let Ok(count @ 1..) = read else { return };
                let mut chunk = from_client[..count].to_vec();
                if armed.get() && spoil(&mut chunk) {
                    armed.set(false);
                }
                if server.write_all(&chunk).await.is_err() {
                    return;
                }
            }
            read = server.read(&mut from_server) => {
                let Ok(count @ 1..) = read else { return };
                if client.write_all(&from_server[..count]).await.is_err() {
                    return;
                }
            }
        }
    }
}

/// Turns the first characters of a token or session into others.
fn spoil(chunk: &mut [u8]) -> bool {
    for marker in [&b"authorization: Bearer "[..], b"cookie: session="] {
        if let Some(at) = chunk.windows(marker.len()).position(|window| window == marker) {
            chunk[at + marker.len()..][..8].fill(b'x');
            return true;
        }
    }
    false
}
