//! L2: the control socket, both sides over a real socket.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::fs;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rmq_watcher::control::{AskError, Asked, FILE_NAME, ask, serve};
use rmq_watcher::domain::control::{Answer, Request};
use rmq_watcher::domain::ids::SubscriptionId;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, LocalSet, spawn_local};
use tokio::time::timeout;

/// For what happens at once.
const SOON: Duration = Duration::from_secs(20);

/// Runs a test on one thread, as the watcher does.
fn on_a_loop(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    LocalSet::new().block_on(&runtime, test);
}

/// A server in a directory, and what it hands over.
struct Served {
    path: PathBuf,
    asked: mpsc::Receiver<Asked>,
    task: JoinHandle<()>,
}

impl Served {
    async fn at(path: &Path) -> Self {
        let (sender, asked) = mpsc::channel(1);
        let task = spawn_local(serve(path.to_owned(), sender));
        let served = Self { path: path.to_owned(), asked, task };
        let is_up = async {
            // Its mode is set last.
            while fs::symlink_metadata(path).map_or(0, |file| file.mode() & 0o777) != 0o600 {
                tokio::task::yield_now().await;
            }
        };
        timeout(SOON, is_up).await.expect("the socket is made");
        served
    }

    /// Answers the next request.
    async fn answer(&mut self, answer: Answer) -> Request {
        let (request, reply) = timeout(SOON, self.asked.recv()).await.unwrap().unwrap();
        reply.send(answer).unwrap();
        request
    }

    async fn stop(self) {
        self.task.abort();
        assert!(self.task.await.unwrap_err().is_cancelled());
    }
}

fn socket(dir: &tempfile::TempDir) -> PathBuf {
    dir.path().join(FILE_NAME)
}

#[test]
fn request_reaches_the_control_flow_and_its_answer_comes_back() {
    on_a_loop(async {
        let dir = tempfile::tempdir().unwrap();
        let mut served = Served::at(&socket(&dir)).await;
        let path = served.path.clone();
        let pong = Answer::Pong { pid: 7, version: "1".into() };
        let asking = spawn_local(async move { ask(&path, &Request::Ping).await });
        assert_eq!(served.answer(pong.clone()).await, Request::Ping);
        assert_eq!(asking.await.unwrap().unwrap(), pong);
        let path = served.path.clone();
        let enable = Request::SetEnabled { id: SubscriptionId(3), enabled: false };
        let sent = enable.clone();
        let asking = spawn_local(async move { ask(&path, &sent).await });
        assert_eq!(served.answer(Answer::Done).await, enable);
        assert_eq!(asking.await.unwrap().unwrap(), Answer::Done);
        served.stop().await;
    });
}

#[test]
fn socket_is_its_owners_alone_and_goes_with_the_watcher() {
    on_a_loop(async {
        let dir = tempfile::tempdir().unwrap();
        let served = Served::at(&socket(&dir)).await;
        let path = served.path.clone();
        let file = fs::symlink_metadata(&path).unwrap();
        assert!(file.file_type().is_socket());
        assert_eq!(file.mode() & 0o777, 0o600);
        served.stop().await;
        assert!(!path.exists());
        assert!(matches!(ask(&path, &Request::Ping).await, Err(AskError::NotThere { .. })));
    });
}

#[test]
fn socket_of_a_dead_watcher_is_replaced() {
    on_a_loop(async {
        let dir = tempfile::tempdir().unwrap();
        let path = socket(&dir);
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        let error = ask(&path, &Request::Ping).await.unwrap_err();
        assert!(matches!(&error, AskError::NotThere { .. }), "{error}");
        let mut served = Served::at(&path).await;
        let asking = spawn_local(async move { ask(&path, &Request::Wake).await });
        assert_eq!(served.answer(Answer::Done).await, Request::Wake);
        assert_eq!(asking.await.unwrap().unwrap(), Answer::Done);
    });
}

#[test]
fn file_that_is_no_socket_is_left_and_the_watcher_goes_without() {
    on_a_loop(async {
        let dir = tempfile::tempdir().unwrap();
        let path = socket(&dir);
        fs::write(&path, "mine").unwrap();
        let (sender, _asked) = mpsc::channel(1);
        timeout(SOON, serve(path.clone(), sender)).await.expect("it returns");
        assert_eq!(fs::read_to_string(&path).unwrap(), "mine");
    });
}

#[test]
fn path_longer_than_a_socket_address_works_all_the_same() {
    on_a_loop(async {
        let dir = tempfile::tempdir().unwrap();
        let deep = dir.path().join("d".repeat(120)).join("e".repeat(120));
        fs::create_dir_all(&deep).unwrap();
        let path = deep.join(FILE_NAME);
        let mut served = Served::at(&path).await;
        let asking = path.clone();
        let asking = spawn_local(async move { ask(&asking, &Request::Wake).await });
        assert_eq!(served.answer(Answer::Done).await, Request::Wake);
        assert_eq!(asking.await.unwrap().unwrap(), Answer::Done);
        served.stop().await;
        assert!(!path.exists());
    });
}

#[test]
fn several_requests_may_come_on_one_connection() {
    on_a_loop(async {
        let dir = tempfile::tempdir().unwrap();
        let mut served = Served::at(&socket(&dir)).await;
        let mut stream = UnixStream::connect(&served.path).await.unwrap();
        stream.write_all(b"{\"request\":\"wake\"}\n{\"request\":\"ping\"}\n").await.unwrap();
        assert_eq!(served.answer(Answer::Done).await, Request::Wake);
        assert_eq!(served.answer(Answer::Pong { pid: 1, version: "v".into() }).await, Request::Ping);
        let mut text = [0; 200];
        let mut length = 0;
        while text[..length].iter().filter(|byte| **byte == b'\n').count() < 2 {
            length += timeout(SOON, stream.read(&mut text[length..])).await.unwrap().unwrap();
        }
        let text = String::from_utf8_lossy(&text[..length]).into_owned();
        assert_eq!(text, "{\"answer\":\"done\"}\n{\"answer\":\"pong\",\"pid\":1,\"version\":\"v\"}\n");
    });
}

#[test]
fn what_is_not_understood_is_refused_and_reaches_nobody() {
    on_a_loop(async {
        let dir = tempfile::tempdir().unwrap();
        let mut served = Served::at(&socket(&dir)).await;
        for text in ["\n", "nonsense\n", "{\"request\":\"stop\"}\n", "\u{0}\u{1}\n"] {
            let mut stream = UnixStream::connect(&served.path).await.unwrap();
            stream.write_all(text.as_bytes()).await.unwrap();
            let answer = first_line(&mut stream).await;
            assert!(answer.contains("\"refused\"") && answer.contains("does not understand"), "{answer}");
        }
        assert!(served.asked.try_recv().is_err());
    });
}

#[test]
fn line_that_never_ends_is_cut_off() {
    on_a_loop(async {
        let dir = tempfile::tempdir().unwrap();
        let mut served = Served::at(&socket(&dir)).await;
        let mut stream = UnixStream::connect(&served.path).await.unwrap();
        let written = timeout(SOON, async { while stream.write_all(&[b'x'; 4096]).await.is_ok() {} }).await;
        assert!(written.is_ok(), "the watcher hangs up");
        assert!(served.asked.try_recv().is_err());
    });
}

#[test]
fn silent_clients_hold_nobody_up_for_long() {
    on_a_loop(async {
        let dir = tempfile::tempdir().unwrap();
        let mut served = Served::at(&socket(&dir)).await;
        let mut silent = Vec::new();
        for _ in 0..20 {
            silent.push(UnixStream::connect(&served.path).await.unwrap());
        }
        let path = served.path.clone();
        let asking = spawn_local(async move { ask(&path, &Request::Wake).await });
        assert_eq!(served.answer(Answer::Done).await, Request::Wake);
        assert_eq!(asking.await.unwrap().unwrap(), Answer::Done);
    });
}

#[test]
fn watcher_that_lets_a_request_go_leaves_it_unknown() {
    on_a_loop(async {
        let dir = tempfile::tempdir().unwrap();
        let mut served = Served::at(&socket(&dir)).await;
        let path = served.path.clone();
        let asking = spawn_local(async move { ask(&path, &Request::Wake).await });
        let (_, reply) = timeout(SOON, served.asked.recv()).await.unwrap().unwrap();
        drop(reply);
        let answer = asking.await.unwrap().unwrap();
        assert!(
            matches!(&answer, Answer::Unknown { sentence } if sentence.contains("subscriptions list")),
            "{answer:?}"
        );
    });
}

#[test]
fn watcher_that_is_stopping_refuses() {
    on_a_loop(async {
        let dir = tempfile::tempdir().unwrap();
        let mut served = Served::at(&socket(&dir)).await;
        served.asked.close();
        let answer = ask(&served.path, &Request::Wake).await.unwrap();
        assert!(matches!(&answer, Answer::Refused { sentence } if sentence.contains("is stopping")), "{answer:?}");
    });
}

#[test]
fn watcher_that_is_killed_while_asked_is_an_error_within_its_time() {
    on_a_loop(async {
        let dir = tempfile::tempdir().unwrap();
        let mut served = Served::at(&socket(&dir)).await;
        let path = served.path.clone();
        let asking = spawn_local(async move { ask(&path, &Request::Wake).await });
        let _asked = timeout(SOON, served.asked.recv()).await.unwrap().unwrap();
        served.stop().await;
        let error = timeout(SOON, asking).await.unwrap().unwrap().unwrap_err();
        assert!(matches!(error, AskError::NoAnswer { .. }), "{error}");
    });
}

async fn first_line(stream: &mut UnixStream) -> String {
    let (mut text, mut byte) = (Vec::new(), [0]);
    while timeout(SOON, stream.read(&mut byte)).await.unwrap().unwrap() == 1 && byte[0] != b'\n' {
        text.push(byte[0]);
    }
    String::from_utf8(text).unwrap()
}
