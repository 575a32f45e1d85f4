//! The thread that does all the work: a single-threaded tokio runtime, and how its end is noticed.
//!
//! Invariants: any way in which the thread ends wakes the main thread, because the thread owns one end of a socket pair; it is
//! never joined; its runtime is never waited for. The last needs care: a runtime that is dropped waits for its blocking tasks
//! without a bound, and an unwinding panic drops it, so it lives in a guard that shuts it down in the background
//! (tokio issue 5360; row 26 of `tests/process`).

use std::future::Future;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc;

use tokio::runtime::{Builder, Runtime};
use tokio::task::LocalSet;

/// Address space for the stack, most of it never touched: parsers recurse on this thread.
const STACK_BYTES: usize = 8 * 1024 * 1024;

/// How the loop ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum LoopEnd {
    /// It returned.
    Returned,
    /// It returned an error, in its words.
    Failed(String),
    /// It panicked, with this message.
    Panicked(String),
}

/// The running loop.
pub(super) struct LoopThread {
    ended: UnixStream,
    end: mpsc::Receiver<LoopEnd>,
}

impl LoopThread {
    /// Starts the thread; `work` is called inside it.
    ///
    /// # Errors
    /// The kernel refused a thread or a socket pair.
    pub(super) fn spawn<F, Fut>(work: F) -> io::Result<Self>
    where
        F: FnOnce() -> Fut + Send + 'static,
        Fut: Future<Output = Result<(), String>> + 'static,
    {
        let (ended, held_by_thread) = UnixStream::pair()?;
        let (send, end) = mpsc::channel();
        std::thread::Builder::new().name("loop".to_owned()).stack_size(STACK_BYTES).spawn(move || {
            let how = catch_unwind(AssertUnwindSafe(|| run(work)))
                .unwrap_or_else(|panic| LoopEnd::Panicked(message_of(&*panic)));
            let _ = send.send(how);
            drop(held_by_thread);
        })?;
        Ok(Self { ended, end })
    }

    /// Readable when the thread has ended.
    pub(super) fn readiness(&self) -> BorrowedFd<'_> {
        self.ended.as_fd()
    }

    /// How it ended; asked once, after [`LoopThread::readiness`].
    pub(super) fn take_end(&self) -> LoopEnd {
        self.end.try_recv().unwrap_or_else(|_| LoopEnd::Failed("the loop thread ended without a word".to_owned()))
    }
}

fn run<F, Fut>(work: F) -> LoopEnd
where
    F: FnOnce() -> Fut,
    Fut: Future<Output = Result<(), String>> + 'static,
{
    let runtime = match Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => NeverWaitedFor(Some(runtime)),
        Err(error) => return LoopEnd::Failed(format!("the runtime could not be built: {error}")),
    };
    let Some(inner) = runtime.0.as_ref() else {
        return LoopEnd::Failed("the runtime is gone".to_owned());
    };
    // Dropped before the runtime, on this thread, whichever way this function is left.
    let local = LocalSet::new();
    // A task of its own, because what is waited for here is polled whenever any task wakes.
    match local.block_on(inner, async { tokio::task::spawn_local(work()).await }) {
        Ok(Ok(())) => LoopEnd::Returned,
        Ok(Err(error)) => LoopEnd::Failed(error),
        Err(ended) => match ended.try_into_panic() {
            Ok(panic) => LoopEnd::Panicked(message_of(&*panic)),
            Err(ended) => LoopEnd::Failed(ended.to_string()),
        },
    }
}

/// Holds a runtime whose blocking tasks are left behind when it goes.
struct NeverWaitedFor(Option<Runtime>);

impl Drop for NeverWaitedFor {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

/// What a panic said.
pub(super) fn message_of(panic: &(dyn std::any::Any + Send)) -> String {
    panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a panic without a message".to_owned())
}
