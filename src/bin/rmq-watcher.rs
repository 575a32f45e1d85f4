//! `rmq-watcher`: the watcher process (`run`), and later the command-line tool around it.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use rmq_watcher::process::parent::ParentSource;
use rmq_watcher::process::{SupervisorOptions, exit, supervise};

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
    #[arg(
        long,
        value_name = "N",
        conflicts_with = "standalone",
        allow_hyphen_values = true
    )]
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
        rmq_watcher::app::run(config, work)
    });
    exit::leave(code)
}
