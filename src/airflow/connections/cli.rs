//! Runs `airflow connections get` as a child process: bounded, in a process group of its own, killed as a whole.
//!
//! Must not: show anything that the program printed. A failing Airflow prints its database's address, and the answer
//! itself is a password.

use std::ffi::OsString;
use std::io;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use super::answer;
use crate::config::connections::AirflowConnection;
use crate::domain::ids::ConnId;

/// How Airflow's command line is run.
#[derive(Clone, Debug)]
pub struct AirflowCli {
    /// The program, looked for in `PATH` where it has no slash.
    pub program: OsString,
    /// The bound of one run; 2 to 3 s are usual, several times that on a busy machine.
    pub timeout: Duration,
}

impl Default for AirflowCli {
    fn default() -> Self {
        Self { program: "airflow".into(), timeout: Duration::from_secs(30) }
    }
}

/// Why Airflow's command line gave no connection.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CliError {
    /// Airflow says that there is none.
    #[error("none of them has it; create it in Airflow, or set the variable")]
    NotFound,
    /// There is no such program.
    #[error("the program {0} is not there to ask Airflow with; put it on the PATH, or set the variable")]
    NoProgram(String),
    /// It cannot be started.
    #[error("the program {program} cannot be started ({reason})")]
    Spawn {
        /// The program.
        program: String,
        /// What the kernel said.
        reason: String,
    },
    /// It did not end in time, and was killed.
    #[error("`airflow connections get` did not end within {} s and was killed", .0.as_secs())]
    TimedOut(Duration),
    /// It failed for another reason than an unknown id.
    #[error("`airflow connections get` failed ({0}); run it by hand to see why")]
    Failed(String),
    /// It ended well, but what it printed holds no connection.
    #[error("what `airflow connections get -o json` printed cannot be read; run it by hand to see why")]
    Unreadable,
    /// The id cannot be given on a command line.
    #[error("the id holds a NUL character")]
    Id,
}

/// At most so much of each stream is kept; the rest is read and dropped.
const MOST_OUTPUT: u64 = 1024 * 1024;

/// What Airflow prints to stderr for an unknown id, with exit code 1. A failing Airflow exits with 1 too.
const NOT_FOUND: &str = "Connection not found";

impl AirflowCli {
    /// Asks for a connection.
    ///
    /// # Errors
    /// Each a sentence part that names what to do; never what the program printed.
    ///
    /// # Cancel safety
    /// Dropping the future kills the program and its children.
    pub async fn get(&self, conn: &ConnId) -> Result<AirflowConnection, CliError> {
        if conn.as_str().contains('\0') {
            return Err(CliError::Id);
        }
        let mut child = self.spawn(conn)?;
        let mut group = Group::of(&child);
        let outcome = timeout(self.timeout, finish(&mut child)).await;
        let (status, stdout, stderr) = match outcome {
            Ok(Ok(finished)) => {
                group.has_ended();
                finished
            }
            Ok(Err(error)) => return Err(CliError::Failed(error.kind().to_string())),
            Err(_) => return Err(CliError::TimedOut(self.timeout)),
        };
        if status.success() {
            return answer::read(&stdout).ok_or(CliError::Unreadable);
        }
        if status.code() == Some(1) && stderr.contains(NOT_FOUND) {
            return Err(CliError::NotFound);
        }
        Err(CliError::Failed(status.to_string()))
    }

    fn spawn(&self, conn: &ConnId) -> Result<Child, CliError> {
        let program = || self.program.to_string_lossy().into_owned();
        Command::new(&self.program)
            .args(["connections", "get", "-o", "json", "--", conn.as_str()])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| {
                if error.kind() == io::ErrorKind::NotFound {
                    return CliError::NoProgram(program());
                }
                CliError::Spawn { program: program(), reason: error.to_string() }
            })
    }
}

/// Reads both streams to their ends, then waits. In this order the child is not reaped before both are closed, so that
/// until then its process group is surely still its own and can be killed.
async fn finish(child: &mut Child) -> io::Result<(ExitStatus, String, String)> {
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let (stdout, stderr) = tokio::try_join!(read_all(stdout), read_all(stderr))?;
    Ok((child.wait().await?, stdout, stderr))
}

async fn read_all(stream: Option<impl AsyncRead + Unpin>) -> io::Result<String> {
    let Some(mut stream) = stream else {
        return Ok(String::new());
    };
    let mut kept = Vec::new();
    (&mut stream).take(MOST_OUTPUT).read_to_end(&mut kept).await?;
    tokio::io::copy(&mut stream, &mut tokio::io::sink()).await?;
    Ok(String::from_utf8_lossy(&kept).into_owned())
}

/// Kills a process group when dropped before it has ended.
struct Group(Option<Pid>);

impl Group {
    fn of(child: &Child) -> Self {
        let pid = child.id().and_then(|id| i32::try_from(id).ok());
        Self(pid.map(Pid::from_raw))
    }

    fn has_ended(&mut self) {
        self.0 = None;
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(group) = self.0 {
            // It may have ended by itself just now; there is nothing to do about any error.
            let _ = killpg(group, Signal::SIGKILL);
        }
    }
}
