//! The two environments, built before the fork: the scheduler's, which is the caller's plus one marker, and the watcher's.

use std::ffi::{CStr, CString};

use super::marker::{LAUNCHED, Marker};
use crate::process::parent::PARENT_PID;

/// What the watcher must not inherit, and why.
const STRIPPED: [(&str, &str); 7] = [
    ("NOTIFY_SOCKET", "its READY=1 would be taken for the scheduler's"),
    ("LISTEN_PID", "the sockets are the scheduler's"),
    ("LISTEN_FDS", "the sockets are the scheduler's"),
    ("LISTEN_FDNAMES", "the sockets are the scheduler's"),
    ("LISTEN_PIDFDID", "the sockets are the scheduler's"),
    ("LD_PRELOAD", "the Airflow image preloads libstdc++ for Python"),
    (LAUNCHED, "it tells schedulers apart, not watchers"),
];

/// The watcher's environment: the caller's without what belongs to the scheduler alone, plus the PID of the scheduler-to-be.
pub fn for_watcher(caller: &[CString], scheduler_pid: i32) -> Vec<CString> {
    let mut environment: Vec<CString> = caller
        .iter()
        .filter(|entry| !STRIPPED.iter().any(|(name, _)| names(entry, name)) && !names(entry, PARENT_PID))
        .cloned()
        .collect();
    environment.extend(CString::new(format!("{PARENT_PID}={scheduler_pid}")));
    environment
}

/// The scheduler's environment: the caller's in its order, with `marker` in place of an older one.
pub fn for_scheduler(caller: &[CString], marker: Option<Marker>) -> Vec<CString> {
    let Some(marker) = marker else {
        return caller.to_vec();
    };
    let mut environment: Vec<CString> = caller.iter().filter(|entry| !names(entry, LAUNCHED)).cloned().collect();
    environment.extend(CString::new(format!("{LAUNCHED}={marker}")));
    environment
}

/// The value of a variable, where it is text.
pub fn value<'a>(environment: &'a [CString], name: &str) -> Option<&'a str> {
    let entry = environment.iter().find(|entry| names(entry, name))?;
    entry.to_str().ok()?.get(name.len() + 1..)
}

fn names(entry: &CStr, name: &str) -> bool {
    entry.to_bytes().strip_prefix(name.as_bytes()).is_some_and(|rest| rest.first() == Some(&b'='))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caller() -> Vec<CString> {
        vec![
            c"A=1".to_owned(),
            c"NOTIFY_SOCKET=/run/x".to_owned(),
            c"LISTEN_FDS=2".to_owned(),
            c"LD_PRELOAD=/lib/x.so".to_owned(),
            c"NOTIFY_SOCKETS=stays".to_owned(),
            c"RMQ_WATCHER_LAUNCHED=1:2".to_owned(),
            c"RMQ_WATCHER_PARENT_PID=9".to_owned(),
            c"odd entry without equals".to_owned(),
            c"BYTES=\xff\xfe".to_owned(),
            c"A=2".to_owned(),
        ]
    }

    #[test]
    fn watcher_gets_the_parent_s_pid_and_none_of_the_scheduler_s_own() {
        let expected: Vec<CString> = vec![
            c"A=1".to_owned(),
            c"NOTIFY_SOCKETS=stays".to_owned(),
            c"odd entry without equals".to_owned(),
            c"BYTES=\xff\xfe".to_owned(),
            c"A=2".to_owned(),
            c"RMQ_WATCHER_PARENT_PID=77".to_owned(),
        ];
        assert_eq!(for_watcher(&caller(), 77), expected);
    }

    #[test]
    fn scheduler_gets_everything_and_a_fresh_marker() {
        assert_eq!(for_scheduler(&caller(), None), caller());
        let marker = Marker { scheduler: 77, watcher: 78 };
        let mut expected = caller();
        expected.remove(5);
        expected.push(c"RMQ_WATCHER_LAUNCHED=77:78".to_owned());
        assert_eq!(for_scheduler(&caller(), Some(marker)), expected);
    }

    #[test]
    fn value_needs_the_whole_name() {
        assert_eq!(value(&caller(), "A"), Some("1"));
        assert_eq!(value(&caller(), "NOTIFY_SOCKET"), Some("/run/x"));
        assert_eq!(value(&caller(), "NOTIFY"), None);
        assert_eq!(value(&caller(), "BYTES"), None);
    }
}
