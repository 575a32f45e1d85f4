//! The command line's side.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::io::BufReader;
use tokio::net::UnixStream;
use tokio::time::timeout;

use super::address::Address;
use super::{ANSWER_WITHIN, line};
use crate::domain::control::{Answer, Request};

/// How long the kernel may take to connect us: it waits where too many clients do.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);

/// The watcher gives up first, and says so.
const WITHIN: Duration = ANSWER_WITHIN.saturating_add(CONNECT_WITHIN);

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// Nobody listens there; nothing was asked.
    #[error("nobody answers at the control socket {path}: {source}")]
    NotThere {
        /// Which socket.
        path: PathBuf,
        /// The system's word.
        source: io::Error,
    },
    /// It was asked, perhaps, and no answer came.
    #[error("the control socket {path} gave no answer: {source}")]
    NoAnswer {
        /// Which socket.
        path: PathBuf,
        /// The system's word.
        source: io::Error,
    },
}

/// Asks the watcher whose socket that is. Takes 35 s at most.
///
/// # Errors
/// See [`AskError`].
pub async fn ask(path: &Path, request: &Request) -> Result<Answer, AskError> {
    let not_there = |source| AskError::NotThere { path: path.to_owned(), source };
    let address = Address::of(path).map_err(not_there)?;
    let connected = timeout(CONNECT_WITHIN, UnixStream::connect(address.path())).await;
    let stream = connected.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())).map_err(not_there)?;
    let answered = timeout(WITHIN, exchange(stream, request)).await;
    answered
        .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
        .map_err(|source| AskError::NoAnswer { path: path.to_owned(), source })
}

async fn exchange(stream: UnixStream, request: &Request) -> io::Result<Answer> {
    let mut stream = BufReader::new(stream);
    line::write(&mut stream, request).await?;
    let text = line::read(&mut stream).await?.ok_or(io::ErrorKind::UnexpectedEof)?;
    serde_json::from_slice(&text).map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it speaks another language"))
}
