//! Passwords and tokens that lie in files or come out of a program.
//!
//! Serves the login. Invariants: nothing read here is ever part of an error; files are read within the
//! bounds of `readings`; a program is bounded to 30 s and ended with its whole group.

use std::io;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::io::AsyncReadExt as _;
use tokio::process::{Child, Command};
use tokio::time::timeout;

use crate::airflow::error::Blocked;
use crate::airflow::readings::Readings;
use crate::config::airflow::PasswordSource;
use crate::config::files::{Stamp, first_line};
use crate::domain::connection::Secret;

/// Bound of a token program.
pub(super) const COMMAND_TIMEOUT: Duration = Duration::from_secs(30);

/// Bound of what is read from a program, in bytes. Tokens of large organisations reach some 10 KiB.
const SECRET_LIMIT: u64 = 64 * 1024;

/// The password as it is now.
///
/// # Errors
/// The file cannot be read or is empty.
pub(super) async fn password(readings: &Readings, source: &PasswordSource) -> Result<Secret, Blocked> {
    match source {
        PasswordSource::Value(secret) => Ok(secret.clone()),
        PasswordSource::File(path) => readings
            .of(path, first_line)
            .await
            .map_err(|error| unusable(path, "airflow.password_file", "the password", &error)),
    }
}

/// The token in a file: its first line without blanks around it, which no token has.
///
/// # Errors
/// The file cannot be read or is empty.
pub(super) async fn token(readings: &Readings, path: &Path) -> Result<String, Blocked> {
    let fault = |error| unusable(path, "airflow.token_file", "the token", &error);
    let line = readings.of(path, first_line).await.map_err(fault)?;
    match line.expose().trim() {
        "" => Err(fault(io::Error::other("its first line is empty"))),
        token => Ok(token.to_owned()),
    }
}

fn unusable(path: &Path, key: &str, what: &str, error: &io::Error) -> Blocked {
    let path = path.display();
    Blocked::Access(format!("{path} ({key}) cannot be used: {error}; its first line must be {what}, readable for us"))
}

/// The state of a file; `None` where there is none to be seen.
///
/// # Errors
/// The file system hangs, so the file may be what it was.
pub(super) async fn stamp(readings: &Readings, path: &Path) -> io::Result<Option<Stamp>> {
    match readings.of(path, Stamp::of).await {
        Ok(stamp) => Ok(Some(stamp)),
        Err(error) if error.kind() == io::ErrorKind::TimedOut => Err(error),
        Err(_) => Ok(None),
    }
}

/// Runs a token program and takes the first line it prints.
///
/// # Errors
/// It cannot be started, fails, takes longer than `bound` or prints nothing. What it prints is never part of the error.
///
/// # Cancel safety
/// Dropping the future ends the program itself; what it had started may live on.
pub(super) async fn token_of_command(command: &[String], bound: Duration) -> Result<String, Blocked> {
    let fault = |reason: String| {
        let name = command.first().map_or("", String::as_str);
        Blocked::Access(format!("the program {name} (airflow.token_command) gave no token: {reason}"))
    };
    let (program, arguments) = command.split_first().ok_or_else(|| fault("none is configured".to_owned()))?;
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| fault(error.to_string()))?;
    let group = child.id();
    let result = timeout(bound, output(&mut child)).await;
    let text = match result {
        Ok(Ok(text)) => text,
        Ok(Err(reason)) => {
            end_group(group);
            return Err(fault(reason));
        }
        Err(_) => {
            end_group(group);
            return Err(fault(format!("it took longer than {} s", bound.as_secs())));
        }
    };
    match text.lines().next().map(str::trim) {
        Some(line) if !line.is_empty() => Ok(line.to_owned()),
        Some(_) | None => Err(fault("it printed nothing".to_owned())),
    }
}

async fn output(child: &mut Child) -> Result<String, String> {
    let mut bytes = Vec::new();
    if let Some(stdout) = child.stdout.take() {
        stdout.take(SECRET_LIMIT).read_to_end(&mut bytes).await.map_err(|error| error.to_string())?;
    }
    let status = child.wait().await.map_err(|error| error.to_string())?;
    if !status.success() {
        return Err(format!("it ended with {status}"));
    }
    String::from_utf8(bytes).map_err(|_| "it printed other than UTF-8".to_owned())
}

fn end_group(group: Option<u32>) {
    if let Some(group) = group.and_then(|id| i32::try_from(id).ok()) {
        // Already gone is as good.
        let _ = killpg(Pid::from_raw(group), Signal::SIGKILL);
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]
mod tests {
    use super::*;

    /// Whether a process is there and not only waiting to be reaped.
    fn lives(pid: &str) -> bool {
        std::fs::read_to_string(format!("/proc/{pid}/status")).is_ok_and(|status| !status.contains("State:\tZ"))
    }

    #[tokio::test]
    async fn a_program_that_takes_too_long_ends_with_all_it_started() {
        let folder = tempfile::tempdir().unwrap();
        let pid_file = folder.path().join("pid");
        let script = format!("sleep 600 & echo $! >'{0}.new'; mv '{0}.new' '{0}'; wait", pid_file.display());
        let command = ["/bin/sh", "-c", &script].map(str::to_owned);
        let blocked = token_of_command(&command, Duration::from_secs(2)).await.unwrap_err();
        assert!(blocked.reason().contains("longer than 2 s"), "{blocked:?}");
        let pid = std::fs::read_to_string(&pid_file).unwrap().trim().to_owned();
        let deadline = tokio::time::Instant::now() + Duration::from_secs(10);
        while lives(&pid) {
            assert!(tokio::time::Instant::now() < deadline, "process {pid} lives on");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    #[tokio::test]
    async fn a_pipe_in_a_files_place_is_named_and_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::from_bits_truncate(0o600)).unwrap();
        let readings = Readings::default();
        let of_token = token(&readings, &pipe).await.unwrap_err();
        let of_password = password(&readings, &PasswordSource::File(pipe.clone())).await.unwrap_err();
        for (blocked, key) in [(of_token, "airflow.token_file"), (of_password, "airflow.password_file")] {
            let said = format!("{} ({key}) cannot be used: it is not a regular file", pipe.display());
            assert!(blocked.reason().starts_with(&said), "{}", blocked.reason());
        }
    }

    #[tokio::test]
    async fn a_hung_file_system_blocks_nobody_and_is_no_change_of_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("token");
        std::fs::write(&file, " tok \n").unwrap();
        let readings = Readings::within(Duration::from_millis(50));
        let (wake, asleep) = std::sync::mpsc::channel::<()>();
        // Stands for a call into a file system that does not return.
        let hung = readings.of(&file, move |_| Ok(asleep.recv().is_ok())).await;
        assert_eq!(hung.unwrap_err().kind(), io::ErrorKind::TimedOut);
        let blocked = token(&readings, &file).await.unwrap_err();
        assert!(blocked.reason().contains("seems to hang"), "{}", blocked.reason());
        assert!(stamp(&readings, &file).await.is_err());
        wake.send(()).unwrap();
        let deadline = tokio::time::Instant::now() + Duration::from_secs(10);
        while token(&readings, &file).await.ok().as_deref() != Some("tok") {
            assert!(tokio::time::Instant::now() < deadline, "the file is not read again");
        }
        assert!(stamp(&readings, &file).await.unwrap().is_some());
    }

    #[tokio::test]
    async fn only_the_first_line_counts() {
        let command = ["/bin/sh", "-c", "echo ' tok '; echo more"].map(str::to_owned);
        assert_eq!(token_of_command(&command, COMMAND_TIMEOUT).await.unwrap(), "tok");
    }
}
