//! Lines over a socket, of bounded length.

use std::io;

use serde::Serialize;
use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

use super::LONGEST_LINE;

/// The next line without its end; `None` at the end of the stream.
///
/// # Errors
/// It is too long, is cut off, or the stream broke.
pub(super) async fn read(stream: &mut (impl AsyncBufRead + Unpin)) -> io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    let most = u64::try_from(LONGEST_LINE).unwrap_or(u64::MAX);
    let length = stream.take(most + 1).read_until(b'\n', &mut line).await?;
    match line.pop() {
        None => Ok(None),
        Some(b'\n') => Ok(Some(line)),
        Some(_) if length > LONGEST_LINE => Err(io::Error::new(io::ErrorKind::InvalidData, "the line is too long")),
        Some(_) => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

/// Writes a value as one line.
///
/// # Errors
/// The stream broke.
pub(super) async fn write(stream: &mut (impl AsyncWrite + Unpin), value: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    stream.write_all(&line).await
}
