//! State directories as a watcher leaves them, made without one, and the verbs that look at them.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{SystemTime, UNIX_EPOCH};

use rmq_watcher::control::{self, FILE_NAME, serve};
use rmq_watcher::domain::control::{Answer, Request};
use rmq_watcher::store::lock::try_lock;
use rmq_watcher::store::open::open_inline;
use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};
use tokio::task::LocalSet;

use crate::bench::SOON;
use crate::support::{Setup, eventually};

/// A folder with a state file: by default one that a watcher wrote whose last cycle ended just now, with a subscription that
/// listens.
pub(crate) struct Kept {
    pub(crate) folder: tempfile::TempDir,
}

/// What a verb said and how it ended.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) error: String,
}

impl Said {
    /// Its standard output as JSON.
    #[track_caller]
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

#[expect(clippy::disallowed_methods, reason = "what the watcher would write now")]
pub(crate) fn now_ms() -> i64 {
    i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis()).unwrap()
}

impl Kept {
    /// A state directory without any row.
    pub(crate) fn empty() -> Self {
        let kept = Self { folder: tempfile::tempdir().unwrap() };
        drop(open_inline(&kept.dir(), 0).unwrap());
        kept
    }

    pub(crate) fn new() -> Self {
        let kept = Self::empty();
        let pid = std::process::id();
        let now = now_ms();
        kept.sql(&format!(
            "INSERT INTO watchers VALUES (1, 'host', {pid}, '9.9.9', {now}, {now}, 60000, 300000, NULL, '{{\"cycle_completed\":3}}', NULL);
             INSERT INTO connection_status VALUES ('rmq_default', 'connected', NULL, 1, {now}, {now});"
        ));
        kept.subscription(1, "orders", "orders", "listening");
        kept
    }

    /// A subscription that has its consumer.
    pub(crate) fn subscription(&self, id: i64, dag: &str, queue: &str, status: &str) {
        let connection = self.connection();
        let now = now_ms();
        let sql = "INSERT INTO subscriptions (id, dag_id, queue, conn_id, source, origin, origin_file, options, enabled, absent_cycles, \
                   created_at_ms, updated_at_ms) VALUES (?1, ?2, ?3, 'rmq_default', 'dag_file', 'a.py:1:1', 'a.py', '{}', 1, 0, ?4, ?4)";
        connection.execute(sql, rusqlite::params![id, dag, queue, now]).unwrap();
        let sql = "INSERT INTO subscription_status VALUES (?1, ?2, NULL, 'the-tag', ?3)";
        connection.execute(sql, rusqlite::params![id, status, now]).unwrap();
    }

    pub(crate) fn dir(&self) -> PathBuf {
        self.folder.path().join("state")
    }

    fn connection(&self) -> Connection {
        Connection::open(self.dir().join("state.db")).unwrap()
    }

    pub(crate) fn sql(&self, sql: &str) {
        self.connection().execute_batch(sql).unwrap();
    }

    /// Whether a subscription is switched on, as the file has it.
    pub(crate) fn is_enabled(&self, id: i64) -> bool {
        let sql = format!("SELECT enabled FROM subscriptions WHERE id = {id}");
        self.connection().query_row(&sql, [], |row| row.get(0)).unwrap()
    }

    /// Runs a verb: no Airflow, no broker, no credentials.
    pub(crate) fn says(&self, verb: &[&str]) -> Said {
        says(&Setup::in_folder(self.folder.path()), verb)
    }

    /// Holds its lock, as the watcher does, and nothing else.
    pub(crate) fn hold(&self) -> rmq_watcher::store::lock::StateLock {
        try_lock(&self.dir()).unwrap().unwrap_or_else(|holder| panic!("{holder:?}"))
    }

    /// A watcher in this process, as far as the command line meets it: the lock, and the socket, whose requests `act` answers.
    pub(crate) fn alive(&self, act: impl FnMut(Request) -> Answer + Send + 'static) -> Alive {
        let lock = self.hold();
        // The row is the holder's where it is as young as the lock.
        self.sql(&format!("UPDATE watchers SET last_cycle_at_ms = {}", now_ms() + 1));
        let (stop, stopped) = oneshot::channel();
        let path = self.dir().join(FILE_NAME);
        let socket = path.clone();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            LocalSet::new().block_on(&runtime, attend(socket, act, stopped));
        });
        eventually(SOON, "the socket is there", || path.exists());
        Alive { stop: Some(stop), thread: Some(thread), _lock: lock }
    }
}

async fn attend(path: PathBuf, mut act: impl FnMut(Request) -> Answer, stopped: oneshot::Receiver<()>) {
    let (sender, mut asked) = mpsc::channel::<control::Asked>(1);
    let answering = async {
        while let Some((request, reply)) = asked.recv().await {
            drop(reply.send(act(request)));
        }
    };
    tokio::select! {
        () = serve(path, sender) => panic!("no socket"),
        () = answering => {}
        _ = stopped => {}
    }
}

/// Ends with this value.
pub(crate) struct Alive {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
    _lock: rmq_watcher::store::lock::StateLock,
}

impl Drop for Alive {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            assert!(ended.is_ok() || std::thread::panicking(), "the stand-in for the watcher panicked");
        }
    }
}

/// Runs a verb to its end.
pub(crate) fn says(setup: &Setup, verb: &[&str]) -> Said {
    let output = setup.command(verb).stdin(Stdio::null()).output().unwrap();
    Said {
        code: output.status.code(),
        out: String::from_utf8(output.stdout).unwrap(),
        error: String::from_utf8(output.stderr).unwrap(),
    }
}

/// All that is in a directory, byte for byte.
pub(crate) fn contents(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let files = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let mut all: Vec<_> =
        files.filter(|path| path.is_file()).map(|path| (path.clone(), std::fs::read(&path).unwrap())).collect();
    all.sort();
    all
}
