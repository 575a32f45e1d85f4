//! The scheduler we belong to: adopting it, and noticing that it is gone.
//!
//! Three ways notice its death, because each fails silently in some real setting: the parent-death signal (refused by
//! seccomp, cleared by a change of credentials, never sent by a parent that has dropped its uid), a pidfd (kernels before 5.3,
//! gVisor) and a `getppid` on every pass of the wait (always works, up to one second late). ADR-0004.
//!
//! Invariant: the signal is armed *before* `getppid` is compared with the PID handed over; the other way round a parent that
//! dies between the two would never be noticed.

#![expect(unsafe_code, reason = "prctl, pidfd_open and the environment of a process with one thread")]

use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};

use nix::errno::Errno;

use super::{exit, faults, launch::marker::LAUNCHED, notify, raw};
use crate::config::log::LogLevel;
use crate::telemetry::{events, line};

/// The variable that hands the scheduler's PID over.
pub const PARENT_PID: &str = "RMQ_WATCHER_PARENT_PID";

/// Where the scheduler's PID comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ParentSource {
    /// From `RMQ_WATCHER_PARENT_PID`, as the launcher hands it over.
    Environment,
    /// From `--parent-pid`, as given.
    Argument(String),
    /// There is no scheduler (`--standalone`): a service manager looks after us.
    Standalone,
}

/// Why the watcher does not start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// The variable or flag of this name holds no PID.
    NoPid(&'static str),
    /// Our parent is outside our PID namespace, so it cannot be the process that was named.
    Outside(i32),
    /// The scheduler is not our parent any more.
    Gone(i32),
}

impl Refusal {
    pub(super) fn exit_code(&self) -> i32 {
        match self {
            Self::NoPid(_) | Self::Outside(_) => exit::REFUSED,
            Self::Gone(_) => exit::STOPPED,
        }
    }

    pub(super) fn event(&self) -> &'static str {
        match self {
            Self::NoPid(_) | Self::Outside(_) => events::START_REFUSED,
            Self::Gone(_) => events::START_ABANDONED,
        }
    }

    pub(super) fn sentence(&self, own: u32) -> String {
        match self {
            Self::NoPid(source) => format!(
                "RMQ Watcher process {own}: {source} does not hold the scheduler's PID — not starting the watcher"
            ),
            Self::Outside(pid) => format!(
                "RMQ Watcher process {own}: {PARENT_PID} does not hold the scheduler's PID — not starting the watcher \
                 ({pid} was given, and the parent is outside this PID namespace)"
            ),
            Self::Gone(pid) => {
                format!("RMQ Watcher process {own}: the scheduler process {pid} exited before the watcher started")
            }
        }
    }
}

/// The scheduler, or nobody.
pub(super) struct Parent {
    pid: Option<i32>,
    pidfd: Option<OwnedFd>,
}

impl Parent {
    /// Takes the scheduler as ours. Must run in the main thread, before any other thread exists.
    ///
    /// # Errors
    /// The watcher must not start; the refusal holds line and exit code.
    pub(super) fn adopt(source: &ParentSource) -> Result<Self, Refusal> {
        let handed_over = std::env::var(PARENT_PID).ok();
        forget_handed_over();
        let pid = match source {
            ParentSource::Standalone => {
                return Ok(Self { pid: None, pidfd: None });
            }
            ParentSource::Environment => {
                parse_pid(handed_over.as_deref().unwrap_or_default()).ok_or(Refusal::NoPid(PARENT_PID))?
            }
            ParentSource::Argument(text) => parse_pid(text).ok_or(Refusal::NoPid("--parent-pid"))?,
        };
        ask_for_death_signal();
        let pidfd = open_pidfd(pid);
        match getppid() {
            0 => Err(Refusal::Outside(pid)),
            // Equal now means that the pidfd, opened before, is our parent's and not that of a successor of its number.
            now if now == pid => Ok(Self { pid: Some(pid), pidfd }),
            _ => Err(Refusal::Gone(pid)),
        }
    }

    /// The scheduler's PID, where there is a scheduler.
    pub(super) fn pid(&self) -> Option<i32> {
        self.pid
    }

    /// Readable when the scheduler has exited, where the kernel offers that.
    pub(super) fn exit_readiness(&self) -> Option<BorrowedFd<'_>> {
        self.pidfd.as_ref().map(AsFd::as_fd)
    }

    /// Who our parent is now, if it is not the scheduler any more.
    pub(super) fn successor(&self) -> Option<i32> {
        let now = getppid();
        self.pid.filter(|pid| *pid != now).map(|_| now)
    }
}

/// A PID in digits, 1 to 2147483647.
fn parse_pid(text: &str) -> Option<i32> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|pid| digits && *pid > 0)
}

/// Our parent's PID as the kernel says it.
pub(super) fn getppid() -> i32 {
    nix::unistd::getppid().as_raw()
}

/// Programs that we start must not take these for their own.
fn forget_handed_over() {
    for name in [PARENT_PID, LAUNCHED, notify::SOCKET] {
        // SAFETY: no other thread exists yet, so nobody reads the environment meanwhile.
        unsafe { std::env::remove_var(name) };
    }
}

/// Has the kernel send SIGTERM when the scheduler's main thread exits. A refusal is said and survived.
fn ask_for_death_signal() {
    let mut present: libc::c_int = 0;
    // SAFETY: prctl on values of this process; `present` outlives the call.
    let answer = unsafe {
        libc::prctl(libc::PR_GET_PDEATHSIG, &raw mut present);
        // Whoever set SIGKILL (a guard that restarts us) wants more than a request.
        if present == libc::SIGKILL {
            return;
        }
        if faults::is_switched_on("RMQ_WATCHER_TEST_NO_PDEATHSIG") {
            libc::prctl(libc::PR_SET_PDEATHSIG, 0);
            Err(Errno::EPERM)
        } else {
            Errno::result(libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM))
        }
    };
    if let Err(errno) = answer {
        let own = std::process::id();
        let sentence = format!("RMQ Watcher process {own}: prctl(PR_SET_PDEATHSIG) failed: {errno}");
        raw::stderr_line_if_ready(line::WATCHER, LogLevel::Error, events::PDEATHSIG_REFUSED, &sentence);
    }
}

fn open_pidfd(pid: i32) -> Option<OwnedFd> {
    if faults::is_switched_on("RMQ_WATCHER_TEST_NO_PIDFD") {
        return None;
    }
    // SAFETY: the call returns a new descriptor, close-on-exec by itself, or -1.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    let fd = i32::try_from(fd).ok().filter(|fd| *fd >= 0)?;
    // SAFETY: a descriptor that nobody else owns.
    Some(unsafe { OwnedFd::from_raw_fd(fd) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pid_is_digits_above_zero_and_within_an_int() {
        assert_eq!(parse_pid("1"), Some(1));
        assert_eq!(parse_pid("2147483647"), Some(i32::MAX));
        for wrong in ["", "0", "-1", "+1", "abc", "1 ", " 1", "1.0", "2147483648", "99999999999999999999"] {
            assert_eq!(parse_pid(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn refusals_are_said_in_the_contract_s_words() {
        assert_eq!(
            Refusal::NoPid(PARENT_PID).sentence(7),
            "RMQ Watcher process 7: RMQ_WATCHER_PARENT_PID does not hold the scheduler's PID — not starting the watcher"
        );
        assert_eq!(
            Refusal::Gone(3).sentence(7),
            "RMQ Watcher process 7: the scheduler process 3 exited before the watcher started"
        );
    }
}
