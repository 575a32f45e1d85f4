//! The DAG folders as the control flow sees them: scanned on a thread of their own, one scan at a time, and watched in between.

use std::future::pending;
use std::path::PathBuf;
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

/// What a scan found, and the directories that it saw.
type Scanned = (Result<Scan, ScanError>, Vec<PathBuf>);

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

    fn rearm(&mut self, directories: &[PathBuf]) {
        if let Some(watch) = &mut self.watch {
            let trouble = watch.rearm(directories).err();
            self.say(trouble.as_ref());
        }
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
        let under_way = self.under_way.get_or_insert_with(|| {
            spawn_blocking(move || {
                let mut scanner = scanner.lock().unwrap_or_else(PoisonError::into_inner);
                (scanner.scan(), scanner.directories().to_vec())
            })
        });
        let scanned = under_way.await;
        self.under_way = None;
        let (scanned, directories) = scanned.map_err(|error| format!("a defect of this program: {error}"))?;
        self.rearm(&directories);
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
