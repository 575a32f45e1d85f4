//! Starting a process tree in a session of its own, reading what it wrote, and asking the kernel about it.

pub(crate) mod proc;

use std::fmt;
use std::fs::{File, OpenOptions};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Once, OnceLock};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;

pub(crate) use proc::Exit;

/// How long an expected thing may take on a loaded machine before its test fails.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// The launcher's program.
pub(crate) static LAUNCHER: Program = Program::new("rmq-launcher", env!("CARGO_BIN_EXE_rmq-launcher"));
/// The watcher's program.
pub(crate) static WATCHER: Program = Program::new("rmq-watcher", env!("CARGO_BIN_EXE_rmq-watcher"));

/// A binary under test: the one built with this test, or the one of its name in `RMQ_TEST_BINARIES`, a directory.
pub(crate) struct Program {
    name: &'static str,
    built: &'static str,
    chosen: OnceLock<String>,
}

impl Program {
    const fn new(name: &'static str, built: &'static str) -> Self {
        Self { name, built, chosen: OnceLock::new() }
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &str {
        self.chosen.get_or_init(|| match std::env::var("RMQ_TEST_BINARIES") {
            Ok(directory) => format!("{directory}/{}", self.name),
            Err(_) => self.built.to_owned(),
        })
    }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.path())
    }
}

/// What stands in for the watcher's loop.
pub(crate) const TEST_LOOP: &str = "RMQ_WATCHER_TEST_LOOP";

/// `rmq-launcher OPTIONS -- COMMAND`, with the words of the options separated by spaces, for a watcher with an idle loop.
pub(crate) fn launcher(options: &str, command: &[&str]) -> Command {
    let mut launcher = Command::new(LAUNCHER.path());
    launcher.args(options.split_ascii_whitespace()).arg("--").args(command).env(TEST_LOOP, "idle");
    launcher
}

/// `rmq-watcher run` as a child of this test, with `RMQ_WATCHER_TEST_LOOP=fault`.
pub(crate) fn watcher(fault: &str) -> Command {
    let mut watcher = Command::new(WATCHER.path());
    watcher.arg("run").env("RMQ_WATCHER_PARENT_PID", std::process::id().to_string()).env(TEST_LOOP, fault);
    watcher
}

/// Calls `condition` until it gives something, or fails the test naming `what`.
pub(crate) fn eventually<T>(what: &str, mut condition: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = condition() {
            return found;
        }
        assert!(Instant::now() < deadline, "not within {PATIENCE:?}: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A started process tree: its own session, standard output and error together in one file.
///
/// Dropping it kills what is left of its session's process group and fails the test if an ERROR or WARNING line was
/// written whose event was not announced.
pub(crate) struct Run {
    /// The process started first: under the launcher, the scheduler.
    pub(crate) pid: i32,
    log: PathBuf,
    announced: Vec<&'static str>,
    _directory: tempfile::TempDir,
}

impl Run {
    /// Starts `command`, both outputs into the log file.
    pub(crate) fn start(command: Command) -> Self {
        Self::start_with(command, |command, log| {
            command.stdout(open(log)).stderr(open(log));
        })
    }

    /// Starts `command` with the outputs that `wire` gives it; the path is that of the file read as the log.
    pub(crate) fn start_with(mut command: Command, wire: impl FnOnce(&mut Command, &Path)) -> Self {
        collect_orphans();
        let directory = tempfile::tempdir().unwrap();
        let log = directory.path().join("log");
        drop(open(&log));
        command.stdin(Stdio::null());
        wire(&mut command, &log);
        proc::in_own_session(&mut command);
        #[expect(clippy::zombie_processes, reason = "collected by Exit::of, or with this test's process")]
        let child = command.spawn().unwrap();
        Self { pid: i32::try_from(child.id()).unwrap(), log, announced: Vec::new(), _directory: directory }
    }

    /// Lets ERROR and WARNING lines of these events pass.
    pub(crate) fn announce(mut self, events: &[&'static str]) -> Self {
        self.announced.extend(events);
        self
    }

    /// Everything written so far.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(&self.log).unwrap()).into_owned()
    }

    /// How many lines hold `part`.
    pub(crate) fn count(&self, part: &str) -> usize {
        self.text().lines().filter(|line| line.contains(part)).count()
    }

    /// Waits for a line that holds `part` and returns it.
    pub(crate) fn line(&self, part: &str) -> String {
        eventually(&format!("a line with {part:?}"), || {
            let text = self.text();
            // The last line may be half written.
            let whole = text.rfind('\n').map_or("", |end| &text[..end]);
            whole.lines().find(|line| line.contains(part)).map(str::to_owned)
        })
    }

    /// The watcher's PID, from the launcher's line.
    pub(crate) fn watcher(&self) -> i32 {
        number_after(&self.line("RMQ Watcher process started with PID"), "with PID ")
    }

    /// Waits until the watcher's loop runs, and returns the watcher's PID.
    pub(crate) fn started_watcher(&self) -> i32 {
        let line = self.line("started for the scheduler process");
        number_after(&line, "RMQ Watcher process ")
    }

    /// Waits until the launcher has become `program`; a watcher may be up before that.
    pub(crate) fn becomes(&self, program: &str) {
        eventually(&format!("{program} in place of the launcher"), || {
            (proc::read(self.pid, "comm")?.trim_end() == program).then_some(())
        });
    }

    /// Signals the process started first.
    pub(crate) fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.pid), signal).unwrap();
    }

    /// Signals the whole process group.
    pub(crate) fn signal_group(&self, signal: Signal) {
        killpg(Pid::from_raw(self.pid), signal).unwrap();
    }

    /// Waits for the end of the process started first.
    pub(crate) fn exit(&self) -> Exit {
        Exit::of(self.pid)
    }

    fn unannounced(&self) -> Vec<String> {
        self.text()
            .lines()
            .filter(|line| line.contains("} ERROR - ") || line.contains("} WARNING - "))
            .filter(|line| !self.announced.iter().any(|event| line.contains(&format!("event={event}"))))
            .map(str::to_owned)
            .collect()
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        // The group is ours: its leader was started here and its number is not free while anyone is in it.
        let _ = killpg(Pid::from_raw(self.pid), Signal::SIGKILL);
        if std::thread::panicking() {
            #[expect(clippy::print_stderr, reason = "shown only for a failed test")]
            {
                eprintln!("--- log of {}:\n{}---", self.pid, self.text());
            }
        } else {
            let lines = self.unannounced();
            assert!(lines.is_empty(), "lines that no test announced: {lines:#?}");
        }
    }
}

/// Signals one process.
pub(crate) fn signal(pid: i32, signal: Signal) {
    kill(Pid::from_raw(pid), signal).unwrap();
}

/// The number right behind `before` in `line`.
pub(crate) fn number_after(line: &str, before: &str) -> i32 {
    let rest = line.split_once(before).unwrap_or_else(|| panic!("no {before:?} in {line:?}")).1;
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().unwrap_or_else(|_| panic!("no number after {before:?} in {line:?}"))
}

/// Whether the long rounds were asked for.
pub(crate) fn all_rounds() -> bool {
    std::env::var("RMQ_TEST_ALL").is_ok_and(|value| value == "1")
}

/// A shell script as a scheduler: prints `ready`, on SIGTERM waits `seconds` and exits with `code`.
pub(crate) fn scheduler_script(seconds: &str, code: u8) -> String {
    format!("trap 'sleep {seconds}; exit {code}' TERM; echo ready; while :; do sleep 0.02; done")
}

/// A file for outputs, appended to, so that both outputs of a tree interleave by line.
pub(crate) fn open(path: &Path) -> File {
    OpenOptions::new().create(true).append(true).open(path).unwrap()
}

/// Makes this test's process the one that orphans fall to, so that their exit codes can be collected.
fn collect_orphans() {
    static ONCE: Once = Once::new();
    ONCE.call_once(proc::become_subreaper);
}

/// A command whose child calls `before_exec` between fork and exec.
pub(crate) fn before_exec(
    command: &mut Command,
    before_exec: impl FnMut() -> std::io::Result<()> + Send + Sync + 'static,
) {
    #[expect(unsafe_code, reason = "states that only the child itself can take on before exec")]
    // SAFETY: the closures of these tests make system calls only.
    unsafe {
        command.pre_exec(before_exec);
    }
}

/// Gives a descriptor a second number, in a child between fork and exec.
#[expect(unsafe_code, reason = "descriptors of a child between fork and exec")]
pub(crate) fn copy_descriptor(from: i32, to: i32) {
    // SAFETY: descriptor numbers of this process only.
    unsafe { libc::dup2(from, to) };
}
