//! `rmq-watcher`: the watcher process (`run`), and later the command-line tool around it.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use rmq_watcher::app;
use rmq_watcher::process::parent::ParentSource;
use rmq_watcher::process::{SupervisorOptions, Work, faults, supervise};

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
    let Verb::Run(run) = CommandLine::parse().verb;
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
