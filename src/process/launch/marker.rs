//! `RMQ_WATCHER_LAUNCHED=<scheduler pid>:<watcher pid>`: how a launcher inside a launched tree knows that a watcher is there.
//!
//! The variable is inherited by everything below the scheduler and may be carried anywhere (another PID namespace, a container
//! started from this environment), so a marker alone proves nothing. It counts only when its scheduler is this process or one
//! of its ancestors *and* its watcher is, at this moment, a living child of that scheduler.

use std::fmt;

/// The variable's name.
pub const LAUNCHED: &str = "RMQ_WATCHER_LAUNCHED";

/// How many ancestors are looked at. Real trees are a handful deep; the bound ends a loop that `/proc` cannot contain.
const MAX_ANCESTORS: usize = 1000;

/// Who was launched for whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marker {
    /// The process that the launcher became.
    pub scheduler: i32,
    /// The watcher it forked.
    pub watcher: i32,
}

impl Marker {
    /// Reads `pid:pid`, both above zero.
    pub fn parse(text: &str) -> Option<Self> {
        let (scheduler, watcher) = text.split_once(':')?;
        let pid = |text: &str| {
            let digits = text.bytes().all(|byte| byte.is_ascii_digit());
            text.parse::<i32>().ok().filter(|pid| digits && *pid > 0)
        };
        Some(Self { scheduler: pid(scheduler)?, watcher: pid(watcher)? })
    }
}

impl fmt::Display for Marker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.scheduler, self.watcher)
    }
}

/// What `/proc/<pid>/stat` says of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessState {
    /// Its parent; 0 where the parent is outside this PID namespace.
    pub parent: i32,
    /// It has exited and waits to be reaped.
    pub zombie: bool,
}

impl ProcessState {
    /// Reads the text of `/proc/<pid>/stat`: `pid (name, which may hold anything) state ppid …`. Source: proc(5).
    pub fn parse(stat: &str) -> Option<Self> {
        let (_, after_name) = stat.rsplit_once(')')?;
        let mut words = after_name.split_ascii_whitespace();
        let state = words.next()?;
        let parent = words.next()?.parse().ok()?;
        Some(Self { parent, zombie: matches!(state, "Z" | "X") })
    }
}

/// Whether `marker` says truly that a watcher runs for the process `own` or for an ancestor of it.
///
/// `look` gives the state of a process, or `None` where there is none or `/proc` cannot be read.
pub fn is_served(marker: Marker, own: i32, look: impl Fn(i32) -> Option<ProcessState>) -> bool {
    let watcher_lives = look(marker.watcher).is_some_and(|state| state.parent == marker.scheduler && !state.zombie);
    if !watcher_lives {
        return false;
    }
    let mut pid = own;
    for _ in 0..MAX_ANCESTORS {
        if pid == marker.scheduler {
            return true;
        }
        match look(pid) {
            Some(state) if state.parent > 0 => pid = state.parent,
            Some(_) | None => return false,
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marker_reads_only_two_positive_numbers() {
        assert_eq!(Marker::parse("12:34"), Some(Marker { scheduler: 12, watcher: 34 }));
        for wrong in ["", "12", "12:", ":34", "12:34:56", "0:1", "1:0", "-1:2", "+1:2", "a:b", "1: 2", "99999999999:1"]
        {
            assert_eq!(Marker::parse(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn stat_with_a_hostile_name_is_read_right() {
        let state = |parent, zombie| Some(ProcessState { parent, zombie });
        assert_eq!(ProcessState::parse("12 (a) b) Z 3) S 7 1 1"), state(7, false));
        assert_eq!(ProcessState::parse("12 (x) Z 7 1"), state(7, true));
        assert_eq!(ProcessState::parse("12 (x) S"), None);
        assert_eq!(ProcessState::parse(""), None);
    }

    /// A tree `1 → 10 → 20 → 30`, with a watcher 11 under 10 and its zombie twin 12; 40 is PID 1's own child.
    fn look(pid: i32) -> Option<ProcessState> {
        let (parent, zombie) = match pid {
            1 => (0, false),
            10 | 40 => (1, false),
            11 | 20 => (10, false),
            12 => (10, true),
            30 => (20, false),
            _ => return None,
        };
        Some(ProcessState { parent, zombie })
    }

    #[test]
    fn marker_counts_for_the_scheduler_and_everything_below_it() {
        let marker = |scheduler, watcher| Marker { scheduler, watcher };
        for (marker, own, expected, why) in [
            (marker(10, 11), 10, true, "the scheduler itself"),
            (marker(10, 11), 30, true, "a script between"),
            (marker(10, 11), 40, false, "inherited elsewhere"),
            (marker(10, 12), 30, false, "the watcher is dead"),
            (marker(10, 99), 30, false, "no such watcher"),
            (marker(20, 11), 30, false, "the watcher is somebody else's child"),
            (marker(99, 11), 30, false, "the scheduler is gone"),
            (marker(10, 11), 99, false, "no /proc entry of our own"),
        ] {
            assert_eq!(is_served(marker, own, look), expected, "{why}");
        }
    }

    #[test]
    fn ancestors_in_a_loop_end() {
        let circle = |pid| Some(ProcessState { parent: if pid == 5 { 6 } else { 5 }, zombie: false });
        let marker = Marker { scheduler: 5, watcher: 7 };
        assert!(is_served(marker, 6, circle));
        let elsewhere = Marker { scheduler: 8, watcher: 7 };
        assert!(!is_served(elsewhere, 6, circle));
    }
}
