//! Notices that something changed below the folders, so that a scan need not wait for its time. Serves the control flow: wake.
//!
//! inotify on every directory that the last scan listed, and on those that hold the links on the way to a folder. It only wakes: what changed is found by the scan. Where the system
//! does not give it (limits, file systems that tell nothing), scans come by the clock alone.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::StreamExt as _;
use inotify::{EventMask, EventOwned, EventStream, Inotify, WatchDescriptor, WatchMask, Watches};

use super::ignore_rules::FILE_NAME;
use super::walk::{is_looked_at, kind_of};

/// What changes the names or the texts below a directory. A file counts once it is closed, not at every write.
const EVENTS: WatchMask = WatchMask::CLOSE_WRITE
    .union(WatchMask::CREATE)
    .union(WatchMask::DELETE)
    .union(WatchMask::MOVE)
    .union(WatchMask::ATTRIB)
    .union(WatchMask::DELETE_SELF)
    .union(WatchMask::MOVE_SELF)
    .union(WatchMask::ONLYDIR);

/// What is read from the system at once, in bytes: some hundred events.
const BUFFER_BYTES: usize = 16 * 1024;

/// Why changes are not noticed at once, everywhere or below some directory.
#[derive(Debug, thiserror::Error)]
pub enum WatchTrouble {
    /// There is no inotify.
    #[error("changes of DAG files are noticed by the clock only: the system gives no inotify ({0})")]
    Unavailable(io::Error),
    /// The system's limit on watches is reached.
    #[error(
        "changes of DAG files below {} and maybe others are noticed by the clock only: the limit on watched directories is \
         reached; raise fs.inotify.max_user_watches",
        directory.display()
    )]
    Limit {
        /// The first directory that is not watched.
        directory: PathBuf,
    },
    /// A directory cannot be watched.
    #[error("changes of DAG files below {} and maybe others are noticed by the clock only: {source}", directory.display())]
    Directory {
        /// The first directory that is not watched.
        directory: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

impl WatchTrouble {
    fn of(directory: &Path, source: io::Error) -> Self {
        let directory = directory.to_owned();
        match source.raw_os_error() {
            Some(libc::ENOSPC) => Self::Limit { directory },
            Some(_) | None => Self::Directory { directory, source },
        }
    }
}

/// What is to be watched.
#[derive(Clone, Debug, Default)]
pub struct Places {
    /// Directories, for whatever in them a scan could see.
    pub directories: Vec<PathBuf>,
    /// Links on the way to a folder, for themselves alone.
    pub links: Vec<PathBuf>,
}

/// Tells of changes.
pub struct Watch {
    events: EventStream<Vec<u8>>,
    armed: Arc<Mutex<Armed>>,
}

/// Chooses what is watched. Blocks as a scan does, since it opens each directory: for the thread of the scan.
pub struct Arms {
    watches: Watches,
    armed: Arc<Mutex<Armed>>,
}

/// What is watched. Never locked while the file system is asked.
#[derive(Clone, Default)]
struct Armed {
    watched: HashSet<WatchDescriptor>,
    /// The links, by the watch of their directory, which may be one of those above.
    links: HashSet<(WatchDescriptor, OsString)>,
    /// Whether something may have changed before it was watched.
    is_late: bool,
}

impl Armed {
    fn descriptors(&self) -> impl Iterator<Item = &WatchDescriptor> {
        self.watched.iter().chain(self.links.iter().map(|(descriptor, _)| descriptor))
    }
}

fn lock(armed: &Mutex<Armed>) -> MutexGuard<'_, Armed> {
    armed.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Arms {
    /// Watches these places and no others; those that are watched already stay so without a gap. One that is gone is left
    /// out: its parent tells.
    ///
    /// # Errors
    /// The first that cannot be watched; as many others as possible are.
    pub fn rearm(&mut self, places: &Places) -> Result<(), WatchTrouble> {
        let mut trouble = None;
        let watched: HashSet<_> =
            places.directories.iter().filter_map(|directory| self.add(directory, &mut trouble)).collect();
        let link = |link: &PathBuf| {
            let (directory, name) = (link.parent()?, link.file_name()?);
            Some((self.add(directory, &mut trouble)?, name.to_owned()))
        };
        let links: HashSet<_> = places.links.iter().filter_map(link).collect();
        let now = Armed { watched, links, is_late: false };
        let before = {
            let mut armed = lock(&self.armed);
            let is_new = !now.watched.is_subset(&armed.watched) || !now.links.is_subset(&armed.links);
            let is_late = armed.is_late || is_new;
            std::mem::replace(&mut *armed, Armed { is_late, ..now.clone() })
        };
        let kept: HashSet<_> = now.descriptors().collect();
        for descriptor in before.descriptors().collect::<HashSet<_>>().difference(&kept) {
            // It fails where the directory is gone, and its watch with it.
            drop(self.watches.remove((*descriptor).clone()));
        }
        trouble.map_or(Ok(()), Err)
    }

    fn add(&mut self, directory: &Path, trouble: &mut Option<WatchTrouble>) -> Option<WatchDescriptor> {
        // Asked for again each time: a new directory under an old name is another one, and an old one stays as it is.
        match self.watches.add(directory, EVENTS) {
            Ok(descriptor) => Some(descriptor),
            Err(error) if is_gone(&error) => None,
            Err(error) => {
                trouble.get_or_insert_with(|| WatchTrouble::of(directory, error));
                None
            }
        }
    }
}

impl Watch {
    /// Watches nothing yet. Must be called within the runtime.
    ///
    /// # Errors
    /// [`WatchTrouble::Unavailable`].
    pub fn new() -> Result<Self, WatchTrouble> {
        let inotify = Inotify::init().map_err(WatchTrouble::Unavailable)?;
        let events = inotify.into_event_stream(vec![0; BUFFER_BYTES]).map_err(WatchTrouble::Unavailable)?;
        Ok(Self { events, armed: Arc::default() })
    }

    /// What chooses the directories, to be taken to the thread of the scan.
    pub fn arms(&self) -> Arms {
        Arms { watches: self.events.watches(), armed: Arc::clone(&self.armed) }
    }

    /// Returns once something changed that a scan could see, and once after a directory was watched that was not before: the
    /// scan that found it may have missed what came in between. Never returns where nothing is watched.
    ///
    /// # Cancel safety
    /// Cancel safe: what was not told stays where it is.
    pub async fn changed(&mut self) {
        if std::mem::take(&mut lock(&self.armed).is_late) {
            return;
        }
        loop {
            match self.events.next().await {
                Some(Ok(event)) if self.matters(&event) => return,
                Some(Ok(_)) => {}
                // Nothing more will be told: what comes by the clock has to do.
                Some(Err(_)) | None => return std::future::pending().await,
            }
        }
    }

    /// Takes what is there already: many files that change together are one change. To be called when a scan begins.
    pub fn settle(&mut self) {
        use futures_util::FutureExt as _;
        lock(&self.armed).is_late = false;
        while let Some(Some(Ok(_))) = self.events.next().now_or_never() {}
    }

    fn matters(&self, event: &EventOwned) -> bool {
        if event.mask.contains(EventMask::Q_OVERFLOW) {
            return true;
        }
        // Every watch that is given up is told as well, also by us.
        if event.mask.contains(EventMask::IGNORED) {
            return false;
        }
        let armed = lock(&self.armed);
        if event.name.as_ref().is_some_and(|name| armed.links.contains(&(event.wd.clone(), name.clone()))) {
            return true;
        }
        if !armed.watched.contains(&event.wd) {
            return false;
        }
        event.name.as_deref().is_none_or(|name| is_of_interest(name, event.mask.contains(EventMask::ISDIR)))
    }
}

fn is_gone(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// Whether a name could change what a scan finds. One without an extension may be a link to a directory, and one that begins
/// with two dots is how a volume of Kubernetes is switched.
fn is_of_interest(name: &OsStr, is_directory: bool) -> bool {
    if name == FILE_NAME || name == "..data" {
        return true;
    }
    let path = Path::new(name);
    is_looked_at(name) && (is_directory || path.extension().is_none() || kind_of(name).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_a_scan_does_not_look_at_are_of_no_interest() {
        for name in ["a.py", "a.zip", "rmq_triggers.yaml", ".airflowignore", "..data", "current"] {
            assert!(is_of_interest(OsStr::new(name), false), "{name}");
        }
        for name in [".a.py.swp", "4913.tmp", "a.py~", "__pycache__", ".git", "notes.txt", "a.pyc", ".#a.py"] {
            assert!(!is_of_interest(OsStr::new(name), false), "{name}");
        }
        assert!(is_of_interest(OsStr::new("team.v1"), true));
        assert!(!is_of_interest(OsStr::new("__pycache__"), true) && !is_of_interest(OsStr::new(".git"), true));
    }
}
