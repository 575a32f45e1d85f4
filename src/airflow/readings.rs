//! Reading files away from the loop thread, within a bound of time and of threads.
//!
//! Serves the login and the connections. A file system that hangs holds up a thread for ever, which nothing can end.
//! Invariants: every call ends within its bound; of each file at most one reading is under way, so that one that hangs costs
//! one thread, however often it is tried again, and files elsewhere are read as ever.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

/// The bound of reading a configuration, password or token file.
const BOUND: Duration = Duration::from_secs(5);

/// The readings under way.
pub(super) struct Readings {
    turns: RefCell<HashMap<PathBuf, Arc<Semaphore>>>,
    bound: Duration,
}

impl Default for Readings {
    fn default() -> Self {
        Self::within(BOUND)
    }
}

impl Readings {
    /// Readings with a bound of their own.
    pub(super) fn within(bound: Duration) -> Self {
        Self { turns: RefCell::default(), bound }
    }

    /// Runs `read`, which may block, on the file, once no other reading of it is under way.
    ///
    /// # Errors
    /// What `read` says; [`io::ErrorKind::TimedOut`] where it, or the reading before it, takes longer than the bound.
    ///
    /// # Cancel safety
    /// Cancel safe; a reading under way goes on to its end on its thread, and keeps its turn until then.
    pub(super) async fn of<T: Send + 'static>(
        &self,
        path: &Path,
        read: impl FnOnce(&Path) -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let turn = self.turn(path);
        let path = path.to_owned();
        let reading = async {
            let permit = turn.acquire_owned().await.map_err(io::Error::other)?;
            let result = spawn_blocking(move || {
                let result = read(&path);
                drop(permit);
                result
            });
            result.await.unwrap_or_else(|_| Err(io::Error::other("reading it failed in an unforeseen way")))
        };
        timeout(self.bound, reading).await.unwrap_or_else(|_| {
            let sentence =
                format!("no answer within {} s, so the file system it lies on seems to hang", self.bound.as_secs());
            Err(io::Error::new(io::ErrorKind::TimedOut, sentence))
        })
    }

    /// The file's semaphore of one permit. Those that nobody holds or waits for are forgotten.
    fn turn(&self, path: &Path) -> Arc<Semaphore> {
        let mut turns = self.turns.borrow_mut();
        turns.retain(|_, turn| Arc::strong_count(turn) > 1);
        Arc::clone(turns.entry(path.to_owned()).or_insert_with(|| Arc::new(Semaphore::new(1))))
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]
mod tests {
    use std::fs;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Instant;

    use super::*;

    #[tokio::test]
    async fn a_file_that_hangs_costs_one_thread_however_often_it_is_tried() {
        let folder = tempfile::tempdir().unwrap();
        let (pipe, file) = (folder.path().join("pipe"), folder.path().join("file"));
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::from_bits_truncate(0o600)).unwrap();
        fs::write(&file, "text").unwrap();
        let readings = Readings::within(Duration::from_millis(50));
        let threads = Arc::new(AtomicUsize::new(0));
        // Opening a pipe that nobody writes to blocks as a hung file system does.
        let open = |threads: &Arc<AtomicUsize>| {
            let threads = Arc::clone(threads);
            move |path: &Path| {
                threads.fetch_add(1, Ordering::SeqCst);
                let text = fs::read_to_string(path);
                threads.fetch_sub(1, Ordering::SeqCst);
                text
            }
        };
        for _ in 0..20 {
            let began = Instant::now();
            let error = readings.of(&pipe, open(&threads)).await.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::TimedOut, "{error}");
            assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
            assert_eq!(threads.load(Ordering::SeqCst), 1);
            assert_eq!(readings.of(&file, |path| fs::read_to_string(path)).await.unwrap(), "text");
        }
        assert_eq!(readings.turns.borrow().len(), 2, "one that hangs, one just used");
        fs::write(&pipe, "awake").unwrap();
        let deadline = Instant::now() + Duration::from_secs(10);
        while readings.of(&pipe, |_| Ok(())).await.is_err() {
            assert!(Instant::now() < deadline, "the turn does not come back");
        }
        assert_eq!(threads.load(Ordering::SeqCst), 0);
    }

    #[tokio::test]
    async fn a_reading_that_panics_gives_its_turn_back() {
        let readings = Readings::default();
        let path = Path::new("/x");
        assert!(readings.of(path, |_| -> io::Result<()> { panic!("on purpose") }).await.is_err());
        readings.of(path, |_| Ok(())).await.unwrap();
    }
}
