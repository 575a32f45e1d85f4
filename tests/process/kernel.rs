//! Row 40, and file systems that hang: FUSE without a server, and a frozen ext4 on a loop device.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use crate::harness::{Exit, Run, eventually, launcher, proc, signal};

/// A FUSE mount whose server never answers: whoever opens a file on it waits until it is dropped.
pub(crate) struct HungFileSystem {
    directory: tempfile::TempDir,
    /// Closing it aborts the connection, which ends every wait.
    device: Option<File>,
}

impl HungFileSystem {
    pub(crate) fn mount() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let device = File::options().read(true).write(true).open("/dev/fuse").unwrap();
        let options = format!("fd={},rootmode=40000,user_id=0,group_id=0", device.as_raw_fd());
        let target = std::ffi::CString::new(directory.path().to_str().unwrap()).unwrap();
        let options = std::ffi::CString::new(options).unwrap();
        #[expect(unsafe_code, reason = "mount(2) has no safe form here")]
        // SAFETY: C strings that live until the call returns.
        let answer =
            unsafe { libc::mount(c"hung".as_ptr(), target.as_ptr(), c"fuse".as_ptr(), 0, options.as_ptr().cast()) };
        assert_eq!(answer, 0, "mount a FUSE file system: {}", std::io::Error::last_os_error());
        Self { directory, device: Some(device) }
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }
}

impl Drop for HungFileSystem {
    fn drop(&mut self) {
        self.device = None;
        unmount(self.directory.path());
    }
}

fn unmount(path: &Path) {
    let path = std::ffi::CString::new(path.to_str().unwrap()).unwrap();
    #[expect(unsafe_code, reason = "umount2(2) has no safe form here")]
    // SAFETY: a C string that lives until the call returns.
    unsafe {
        libc::umount2(path.as_ptr(), libc::MNT_DETACH)
    };
}

/// An ext4 file system that can be frozen: whoever writes to it then waits in state D, deaf to every signal.
struct FreezableFileSystem {
    mount: PathBuf,
    _directory: tempfile::TempDir,
}

impl FreezableFileSystem {
    fn mount() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let image = directory.path().join("image");
        let mount = directory.path().join("mount");
        std::fs::create_dir(&mount).unwrap();
        File::create(&image).unwrap().set_len(16 << 20).unwrap();
        run("mkfs.ext4", &["-q", image.to_str().unwrap()]);
        run("mount", &["-o", "loop", image.to_str().unwrap(), mount.to_str().unwrap()]);
        Self { mount, _directory: directory }
    }

    fn freeze(&self) {
        run("fsfreeze", &["-f", self.mount.to_str().unwrap()]);
    }

    fn thaw(&self) {
        run("fsfreeze", &["-u", self.mount.to_str().unwrap()]);
    }
}

impl Drop for FreezableFileSystem {
    fn drop(&mut self) {
        // Also after a failed test, or the machine keeps a process that nobody can end.
        let _ = Command::new("fsfreeze").arg("-u").arg(&self.mount).stderr(Stdio::null()).status();
        unmount(&self.mount);
    }
}

fn run(program: &str, arguments: &[&str]) {
    let path = std::env::var("PATH").unwrap_or_default();
    let status = Command::new(program).args(arguments).env("PATH", format!("{path}:/usr/sbin:/sbin")).status();
    assert!(status.unwrap().success(), "{program} {arguments:?}");
}

#[test]
fn row_40_watcher_stuck_in_the_kernel_does_not_keep_the_scheduler_and_ends_after_the_thaw() {
    let frozen = FreezableFileSystem::mount();
    frozen.freeze();
    let mut command = launcher("", &["sleep", "600"]);
    command
        .env("RMQ_WATCHER_TEST_LOOP", "write_file")
        .env("RMQ_WATCHER_TEST_FILE", frozen.mount.join("file"))
        .env("RMQ_WATCHER_TEST_LOOP_STOP_SECS", "0.5")
        .env("RMQ_WATCHER_TEST_HARD_EXIT_SECS", "1.5");
    let run = Run::start(command).announce(&["loop.abandoned"]);
    let watcher = run.started_watcher();
    eventually("the loop thread in state D", || {
        let threads = std::fs::read_dir(format!("/proc/{watcher}/task")).ok()?;
        threads
            .filter_map(|thread| std::fs::read_to_string(thread.ok()?.path().join("stat")).ok())
            .any(|stat| stat.contains("(loop) D "))
            .then_some(())
    });
    signal(watcher, Signal::SIGTERM);
    run.line("the loop is still running 0.5s after the stop");
    // It has called _exit, and the kernel cannot finish it: main thread Z, loop thread D.
    eventually("the zombie main thread", || (proc::state(watcher)? == 'Z').then_some(()));
    assert!(Path::new(&format!("/proc/{watcher}/task")).read_dir().unwrap().count() > 1);
    // The scheduler leaves without it, at once.
    let begin = Instant::now();
    run.signal(Signal::SIGTERM);
    assert_eq!(run.exit(), Exit::Signal(15));
    assert!(begin.elapsed() < Duration::from_secs(7), "{:?}", begin.elapsed());
    frozen.thaw();
    Exit::of(watcher);
}
