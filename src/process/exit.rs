//! Every exit code of `rmq-watcher run` and of `rmq-launcher`. `docs/operations.md` holds the same table.
//!
//! A process ended by the kernel's alarm has no code of ours: its parent sees signal 14 (-14).

/// Stopped by a signal or by the scheduler's death.
pub const STOPPED: i32 = 0;
/// Setting up the process or running the loop failed.
pub const FAILED: i32 = 1;
/// Started without the scheduler's PID. Of the launcher: wrong usage, or `--require-watcher` and no watcher.
pub const REFUSED: i32 = 2;
/// Launcher: the command exists and could not be executed.
pub const COMMAND_NOT_EXECUTABLE: i32 = 126;
/// Launcher: there is no such command.
pub const COMMAND_NOT_FOUND: i32 = 127;

/// Ends the process past every destructor and exit handler, so that threads which are left behind cannot hold it up.
#[expect(unsafe_code, reason = "std offers no _exit")]
pub fn leave(code: i32) -> ! {
    // SAFETY: ends the process; whoever calls has nothing left to write.
    unsafe { libc::_exit(code) }
}
