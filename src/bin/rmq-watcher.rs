//! `rmq-watcher`: the watcher process (`run`), and later the command-line tool around it.

use std::path::PathBuf;

use std::io::{self, Write};

use clap::{Args, Parser, Subcommand};
use rmq_watcher::process::parent::ParentSource;
use rmq_watcher::{app, cli};
use rmq_watcher::process::{SupervisorOptions, Work, faults, supervise};
use tokio::task::LocalSet;

/// The exit code of a verb that failed.
const FAILED: i32 = 1;

/// RabbitMQ messages start Apache Airflow DAG runs.
#[derive(Parser)]
#[command(name = "rmq-watcher", version)]
struct CommandLine {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Run the watcher process; started by rmq-launcher.
    Run(Run),
    /// Print the effective settings and try them: broker, queues, Airflow, DAGs.
    Check(Check),
}

#[derive(Args)]
struct Check {
    /// The configuration file.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

#[derive(Args)]
struct Run {
    /// The configuration file.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The scheduler's PID [default: from RMQ_WATCHER_PARENT_PID].
    #[arg(long, value_name = "N", conflicts_with = "standalone", allow_hyphen_values = true)]
    parent_pid: Option<String>,
    /// Run without a scheduler, under a service manager.
    #[arg(long)]
    standalone: bool,
}

fn main() {
    match CommandLine::parse().verb {
        Verb::Run(run) => supervised(run),
        Verb::Check(check) => leave(tool(async move |out: &mut dyn Write| {
            cli::check::run(check.config.as_deref(), out).await
        })),
    }
}

/// Runs a verb of the command-line tool; a reader that went away is no failure of ours to report.
fn tool(verb: impl AsyncFnOnce(&mut dyn Write) -> io::Result<i32>) -> i32 {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let Ok(runtime) = runtime else { return FAILED };
    let mut out = io::stdout().lock();
    let code = LocalSet::new().block_on(&runtime, verb(&mut out)).unwrap_or(FAILED);
    out.flush().map_or(FAILED, |()| code)
}

fn supervised(run: Run) -> ! {
    let parent = match (run.standalone, run.parent_pid) {
        (true, _) => ParentSource::Standalone,
        (false, Some(pid)) => ParentSource::Argument(pid),
        (false, None) => ParentSource::Environment,
    };
    let config = run.config;
    let code = supervise(SupervisorOptions::new(parent), |work| {
        let Work { phase, started, log } = work;
        let (started, on_arrow) = (Box::new(move || started.mark()), faults::kill_at_arrow());
        app::run(app::Inputs { config, phase, started, log, on_arrow })
    });
    leave(code)
}

/// Ends the process past every destructor and exit handler: threads that are left behind must not hold it up.
#[expect(unsafe_code, reason = "std offers no _exit")]
fn leave(code: i32) -> ! {
    // SAFETY: ends the process; nothing is left to be written.
    unsafe { libc::_exit(code) }
}
