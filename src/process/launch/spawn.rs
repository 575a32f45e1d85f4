//! The system calls of the launcher: one fork, two execs.
//!
//! Raw `fork` instead of `std::process::Command`: `Command::spawn` waits without a bound for the child's exec, so a watcher on
//! a hung file system would keep the scheduler from starting. Everything that allocates happens before the fork.

#![expect(unsafe_code, reason = "fork, exec and what must happen between them")]

use std::ffi::{CString, c_char, c_int};
use std::ptr;
use std::time::{Duration, Instant};

use nix::errno::Errno;

/// How long the parent waits to hear that the watcher's program runs.
const CONFIRM_WITHIN: Duration = Duration::from_secs(2);

/// What to execute as the watcher.
pub(super) struct Program {
    /// Absolute or relative paths, tried in order; a missing one gives way to the next.
    pub(super) candidates: Vec<CString>,
    pub(super) arguments: Vec<CString>,
    pub(super) environment: Vec<CString>,
}

impl Program {
    /// What to call the program in a line.
    pub(super) fn first_name(&self) -> String {
        self.candidates.first().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
    }
}

/// What became of the watcher's start.
pub(super) enum Birth {
    /// Its program runs under this PID.
    Running(c_int),
    /// The child exists, and whether its program runs is unknown after [`CONFIRM_WITHIN`].
    Unconfirmed(c_int),
    /// There is no child.
    Failed { what: &'static str, errno: Errno },
}

/// Our PID, which the scheduler will have.
pub(super) fn own_pid() -> c_int {
    nix::unistd::getpid().as_raw()
}

/// The environment as the caller gave it, byte for byte, duplicates and entries without `=` included.
pub(super) fn environment() -> Vec<CString> {
    unsafe extern "C" {
        static environ: *const *const c_char;
    }
    let mut entries = Vec::new();
    // SAFETY: `environ` is null or a null-terminated array of C strings, and this process has one thread and changes nothing.
    unsafe {
        let mut at = environ;
        while !at.is_null() && !(*at).is_null() {
            entries.push(std::ffi::CStr::from_ptr(*at).to_owned());
            at = at.add(1);
        }
    }
    entries
}

/// Forks the watcher and waits until its program runs, its exec failed, or 2 s are over.
///
/// SIGTERM and SIGINT are blocked around the fork and stay blocked in the watcher until it listens for them: a stop between
/// exec and its first instruction is then kept, not fatal.
pub(super) fn watcher(program: &Program) -> Birth {
    let arguments = pointers(&program.arguments);
    let environment = pointers(&program.environment);
    let parent = own_pid();
    let caller_mask = block_stop_signals();
    let birth = match error_pipe() {
        Err(errno) => Birth::Failed { what: "the pipe for the start", errno },
        Ok([read, write]) => {
            // SAFETY: this process has one thread; the child calls only functions that are safe after fork.
            match unsafe { libc::fork() } {
                -1 => Birth::Failed { what: "the fork", errno: Errno::last() },
                0 => run_child(program, &arguments, &environment, parent, write),
                child => {
                    close(write);
                    await_exec(child, read)
                }
            }
        }
    };
    restore_mask(&caller_mask);
    birth
}

/// Executes the command in this process, searched on `PATH` as a shell does. Returns only the error.
pub(super) fn exec_command(command: &[CString], environment: &[CString]) -> Errno {
    let arguments = pointers(command);
    let environment = pointers(environment);
    let Some(name) = command.first() else {
        return Errno::ENOENT;
    };
    // SAFETY: both arrays are null-terminated and point to C strings that live until the call returns.
    unsafe { libc::execvpe(name.as_ptr(), arguments.as_ptr(), environment.as_ptr()) };
    Errno::last()
}

/// Ends a watcher whose start was never confirmed. It is not waited for: it may hang in the kernel.
pub(super) fn kill(watcher: c_int) {
    // SAFETY: the PID is that of our child, which nobody has reaped.
    unsafe { libc::kill(watcher, libc::SIGKILL) };
}

/// The child's side: only async-signal-safe calls, no allocation, no return.
fn run_child(
    program: &Program,
    arguments: &[*const c_char],
    environment: &[*const c_char],
    parent: c_int,
    errors: c_int,
) -> ! {
    // SAFETY: plain system calls on values and on memory built before the fork; `errors` is our end of the pipe.
    unsafe {
        // The signal first, then the check: a parent that died between fork and prctl would never be noticed otherwise.
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM);
        if libc::getppid() != parent {
            libc::_exit(0);
        }
        let null = libc::open(c"/dev/null".as_ptr(), libc::O_RDWR);
        if null > 0 {
            libc::dup2(null, 0);
        }
        close_on_exec_from(3);
        let mut errno = libc::ENOENT;
        for candidate in &program.candidates {
            libc::execve(candidate.as_ptr(), arguments.as_ptr(), environment.as_ptr());
            // As execvp does: a forbidden file is remembered and the search goes on, any other trouble ends it.
            match Errno::last_raw() {
                libc::ENOENT | libc::ENOTDIR => {}
                libc::EACCES => errno = libc::EACCES,
                other => {
                    errno = other;
                    break;
                }
            }
        }
        let report = errno.to_ne_bytes();
        libc::write(errors, report.as_ptr().cast(), report.len());
        libc::_exit(127);
    }
}

/// The scheduler's descriptors stay out of the watcher. `CLOEXEC` instead of closing keeps the error pipe until exec.
///
/// # Safety
/// Only in the child between fork and exec, where no other code relies on these descriptors.
unsafe fn close_on_exec_from(first: c_int) {
    const CLOSE_RANGE_CLOEXEC: libc::c_uint = 4;
    // SAFETY: flags on descriptors only. Kernels before 5.11 refuse the call; then each possible descriptor gets its flag.
    unsafe {
        let done = libc::syscall(
            libc::SYS_close_range,
            libc::c_long::from(first),
            libc::c_long::from(c_int::MAX),
            libc::c_long::from(CLOSE_RANGE_CLOEXEC),
        );
        if done == 0 {
            return;
        }
        let limit = libc::sysconf(libc::_SC_OPEN_MAX).clamp(256, 65_536);
        for fd in first..c_int::try_from(limit).unwrap_or(65_536) {
            libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC);
        }
    }
}

/// The parent's side: end of file means that exec closed the pipe, four bytes are the child's errno.
fn await_exec(child: c_int, read: c_int) -> Birth {
    let deadline = Instant::now() + CONFIRM_WITHIN;
    let answer = loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let mut ready = libc::pollfd { fd: read, events: libc::POLLIN, revents: 0 };
        // SAFETY: one valid pollfd.
        let count = unsafe { libc::poll(&raw mut ready, 1, c_int::try_from(left.as_millis()).unwrap_or(0)) };
        if count > 0 {
            break read_errno(read);
        }
        if left.is_zero() {
            close(read);
            return Birth::Unconfirmed(child);
        }
    };
    close(read);
    match answer {
        None => Birth::Running(child),
        Some(errno) => {
            // SAFETY: the child is ours and about to exit; nothing it does now can hang.
            unsafe { libc::waitpid(child, ptr::null_mut(), 0) };
            Birth::Failed { what: "the execution", errno }
        }
    }
}

fn read_errno(read: c_int) -> Option<Errno> {
    let mut report = [0_u8; 4];
    // SAFETY: the buffer is four bytes long.
    let count = unsafe { libc::read(read, report.as_mut_ptr().cast(), report.len()) };
    (count == 4).then(|| Errno::from_raw(c_int::from_ne_bytes(report)))
}

/// A pipe whose ends no program inherits, both above the standard descriptors even where the caller has closed those.
fn error_pipe() -> Result<[c_int; 2], Errno> {
    let mut ends = [0; 2];
    // SAFETY: `ends` has room for two descriptors.
    Errno::result(unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) })?;
    for end in &mut ends {
        if *end < 3 {
            // SAFETY: the descriptor is ours; the copy replaces it.
            let above = Errno::result(unsafe { libc::fcntl(*end, libc::F_DUPFD_CLOEXEC, 3) })?;
            close(*end);
            *end = above;
        }
    }
    Ok(ends)
}

fn close(fd: c_int) {
    // SAFETY: the descriptor is ours and not used again.
    unsafe { libc::close(fd) };
}

fn block_stop_signals() -> libc::sigset_t {
    // SAFETY: both sets are plain values that the calls initialise.
    unsafe {
        let mut stop = std::mem::zeroed();
        let mut before = std::mem::zeroed();
        libc::sigemptyset(&raw mut stop);
        libc::sigaddset(&raw mut stop, libc::SIGTERM);
        libc::sigaddset(&raw mut stop, libc::SIGINT);
        libc::sigprocmask(libc::SIG_BLOCK, &raw const stop, &raw mut before);
        before
    }
}

fn restore_mask(mask: &libc::sigset_t) {
    // SAFETY: the mask was filled in by sigprocmask.
    unsafe { libc::sigprocmask(libc::SIG_SETMASK, mask, ptr::null_mut()) };
}

/// A null-terminated array of pointers into `strings`.
fn pointers(strings: &[CString]) -> Vec<*const c_char> {
    strings.iter().map(|string| string.as_ptr()).chain([ptr::null()]).collect()
}
