//! Both binaries with a real Airflow scheduler: it is what the launcher becomes, and the watcher lives and dies with it.

use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use serde_json::json;

use crate::bench::SOON;
use crate::proc::{children, command_line, lives, status};
use crate::support::{
    Airflow, AirflowVersion, Broker, BrokerVersion, Message, QueueKind, eventually, eventually_some, provided,
};

/// A scheduler takes a while to start and to run a task, on a machine that does other things too.
const SLOW: Duration = Duration::from_secs(180);

/// An Airflow without a scheduler: that is the test's.
struct Instance {
    folder: tempfile::TempDir,
    env: BTreeMap<String, String>,
}

impl Instance {
    fn start(version: AirflowVersion) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (digit, venv) = match version {
            AirflowVersion::V2 => ("2", provided("RMQ_TEST_AIRFLOW2_VENV")),
            AirflowVersion::V3 => ("3", provided("RMQ_TEST_AIRFLOW3_VENV")),
        };
        let mut instance = Self { folder, env: BTreeMap::new() };
        let dags = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/dags").display().to_string();
        instance.node("start", &["--no-scheduler", "--version", digit, "--venv", &venv, "--dags", &dags]);
        let text = format!(". '{}' && env -0", instance.home().join("env.sh").display());
        let sourced = Command::new("sh").args(["-c", &text]).output().unwrap();
        let pairs = String::from_utf8(sourced.stdout).unwrap();
        let pairs = pairs.split('\0').filter_map(|pair| pair.split_once('='));
        instance.env = pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        instance
    }

    fn home(&self) -> PathBuf {
        self.folder.path().join("node")
    }

    fn node(&self, verb: &str, args: &[&str]) {
        let script = provided("RMQ_TEST_AIRFLOW_SCRIPT");
        let done = Command::new(script).arg(verb).arg(self.home()).args(args).stdin(Stdio::null()).output().unwrap();
        assert!(done.status.success(), "airflow-node {verb}: {}", String::from_utf8_lossy(&done.stderr));
    }

    fn url(&self) -> String {
        self.env["AIRFLOW_URL"].clone()
    }

    /// `rmq-launcher -- airflow scheduler`, in a session of its own like a container's first process.
    fn launch(&self, amqp_url: &str) -> Scheduler {
        let log = self.folder.path().join("scheduler.log");
        let out = std::fs::OpenOptions::new().create(true).append(true).open(&log).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_rmq-launcher"));
        command.args([
            "--require-watcher",
            "--watcher",
            env!("CARGO_BIN_EXE_rmq-watcher"),
            "--",
            "airflow",
            "scheduler",
        ]);
        command
            .env_clear()
            .envs(&self.env)
            .env("AIRFLOW_CONN_RMQ_DEFAULT", amqp_url)
            .env("RMQ_WATCHER__AIRFLOW__USERNAME", "admin")
            .env("RMQ_WATCHER__AIRFLOW__PASSWORD", "admin")
            .env("RMQ_WATCHER__STATE__DIR", self.folder.path().join("state"))
            .current_dir(self.folder.path())
            .stdin(Stdio::null())
            .stdout(out.try_clone().unwrap())
            .stderr(out);
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        Scheduler { child: command.spawn().unwrap(), log }
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        let script = provided("RMQ_TEST_AIRFLOW_SCRIPT");
        drop(Command::new(script).arg("kill").arg(self.home()).status());
    }
}

struct Scheduler {
    child: Child,
    log: PathBuf,
}

impl Scheduler {
    fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).unwrap()
    }

    /// The watcher among its children.
    #[track_caller]
    fn watcher(&self) -> i32 {
        let find = || children(self.pid()).into_iter().find(|pid| command_line(*pid).contains("rmq-watcher run"));
        eventually_some(SOON, "the scheduler has a watcher", find)
    }

    fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    #[track_caller]
    fn wait_log(&self, text: &str, times: usize) {
        eventually(SLOW, &format!("{times} × {text} in the log"), || self.log().matches(text).count() >= times);
    }
}

impl Drop for Scheduler {
    fn drop(&mut self) {
        // Its group: workers of the scheduler ignore SIGTERM. Where nobody is left there is nothing to do.
        let _ = killpg(Pid::from_raw(self.pid()), Signal::SIGKILL);
        drop(self.child.wait());
        if std::thread::panicking() {
            show(&self.log());
        }
    }
}

#[allow(clippy::allow_attributes, clippy::print_stderr, reason = "the log of a failed test belongs into its output")]
fn show(log: &str) {
    let lines: Vec<&str> = log.lines().collect();
    eprintln!("the scheduler's log ends:\n{}", lines[lines.len().saturating_sub(80)..].join("\n"));
}

#[test]
fn real_watcher_lives_and_dies_with_a_real_scheduler() {
    for version in AirflowVersion::for_this_round() {
        lives_and_dies_with_the_scheduler(version);
    }
}

fn lives_and_dies_with_the_scheduler(version: AirflowVersion) {
    let (instance, broker) = (Instance::start(version), Broker::shared(BrokerVersion::V4));
    broker.declare("orders", QueueKind::Quorum, json!({}));
    let dags = instance.home().join("dags");
    let text = format!(
        "from {} import dag, task\n",
        if version == AirflowVersion::V2 { "airflow.decorators" } else { "airflow.sdk" }
    ) + DAG;
    std::fs::write(dags.join("launched.py"), text).unwrap();
    let mut scheduler = instance.launch(&broker.url());
    let (pid, watcher) = (scheduler.pid(), scheduler.watcher());
    assert_eq!(status(watcher, "PPid"), Some(pid.to_string()));
    eventually(SLOW, "the launcher is the scheduler now", || command_line(pid).contains("airflow scheduler"));
    scheduler.wait_log("consumer.attached", 1);

    let airflow = Airflow::at(version, &instance.url());
    airflow.wait_dag("launched", SLOW);
    broker.publish(&[Message::to_queue("orders", "first").id("m1")]);
    let run = airflow.wait_state("launched", "rmq__orders__m1", "success", SLOW);
    assert_eq!(run["conf"]["body"], "first");

    kill(Pid::from_raw(pid), Signal::SIGTERM).unwrap();
    eventually(SLOW, "the scheduler has ended", || scheduler.child.try_wait().unwrap().is_some());
    eventually(SOON, "so has the watcher", || !lives(watcher));
    assert_eq!(broker.consumers("orders"), 0);
    drop(scheduler);

    let mut scheduler = instance.launch(&broker.url());
    let watcher = scheduler.watcher();
    scheduler.wait_log("consumer.attached", 2);
    kill(Pid::from_raw(scheduler.pid()), Signal::SIGKILL).unwrap();
    let ended = eventually_some(SOON, "the scheduler is gone", || scheduler.child.try_wait().unwrap());
    assert_eq!(ended.signal(), Some(9));
    eventually(SOON, "so is the watcher", || !lives(watcher));
    eventually(SOON, "and its consumer", || broker.consumers("orders") == 0);
}

const DAG: &str = "
try:
    from airflow_rmq_watcher import rmq_trigger
except ImportError:
    # The file is read by the watcher, never run by it; Airflow needs no package to run the DAG.
    def rmq_trigger(**_):
        return lambda factory: factory


@rmq_trigger(queue=\"orders\", conn_id=\"rmq_default\")
@dag(schedule=None, is_paused_upon_creation=False)
def launched():
    @task
    def work():
        return 7

    work()


launched()
";
