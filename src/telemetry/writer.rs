//! The thread that writes the log, and the handle through which everybody else reaches it.
//!
//! Everybody else only ever appends to a bounded queue under a short lock that the writer never holds across a write. The
//! writer does one blocking `write(2)` per line; while it hangs there, lines collect and then are counted as lost. A sink that
//! fails (closed pipe, full disk) costs the line, never the thread: the next line tries again, and the first one that gets
//! through is preceded by the count. An idle writer waits on a condition and wakes nobody.

use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::queue::LineQueue;
use super::{events, layer, line};
use crate::config::log::{LogFormat, LogLevel};

/// Hands lines to the writer thread. Cheap to clone; never blocks and never fails.
#[derive(Clone, Debug)]
pub struct LogHandle {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    queue: Mutex<Waiting>,
    /// Something was pushed.
    filled: Condvar,
    /// Everything pushed so far was written or lost.
    emptied: Condvar,
    /// Lines of the writer itself are JSON.
    json: AtomicBool,
}

#[derive(Debug, Default)]
struct Waiting {
    lines: LineQueue,
    /// The writer is between taking a line and having written it.
    busy: bool,
}

impl LogHandle {
    /// Starts the thread `log-writer`, which writes to standard output from now on.
    ///
    /// # Errors
    /// The kernel refused a thread.
    pub fn start() -> io::Result<Self> {
        let handle = Self { shared: Arc::default() };
        let shared = Arc::clone(&handle.shared);
        std::thread::Builder::new()
            .name("log-writer".to_owned())
            .spawn(move || shared.write_all_lines(&mut Sink::new(write_to_stdout)))?;
        Ok(handle)
    }

    /// Queues one finished line, newline included.
    pub fn push(&self, line: String) {
        self.shared.lock().lines.push(line.into_bytes());
        self.shared.filled.notify_one();
    }

    /// Waits until everything queued so far is written or lost. `false`: not within `bound`.
    pub fn flush(&self, bound: Duration) -> bool {
        let deadline = Instant::now() + bound;
        let mut waiting = self.shared.lock();
        while waiting.busy || !waiting.lines.is_empty() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            (waiting, _) = self.shared.emptied.wait_timeout(waiting, left).unwrap_or_else(PoisonError::into_inner);
        }
        true
    }

    /// A handle whose lines stay in its queue, for tests of what is queued.
    #[cfg(test)]
    pub(super) fn without_thread() -> Self {
        Self { shared: Arc::new(Shared::default()) }
    }

    /// Everything queued, as text.
    #[cfg(test)]
    pub(super) fn take_lines(&self) -> String {
        let mut waiting = self.shared.lock();
        std::iter::from_fn(|| waiting.lines.pop()).map(|line| String::from_utf8_lossy(&line).into_owned()).collect()
    }

    pub(super) fn set_format(&self, format: LogFormat) {
        self.shared.json.store(format == LogFormat::Json, Ordering::Relaxed);
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        // A panic under this lock cannot leave the queue half changed.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write_all_lines<W: FnMut(&[u8]) -> io::Result<usize>>(&self, sink: &mut Sink<W>) -> ! {
        loop {
            self.write_next(sink);
        }
    }

    /// Waits for a line and writes it, after the count of lost ones where there is one to say.
    fn write_next<W: FnMut(&[u8]) -> io::Result<usize>>(&self, sink: &mut Sink<W>) {
        let mut waiting = self.lock();
        let (line, lost) = loop {
            if let Some(line) = waiting.lines.pop() {
                break (line, waiting.lines.lost());
            }
            waiting.busy = false;
            self.emptied.notify_all();
            waiting = self.filled.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        };
        waiting.busy = true;
        drop(waiting);

        let said = lost > 0 && sink.write_line(&self.loss_line(lost)).is_ok();
        let written = (lost == 0 || said) && sink.write_line(&line).is_ok();

        let mut waiting = self.lock();
        if said {
            waiting.lines.loss_was_said(lost);
        }
        if !written {
            waiting.lines.count_lost();
        }
    }

    fn loss_line(&self, lost: u64) -> Vec<u8> {
        let message = format!("RMQ Watcher log: {lost} lines were lost because standard output did not take them");
        let fields = [("event".to_owned(), events::LOG_DROPPED.into()), ("lines".to_owned(), lost.into())];
        let format = if self.json.load(Ordering::Relaxed) { LogFormat::Json } else { LogFormat::Text };
        layer::render(format, line::now(), LogLevel::Warn, line::WATCHER, &message, &fields).into_bytes()
    }
}

/// Where lines go, one `write` each where the sink takes it whole.
struct Sink<W> {
    write: W,
    /// The last line broke off in its middle, so the next one has to begin on a fresh line.
    torn: bool,
}

impl<W: FnMut(&[u8]) -> io::Result<usize>> Sink<W> {
    fn new(write: W) -> Self {
        Self { write, torn: false }
    }

    fn write_line(&mut self, line: &[u8]) -> io::Result<()> {
        if self.torn {
            self.write_bytes(b"\n")?;
            self.torn = false;
        }
        self.write_bytes(line)
    }

    fn write_bytes(&mut self, mut rest: &[u8]) -> io::Result<()> {
        let whole = rest.len();
        while !rest.is_empty() {
            match (self.write)(rest) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => rest = rest.get(count..).unwrap_or_default(),
                Err(error) => {
                    self.torn |= rest.len() < whole;
                    return Err(error);
                }
            }
        }
        Ok(())
    }
}

/// One `write(2)` on standard output. Waits where a sibling has set `O_NONBLOCK` on the description we share with it.
fn write_to_stdout(bytes: &[u8]) -> io::Result<usize> {
    let stdout = io::stdout();
    loop {
        match nix::unistd::write(stdout.as_fd(), bytes) {
            Ok(count) => return Ok(count),
            Err(Errno::EINTR) => {}
            Err(Errno::EAGAIN) => {
                let mut ready = [PollFd::new(stdout.as_fd(), PollFlags::POLLOUT)];
                // Errors and hang-ups are ready too; the next write names them.
                let _ = poll(&mut ready, PollTimeout::NONE);
            }
            Err(errno) => return Err(errno.into()),
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]
mod tests {
    use super::*;
    use std::cell::RefCell;

    /// Runs `lines` through a sink that answers each write by `answer(number of the write, bytes)`.
    fn written(lines: &[&str], mut answer: impl FnMut(usize, &[u8]) -> io::Result<usize>) -> (String, u64) {
        let shared = Shared::default();
        let out = RefCell::new(Vec::new());
        let mut calls = 0;
        let mut sink = Sink::new(|bytes: &[u8]| {
            calls += 1;
            let count = answer(calls, bytes)?;
            out.borrow_mut().extend_from_slice(&bytes[..count]);
            Ok(count)
        });
        for line in lines {
            shared.lock().lines.push(line.as_bytes().to_vec());
            shared.write_next(&mut sink);
        }
        let lost = shared.lock().lines.lost();
        (String::from_utf8(out.into_inner()).unwrap(), lost)
    }

    #[test]
    fn sink_that_fails_and_recovers_says_how_many_lines_were_lost() {
        let (out, lost) = written(&["a\n", "b\n", "c\n"], |call, bytes| match call {
            1 | 2 => Err(io::ErrorKind::BrokenPipe.into()),
            _ => Ok(bytes.len()),
        });
        assert_eq!(lost, 0);
        let lines: Vec<&str> = out.lines().collect();
        assert!(lines[0].contains("2 lines were lost"), "{out}");
        assert!(lines[0].contains("event=log.dropped"), "{out}");
        assert_eq!(lines[1..], ["c"]);
    }

    #[test]
    fn sink_that_stays_broken_keeps_counting() {
        let (out, lost) = written(&["a\n", "b\n", "c\n"], |_, _| Err(io::ErrorKind::StorageFull.into()));
        assert_eq!((out.as_str(), lost), ("", 3));
    }

    #[test]
    fn line_taken_in_parts_is_written_whole() {
        let (out, lost) = written(&["hello\n"], |_, bytes| Ok(bytes.len().min(2)));
        assert_eq!((out.as_str(), lost), ("hello\n", 0));
    }

    #[test]
    fn line_that_broke_off_is_followed_by_a_fresh_line() {
        let (out, lost) = written(&["hello\n", "world\n"], |call, bytes| match call {
            1 => Ok(3),
            2 => Err(io::ErrorKind::StorageFull.into()),
            _ => Ok(bytes.len()),
        });
        assert_eq!(lost, 0);
        assert!(out.starts_with("hel\n["), "{out}");
        assert!(out.ends_with("]\nworld\n") || out.ends_with("\nworld\n"), "{out}");
    }

    #[test]
    fn flush_of_an_empty_queue_returns_at_once_and_of_a_stuck_one_says_no() {
        let handle = LogHandle::without_thread();
        assert!(handle.flush(Duration::ZERO));
        handle.push("line\n".to_owned());
        assert!(!handle.flush(Duration::from_millis(20)));
    }
}
