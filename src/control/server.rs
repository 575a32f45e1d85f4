//! The watcher's side.

use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::os::unix::net::UnixListener as StdListener;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::unistd::geteuid;
use tokio::io::BufReader;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{mpsc, oneshot};
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::address::Address;
use super::{ANSWER_WITHIN, line};
use crate::domain::control::{Answer, Request};
use crate::telemetry::events;

/// A request, and where its answer goes. Where that is closed, nobody waits any more and nobody was told that it was done.
pub type Asked = (Request, oneshot::Sender<Answer>);

/// Clients that are heard at once; others wait in the kernel. Each is a person at a command line.
const MOST_CLIENTS: usize = 8;

/// How long a client may take to say its next request, or to take its answer.
const CLIENT_WITHIN: Duration = Duration::from_secs(5);

/// The pause after a connection could not be accepted, as where no descriptor is left.
const ACCEPT_AGAIN: Duration = Duration::from_secs(1);

/// Makes the socket at `path`, in place of what a dead watcher left there, and hands over what is asked on it. The caller must hold
/// the state directory's lock. Returns, with a WARNING, only where there can be no socket: the watcher goes on without one.
///
/// # Cancel safety
/// Dropping the future ends every connection and removes the socket.
pub async fn serve(path: PathBuf, requests: mpsc::Sender<Asked>) {
    let (listener, _removed_at_the_end) = match make(path.clone()).await {
        Ok(made) => made,
        Err(error) => {
            tracing::warn!(
                event = events::CONTROL_UNAVAILABLE,
                "RMQ Watcher: no control socket at {}: {error}; `rmq-watcher subscriptions enable` and `disable` work only while no \
                 watcher runs",
                path.display()
            );
            return;
        }
    };
    let mut clients = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept(), if clients.len() < MOST_CLIENTS => match accepted {
                Ok((stream, _)) => {
                    clients.spawn_local(hear(stream, requests.clone()));
                }
                Err(_) => sleep(ACCEPT_AGAIN).await,
            },
            Some(_) = clients.join_next(), if !clients.is_empty() => {}
        }
    }
}

/// Removes the socket when it goes.
struct Removed(PathBuf);

impl Drop for Removed {
    fn drop(&mut self) {
        // Whether it is there any more or not: nothing answers on it.
        drop(fs::remove_file(&self.0));
    }
}

async fn make(path: PathBuf) -> io::Result<(UnixListener, Removed)> {
    let (listener, removed) = spawn_blocking(move || bind(&path).map(|listener| (listener, Removed(path))))
        .await
        .map_err(io::Error::other)??;
    Ok((UnixListener::from_std(listener)?, removed))
}

fn bind(path: &Path) -> io::Result<StdListener> {
    match fs::symlink_metadata(path) {
        Ok(there) if there.file_type().is_socket() => fs::remove_file(path)?,
        Ok(_) => return Err(io::Error::new(io::ErrorKind::AlreadyExists, "what stands there is no socket")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let address = Address::of(path)?;
    let listener = StdListener::bind(address.path())?;
    // Until here the process's own mask holds, and every peer is looked at anyway.
    fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Whether that user may ask: the watcher's own, or root.
fn may_ask(peer: u32, own: u32) -> bool {
    peer == own || peer == 0
}

/// One connection, to its end.
async fn hear(stream: UnixStream, requests: mpsc::Sender<Asked>) {
    let peer = match stream.peer_cred() {
        Ok(peer) if may_ask(peer.uid(), geteuid().as_raw()) => peer,
        Ok(peer) => {
            tracing::warn!(
                event = events::CONTROL_REFUSED,
                "RMQ Watcher: a process of the user {} asked on the control socket and was refused",
                peer.uid()
            );
            return;
        }
        Err(_) => return,
    };
    tracing::debug!(
        event = events::CONTROL_CONNECTED,
        "RMQ Watcher: PID {} asks on the control socket",
        peer.pid().unwrap_or(0)
    );
    let mut stream = BufReader::new(stream);
    // A client that is silent, too long or gone is let go without a word.
    while let Ok(Ok(Some(text))) = timeout(CLIENT_WITHIN, line::read(&mut stream)).await {
        let answer = match serde_json::from_slice(&text) {
            Ok(request) => pass_on(request, &requests).await,
            Err(_) => refused(format!(
                "the watcher that runs (version {}) does not understand the request; use the rmq-watcher of its version",
                env!("CARGO_PKG_VERSION")
            )),
        };
        if !matches!(timeout(CLIENT_WITHIN, line::write(&mut stream, &answer)).await, Ok(Ok(()))) {
            return;
        }
    }
}

async fn pass_on(request: Request, requests: &mpsc::Sender<Asked>) -> Answer {
    let end = Instant::now() + ANSWER_WITHIN;
    let Ok(place) = timeout_at(end, requests.reserve()).await else {
        return refused("the watcher is busy and did not take the request; nothing was changed, try again".to_owned());
    };
    let Ok(place) = place else {
        return refused("the watcher is stopping; nothing was changed".to_owned());
    };
    let (reply, answer) = oneshot::channel();
    place.send((request, reply));
    match timeout_at(end, answer).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(_)) => unknown("the watcher let the request go, as it does when it stops".to_owned()),
        Err(_) => unknown(format!("the watcher did not answer within {} s", ANSWER_WITHIN.as_secs())),
    }
}

fn refused(sentence: String) -> Answer {
    Answer::Refused { sentence }
}

fn unknown(what: String) -> Answer {
    Answer::Unknown { sentence: format!("{what}; look with `rmq-watcher subscriptions list` whether it was done") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn busy_watcher_is_waited_for_half_a_minute_and_what_was_taken_is_not_said_to_be_undone() {
        let (sender, mut asked) = mpsc::channel(1);
        let (taken, waiting) = tokio::join!(
            async {
                let (answer, ()) = tokio::join!(pass_on(Request::Ping, &sender), async {
                    // The next request fills the channel behind it; nobody takes that one.
                    let (request, _reply) = asked.recv().await.expect("it was sent");
                    assert_eq!(request, Request::Ping);
                    let second = pass_on(Request::Wake, &sender);
                    let third = async {
                        tokio::task::yield_now().await;
                        pass_on(Request::Wake, &sender).await
                    };
                    let (second, third) = tokio::join!(second, third);
                    assert!(matches!(second, Answer::Unknown { .. }), "{second:?}");
                    assert!(
                        matches!(&third, Answer::Refused { sentence } if sentence.contains("nothing was changed")),
                        "{third:?}"
                    );
                });
                answer
            },
            async { Instant::now() }
        );
        assert!(matches!(&taken, Answer::Unknown { sentence } if sentence.contains("within 30 s")), "{taken:?}");
        assert_eq!(waiting.elapsed(), ANSWER_WITHIN);
    }

    #[test]
    fn only_the_own_user_and_root_may_ask() {
        for (peer, own, may) in
            [(1000, 1000, true), (0, 1000, true), (0, 0, true), (1000, 0, false), (1001, 1000, false)]
        {
            assert_eq!(may_ask(peer, own), may, "{peer} {own}");
        }
    }
}
