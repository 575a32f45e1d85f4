//! `rmq-watcher run --standalone`: no scheduler, a service manager that is told.

use std::os::unix::net::UnixDatagram;

use nix::sys::signal::Signal;

use crate::harness::{Exit, PATIENCE, Run, proc, watcher};

#[test]
fn standalone_tells_the_service_manager_when_it_is_ready_and_when_it_stops() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("notify");
    let manager = UnixDatagram::bind(&path).unwrap();
    manager.set_read_timeout(Some(PATIENCE)).unwrap();
    let receive = || {
        let mut buffer = [0; 100];
        let count = manager.recv(&mut buffer).unwrap();
        String::from_utf8_lossy(&buffer[..count]).into_owned()
    };
    let mut command = watcher("idle");
    command.arg("--standalone").env_remove("RMQ_WATCHER_PARENT_PID").env("NOTIFY_SOCKET", &path);
    let run = Run::start(command);
    assert_eq!(receive(), "READY=1");
    run.line(&format!("RMQ Watcher process {} started on its own", run.pid));
    run.signal(Signal::SIGTERM);
    assert_eq!(receive(), "STOPPING=1");
    assert_eq!(run.exit(), Exit::Code(0));
}

#[test]
fn standalone_without_a_listening_manager_says_so_and_runs() {
    let mut command = watcher("idle");
    command.arg("--standalone").env("NOTIFY_SOCKET", "/nonexistent/notify");
    let run = Run::start(command).announce(&["notify.failed"]);
    run.line("could not tell the service manager READY=1");
    assert!(proc::is_alive(run.pid));
}

#[test]
fn standalone_outlives_the_process_that_started_it() {
    let mut command = std::process::Command::new("sh");
    command.args(["-c", &format!("{} run --standalone & echo pid $!", crate::harness::WATCHER.path())]);
    command.env(crate::harness::TEST_LOOP, "idle");
    let run = Run::start(command);
    let pid = crate::harness::number_after(&run.line("pid "), "pid ");
    assert_eq!(run.exit(), Exit::Code(0));
    run.line("started on its own");
    // Longer than one tick of the check that a scheduler's watcher makes.
    std::thread::sleep(std::time::Duration::from_millis(1200));
    crate::harness::signal(pid, Signal::SIGTERM);
    assert_eq!(Exit::of(pid), Exit::Code(0));
}

#[test]
fn beside_a_scheduler_the_service_manager_is_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("notify");
    let manager = UnixDatagram::bind(&path).unwrap();
    manager.set_nonblocking(true).unwrap();
    let mut command = watcher("idle");
    command.env("NOTIFY_SOCKET", &path);
    let run = Run::start(command);
    run.started_watcher();
    run.signal(Signal::SIGTERM);
    assert_eq!(run.exit(), Exit::Code(0));
    assert!(manager.recv(&mut [0; 10]).is_err());
}
