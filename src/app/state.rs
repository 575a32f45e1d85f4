//! Taking the state directory: its lock first, then the file in it.
//!
//! What a person has to mend ends the start. What passes by itself (another watcher, a full disk) is waited for: the process
//! stays up, attaches nothing, and says so each minute.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use super::{AppError, now_ms};
use crate::domain::shutdown::Phase;
use crate::store::lock::{Holder, StateLock, try_lock};
use crate::store::{Closed, Store, StoreError, open};
use crate::telemetry::events;

/// How often it is tried again, and after how many tries it is said again.
const TRY_EVERY: Duration = Duration::from_secs(1);
const SAID_EVERY: u32 = 60;

/// What holds the directory, its handle, and what resolves when the file is closed.
pub(super) type State = (StateLock, Store, Closed);

enum Attempt {
    Taken(State),
    Locked(Holder),
    NotNow(String),
}

/// Takes the directory. `started` is called after the first try: from then on waiting is what the process does.
/// `None`: the stop came first.
pub(super) async fn take(
    dir: &Path,
    started: impl FnOnce(),
    phase: &mut watch::Receiver<Phase>,
) -> Result<Option<State>, AppError> {
    let mut attempt = try_to_take(dir).await?;
    started();
    for tries in 0.. {
        match attempt {
            Attempt::Taken(state) => {
                if tries > 0 {
                    tracing::info!(
                        event = events::STATE_TAKEN,
                        "RMQ Watcher: the state directory is free, taking over"
                    );
                }
                return Ok(Some(state));
            }
            waiting @ (Attempt::Locked(_) | Attempt::NotNow(_)) if tries % SAID_EVERY == 0 => say(dir, &waiting),
            Attempt::Locked(_) | Attempt::NotNow(_) => {}
        }
        tokio::select! {
            biased;
            _ = phase.wait_for(|phase| *phase == Phase::Stopping) => break,
            () = sleep(TRY_EVERY) => {}
        }
        attempt = try_to_take(dir).await?;
    }
    Ok(None)
}

fn say(dir: &Path, attempt: &Attempt) {
    let dir = dir.display();
    match attempt {
        Attempt::Taken(_) => {}
        Attempt::Locked(holder) => {
            let pid = holder.pid.map_or_else(|| "unknown".to_owned(), |pid| pid.to_string());
            tracing::warn!(
                event = events::STATE_LOCKED,
                "RMQ Watcher: another watcher holds the state directory {dir} (PID {pid}, {}); nothing is consumed here until it \
                 leaves; give each watcher a state.dir of its own",
                holder.state
            );
        }
        Attempt::NotNow(reason) => {
            tracing::error!(event = events::STATE_UNUSABLE, "RMQ Watcher: nothing is consumed: {reason}; trying again");
        }
    }
}

async fn try_to_take(dir: &Path) -> Result<Attempt, AppError> {
    let owned = dir.to_owned();
    let lock = match on_a_thread(move || open::make_dir(&owned).and_then(|()| try_lock(&owned))).await {
        Ok(Ok(lock)) => lock,
        Ok(Err(holder)) => return Ok(Attempt::Locked(holder)),
        Err(error) if open::passes_by_itself(&error) => {
            return Ok(Attempt::NotNow(format!("the state directory {} cannot be used now: {error}", dir.display())));
        }
        Err(source) => return Err(AppError::Lock { dir: dir.to_owned(), source }),
    };
    open_with(lock, dir.to_owned()).await
}

async fn open_with(lock: StateLock, dir: PathBuf) -> Result<Attempt, AppError> {
    let owned = dir.clone();
    let (store, closed, opened) = match on_a_thread(move || open::open(&owned, now_ms())).await {
        Ok(opened) => opened,
        Err(error @ StoreError::NotNow { .. }) => return Ok(Attempt::NotNow(error.to_string())),
        Err(error) => return Err(error.into()),
    };
    if opened.on_container_layer {
        tracing::warn!(
            event = events::STATE_EPHEMERAL,
            "RMQ Watcher: the state directory {} is on the container's own layer and goes with the container; mount a volume \
             there, or messages without an id that are under way at that moment may start a second run",
            dir.display()
        );
    }
    Ok(Attempt::Taken((lock, store, closed)))
}

async fn on_a_thread<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}
