//! Reading requests and writing answers, HTTP/1.1 with kept connections.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

/// A request as it came.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// `GET`, `POST`, …
    pub method: String,
    /// The path, decoded, without the query.
    pub path: String,
    /// The query, as it came.
    pub query: String,
    /// Header lines, names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

impl Request {
    /// The first header line of a name (lower case).
    pub fn header(&self, name: &str) -> Option<&str> {
        let line = self.headers.iter().find(|(key, _)| key == name)?;
        Some(&line.1)
    }

    /// The body as JSON, if it is JSON.
    pub fn json(&self) -> Option<serde_json::Value> {
        serde_json::from_slice(&self.body).ok()
    }

    /// Reads one request; `None` at the end of the connection or when it is not HTTP.
    pub fn read(from: &mut BufReader<TcpStream>) -> Option<Self> {
        let mut line = String::new();
        from.read_line(&mut line).ok().filter(|count| *count > 0)?;
        let mut words = line.split_whitespace();
        let method = words.next()?.to_owned();
        let target = words.next()?;
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let path = percent_encoding::percent_decode_str(path).decode_utf8_lossy();
        let mut request = Self { method, path: path.into_owned(), query: query.to_owned(), ..Self::default() };
        loop {
            let mut line = String::new();
            from.read_line(&mut line).ok().filter(|count| *count > 0)?;
            let Some((name, value)) = line.trim_end().split_once(':') else {
                break;
            };
            let pair = (name.to_ascii_lowercase(), value.trim().to_owned());
            request.headers.push(pair);
        }
        let length = request.header("content-length").unwrap_or("0");
        request.body = vec![0; length.parse().ok()?];
        from.read_exact(&mut request.body).ok()?;
        Some(request)
    }
}

/// An answer to write.
#[derive(Clone, Debug)]
pub struct Reply {
    /// The status code.
    pub status: u16,
    /// Header lines besides the length.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: String,
}

impl Reply {
    /// An answer of a content type.
    pub fn new(status: u16, content_type: &str, body: impl Into<String>) -> Self {
        let headers = vec![("Content-Type".to_owned(), content_type.to_owned())];
        Self { status, headers, body: body.into() }
    }

    /// An answer in JSON.
    pub fn json(status: u16, body: &serde_json::Value) -> Self {
        Self::new(status, "application/json", body.to_string())
    }

    /// Adds a header line.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    fn bytes(&self) -> Vec<u8> {
        let mut text = format!("HTTP/1.1 {} Scripted\r\n", self.status);
        for (name, value) in &self.headers {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        text.push_str(&format!("Content-Length: {}\r\n\r\n", self.body.len()));
        text.push_str(&self.body);
        text.into_bytes()
    }

    /// Writes the answer; whether it could be written.
    pub fn write(&self, to: &mut TcpStream) -> bool {
        to.write_all(&self.bytes()).is_ok()
    }

    /// Writes the head and half of the body.
    pub fn write_half(&self, to: &mut TcpStream) {
        let bytes = self.bytes();
        let end = bytes.len() - self.body.len().div_ceil(2);
        // The client may be gone: that is what this is for.
        drop(to.write_all(&bytes[..end]));
    }
}
