//! One watcher a state directory: a lock held for life.
//!
//! The lock is the kernel's (`flock`), so it goes with its process however that ends; the text in the file only names the
//! holder for people.

use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::path::Path;
use std::time::SystemTime;

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};

use crate::domain::view::Process;

/// The lock file's name within the state directory.
pub const FILE_NAME: &str = "lock";

/// The lock; held until it is dropped.
pub struct StateLock {
    _file: Flock<File>,
}

/// Who holds the lock, as far as can be told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The process that wrote its number into the file.
    pub pid: Option<i32>,
    /// Its state in `/proc`.
    pub state: Process,
}

/// Takes the lock, or says who has it.
///
/// # Errors
/// The file cannot be made or locked at all.
pub fn try_lock(dir: &Path) -> std::io::Result<Result<StateLock, Holder>> {
    let path = dir.join(FILE_NAME);
    let file = OpenOptions::new().create(true).truncate(false).read(true).write(true).open(&path)?;
    match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
        Ok(mut locked) => {
            // The text only names us to people: a disk that is full must not keep us from starting.
            let named = locked.set_len(0).and_then(|()| writeln!(locked, "{}", std::process::id()));
            drop(named);
            Ok(Ok(StateLock { _file: locked }))
        }
        Err((_, Errno::EWOULDBLOCK)) => Ok(Err(holder(&path))),
        Err((_, errno)) => Err(errno.into()),
    }
}

/// What a look at the lock found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Looked {
    /// Nobody holds it.
    Free,
    /// A process holds it.
    Held {
        /// Who.
        holder: Holder,
        /// When the holder wrote its number into the file.
        since: Option<SystemTime>,
    },
}

/// Looks who holds the lock, and makes and changes nothing.
///
/// # Errors
/// The file is there and cannot be opened.
pub fn look(dir: &Path) -> std::io::Result<Looked> {
    let path = dir.join(FILE_NAME);
    let file = match File::open(&path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Looked::Free),
        other => other?,
    };
    let since = file.metadata().and_then(|file| file.modified()).ok();
    // Shared, and let go at once: those who look do not see each other. A watcher that tries in this very moment tries again a
    // second later.
    match Flock::lock(file, FlockArg::LockSharedNonblock) {
        Ok(_) => Ok(Looked::Free),
        Err((_, Errno::EWOULDBLOCK)) => Ok(Looked::Held { holder: holder(&path), since }),
        Err((_, errno)) => Err(errno.into()),
    }
}

fn holder(path: &Path) -> Holder {
    let pid = fs::read_to_string(path).ok().and_then(|text| text.trim().parse::<i32>().ok());
    let letter = pid.and_then(|pid| fs::read_to_string(format!("/proc/{pid}/stat")).ok()).and_then(|stat| {
        // The name in parentheses may hold anything, so the state is what follows the last one.
        stat.rsplit_once(')').and_then(|(_, rest)| rest.trim_start().chars().next())
    });
    let state = match letter {
        Some('R' | 'S' | 'I') => Process::Running,
        Some('D') => Process::Waiting,
        Some('T' | 't') => Process::Stopped,
        Some('Z') => Process::Zombie,
        Some(_) | None => Process::NotVisible,
    };
    Holder { pid, state }
}
