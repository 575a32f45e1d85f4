//! The DAG folders as the control flow sees them: scanned on a thread of their own, one scan at a time, and watched in between.
//! Whatever asks the file system does so on that thread, also the arming of the watch: a mount that hangs must not stop the loop.

use std::future::pending;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;
use tokio::task::{JoinHandle, spawn_blocking};

use crate::config::dags::{DagFolders, IgnoreSyntax};
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
    /// How ignore files are meant became known.
    learnt: Rc<Notify>,
}

/// How ignore files are meant where Airflow's settings leave it to its version: told by whoever learns the version.
pub(super) struct Syntax {
    default: DefaultSyntax,
    learnt: Rc<Notify>,
}

impl Syntax {
    /// Takes it from now on; where it is news, the folders are worth a scan.
    pub(super) fn learn(&self, syntax: IgnoreSyntax) {
        if self.default.set(Some(syntax)) {
            self.learnt.notify_one();
        }
    }
}

/// What a scan found, and what keeps its directories from being watched.
type Scanned = (Result<Scan, ScanError>, Option<WatchTrouble>);

impl Folder {
    /// `syntax`: how ignore files are meant as far as that is known. Must be called within the runtime.
    pub(super) fn new(folders: DagFolders, syntax: Option<IgnoreSyntax>) -> Self {
        let scanner = Scanner::of(folders);
        scanner.default_syntax().set(syntax);
        let scanner = Arc::new(Mutex::new(scanner));
        let mut folder = Self { scanner, under_way: None, watch: None, said: None, learnt: Rc::default() };
        match Watch::new() {
            Ok(watch) => folder.watch = Some(watch),
            Err(trouble) => folder.say(Some(&trouble)),
        }
        folder
    }

    /// What decides how `.airflowignore` is read where Airflow's settings do not.
    pub(super) fn syntax(&self) -> Syntax {
        let default = self.scanner.lock().unwrap_or_else(PoisonError::into_inner).default_syntax();
        Syntax { default, learnt: Rc::clone(&self.learnt) }
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
            Ok(Scan { declarations, refusals, unreadable, undecided, bundles, listed, readable }) => {
                let (listed, readable) = (listed as u64, readable as u64);
                Ok(Declared { declarations, refusals, unreadable, undecided, bundles, listed, readable })
            }
            Err(error) => Err(error.to_string()),
        }
    }

    async fn changed(&mut self) {
        let Self { watch, learnt, .. } = self;
        let told = async {
            match watch {
                Some(watch) => watch.changed().await,
                None => pending().await,
            }
        };
        tokio::select! {
            biased;
            () = learnt.notified() => {}
            () = told => {}
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
            let mut folder = Folder::new(DagFolders::one(dags.path()), None);
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

    #[test]
    fn what_ignore_files_leave_out_is_undecided_until_their_syntax_is_learnt_and_then_a_scan_is_worth_it() {
        within(async {
            let dags = tempfile::tempdir().unwrap();
            std::fs::write(dags.path().join(".airflowignore"), ".*_draft.*\n").unwrap();
            std::fs::write(dags.path().join("x_draft.py"), "x = 1\n").unwrap();
            let mut folder = Folder::new(DagFolders::one(dags.path()), None);
            folder.watch = None;
            let syntax = folder.syntax();
            let seen =
                async |folder: &mut Folder| folder.scan().await.map(|scan| (scan.listed, scan.undecided)).unwrap();
            assert_eq!(seen(&mut folder).await, (0, vec!["x_draft.py".to_owned()]));
            assert!(timeout(Duration::from_millis(1), folder.changed()).await.is_err(), "nothing is learnt");
            syntax.learn(IgnoreSyntax::Glob);
            timeout(SOON, folder.changed()).await.expect("it is learnt");
            assert_eq!(seen(&mut folder).await, (1, Vec::new()));
            syntax.learn(IgnoreSyntax::Glob);
            assert!(timeout(Duration::from_millis(1), folder.changed()).await.is_err(), "no news");
            syntax.learn(IgnoreSyntax::Regexp);
            timeout(SOON, folder.changed()).await.expect("another Airflow");
            assert_eq!(seen(&mut folder).await, (0, Vec::new()));
        });
    }
}
