//! A scripted HTTP server over plain TCP: what it does to a connection is what the tests are about.
//!
//! Each path has a queue of acts; the last one is repeated. Connections are kept alive as Airflow 3 keeps them.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// What the server does with a request.
#[derive(Clone, Debug)]
pub(crate) enum Act {
    /// Answers, with more header lines (each ending in CRLF), and keeps the connection.
    Answer { status: u16, head: String, body: Vec<u8> },
    /// Reads the request and closes.
    CloseAfterReading,
    /// Answers with a length of 1000 and half of the given body, then closes.
    Half(String),
    /// Answers with a head and then one byte each 20 ms, for ever.
    Drip,
    /// Says nothing.
    Silence,
    /// Writes this and closes.
    Raw(String),
}

impl Act {
    pub(crate) fn json(status: u16, body: impl Into<String>) -> Self {
        Self::with(status, "application/json", "", body)
    }

    pub(crate) fn html(status: u16, body: impl Into<String>) -> Self {
        Self::with(status, "text/html; charset=utf-8", "", body)
    }

    pub(crate) fn with(status: u16, kind: &str, more: &str, body: impl Into<String>) -> Self {
        Self::Answer { status, head: format!("Content-Type: {kind}\r\n{more}"), body: body.into().into_bytes() }
    }
}

/// A request as it was read.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) path: String,
    /// Names in lower case.
    pub(crate) headers: HashMap<String, String>,
    pub(crate) body: String,
}

impl Request {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }
}

#[derive(Default)]
struct Inner {
    script: HashMap<String, VecDeque<Act>>,
    seen: Vec<Request>,
    connections: usize,
    open: usize,
}

/// The server. Lives as long as the test.
#[derive(Clone)]
pub(crate) struct Stub {
    pub(crate) url: String,
    inner: Rc<RefCell<Inner>>,
    _task: Rc<Ender>,
}

struct Ender(JoinHandle<()>);

impl Drop for Ender {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Stub {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let inner = Rc::new(RefCell::new(Inner::default()));
        let shared = Rc::clone(&inner);
        let task = tokio::task::spawn_local(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                shared.borrow_mut().connections += 1;
                shared.borrow_mut().open += 1;
                let shared = Rc::clone(&shared);
                tokio::task::spawn_local(async move {
                    serve(stream, &shared).await;
                    shared.borrow_mut().open -= 1;
                });
            }
        });
        Self { url, inner, _task: Rc::new(Ender(task)) }
    }

    /// Adds an act for `METHOD /path`.
    pub(crate) fn on(&self, what: &str, act: Act) -> &Self {
        let mut inner = self.inner.borrow_mut();
        inner.script.entry(what.to_owned()).or_default().push_back(act);
        drop(inner);
        self
    }

    /// Forgets the acts for `METHOD /path` and sets this one.
    pub(crate) fn now(&self, what: &str, act: Act) -> &Self {
        self.inner.borrow_mut().script.insert(what.to_owned(), VecDeque::from([act]));
        self
    }

    /// An Airflow 3 that gives tokens `t1`, `t2`, …
    pub(crate) fn airflow3(&self) -> &Self {
        self.on("GET /api/v2/version", Act::json(200, r#"{"version":"3.3.2"}"#));
        for n in 1..=9 {
            self.on("POST /auth/token", Act::json(201, format!(r#"{{"access_token":"t{n}"}}"#)));
        }
        self
    }

    /// An Airflow 2 whose login form gives sessions `s1`, `s2`, …
    pub(crate) fn airflow2(&self) -> &Self {
        self.on("GET /api/v2/version", Act::html(404, "<html>"));
        self.on("GET /api/v1/version", Act::json(200, r#"{"version":"2.11.2"}"#));
        let form = r#"<form><input id="csrf_token" name="csrf_token" type="hidden" value="c-1"></form>"#;
        self.on("GET /login/", Act::with(200, "text/html", "Set-Cookie: session=visitor; HttpOnly; Path=/\r\n", form));
        for n in 1..=9 {
            let head = format!("Location: /home\r\nSet-Cookie: session=s{n}; HttpOnly; Path=/\r\n");
            self.on("POST /login/", Act::with(302, "text/html", &head, ""));
        }
        self
    }

    pub(crate) fn seen(&self) -> Vec<Request> {
        self.inner.borrow().seen.clone()
    }

    /// The requests of one `METHOD /path`.
    pub(crate) fn seen_of(&self, what: &str) -> Vec<Request> {
        let mut seen = self.seen();
        seen.retain(|request| format!("{} {}", request.method, request.path) == what);
        seen
    }

    pub(crate) fn connections(&self) -> usize {
        self.inner.borrow().connections
    }

    pub(crate) fn open(&self) -> usize {
        self.inner.borrow().open
    }
}

async fn serve(mut stream: TcpStream, shared: &RefCell<Inner>) {
    let mut buffer = Vec::new();
    while let Some(request) = read(&mut stream, &mut buffer).await {
        let key = format!("{} {}", request.method, request.path);
        let act = {
            let mut inner = shared.borrow_mut();
            inner.seen.push(request);
            let acts = inner.script.entry(key.clone()).or_default();
            if acts.len() > 1 { acts.pop_front() } else { acts.front().cloned() }
        };
        let act = act.unwrap_or_else(|| Act::json(404, format!(r#"{{"error":"no act for {key}"}}"#)));
        match act {
            Act::Answer { status, head, body } => {
                let head = format!("HTTP/1.1 {status} X\r\n{head}Content-Length: {}\r\n\r\n", body.len());
                if stream.write_all(head.as_bytes()).await.is_err() || stream.write_all(&body).await.is_err() {
                    return;
                }
            }
            Act::CloseAfterReading => return,
            Act::Half(body) => {
                let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n";
                let _ = stream.write_all(format!("{head}{body}").as_bytes()).await;
                return;
            }
            Act::Drip => {
                let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n\r\n{";
                let _ = stream.write_all(head.as_bytes()).await;
                while stream.write_all(b" ").await.is_ok() {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                return;
            }
            Act::Silence => {
                // Until the other side gives up.
                let _ = stream.read(&mut [0; 64]).await;
                return;
            }
            Act::Raw(text) => {
                let _ = stream.write_all(text.as_bytes()).await;
                return;
            }
        }
    }
}

/// The next request, or `None` at the end of the connection.
async fn read(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> Option<Request> {
    let end = loop {
        if let Some(at) = buffer.windows(4).position(|window| window == b"\r\n\r\n") {
            break at;
        }
        if stream.read_buf(buffer).await.ok()? == 0 {
            return None;
        }
    };
    let head = String::from_utf8(buffer[..end].to_vec()).unwrap();
    let mut lines = head.split("\r\n");
    let mut first = lines.next().unwrap().split(' ');
    let (method, path) = (first.next().unwrap().to_owned(), first.next().unwrap().to_owned());
    let headers: HashMap<_, _> = lines
        .map(|line| line.split_once(": ").unwrap())
        .map(|(name, value)| (name.to_lowercase(), value.to_owned()))
        .collect();
    let length: usize = headers.get("content-length").map_or(0, |value| value.parse().unwrap());
    while buffer.len() < end + 4 + length {
        if stream.read_buf(buffer).await.ok()? == 0 {
            return None;
        }
    }
    let body = String::from_utf8_lossy(&buffer[end + 4..end + 4 + length]).into_owned();
    buffer.drain(..end + 4 + length);
    Some(Request { method, path, headers, body })
}
