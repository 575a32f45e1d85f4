//! `rmq-watcher`: the watcher process (`run`) and the command-line tool around it.

use std::io::{self, Write};
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use rmq_watcher::process::parent::ParentSource;
use rmq_watcher::process::{SupervisorOptions, Work, exit, faults, supervise};
use rmq_watcher::{app, cli};
use tokio::task::LocalSet;

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
    /// Show the watcher, its connections and its subscriptions, also when it is dead.
    Status(cli::status::Args),
    /// List, show, enable or disable subscriptions.
    Subscriptions(cli::subscriptions::Args),
    /// List what is declared in the DAG folder and what is refused; needs no Airflow and no broker.
    Scan(Scan),
    /// Show what became of the newest messages.
    Fires(cli::fires::Args),
    /// Show what became of one message, and why.
    Why(cli::why::Args),
    /// Try filters.
    Filter(cli::filter::FilterArgs),
}

#[derive(Args)]
struct Check {
    /// The configuration file.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

#[derive(Args)]
struct Scan {
    /// The folder [default: those that Airflow's settings name].
    dir: Option<PathBuf>,
    /// List every file with what was found in it.
    #[arg(long)]
    explain: bool,
    /// Print JSON, for programs.
    #[arg(long)]
    json: bool,
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
    let code = match CommandLine::parse().verb {
        Verb::Run(run) => supervised(run),
        Verb::Check(Check { config }) => {
            tool(async move |out: &mut dyn Write| cli::check::run(config.as_deref(), out).await)
        }
        Verb::Status(args) => tool(async move |out: &mut dyn Write| cli::status::run(args, out).await),
        Verb::Subscriptions(args) => tool(async move |out: &mut dyn Write| cli::subscriptions::run(args, out).await),
        Verb::Scan(Scan { dir, explain, json, config }) => {
            let order = cli::scan::Order { folder: dir, config, explain, json };
            tool(async move |out: &mut dyn Write| cli::scan::run(&order, out))
        }
        Verb::Fires(args) => tool(async move |out: &mut dyn Write| cli::fires::run(args, out).await),
        Verb::Why(args) => tool(async move |out: &mut dyn Write| cli::why::run(&args, out)),
        Verb::Filter(args) => tool(async move |out: &mut dyn Write| cli::filter::run(args, out).await),
    };
    exit::leave(code)
}

fn supervised(Run { config, parent_pid, standalone }: Run) -> i32 {
    let parent = match (standalone, parent_pid) {
        (true, _) => ParentSource::Standalone,
        (false, Some(pid)) => ParentSource::Argument(pid),
        (false, None) => ParentSource::Environment,
    };
    supervise(SupervisorOptions::new(parent), |work| {
        let Work { phase, started, log, scheduler } = work;
        let (started, on_arrow) = (Box::new(move || started.mark()), faults::kill_at_arrow());
        let scheduler_exited = Box::new(move || scheduler.exited());
        let retry_scale = faults::retry_scale();
        app::run(app::Inputs { config, phase, started, log, scheduler_exited, on_arrow, retry_scale })
    })
}

/// Runs a verb of the command-line tool. Output that nobody takes is a failure, and there is nobody to tell it to.
fn tool(verb: impl AsyncFnOnce(&mut dyn Write) -> io::Result<i32>) -> i32 {
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else {
        return exit::FAILED;
    };
    let mut out = io::stdout().lock();
    let code = LocalSet::new().block_on(&runtime, verb(&mut out)).unwrap_or(exit::FAILED);
    out.flush().map_or(exit::FAILED, |()| code)
}
