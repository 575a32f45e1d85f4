//! The DAG folders as the control flow sees them: scanned on a thread of their own, one scan at a time, and watched in between.
//! Whatever asks the file system does so on that thread, also the arming of the watch: a mount that hangs must not stop the loop.

use std::future::pending;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::task::{JoinHandle, spawn_blocking};

use crate::config::dags::DagFolders;
use crate::discovery::{DefaultSyntax, Scan, ScanError, Scanner, Watch, WatchTrouble};
use crate::ports::{Declarations, Declared};
use crate::telemetry::events;

/// The DAG folders.
pub(super) struct Folder {
    scanner: Arc<Mutex<Scanner>>,
    under_way: Option<JoinHandle<Scanned>>,
    /// `None` where the system gives no watch.
    watch: Option<Watch>,
    /// What was said of the watch last.
    said: Option<String>,
}

/// What a scan found, and what keeps its directories from being watched.
type Scanned = (Result<Scan, ScanError>, Option<WatchTrouble>);

impl Folder {
    /// Must be called within the runtime.
    pub(super) fn new(folders: DagFolders) -> Self {
        let scanner = Arc::new(Mutex::new(Scanner::of(folders)));
        let mut folder = Self { scanner, under_way: None, watch: None, said: None };
        match Watch::new() {
            Ok(watch) => folder.watch = Some(watch),
            Err(trouble) => folder.say(Some(&trouble)),
        }
        folder
    }

    /// What decides how `.airflowignore` is read where Airflow's settings do not.
    pub(super) fn default_syntax(&self) -> DefaultSyntax {
        self.scanner.lock().unwrap_or_else(PoisonError::into_inner).default_syntax()
    }

    fn say(&mut self, trouble: Option<&WatchTrouble>) {
        let said = trouble.map(ToString::to_string);
        if let Some(sentence) = &said
            && self.said != said
        {
            tracing::warn!(event = events::WATCH_LIMITED, "RMQ Watcher: {sentence}");
        }
        self.said = said;
    }
}

impl Declarations for Folder {
    async fn scan(&mut self) -> Result<Declared, String> {
        let scanner = Arc::clone(&self.scanner);
        if self.under_way.is_none()
            && let Some(watch) = &mut self.watch
        {
            watch.settle();
        }
        let arms = self.watch.as_ref().map(Watch::arms);
        let under_way = self.under_way.get_or_insert_with(|| {
            spawn_blocking(move || {
                let mut scanner = scanner.lock().unwrap_or_else(PoisonError::into_inner);
                let scanned = scanner.scan();
                (scanned, arms.and_then(|mut arms| arms.rearm(scanner.places()).err()))
            })
        });
        let scanned = under_way.await;
        self.under_way = None;
        let (scanned, trouble) = scanned.map_err(|error| format!("a defect of this program: {error}"))?;
        if self.watch.is_some() {
            self.say(trouble.as_ref());
        }
        match scanned {
            Ok(Scan { declarations, refusals, unreadable, listed, readable }) => {
                let (listed, readable) = (listed as u64, readable as u64);
                Ok(Declared { declarations, refusals, unreadable, listed, readable })
            }
            Err(error) => Err(error.to_string()),
        }
    }

    async fn changed(&mut self) {
        match &mut self.watch {
            Some(watch) => watch.changed().await,
            None => pending().await,
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]
mod tests {
    use std::time::Duration;

    use tokio::time::{sleep, timeout};

    use super::*;

    const SOON: Duration = Duration::from_secs(30);

    fn within(check: impl Future<Output = ()>) {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(check);
    }

    #[test]
    fn the_watch_is_armed_by_the_thread_of_the_scan_and_not_by_the_loop() {
        within(async {
            let dags = tempfile::tempdir().unwrap();
            let mut folder = Folder::new(DagFolders::one(dags.path()));
            // Given up once it has begun: the loop does nothing more for it.
            drop(timeout(Duration::ZERO, folder.scan()).await);
            let is_over = async {
                while folder.under_way.as_ref().is_some_and(|scan| !scan.is_finished()) {
                    sleep(Duration::from_millis(5)).await;
                }
            };
            timeout(SOON, is_over).await.unwrap();
            timeout(SOON, folder.changed()).await.expect("what was armed late is told");
            std::fs::write(dags.path().join("a.py"), "").unwrap();
            timeout(SOON, folder.changed()).await.expect("it is watched");
        });
    }
}
