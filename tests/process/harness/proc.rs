//! What the kernel says about processes: exit codes, states, masks, descriptors.

#![expect(unsafe_code, reason = "prctl in the test's own process, setsid in its children")]

use std::collections::BTreeMap;
use std::process::Command;

use nix::errno::Errno;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use super::{before_exec, eventually};

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// With this code.
    Code(i32),
    /// By this signal.
    Signal(i32),
}

impl Exit {
    /// Waits for the end of a process, whoever its parent is: collected where it is ours, read from its zombie where it is
    /// a child of a scheduler that never looks.
    pub(crate) fn of(pid: i32) -> Self {
        eventually(&format!("the end of process {pid}"), || Self::now(pid))
    }

    fn now(pid: i32) -> Option<Self> {
        match waitpid(Pid::from_raw(pid), Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::Exited(_, code)) => Some(Self::Code(code)),
            Ok(WaitStatus::Signaled(_, signal, _)) => Some(Self::Signal(signal as i32)),
            Ok(_) => None,
            Err(Errno::ECHILD) => Self::of_zombie(pid),
            Err(error) => panic!("waitpid({pid}): {error}"),
        }
    }

    /// The last field of `/proc/<pid>/stat` is the wait status. Source: proc(5), field 52, `exit_code`.
    fn of_zombie(pid: i32) -> Option<Self> {
        if state(pid)? != 'Z' {
            return None;
        }
        let stat = read(pid, "stat")?;
        let status: i32 = stat.split_ascii_whitespace().last()?.parse().ok()?;
        Some(if status & 0x7f == 0 { Self::Code(status >> 8) } else { Self::Signal(status & 0x7f) })
    }
}

/// A file of `/proc/<pid>/`, lossily, or `None` where the process is gone.
pub(crate) fn read(pid: i32, file: &str) -> Option<String> {
    let bytes = std::fs::read(format!("/proc/{pid}/{file}")).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// `R`, `S`, `D`, `Z`, `T`…, or `None` where there is no such process.
pub(crate) fn state(pid: i32) -> Option<char> {
    let stat = read(pid, "stat")?;
    stat.rsplit_once(')')?.1.trim_start().chars().next()
}

/// Runs or waits; neither gone nor a zombie.
pub(crate) fn is_alive(pid: i32) -> bool {
    state(pid).is_some_and(|state| !matches!(state, 'Z' | 'X'))
}

/// The parent's PID.
pub(crate) fn parent(pid: i32) -> Option<i32> {
    status(pid, "PPid")?.parse().ok()
}

/// A field of `/proc/<pid>/status`.
pub(crate) fn status(pid: i32, field: &str) -> Option<String> {
    read(pid, "status")?
        .lines()
        .find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))
        .map(|value| value.trim().to_owned())
}

/// A signal mask of `/proc/<pid>/status`, such as `SigIgn`.
pub(crate) fn mask(pid: i32, field: &str) -> u64 {
    u64::from_str_radix(&status(pid, field).unwrap(), 16).unwrap()
}

/// The open descriptors and what they point to.
pub(crate) fn descriptors(pid: i32) -> BTreeMap<i32, String> {
    std::fs::read_dir(format!("/proc/{pid}/fd"))
        .unwrap()
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let target = std::fs::read_link(entry.path()).ok()?;
            Some((entry.file_name().to_str()?.parse().ok()?, target.display().to_string()))
        })
        .collect()
}

/// The children of a process.
pub(crate) fn children(pid: i32) -> Vec<i32> {
    read(pid, &format!("task/{pid}/children"))
        .unwrap_or_default()
        .split_ascii_whitespace()
        .map(|pid| pid.parse().unwrap())
        .collect()
}

/// All descendants of a process.
pub(crate) fn descendants(pid: i32) -> Vec<i32> {
    let mut found = children(pid);
    let mut at = 0;
    while at < found.len() {
        found.extend(children(found[at]));
        at += 1;
    }
    found
}

/// Everything in a session, zombies included, in no order.
pub(crate) fn session_members(session: i32) -> Vec<i32> {
    let of_session = |pid: i32| {
        let stat = read(pid, "stat")?;
        // After the name: state, parent, group, session. Source: proc(5).
        let member = stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(3)? == session.to_string();
        member.then_some(pid)
    };
    std::fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| of_session(entry.ok()?.file_name().to_str()?.parse().ok()?))
        .collect()
}

/// Gives the command's process a session of its own, so that group signals reach its tree and nothing else.
pub(super) fn in_own_session(command: &mut Command) {
    before_exec(command, || Ok(nix::unistd::setsid().map(drop)?));
}

pub(super) fn become_subreaper() {
    // SAFETY: a flag of this process.
    let answer = unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1) };
    assert_eq!(answer, 0, "PR_SET_CHILD_SUBREAPER");
}
