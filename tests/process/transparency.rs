//! Row 2: what the scheduler finds when it starts is what it would have found without the launcher.

use std::os::fd::AsRawFd;
use std::process::{Command, Stdio};

use nix::sys::signal::{SigSet, SigmaskHow, Signal, pthread_sigmask};

use crate::harness::{TEST_LOOP, before_exec, copy_descriptor, launcher};

/// What a program finds when it starts, as text, for the comparison of a direct start with one through the launcher.
fn probe(through_launcher: bool, close_stdin: bool) -> String {
    // Each prints without changing its own signals, limits or descriptors first.
    let views: [&[&str]; 4] = [
        &["cat", "/proc/self/environ", "/proc/self/cmdline", "/proc/self/limits", ""],
        &[
            "grep",
            "-E",
            "^(Sig(Blk|Ign|Cgt)|Umask|Uid|Groups|NoNewPrivs|CapEff|Seccomp|Cpus_allowed)",
            "/proc/self/status",
        ],
        &["find", "/proc/self/fd", "-maxdepth", "1", "-printf", "%f %l\n"],
        &[
            "sh",
            "-c",
            "readlink /proc/$$/cwd; cut -d' ' -f19,40,41 /proc/$$/stat; ps -o pgid=,sid= -p $$ | tr -s ' ' | \
           awk -v pid=$$ '{print $1 == pid, $2 == pid}'",
        ],
    ];
    let extra = std::fs::File::open("/etc/hostname").unwrap();
    let mut found = String::new();
    for view in views {
        let mut command = if through_launcher {
            launcher("", view)
        } else {
            let mut command = Command::new(view[0]);
            command.args(&view[1..]);
            command
        };
        let extra_fd = extra.as_raw_fd();
        command
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env(TEST_LOOP, "idle")
            .env("ODD", "a\nb=c")
            .env("NOTIFY_SOCKET", "/run/none")
            .env("RMQ_WATCHER_PARENT_PID", "stays")
            .current_dir("/usr");
        before_exec(&mut command, move || {
            nix::unistd::setsid()?;
            let mut mask = SigSet::empty();
            mask.add(Signal::SIGUSR1);
            mask.add(Signal::SIGINT);
            pthread_sigmask(SigmaskHow::SIG_SETMASK, Some(&mask), None)?;
            nix::sys::stat::umask(nix::sys::stat::Mode::from_bits_truncate(0o027));
            ignore(&[libc::SIGHUP, libc::SIGPIPE, libc::SIGCHLD]);
            set_limit(libc::RLIMIT_NOFILE, 321);
            copy_descriptor(extra_fd, 7);
            if close_stdin {
                close_descriptor(0);
            }
            Ok(())
        });
        let output = command.stderr(Stdio::null()).output().unwrap();
        found += &String::from_utf8_lossy(&output.stdout);
        found += &format!("\nstatus {:?}\n", output.status.code());
    }
    found
}

#[expect(unsafe_code, reason = "dispositions of a child between fork and exec")]
fn ignore(signals: &[i32]) {
    for signal in signals {
        // SAFETY: no handler function is involved.
        unsafe { libc::signal(*signal, libc::SIG_IGN) };
    }
}

#[expect(unsafe_code, reason = "limits of a child between fork and exec")]
fn set_limit(resource: libc::__rlimit_resource_t, value: u64) {
    let limit = libc::rlimit { rlim_cur: value, rlim_max: value };
    // SAFETY: a valid limit.
    unsafe { libc::setrlimit(resource, &raw const limit) };
}

#[expect(unsafe_code, reason = "descriptors of a child between fork and exec")]
fn close_descriptor(fd: i32) {
    // SAFETY: descriptor numbers of this process only.
    unsafe { libc::close(fd) };
}

#[test]
fn row_02_scheduler_finds_everything_as_without_the_launcher() {
    for close_stdin in [false, true] {
        let direct = probe(false, close_stdin);
        let launched = probe(true, close_stdin);
        assert!(direct.contains("SigBlk:\t0000000000000202"), "{direct}");
        assert!(direct.contains("7 /etc/hostname"), "{direct}");
        let (marker, rest): (Vec<&str>, Vec<&str>) =
            launched.split(['\0', '\n']).partition(|part| part.starts_with("RMQ_WATCHER_LAUNCHED="));
        assert_eq!(marker.len(), 1, "{launched}");
        let comparable = |parts: Vec<&str>| {
            parts
                .into_iter()
                // The pipe that carries this output is another one each time, and the watcher's
                // log comes through it too.
                .filter(|part| !["pipe:[", "/proc/", "{rmq-watcher}"].iter().any(|own| part.contains(own)))
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        assert_eq!(comparable(rest), comparable(direct.split(['\0', '\n']).collect()));
    }
}
