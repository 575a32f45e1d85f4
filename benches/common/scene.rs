//! The scene: a queue on a real broker, the stand-in for Airflow with one DAG, and the built watcher under a parent.

use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;
use tempfile::TempDir;

use super::broker_line::BrokerLine;
use super::{flag, proc};
use crate::support::wait::pause;
use crate::support::{Broker, BrokerVersion, Dialect, QueueKind, Setup, StubAirflow, eventually_some, http};

/// The queue.
pub const QUEUE: &str = "bench";
/// The DAG that the watcher starts from it.
pub const DAG: &str = "bench_dag";

/// Broker, queue and stand-in.
pub struct Scene {
    /// A virtual host of our own.
    pub broker: Broker,
    /// An open channel.
    pub line: BrokerLine,
    /// Airflow.
    pub airflow: StubAirflow,
}

impl Scene {
    /// Sets it up; `--broker 3` takes RabbitMQ 3.10 instead of 4.0.
    ///
    /// # Panics
    /// If `tests/env` has not started the node.
    pub fn set(dialect: Dialect) -> Self {
        let version = match flag("--broker", 4) {
            3 => BrokerVersion::V3,
            _ => BrokerVersion::V4,
        };
        let broker = Broker::shared(version);
        broker.declare(QUEUE, QueueKind::Classic, json!({}));
        let line = BrokerLine::open(&broker.url());
        Self { broker, line, airflow: StubAirflow::with_dag(dialect, DAG) }
    }

    /// A watcher's settings and DAG file in a fresh folder: defaults, but for the addresses.
    pub fn setup(&self, folder: &Path) -> Setup {
        let setup = Setup::in_folder(folder)
            .stub(&self.airflow)
            .connection("bench", &self.broker.url())
            .env("RMQ_WATCHER__LOG__LEVEL", "info")
            // As beside an Airflow on PostgreSQL; without a word of its database it would be one at a time.
            .env("RMQ_WATCHER__AIRFLOW__MAX_IN_FLIGHT", "8");
        setup.dag(DAG, QUEUE, "bench");
        setup
    }

    /// The same, with further arguments of the decorator, such as `, ack_unmatched=True`.
    pub fn setup_with(&self, folder: &Path, arguments: &str) -> Setup {
        let setup = self.setup(folder);
        setup.dag_file(
            &format!("{DAG}.py"),
            &format!(
                "from airflow.sdk import dag\nfrom airflow_rmq_watcher import rmq_trigger\n\n\n\
                 @rmq_trigger(queue=\"{QUEUE}\", conn_id=\"bench\"{arguments})\n@dag(schedule=None)\n\
                 def {DAG}():\n    pass\n\n\n{DAG}()\n"
            ),
        );
        setup
    }

    /// The URL and the token by which a plain client asks for runs (REST v2).
    pub fn plain_access(&self) -> (String, String) {
        let login = json!({"username": self.airflow.user(), "password": self.airflow.password()});
        let answer = http::request("POST", &self.airflow.url(), "/auth/token", None, Some(&login)).unwrap();
        let token = answer.json()["access_token"].as_str().expect("a token").to_owned();
        (format!("{}/api/v2/dags/{DAG}/dagRuns", self.airflow.url()), token)
    }
}

/// A parent and its watcher, started by the launcher; both are gone when it is dropped.
pub struct Launched {
    parent: Child,
    watcher: Option<i32>,
    folder: TempDir,
}

impl Launched {
    /// `rmq-launcher -- PARENT`: the watcher runs as it does beside a scheduler.
    pub fn start(scene: &Scene, parent: &[&str]) -> Self {
        let folder = TempDir::new().unwrap();
        let launcher = launcher(&scene.setup(folder.path()), folder.path(), parent);
        Self { parent: spawn(launcher), watcher: None, folder }
    }

    /// `rmq-watcher run --standalone`.
    pub fn start_alone(scene: &Scene) -> Self {
        Self::start_alone_with(|folder| scene.setup(folder))
    }

    /// The same, set up otherwise.
    pub fn start_alone_with(setup: impl FnOnce(&Path) -> Setup) -> Self {
        let folder = TempDir::new().unwrap();
        let parent = spawn(setup(folder.path()).command(&["run", "--standalone"]));
        let watcher = Some(i32::try_from(parent.id()).unwrap());
        Self { parent, watcher, folder }
    }

    /// The watcher's process id.
    pub fn watcher(&mut self) -> i32 {
        let parent = i32::try_from(self.parent.id()).unwrap();
        let find = || proc::children(parent).first().copied();
        *self.watcher.get_or_insert_with(|| eventually_some(Duration::from_secs(10), "the watcher runs", find))
    }

    /// SIGTERM to a watcher without a parent. Returns how long it took to end.
    ///
    /// # Panics
    /// If it has not ended within ten seconds, or not well.
    pub fn stop(&mut self) -> Duration {
        let began = Instant::now();
        kill(Pid::from_raw(self.watcher()), Signal::SIGTERM).expect("it is there to be stopped");
        loop {
            if let Some(status) = self.parent.try_wait().unwrap() {
                assert!(status.success(), "{status}");
                return began.elapsed();
            }
            assert!(began.elapsed() < Duration::from_secs(10), "it has not ended");
            pause(Duration::from_millis(1));
        }
    }

    /// The watcher's state file.
    pub fn state_file(&self) -> std::path::PathBuf {
        self.folder.path().join("state/state.db")
    }

    /// How many cycles it has completed.
    pub fn cycles(&self) -> u64 {
        let only_read = rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY;
        let state = rusqlite::Connection::open_with_flags(self.state_file(), only_read).unwrap();
        let counters: String = state.query_row("SELECT counters FROM watchers", [], |row| row.get(0)).unwrap();
        let counters: serde_json::Value = serde_json::from_str(&counters).unwrap();
        counters["cycle_completed"].as_u64().unwrap_or(0)
    }
}

/// `rmq-launcher -- PARENT` with the settings of a watcher, not started yet.
pub fn launcher(setup: &Setup, folder: &Path, parent: &[&str]) -> Command {
    let mut launcher = Command::new(env!("CARGO_BIN_EXE_rmq-launcher"));
    launcher.arg("--").args(parent).env_clear().current_dir(folder);
    for (name, value) in setup.command(&[]).get_envs() {
        launcher.env(name, value.unwrap_or_default());
    }
    launcher
}

/// In a process group of its own, so that nothing that is meant for the benchmark reaches it.
fn spawn(mut command: Command) -> Child {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
    command.spawn().expect("the built program starts")
}

impl Drop for Launched {
    fn drop(&mut self) {
        // The kernel ends the watcher with its parent, softly; SIGKILL makes it certain before the folder goes.
        if let Some(watcher) = self.watcher {
            let _ = kill(Pid::from_raw(watcher), Signal::SIGKILL);
        }
        drop(self.parent.kill());
        drop(self.parent.wait());
    }
}
