//! How long the way out may take, and the kernel's alarm that ends it.
//!
//! Two clocks to die by: the soft one ([`Deadlines::loop_stop`]) is kept by the main thread, the hard one by the kernel, armed
//! before the first line of the way out. SIGALRM keeps its default action, so the process ends whatever its threads are stuck
//! in. Invariant: the hard deadline counts from the first decision to leave; a second arming changes nothing.

#![expect(unsafe_code, reason = "interval timers and signal actions")]

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::faults;

static ARMED: AtomicBool = AtomicBool::new(false);

/// The bounds of the way out, and the beat of the wait before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadlines {
    /// From the stop to leaving without the loop; 45 s.
    pub loop_stop: Duration,
    /// From the decision to leave to the kernel's SIGALRM; 60 s. More than the other two together.
    pub hard_exit: Duration,
    /// For writing out the log; 2 s.
    pub log_flush: Duration,
    /// Between two comparisons of the parent's PID; 1 s. The only wake-up of an idle watcher.
    pub parent_check: Duration,
}

impl Deadlines {
    /// The contract's bounds, or those of the test-only variables of `docs/operations.md`.
    pub fn from_environment() -> Self {
        let seconds = |name, contract| faults::seconds(name).unwrap_or(Duration::from_secs(contract));
        Self {
            loop_stop: seconds("RMQ_WATCHER_TEST_LOOP_STOP_SECS", 45),
            hard_exit: seconds("RMQ_WATCHER_TEST_HARD_EXIT_SECS", 60),
            log_flush: Duration::from_secs(2),
            parent_check: seconds("RMQ_WATCHER_TEST_PARENT_CHECK_SECS", 1),
        }
    }
}

/// Has the kernel end the process `after` this long, from the first call on. Later calls change nothing.
pub(super) fn arm_hard_exit(after: Duration) {
    if !ARMED.swap(true, Ordering::SeqCst) {
        set_timer(after);
    }
}

/// Makes sure that SIGALRM will end this process, and that no inherited one does so early.
///
/// A pending alarm, a running timer, an ignored and a blocked SIGALRM all survive exec; each would turn the deadline into
/// none or into one too many. SIGALRM is unblocked by whoever sets the mask next.
pub(super) fn make_sigalrm_fatal() {
    set_timer(Duration::ZERO);
    // SAFETY: dispositions of one signal; the handler only calls _exit, which is async-signal-safe.
    unsafe {
        // Ignoring drops one that is pending already.
        libc::signal(libc::SIGALRM, libc::SIG_IGN);
        if libc::getpid() == 1 {
            // The kernel drops signals with a default action that are sent to the init of a PID namespace.
            let handler: extern "C" fn(libc::c_int) = leave_at_once;
            libc::signal(libc::SIGALRM, handler as libc::sighandler_t);
        } else {
            libc::signal(libc::SIGALRM, libc::SIG_DFL);
        }
    }
}

extern "C" fn leave_at_once(signal: libc::c_int) {
    // SAFETY: async-signal-safe; runs no destructors and takes no lock.
    unsafe { libc::_exit(128 + signal) }
}

fn set_timer(after: Duration) {
    let timer = libc::itimerval {
        it_interval: libc::timeval { tv_sec: 0, tv_usec: 0 },
        it_value: libc::timeval {
            tv_sec: after.as_secs().try_into().unwrap_or(i32::MAX.into()),
            tv_usec: after.subsec_micros().into(),
        },
    };
    // SAFETY: a valid timer value; the old one is not asked for.
    unsafe { libc::setitimer(libc::ITIMER_REAL, &raw const timer, std::ptr::null_mut()) };
}
