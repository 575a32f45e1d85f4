//! Which signal does what, and the one place where stop signals become values.
//!
//! Handlers are signal-hook's and only write a byte to a socket; a stop signal never runs code of ours in a handler. The mask
//! that was inherited is replaced, not added to: whatever the caller had blocked, a SIGTERM stops the watcher.

#![expect(unsafe_code, reason = "signal dispositions and masks")]

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use nix::sys::signal::{SigHandler, SigSet, SigmaskHow, Signal, pthread_sigmask, signal};
use signal_hook::iterator::backend::SignalDelivery;
use signal_hook::iterator::exfiltrator::WithOrigin;

use super::deadline;

/// What the watcher does with a signal.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Disposition {
    /// Stops the watcher.
    Stop,
    /// Leaves it running.
    Ignore,
    /// The kernel's default.
    Default,
}

/// Every signal the watcher has an opinion on, and why. SIGALRM is the deadline's: [`deadline::make_sigalrm_fatal`].
const TABLE: [(Signal, Disposition, &str); 7] = [
    (Signal::SIGTERM, Disposition::Stop, "inits, service managers and the parent-death signal"),
    (Signal::SIGINT, Disposition::Stop, "Ctrl-C in the terminal of the scheduler's group"),
    (Signal::SIGHUP, Disposition::Ignore, "dumb-init hands it to the group; meant for the scheduler"),
    (Signal::SIGQUIT, Disposition::Ignore, "asks the scheduler for its thread stacks"),
    (Signal::SIGUSR1, Disposition::Ignore, "gunicorn's and others' in the group"),
    (Signal::SIGUSR2, Disposition::Ignore, "asks the scheduler for its executor dump"),
    (Signal::SIGCHLD, Disposition::Default, "an inherited ignore would hide the exit status of scripts"),
];

/// Sets every disposition, leaves exactly the stop signals blocked until [`Stops::listen`].
///
/// # Errors
/// The kernel refused one, which it has no reason to.
pub(super) fn take_over() -> io::Result<()> {
    let mut blocked = SigSet::empty();
    for (name, disposition, _) in TABLE {
        if disposition == Disposition::Stop {
            blocked.add(name);
        }
    }
    // SIGALRM first while whatever mask we inherited may still block it, then the mask that unblocks it.
    deadline::make_sigalrm_fatal();
    pthread_sigmask(SigmaskHow::SIG_SETMASK, Some(&blocked), None)?;
    for (name, disposition, _) in TABLE {
        let action = match disposition {
            Disposition::Stop => continue,
            Disposition::Ignore => SigHandler::SigIgn,
            Disposition::Default => SigHandler::SigDfl,
        };
        // SAFETY: no handler function is installed, only the kernel's own actions.
        unsafe { signal(name, action) }?;
    }
    Ok(())
}

/// A stop signal that came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StopSignal {
    /// `SIGTERM` or `SIGINT`.
    pub(super) name: &'static str,
    /// Who sent it: 0 from outside our PID namespace, `None` where the kernel does not say (a terminal).
    pub(super) sender: Option<i32>,
}

/// Receives stop signals.
pub(super) struct Stops {
    delivery: SignalDelivery<UnixStream, WithOrigin>,
}

impl Stops {
    /// Installs the handlers, then lets signals through: one that came since the start of the process arrives now.
    ///
    /// # Errors
    /// No descriptors left for the socket pair.
    pub(super) fn listen() -> io::Result<Self> {
        let (read, write) = UnixStream::pair()?;
        let signals =
            TABLE.iter().filter(|(_, disposition, _)| *disposition == Disposition::Stop).map(|(name, ..)| *name as i32);
        let delivery = SignalDelivery::with_pipe(read, write, WithOrigin::default(), signals)?;
        pthread_sigmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::empty()), None)?;
        Ok(Self { delivery })
    }

    /// Readable when a signal came.
    pub(super) fn readiness(&self) -> BorrowedFd<'_> {
        self.delivery.get_read().as_fd()
    }

    /// One of the signals that came, forgetting the others: one stop is all that can be asked for.
    pub(super) fn take(&mut self) -> Option<StopSignal> {
        let came = self.delivery.pending().collect::<Vec<_>>();
        let origin = came.last()?;
        Some(StopSignal {
            name: Signal::try_from(origin.signal).map_or("a signal", Signal::as_str),
            sender: origin.process.as_ref().map(|process| process.pid),
        })
    }
}
