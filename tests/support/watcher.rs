//! The built `rmq-watcher` as a process of its own.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::stub_airflow::StubAirflow;
use super::wait::eventually_some;

/// What a watcher is started with; the same value may start it again and again over one state.
#[derive(Clone, Debug)]
pub struct Setup {
    folder: PathBuf,
    verb: Vec<String>,
    env: BTreeMap<String, String>,
    config: String,
}

impl Setup {
    /// A watcher without a parent (`run --standalone`) whose state, configuration and DAG files are in `folder`.
    pub fn in_folder(folder: &Path) -> Self {
        std::fs::create_dir_all(folder.join("dags")).unwrap();
        let mut env = BTreeMap::new();
        for name in ["PATH", "TMPDIR", "LD_LIBRARY_PATH", "LLVM_PROFILE_FILE"] {
            if let Ok(value) = std::env::var(name) {
                env.insert(name.to_owned(), value);
            }
        }
        let paths = [
            ("HOME", folder.to_owned()),
            ("AIRFLOW_HOME", folder.to_owned()),
            ("AIRFLOW__CORE__DAGS_FOLDER", folder.join("dags")),
            ("RMQ_WATCHER_CONFIG", folder.join("rmq-watcher.toml")),
            ("RMQ_WATCHER__STATE__DIR", folder.join("state")),
        ];
        for (name, path) in paths {
            env.insert(name.to_owned(), path.display().to_string());
        }
        env.insert("RMQ_WATCHER__LOG__LEVEL".to_owned(), "debug".to_owned());
        Self {
            folder: folder.to_owned(),
            verb: vec!["run".to_owned(), "--standalone".to_owned()],
            env,
            config: String::new(),
        }
    }

    /// Sets a variable. The watcher gets no other variables than these and those of [`Setup::in_folder`].
    #[must_use]
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.env.insert(name.to_owned(), value.to_owned());
        self
    }

    /// Takes a variable away again.
    #[must_use]
    pub fn without(mut self, name: &str) -> Self {
        self.env.remove(name);
        self
    }

    /// Gives it a URL, a user and a password of Airflow.
    #[must_use]
    pub fn airflow(self, url: &str, user: &str, password: &str) -> Self {
        self.env("RMQ_WATCHER__AIRFLOW__URL", url)
            .env("RMQ_WATCHER__AIRFLOW__USERNAME", user)
            .env("RMQ_WATCHER__AIRFLOW__PASSWORD", password)
    }

    /// Gives it the stand-in for Airflow.
    #[must_use]
    pub fn stub(self, stub: &StubAirflow) -> Self {
        self.airflow(&stub.url(), &stub.user(), &stub.password())
    }

    /// Gives it an AMQP URL under a connection id.
    #[must_use]
    pub fn connection(self, id: &str, amqp_url: &str) -> Self {
        let name = format!("AIRFLOW_CONN_{}", id.to_ascii_uppercase());
        self.env(&name, amqp_url)
    }

    /// Adds lines to its configuration file.
    #[must_use]
    pub fn config(mut self, toml: &str) -> Self {
        self.config.push_str(toml);
        self.config.push('\n');
        self
    }

    /// Writes a DAG file.
    pub fn dag_file(&self, name: &str, text: &str) {
        std::fs::write(self.folder.join("dags").join(name), text).unwrap();
    }

    /// Writes a DAG file whose DAG is triggered from a queue by `@rmq_trigger`.
    pub fn dag(&self, dag: &str, queue: &str, conn_id: &str) {
        let text = format!(
            "from airflow.sdk import dag\nfrom airflow_rmq_watcher import rmq_trigger\n\n\n\
             @rmq_trigger(queue=\"{queue}\", conn_id=\"{conn_id}\")\n@dag(schedule=None)\n\
             def {dag}():\n    pass\n\n\n{dag}()\n"
        );
        self.dag_file(&format!("{dag}.py"), &text);
    }

    /// Where its state is.
    pub fn state_dir(&self) -> PathBuf {
        self.folder.join("state")
    }

    /// The command, for a test that runs another verb or watches another stream.
    pub fn command(&self, verb: &[&str]) -> Command {
        std::fs::write(self.folder.join("rmq-watcher.toml"), &self.config).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_rmq-watcher"));
        command.args(verb).env_clear().envs(&self.env).current_dir(&self.folder);
        command
    }

    /// Starts it.
    pub fn start(&self) -> Watcher {
        let verb: Vec<_> = self.verb.iter().map(String::as_str).collect();
        let mut command = self.command(&verb);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("rmq-watcher starts");
        let log = Arc::new(Log::default());
        collect(child.stdout.take().unwrap(), &log);
        collect(child.stderr.take().unwrap(), &log);
        Watcher { child, log, announced: vec![], read: 0 }
    }
}

#[derive(Default)]
struct Log {
    lines: Mutex<Vec<String>>,
    grown: Condvar,
}

fn collect(stream: impl std::io::Read + Send + 'static, log: &Arc<Log>) {
    let log = Arc::clone(log);
    std::thread::spawn(move || {
        for line in BufReader::new(stream).lines() {
            let Ok(line) = line else { return };
            log.lines.lock().unwrap().push(line);
            log.grown.notify_all();
        }
    });
}

/// A running (or ended) watcher. Dropping it kills it, and fails the test if it logged a warning or an error that the test
/// did not announce.
pub struct Watcher {
    child: Child,
    log: Arc<Log>,
    announced: Vec<String>,
    read: usize,
}

impl Watcher {
    /// Its process id.
    pub fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).unwrap()
    }

    /// Announces warnings and errors that contain this text.
    pub fn announce(&mut self, text: &str) -> &mut Self {
        self.announced.push(text.to_owned());
        self
    }

    /// Every line so far, of both streams.
    pub fn lines(&self) -> Vec<String> {
        self.log.lines.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits for a line that contains a text, among those after the last line waited for, and returns it.
    ///
    /// # Panics
    /// When none came by the deadline; the log so far is shown.
    #[track_caller]
    pub fn wait_line(&mut self, text: &str, deadline: Duration) -> String {
        self.wait_matching(text, deadline, |line| line.contains(text))
    }

    /// Waits for a log event by name, such as `consumer.started`, and returns its line.
    #[track_caller]
    pub fn wait_event(&mut self, event: &str, deadline: Duration) -> String {
        self.wait_matching(event, deadline, |line| is_event(line, event))
    }

    /// How many lines of an event there are so far.
    pub fn count_event(&self, event: &str) -> usize {
        let lines = self.log.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.iter().filter(|line| is_event(line, event)).count()
    }

    #[track_caller]
    fn wait_matching(&mut self, what: &str, deadline: Duration, wanted: impl Fn(&str) -> bool) -> String {
        let end = Instant::now() + deadline;
        let mut lines = self.log.lines.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            while self.read < lines.len() {
                self.read += 1;
                if wanted(&lines[self.read - 1]) {
                    return lines[self.read - 1].clone();
                }
            }
            let left = end.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "no `{what}` within {deadline:?}; the log:\n{}", lines.join("\n"));
            lines = self.log.grown.wait_timeout(lines, left).unwrap().0;
        }
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.pid()), signal).expect("the watcher is there to be signalled");
    }

    /// SIGKILL, and waits until it is gone.
    pub fn kill(&mut self) {
        self.signal(Signal::SIGKILL);
        self.child.wait().unwrap();
    }

    /// SIGTERM, and waits for its end.
    #[track_caller]
    pub fn stop(&mut self, deadline: Duration) -> ExitStatus {
        self.signal(Signal::SIGTERM);
        self.wait_end(deadline)
    }

    /// Waits for its end.
    #[track_caller]
    pub fn wait_end(&mut self, deadline: Duration) -> ExitStatus {
        eventually_some(deadline, "the watcher has ended", || self.child.try_wait().unwrap())
    }

    /// Whether it still runs.
    pub fn runs(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        // It may have ended already; either way it is gone after this.
        drop(self.child.kill());
        drop(self.child.wait());
        if std::thread::panicking() {
            show(&self.lines());
            return;
        }
        let loud: Vec<_> = self
            .lines()
            .into_iter()
            .filter(|line| is_loud(line))
            .filter(|line| !self.announced.iter().any(|text| line.contains(text)))
            .collect();
        assert!(loud.is_empty(), "warnings or errors that the test did not announce:\n{}", loud.join("\n"));
    }
}

/// Whether a line, in either format, is of this event.
fn is_event(line: &str, event: &str) -> bool {
    [format!("\"event\":\"{event}\""), format!("event=\"{event}\""), format!("event={event} ")]
        .iter()
        .any(|form| line.contains(form.as_str()))
        || line.ends_with(&format!("event={event}"))
}

/// Whether a line, in either format, is a warning or an error.
fn is_loud(line: &str) -> bool {
    const LOUD: [&str; 5] = ["} WARNING - ", "} WARN - ", "} ERROR - ", "\"level\":\"WARN\"", "\"level\":\"ERROR\""];
    LOUD.iter().any(|mark| line.contains(mark)) || line.contains("\"level\":\"WARNING\"")
}

#[allow(clippy::print_stderr, reason = "the test's own output, where the log of a failed test belongs")]
fn show(lines: &[String]) {
    eprintln!("the watcher's log:\n{}", lines.join("\n"));
}
