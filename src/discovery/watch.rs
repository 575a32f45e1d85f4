//! Notices that something changed below the folders, so that a scan need not wait for its time. Serves the control flow: wake.
//!
//! inotify on every directory that the last scan listed. It only wakes: what changed is found by the scan. Where the system
//! does not give it (limits, file systems that tell nothing), scans come by the clock alone.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify, InotifyEvent, WatchDescriptor};
use tokio::io::unix::AsyncFd;

use super::ignore_rules::FILE_NAME;
use super::walk::is_looked_at;

/// What changes the names or the texts below a directory. A file counts once it is closed, not at every write.
const EVENTS: AddWatchFlags = AddWatchFlags::IN_CLOSE_WRITE
    .union(AddWatchFlags::IN_CREATE)
    .union(AddWatchFlags::IN_DELETE)
    .union(AddWatchFlags::IN_MOVED_FROM)
    .union(AddWatchFlags::IN_MOVED_TO)
    .union(AddWatchFlags::IN_ATTRIB)
    .union(AddWatchFlags::IN_DELETE_SELF)
    .union(AddWatchFlags::IN_MOVE_SELF)
    .union(AddWatchFlags::IN_ONLYDIR);

/// Why changes are not noticed at once, everywhere or below some directory.
#[derive(Debug, thiserror::Error)]
pub enum WatchTrouble {
    /// There is no inotify.
    #[error("changes of DAG files are noticed by the clock only: the system gives no inotify ({0})")]
    Unavailable(io::Error),
    /// The system's limit on watches is reached.
    #[error(
        "changes of DAG files below {} and others are noticed by the clock only: the limit on watched directories is reached; raise fs.inotify.max_user_watches",
        .0.display()
    )]
    Limit(PathBuf),
    /// A directory cannot be watched.
    #[error("changes of DAG files below {} are noticed by the clock only: {1}", .0.display())]
    Directory(PathBuf, io::Error),
}

/// Watches directories.
#[derive(Debug)]
pub struct Watch {
    inotify: AsyncFd<Inotify>,
    watched: HashSet<WatchDescriptor>,
    /// Whether something may have changed before it was watched.
    is_late: bool,
}

impl Watch {
    /// Watches nothing yet. Must be called within the runtime.
    ///
    /// # Errors
    /// [`WatchTrouble::Unavailable`].
    pub fn new() -> Result<Self, WatchTrouble> {
        let unavailable = |errno: Errno| WatchTrouble::Unavailable(errno.into());
        let inotify = Inotify::init(InitFlags::IN_NONBLOCK | InitFlags::IN_CLOEXEC).map_err(unavailable)?;
        let inotify = AsyncFd::new(inotify).map_err(WatchTrouble::Unavailable)?;
        Ok(Self { inotify, watched: HashSet::new(), is_late: false })
    }

    /// Watches these directories and no others; those that are watched already stay so without a gap. One that is gone is left
    /// out: its parent tells.
    ///
    /// # Errors
    /// The first that cannot be watched; as many others as possible are.
    pub fn rearm(&mut self, directories: &[PathBuf]) -> Result<(), WatchTrouble> {
        let mut trouble = None;
        let mut watched = HashSet::with_capacity(directories.len());
        for directory in directories {
            // Asked for again each time: a new directory under an old name is another one, and an old one stays as it is.
            match self.inotify.get_ref().add_watch(directory, EVENTS) {
                Ok(descriptor) => {
                    watched.insert(descriptor);
                }
                Err(Errno::ENOENT | Errno::ENOTDIR) => {}
                Err(errno) => {
                    trouble.get_or_insert_with(|| match errno {
                        Errno::ENOSPC => WatchTrouble::Limit(directory.clone()),
                        errno => WatchTrouble::Directory(directory.clone(), errno.into()),
                    });
                }
            }
        }
        for descriptor in self.watched.difference(&watched) {
            // It fails where the directory is gone, and its watch with it.
            drop(self.inotify.get_ref().rm_watch(*descriptor));
        }
        self.is_late |= !watched.is_subset(&self.watched);
        self.watched = watched;
        trouble.map_or(Ok(()), Err)
    }

    /// Returns once something changed that a scan could see, and once after a directory was watched that was not before: the
    /// scan that found it may have missed what came in between. Never returns where nothing is watched.
    ///
    /// # Cancel safety
    /// Cancel safe: what was not told stays with the system.
    pub async fn changed(&mut self) {
        if std::mem::take(&mut self.is_late) {
            return;
        }
        loop {
            let Ok(mut ready) = self.inotify.readable().await else { return std::future::pending().await };
            match ready.try_io(|inotify| inotify.get_ref().read_events().map_err(io::Error::from)) {
                Ok(Ok(events)) => {
                    if events.iter().any(|event| self.matters(event)) {
                        return;
                    }
                }
                // Events that cannot be read are as good as a change; the next call meets the trouble again.
                Ok(Err(_)) => return,
                Err(_would_block) => {}
            }
        }
    }

    fn matters(&self, event: &InotifyEvent) -> bool {
        if event.mask.contains(AddWatchFlags::IN_Q_OVERFLOW) {
            return true;
        }
        // Told of every watch that is given up, by us as well.
        if event.mask.contains(AddWatchFlags::IN_IGNORED) {
            return false;
        }
        if !self.watched.contains(&event.wd) {
            return false;
        }
        event.name.as_deref().is_none_or(|name| is_of_interest(name, event.mask.contains(AddWatchFlags::IN_ISDIR)))
    }
}

/// Whether a name could change what a scan finds. One without an extension may be a link to a directory, and one that begins
/// with two dots is how a volume of Kubernetes is switched.
fn is_of_interest(name: &OsStr, is_directory: bool) -> bool {
    if name == FILE_NAME || name == "..data" {
        return true;
    }
    let path = Path::new(name);
    is_looked_at(name) && (is_directory || path.extension().is_none() || super::walk::kind_of(name).is_some())
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
