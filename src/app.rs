//! Composition: reads the settings, builds the adapters, hands them to the flows, and takes them down again.
//!
//! Everything here runs in the loop thread. What must not block it (opening the state file, scanning) runs on a thread of
//! its own and is waited for.

mod folder;
mod state;

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures_util::FutureExt as _;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::airflow::connections::{AirflowCli, Connections};
use crate::airflow::{AirflowClient, AirflowError};
use crate::broker::Pool;
use crate::config::Settings;
use crate::config::airflow::Credentials;
use crate::config::connections::AirflowDialect;
use crate::config::dags::IgnoreSyntax;
use crate::config::log::{LogFormat, LogLevel, LogSettings};
use crate::config::problem::Problems;
use crate::config::sources::Sources;
use crate::control;
use crate::domain::outcome::{AccessAnswer, Dialect};
use crate::domain::shutdown::Phase;
use crate::pipeline::{self, Arrow, Clock, Context, Identity, Limits};
use crate::reconcile::{self, Controls, Pace};
use crate::store::bodies::Bodies;
use crate::store::{Store, StoreError};
use crate::telemetry::{self, LogHandle, events};
use folder::{Folder, Syntax};

/// How long the last commits may take at the stop.
const CLOSE_STORE: Duration = Duration::from_secs(5);

/// Requests of the control socket that may wait for the control flow.
const REQUESTS: usize = 16;

/// The pause before a helper that met a defect of this program begins again.
const AFTER_DEFECT: Duration = Duration::from_secs(30);

/// How often an Airflow that does not answer, or refuses us, is asked again at the start.
const GREET_EVERY: Duration = Duration::from_secs(30);

/// How often old files of bodies are looked for.
const PRUNE_EVERY: Duration = Duration::from_secs(3600);

/// What the process gives the loop.
pub struct Inputs {
    /// The flag `--config`.
    pub config: Option<PathBuf>,
    /// Where the process stands.
    pub phase: watch::Receiver<Phase>,
    /// To be called once preparation is done.
    pub started: Box<dyn FnOnce()>,
    /// Where the log goes.
    pub log: LogHandle,
    /// Says so where the scheduler has exited; asked before each cycle.
    pub scheduler_exited: Box<dyn Fn() -> Option<String>>,
    /// Called with the name of every arrow of the data flow (see [`Arrow`]); tests end the process there.
    pub on_arrow: Box<dyn Fn(&'static str)>,
    /// See [`Limits::retry_scale`]: 1 but in tests.
    pub retry_scale: f64,
}

/// Why the loop could not begin.
#[derive(Debug, thiserror::Error)]
pub enum AppError {
    /// The settings are wrong; each problem was logged.
    #[error("{0} settings are wrong, see the lines above")]
    Settings(usize),
    /// A setting of the Airflow client cannot be used.
    #[error(transparent)]
    Airflow(#[from] AirflowError),
    /// The state file cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The state directory cannot be locked.
    #[error("cannot lock the state directory {dir}: {source}; check that it exists and belongs to this user")]
    Lock {
        /// Which directory.
        dir: PathBuf,
        /// The system's word.
        source: std::io::Error,
    },
}

/// The loop of the watcher process: returns once the stop is asked for and everything is closed.
///
/// # Errors
/// Preparation failed; nothing is attached.
pub async fn run(inputs: Inputs) -> Result<(), AppError> {
    let Inputs { config, mut phase, started, log, scheduler_exited, on_arrow, retry_scale } = inputs;
    let settings = load(config.as_deref(), &log)?;
    let airflow = AirflowClient::new(settings.airflow.clone())?;
    let taken = state::take(&settings.state_dir, started, &mut phase).await?;
    let Some((lock, store, closed)) = taken else { return Ok(()) };
    let connections = Rc::new(Connections::new(settings.file.clone(), AirflowCli::default()));
    let pool = Rc::new(Pool::new(Rc::clone(&connections)));
    let context = Rc::new(context(&settings, store, airflow, on_arrow, retry_scale));
    let can_start = say_credentials(&settings);
    let pace = pace(&settings, can_start);
    // Where the file does not tell, it is as with the first start of all.
    let known = context.store.load_airflow().await.ok().flatten();
    let declarations = Folder::new(settings.dags.clone(), known.map(ignore_syntax));
    let mut helpers = JoinSet::new();
    helpers.spawn_local(prune_bodies(bodies(&settings)));
    let tending = Rc::clone(&context);
    helpers.spawn_local(kept_up(move || pipeline::tend_history(Rc::clone(&tending))));
    if can_start {
        helpers.spawn_local(greet_airflow(Rc::clone(&context), connections, declarations.syntax()));
        let asking = Rc::clone(&context);
        helpers.spawn_local(kept_up(move || pipeline::ask_waiting(Rc::clone(&asking))));
    }
    let learning = Rc::clone(&context);
    helpers.spawn_local(kept_up(move || reconcile::record_learnt(Rc::clone(&learning))));
    let (asked, requests) = mpsc::channel(REQUESTS);
    let socket = settings.state_dir.join(control::FILE_NAME);
    helpers.spawn_local(kept_up(move || control::serve(socket.clone(), asked.clone())));
    let controls = Controls { scheduler_exited, requests, phase };
    reconcile::run(context, Rc::clone(&pool), declarations, pace, controls).await;
    helpers.shutdown().await;
    pool.close().await;
    // The last handle went with the flows, so the store's thread commits what it holds and leaves.
    drop(timeout(CLOSE_STORE, closed).await);
    drop(lock);
    Ok(())
}

fn pace(settings: &Settings, can_start: bool) -> Pace {
    let reconcile = &settings.reconcile;
    Pace {
        configured: reconcile.configured,
        environment: [reconcile.interval_variable.clone(), reconcile.timeout_variable.clone()],
        can_start,
        hostname: settings.hostname.clone(),
    }
}

/// Runs a helper, and begins it again where it meets a defect of this program, which the panic hook has told. One that returns is
/// through.
async fn kept_up<F: Future<Output = ()>>(helper: impl Fn() -> F) {
    while AssertUnwindSafe(helper()).catch_unwind().await.is_err() {
        sleep(AFTER_DEFECT).await;
    }
}

fn load(config: Option<&Path>, log: &LogHandle) -> Result<Settings, AppError> {
    match Sources::gather(config, BTreeMap::new()).and_then(|sources| Settings::load(&sources)) {
        Ok(settings) => {
            telemetry::init(settings.log, log.clone());
            for warning in &settings.warnings {
                tracing::warn!(event = events::CONFIG_WARNED, "RMQ Watcher: {warning}");
            }
            Ok(settings)
        }
        Err(Problems(problems)) => {
            telemetry::init(LogSettings { level: LogLevel::Info, format: LogFormat::Text }, log.clone());
            for problem in &problems {
                tracing::error!(event = events::CONFIG_INVALID, "RMQ Watcher: {problem}");
            }
            Err(AppError::Settings(problems.len()))
        }
    }
}

fn context(
    settings: &Settings,
    store: Store,
    airflow: AirflowClient,
    on_arrow: Box<dyn Fn(&'static str)>,
    retry_scale: f64,
) -> Context<AirflowClient> {
    let limits = Limits {
        prefetch: settings.consume.prefetch,
        ack_deadline: settings.consume.ack_deadline,
        max_in_flight: settings.airflow.max_in_flight,
        retry_scale,
    };
    let identity = Identity { hostname: settings.hostname.clone(), pid: std::process::id() };
    let clock: Clock = Rc::new(now_ms);
    Context::new(store, airflow, clock, limits, identity, Rc::new(move |arrow: Arrow| on_arrow(arrow.code())))
        .with_bodies(settings.consume.body, bodies(settings))
        .with_retention(settings.history)
}

fn bodies(settings: &Settings) -> Bodies {
    Bodies::new(&settings.state_dir, settings.consume.body_files_kept_for)
}

/// Removes files of bodies that are past their time, at the start and once an hour.
async fn prune_bodies(bodies: Bodies) {
    loop {
        match bodies.prune(now_ms()).await {
            Ok(gone) => tracing::debug!(gone, "removed old files of bodies"),
            Err(error) => tracing::warn!(
                event = events::BODIES_NOT_PRUNED,
                "RMQ Watcher: cannot remove old bodies from the folder files of the state directory: {error}; tried again \
                 in an hour"
            ),
        }
        sleep(PRUNE_EVERY).await;
    }
}

/// Asks Airflow at the start, so that a wrong address or login is said before the first message meets it, and connections
/// and ignore files are read by the rules of the Airflow that answers. Until one does, connections are read by those of Airflow 3
/// and ignore files by those of the Airflow that answered last.
async fn greet_airflow(context: Rc<Context<AirflowClient>>, connections: Rc<Connections>, syntax: Syntax) {
    let mut said = String::new();
    loop {
        let trouble = match context.runs.version().await {
            Ok((dialect, _)) => {
                connections.set_dialect(match dialect {
                    Dialect::V1 => AirflowDialect::V2,
                    Dialect::V2 => AirflowDialect::V3,
                });
                syntax.learn(ignore_syntax(dialect));
                context.store.airflow_answered(dialect, now_ms()).await;
                match context.runs.access().await {
                    AccessAnswer::Granted => return,
                    AccessAnswer::AccessFault(reason) | AccessAnswer::Unavailable(reason) => reason,
                }
            }
            Err(blocked) => format!("{}; check airflow.url, and that Airflow's API server runs", blocked.reason()),
        };
        if said != trouble {
            tracing::warn!(
                event = events::AIRFLOW_NOT_READY,
                "RMQ Watcher: no DAG can be started: {trouble}; messages wait meanwhile"
            );
            said = trouble;
        }
        sleep(GREET_EVERY).await;
    }
}

/// The default of the Airflow that has this API.
fn ignore_syntax(dialect: Dialect) -> IgnoreSyntax {
    match dialect {
        Dialect::V1 => IgnoreSyntax::Regexp,
        Dialect::V2 => IgnoreSyntax::Glob,
    }
}

fn say_credentials(settings: &Settings) -> bool {
    let missing = settings.airflow.credentials == Credentials::Missing;
    if missing {
        tracing::error!(
            event = events::CREDENTIALS_MISSING,
            "RMQ Watcher: no Airflow credentials, so nothing is consumed; set airflow.username and airflow.password (or \
             airflow.password_file, airflow.token_file, airflow.token_command) and start the watcher again"
        );
    }
    !missing
}

/// The time now, in UTC milliseconds.
#[expect(clippy::disallowed_methods, reason = "the clock edge: everything else is handed the time")]
pub(crate) fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
