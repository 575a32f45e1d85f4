//! Switching a subscription: by the watcher that runs, or in the file of one that does not.

use std::path::Path;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::app::now_ms;
use crate::control::{self, AskError, ask};
use crate::domain::control::{Answer, Request};
use crate::domain::ids::SubscriptionId;
use crate::store::lock::{Holder, try_lock};
use crate::store::{open, subscriptions};

/// How long a lock whose holder has no socket is waited for: a watcher that starts or stops has the one and not the other for a
/// moment, and so has a command line that changes the file.
const SETTLES_WITHIN: Duration = Duration::from_secs(3);
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// What is wanted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Switch {
    pub(super) id: SubscriptionId,
    pub(super) enabled: bool,
}

/// How it came about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Switched {
    /// Nothing had to be changed.
    AlreadySo,
    /// The watcher did it, and acts on it now.
    ByWatcher,
    /// It stands in the state file.
    InTheFile,
}

/// Whoever has the lock decides the way.
///
/// # Errors
/// A sentence; where it does not say otherwise, nothing was changed.
pub(super) async fn switch(dir: &Path, wanted: Switch) -> Result<Switched, String> {
    let end = Instant::now() + SETTLES_WITHIN;
    loop {
        let holder = match try_lock(dir) {
            Err(error) => {
                return Err(format!("cannot lock the state directory {}: {error}; nothing was changed", dir.display()));
            }
            Ok(Ok(lock)) => {
                let done = in_the_file(dir, wanted).await;
                drop(lock);
                return done;
            }
            Ok(Err(holder)) => holder,
        };
        let Switch { id, enabled } = wanted;
        match ask(&dir.join(control::FILE_NAME), &Request::SetEnabled { id, enabled }).await {
            Ok(answer) => return understood(answer),
            Err(AskError::NotThere { .. }) if Instant::now() < end => sleep(LOOK_AGAIN).await,
            Err(error @ AskError::NotThere { .. }) => return Err(not_there(&holder, &error)),
            Err(error @ AskError::NoAnswer { .. }) => {
                return Err(format!("{error}; look with `rmq-watcher subscriptions list` whether it was done"));
            }
        }
    }
}

fn understood(answer: Answer) -> Result<Switched, String> {
    match answer {
        Answer::Done => Ok(Switched::ByWatcher),
        Answer::Refused { sentence } | Answer::Unknown { sentence } => Err(sentence),
        Answer::Pong { .. } => Err("the watcher answered something else; nothing is known to have changed".to_owned()),
    }
}

fn not_there(holder: &Holder, error: &AskError) -> String {
    let pid = holder.pid.map_or_else(|| "a process".to_owned(), |pid| format!("PID {pid}"));
    format!(
        "{error}; {pid} ({}) holds the state directory, so nothing was changed: look into its log, or stop it and try again",
        holder.state
    )
}

async fn in_the_file(dir: &Path, Switch { id, enabled }: Switch) -> Result<Switched, String> {
    let (store, _) = open::open_inline(dir, now_ms()).map_err(|error| error.to_string())?;
    match store.set_enabled(id, enabled, now_ms()).await {
        Ok(subscriptions::Switched::Done) => Ok(Switched::InTheFile),
        Ok(subscriptions::Switched::AlreadySo) => Ok(Switched::AlreadySo),
        Ok(subscriptions::Switched::Unknown) => {
            Err(format!("subscription {id} was deleted meanwhile; nothing was changed"))
        }
        Err(error) => Err(error.to_string()),
    }
}
