//! The launcher: starts the watcher as a child, then becomes the scheduler in its own process.
//!
//! Single-threaded, no runtime, no crate above libc and nix. [`run`] reads as the flow. Whatever happens to the watcher, the
//! command starts, within 2 s even where the watcher's file system hangs; it keeps the PID, descriptors, environment (plus one
//! marker), signal mask, dispositions, limits and exit code that it would have had without us.
//!
//! Must not: touch `SIGPIPE` or descriptors of the caller (the binary has no std start for that reason), wait for the watcher
//! after its start, or use `execvp` for the watcher (which hands a file that the kernel refuses to `/bin/sh`).

pub mod args;
pub mod env;
pub mod marker;

mod spawn;

use std::ffi::{CStr, CString, c_char, c_int};
use std::os::unix::ffi::OsStrExt;

use self::args::{Launch, Request};
use self::marker::{Marker, ProcessState};
use self::spawn::{Birth, Program};
use super::{exit, raw};
use crate::config::log::LogLevel;
use crate::telemetry::{events, line};

/// The program looked for beside the launcher and on `PATH`.
const WATCHER_NAME: &str = "rmq-watcher";

/// Copies the arguments that C's `main` was given. `std::env::args` is empty in a static musl binary without std's start.
///
/// # Safety
/// `argv` must point to `argc` pointers to C strings, as `main` receives them.
#[expect(unsafe_code, reason = "C's main hands over raw pointers")]
pub unsafe fn arguments(argc: c_int, argv: *const *const c_char) -> Vec<CString> {
    let count = usize::try_from(argc).unwrap_or_default();
    (0..count)
        .map(|index| {
            // SAFETY: the caller promises `argc` valid pointers to C strings.
            unsafe { CStr::from_ptr(*argv.add(index)) }.to_owned()
        })
        .collect()
}

/// Does what the command line asks for. Returns an exit code where the process did not become the command.
pub fn run(arguments: &[CString]) -> c_int {
    let launch = match args::parse(arguments.get(1..).unwrap_or_default()) {
        Ok(Request::Launch(launch)) => launch,
        Ok(Request::Help) => {
            raw::stdout_text(args::USAGE);
            return exit::STOPPED;
        }
        Ok(Request::Version) => {
            raw::stdout_text(concat!("rmq-launcher ", env!("CARGO_PKG_VERSION"), "\n"));
            return exit::STOPPED;
        }
        Err(sentence) => {
            say(LogLevel::Error, events::COMMAND_FAILED, &format!("rmq-launcher: {sentence}"));
            return exit::REFUSED;
        }
    };
    let caller = spawn::environment();
    let marker = match start_watcher(&launch, &caller) {
        Ok(marker) => marker,
        Err(code) => return code,
    };
    become_command(&launch, &env::for_scheduler(&caller, marker))
}

/// Starts the watcher where one is due. `Err`: the exit code of a launch that requires a watcher and has none.
fn start_watcher(launch: &Launch, caller: &[CString]) -> Result<Option<Marker>, c_int> {
    let own = spawn::own_pid();
    if let Some(marker) = serving_marker(caller, own) {
        say(
            LogLevel::Info,
            events::LAUNCH_SKIPPED,
            &format!(
                "RMQ Watcher process already started with PID {} for the process {} — not starting another",
                marker.watcher, marker.scheduler
            ),
        );
        return Ok(None);
    }
    if args::daemonizes(&launch.command) {
        let line = "RMQ Watcher process not started: the scheduler leaves its process for the background (-D, --daemon), \
                    and the watcher belongs to the process it is started in — run the scheduler in the foreground";
        say(LogLevel::Error, events::LAUNCH_REFUSED, line);
        return none_or_refuse(launch);
    }
    let program = Program {
        candidates: candidates(launch, caller),
        arguments: watcher_arguments(launch),
        environment: env::for_watcher(caller, own),
    };
    let marker = |watcher| Marker { scheduler: own, watcher };
    match spawn::watcher(&program) {
        Birth::Running(watcher) => {
            let line = format!("RMQ Watcher process started with PID {watcher} (scheduler PID {own})");
            say(LogLevel::Info, events::WATCHER_LAUNCHED, &line);
            Ok(Some(marker(watcher)))
        }
        Birth::Unconfirmed(watcher) => {
            let line = format!(
                "RMQ Watcher process {watcher}: its start was not confirmed within 2s (is the file system of {} hung?) — \
                 the scheduler starts without waiting for it",
                program.first_name()
            );
            say(LogLevel::Error, events::LAUNCH_UNCONFIRMED, &line);
            if launch.require_watcher {
                spawn::kill(watcher);
                return Err(exit::REFUSED);
            }
            Ok(Some(marker(watcher)))
        }
        Birth::Failed { what, errno } => {
            let line = format!(
                "RMQ Watcher process could not be started: {what} of {}: {errno} — the scheduler starts without it",
                program.first_name()
            );
            say(LogLevel::Error, events::LAUNCH_FAILED, &line);
            none_or_refuse(launch)
        }
    }
}

fn none_or_refuse(launch: &Launch) -> Result<Option<Marker>, c_int> {
    if launch.require_watcher { Err(exit::REFUSED) } else { Ok(None) }
}

/// The caller's marker, where it is true.
fn serving_marker(caller: &[CString], own: i32) -> Option<Marker> {
    let marker = Marker::parse(env::value(caller, marker::LAUNCHED)?)?;
    let look = |pid: i32| {
        let stat = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
        ProcessState::parse(&String::from_utf8_lossy(&stat))
    };
    marker::is_served(marker, own, look).then_some(marker)
}

/// Which files to try, in order. None is looked at here: on a hung file system even a look does not return, so the child
/// tries them one after another.
fn candidates(launch: &Launch, caller: &[CString]) -> Vec<CString> {
    if let Some(watcher) = &launch.watcher {
        return vec![watcher.clone()];
    }
    let beside = std::fs::read_link("/proc/self/exe")
        .ok()
        .and_then(|own| Some(own.parent()?.join(WATCHER_NAME)))
        .and_then(|path| CString::new(path.as_os_str().as_bytes()).ok());
    let on_path = env::value(caller, "PATH")
        .unwrap_or("/usr/local/bin:/usr/bin:/bin")
        .split(':')
        .filter(|directory| directory.starts_with('/'))
        .filter_map(|directory| CString::new(format!("{directory}/{WATCHER_NAME}")).ok());
    beside.into_iter().chain(on_path).collect()
}

fn watcher_arguments(launch: &Launch) -> Vec<CString> {
    let mut arguments = vec![c"rmq-watcher".to_owned(), c"run".to_owned()];
    if let Some(config) = &launch.config {
        arguments.push(c"--config".to_owned());
        arguments.push(config.clone());
    }
    arguments
}

/// Becomes the command. Returns only where that failed, with the exit code a shell would give.
fn become_command(launch: &Launch, environment: &[CString]) -> c_int {
    let errno = spawn::exec_command(&launch.command, environment);
    let name = launch.command.first().map(|name| name.to_string_lossy());
    let line = format!("rmq-launcher: the command {} could not be started: {errno}", name.unwrap_or_default());
    say(LogLevel::Error, events::COMMAND_FAILED, &line);
    if errno == nix::errno::Errno::ENOENT { exit::COMMAND_NOT_FOUND } else { exit::COMMAND_NOT_EXECUTABLE }
}

fn say(level: LogLevel, event: &str, message: &str) {
    raw::stderr_line_if_ready(line::LAUNCHER, level, event, message);
}
