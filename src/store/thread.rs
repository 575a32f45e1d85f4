//! The thread that owns the connection, and the handle that reaches it.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use rusqlite::{Connection, ffi};
use tokio::sync::{mpsc, oneshot};

use super::StoreError;
use super::backup::Backups;
use super::unwritten::Unwritten;
use crate::telemetry::events;

/// Commands that may wait for the thread. In-flight deliveries are bounded by the windows of their consumers and each has
/// one or two commands under way, so this is never reached while the disk answers.
const QUEUE_LEN: usize = 4096;

/// Commands that share one commit at most: bounds how long the first of them waits for the last.
const BATCH_LEN: usize = 256;

/// Why a whole batch failed; copied to every command of it.
type Failure = (ffi::Error, Option<String>);

/// Runs once the batch is committed (or is not).
type Answer = Box<dyn FnOnce(Result<(), Failure>) + Send>;

/// One command: runs inside the transaction, or hears that there is none.
type Job = Box<dyn FnOnce(Result<&Connection, Failure>) -> Answer + Send>;

/// A handle on the state file. Cheap to clone; the thread ends when the last one is gone.
#[derive(Clone)]
pub struct Store {
    route: Route,
    backups: Backups,
    pub(super) unwritten: Unwritten,
}

#[derive(Clone)]
enum Route {
    Thread(mpsc::Sender<Job>),
    Inline(Arc<Mutex<Connection>>),
}

/// Resolves once the thread has closed the file.
pub type Closed = oneshot::Receiver<()>;

impl Store {
    /// Gives the connection to a thread of its own, and the backups of this state directory to another.
    pub(super) fn start(connection: Connection, dir: PathBuf) -> Result<(Self, Closed), std::io::Error> {
        let (jobs, waiting) = mpsc::channel(QUEUE_LEN);
        let (done, closed) = oneshot::channel();
        let (backups, backup_thread) = Backups::start(dir)?;
        thread::Builder::new().name("store".to_owned()).spawn(move || {
            serve(&connection, waiting);
            // It ends with the last handle too. A panic of its was reported where it happened.
            drop(backup_thread.join());
            // Last, because whoever closes last leaves one file.
            drop(connection);
            let _ = done.send(());
        })?;
        Ok((Self { route: Route::Thread(jobs), backups, unwritten: Unwritten::default() }, closed))
    }

    /// Runs every command at once on the caller's own thread, each in a transaction of its own: for flows under a test
    /// clock, which must not wait for another thread.
    pub(super) fn inline(connection: Connection, dir: PathBuf) -> Self {
        let route = Route::Inline(Arc::new(Mutex::new(connection)));
        Self { route, backups: Backups::Inline(dir), unwritten: Unwritten::default() }
    }

    /// Asks for a backup of the subscriptions as they are committed now.
    pub(super) fn back_up(&self, now_ms: i64) {
        self.backups.ask(now_ms);
    }

    /// As [`Store::call`], for work that may change subscriptions: where it says that it did, a backup is asked for once that is
    /// committed, also when nobody waits any more.
    pub(super) async fn change<T: Send + 'static>(
        &self,
        what: &'static str,
        now_ms: i64,
        work: impl FnOnce(&Connection) -> rusqlite::Result<(T, bool)> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (reply, answer) = oneshot::channel();
        let backups = self.backups.clone();
        let answered = move |result: rusqlite::Result<(T, bool)>| {
            if result.as_ref().is_ok_and(|(_, changed)| *changed) {
                backups.ask(now_ms);
            }
            drop(reply.send(result.map(|(value, _)| value)));
        };
        self.send(work, answered).await?;
        answer.await.map_err(|_| StoreError::Closed)?.map_err(|source| StoreError::Sql { what, source })
    }

    /// Runs `work` in the next transaction and returns once it is committed.
    ///
    /// # Errors
    /// [`StoreError::Sql`] where `work` or the commit failed: then nothing of it is in the file.
    ///
    /// # Cancel safety
    /// Dropping the future does not take the command back.
    pub(super) async fn call<T: Send + 'static>(
        &self,
        what: &'static str,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (reply, answer) = oneshot::channel();
        self.send(work, move |result| drop(reply.send(result))).await?;
        answer.await.map_err(|_| StoreError::Closed)?.map_err(|source| StoreError::Sql { what, source })
    }

    /// Hands `work` over without waiting for its commit; a failure is logged.
    pub(super) async fn tell(
        &self,
        what: &'static str,
        work: impl FnOnce(&Connection) -> rusqlite::Result<()> + Send + 'static,
    ) {
        let log_failure = move |result: rusqlite::Result<()>| {
            if let Err(error) = result {
                tracing::warn!(event = events::STORE_WRITE_FAILED, %error, "the state file refused {what}: {error}");
            }
        };
        // A closed store means that the process is stopping: what is not written down is found again at the broker.
        drop(self.send(work, log_failure).await);
    }

    pub(super) async fn send<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
        reply: impl FnOnce(rusqlite::Result<T>) + Send + 'static,
    ) -> Result<(), StoreError> {
        let job: Job = Box::new(move |transaction| {
            let result = transaction.map_err(to_error).and_then(|connection| in_savepoint(connection, work));
            Box::new(move |committed| reply(committed.map_err(to_error).and(result)))
        });
        match &self.route {
            Route::Thread(jobs) => jobs.send(job).await.map_err(|_| StoreError::Closed),
            Route::Inline(connection) => {
                run_batch(&connection.lock().unwrap_or_else(PoisonError::into_inner), &mut vec![job], || None);
                Ok(())
            }
        }
    }
}

fn to_error((error, text): Failure) -> rusqlite::Error {
    rusqlite::Error::SqliteFailure(error, text)
}

fn to_failure(error: &rusqlite::Error) -> Failure {
    if let rusqlite::Error::SqliteFailure(code, text) = error {
        return (*code, text.clone());
    }
    (ffi::Error::new(ffi::SQLITE_ERROR), Some(error.to_string()))
}

/// One command's failure must not take the others of its batch with it.
fn in_savepoint<T>(
    connection: &Connection,
    work: impl FnOnce(&Connection) -> rusqlite::Result<T>,
) -> rusqlite::Result<T> {
    run(connection, "SAVEPOINT command")?;
    let result = work(connection);
    run(connection, if result.is_ok() { "RELEASE command" } else { "ROLLBACK TO command" })?;
    result
}

/// Runs a statement that is kept prepared.
fn run(connection: &Connection, sql: &str) -> rusqlite::Result<()> {
    connection.prepare_cached(sql)?.execute([]).map(drop)
}

fn serve(connection: &Connection, mut waiting: mpsc::Receiver<Job>) {
    let mut batch = Vec::with_capacity(BATCH_LEN);
    while waiting.blocking_recv_many(&mut batch, BATCH_LEN) > 0 {
        run_batch(connection, &mut batch, || waiting.try_recv().ok());
    }
}

/// One transaction for the commands of the batch and for those that come while it runs: a delivery's outcome and its verb
/// are handed over one right after the other, and would else be two commits.
fn run_batch(connection: &Connection, batch: &mut Vec<Job>, mut late: impl FnMut() -> Option<Job>) {
    let begun = run(connection, "BEGIN IMMEDIATE").map_err(|error| to_failure(&error));
    let answers: Vec<Answer> = batch
        .drain(..)
        .chain(std::iter::from_fn(&mut late))
        .take(BATCH_LEN)
        .map(|job| match &begun {
            Ok(()) => job(Ok(connection)),
            Err(failure) => job(Err(failure.clone())),
        })
        .collect();
    let committed = begun.and_then(|()| commit(connection).map_err(|error| to_failure(&error)));
    for answer in answers {
        answer(committed.clone());
    }
}

fn commit(connection: &Connection) -> rusqlite::Result<()> {
    let result = run(connection, "COMMIT");
    if result.is_err() && !connection.is_autocommit() {
        // Nothing more can be done where this fails too: the next BEGIN says so.
        drop(connection.execute_batch("ROLLBACK"));
    }
    result
}
