//! The combined source of connections: order, freshness, Airflow's command line with a stand-in for the program.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rmq_watcher::airflow::connections::{AirflowCli, Connections};
use rmq_watcher::config::connections::AirflowDialect;
use rmq_watcher::config::environment::Environment;
use rmq_watcher::domain::fault::BrokerFaultKind;
use rmq_watcher::domain::ids::ConnId;
use rmq_watcher::ports::ConnectionSource;
use tempfile::TempDir;

const FAKE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/airflow_connections/fake-airflow");

/// A directory with a stand-in for `airflow` that counts its runs.
pub(crate) struct Fake {
    dir: TempDir,
}

impl Fake {
    pub(crate) fn new(behaviour: &str) -> Self {
        let fake = Self { dir: TempDir::new().unwrap() };
        std::os::unix::fs::symlink(FAKE, fake.path("airflow")).unwrap();
        fake.behave(behaviour);
        fake
    }

    pub(crate) fn behave(&self, behaviour: &str) {
        let text = format!("cd \"$(dirname \"$0\")\"\necho \"$@\" >> runs\n{behaviour}\n");
        fs::write(self.path("behaviour.sh"), text).unwrap();
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn cli(&self, timeout: Duration) -> AirflowCli {
        AirflowCli { program: self.path("airflow").into(), timeout }
    }

    pub(crate) fn runs(&self) -> usize {
        fs::read_to_string(self.path("runs")).unwrap_or_default().lines().count()
    }
}

const LONG: Duration = Duration::from_secs(30);

fn answer(host: &str) -> String {
    format!(
        "echo 'a log line'\necho '[{{\"conn_id\":\"c\",\"conn_type\":\"amqp\",\"host\":\"{host}\",\"port\":\"5672\",\"login\":\"u\",\"password\":\"p\"}}]'"
    )
}

fn connections(fake: &Fake, file: Option<PathBuf>, environment: &[(&str, &str)]) -> Connections {
    let environment = Environment::new(environment.iter().copied(), None);
    Connections::with_environment(file, fake.cli(LONG), move || environment.clone())
}

async fn host(connections: &Connections) -> String {
    connections.resolve(&ConnId::new("c")).await.unwrap().hosts.join(",")
}

async fn error(connections: &Connections, id: &str) -> String {
    let fault = connections.resolve(&ConnId::new(id)).await.unwrap_err();
    assert_eq!(fault.kind, BrokerFaultKind::ConnectionUnknown);
    fault.text
}

#[tokio::test]
async fn resolve_asks_environment_then_file_then_airflow() {
    let fake = Fake::new(&answer("from-airflow"));
    let file = fake.path("rmq-watcher.toml");
    fs::write(&file, "[connections.c]\nhost = \"from-file\"\n").unwrap();
    let environment = [("AIRFLOW_CONN_C", "amqp://from-environment")];
    assert_eq!(host(&connections(&fake, Some(file.clone()), &environment)).await, "from-environment");
    assert_eq!(host(&connections(&fake, Some(file.clone()), &[("AIRFLOW_CONN_C", "")])).await, "from-file");
    assert_eq!(fake.runs(), 0, "Airflow is asked last");
    fs::write(&file, "").unwrap();
    assert_eq!(host(&connections(&fake, Some(file), &[])).await, "from-airflow");
    assert_eq!(host(&connections(&fake, None, &[])).await, "from-airflow");
    assert_eq!(fs::read_to_string(fake.path("runs")).unwrap().lines().next(), Some("connections get -o json -- c"));
}

#[tokio::test]
async fn resolve_reads_the_environment_afresh_and_in_the_dialect() {
    let fake = Fake::new("exit 9");
    let value = Rc::new(std::cell::RefCell::new("amqp://one?ca_certs=1&ssl_enabled=true".to_owned()));
    let shared = Rc::clone(&value);
    let connections = Connections::with_environment(None, fake.cli(LONG), move || {
        Environment::new([("AIRFLOW_CONN_C", shared.borrow().clone())], None)
    });
    let text = error(&connections, "c").await;
    assert!(text.contains("AIRFLOW_CONN_C") && text.contains("`ca_certs`"), "Airflow 3 makes a number of it: {text}");
    connections.set_dialect(AirflowDialect::V2);
    assert_eq!(host(&connections).await, "one");
    *value.borrow_mut() = "amqp://two".to_owned();
    assert_eq!(host(&connections).await, "two");
}

#[tokio::test]
async fn a_broken_variable_is_an_error_and_asks_nobody_else() {
    let fake = Fake::new(&answer("from-airflow"));
    for value in ["amqp://h:bad", "u:p@h", "h", " ", "{", "http://h", "//u:p@h"] {
        let text = error(&connections(&fake, None, &[("AIRFLOW_CONN_C", value)]), "c").await;
        assert!(text.starts_with("Connection c in environment variable AIRFLOW_CONN_C: "), "{text}");
    }
    assert_eq!(fake.runs(), 0);
}

#[tokio::test]
async fn the_file_is_read_again_when_it_has_changed_and_kept_when_broken() {
    let fake = Fake::new("echo 'Connection not found.' >&2; exit 1");
    let file = fake.path("rmq-watcher.toml");
    let write = |text: &str| {
        // A new file in its place, as editors and Kubernetes do it.
        fs::write(fake.path("new"), text).unwrap();
        fs::rename(fake.path("new"), &file).unwrap();
    };
    write("[connections.c]\nhost = \"one\"\n[connections.d]\n");
    let connections = connections(&fake, Some(file.clone()), &[]);
    assert_eq!(host(&connections).await, "one");
    write("[connections.c]\nhost = \"two\"\n");
    assert_eq!(host(&connections).await, "two");
    for broken in ["[connections.c\n", "[connections.c]\nhost = 5\n", "[connections.c]\nhots = \"x\"\n"] {
        write(broken);
        assert_eq!(host(&connections).await, "two", "{broken}");
    }
    fs::remove_file(&file).unwrap();
    assert_eq!(host(&connections).await, "two");
    write("[connections.d]\n");
    assert!(error(&connections, "c").await.contains("none of them has it"));
}

#[tokio::test]
async fn a_password_file_is_read_at_every_connect() {
    let fake = Fake::new("exit 9");
    let (file, password) = (fake.path("rmq-watcher.toml"), fake.path("password"));
    fs::write(&file, format!("[connections.c]\npassword_file = {password:?}\n")).unwrap();
    let connections = connections(&fake, Some(file), &[]);
    assert!(error(&connections, "c").await.contains("password_file"), "it is not there yet");
    for secret in ["first", "second"] {
        fs::write(&password, format!("{secret}\nignored\n")).unwrap();
        let settings = connections.resolve(&ConnId::new("c")).await.unwrap();
        assert_eq!(settings.password.expose(), secret);
    }
}

#[tokio::test]
async fn airflows_answer_is_shared_kept_and_asked_again_after_a_refusal() {
    let fake = Fake::new(&answer("one"));
    let connections = connections(&fake, None, &[]);
    let both = futures_util::future::join(host(&connections), host(&connections)).await;
    assert_eq!(both, ("one".to_owned(), "one".to_owned()));
    assert_eq!(fake.runs(), 1, "one question for both");
    fake.behave(&answer("two"));
    assert_eq!(host(&connections).await, "one");
    connections.login_refused(&ConnId::new("c"));
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(16)).await;
    tokio::time::resume();
    assert_eq!(host(&connections).await, "two");
    fake.behave("exit 1");
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(901)).await;
    tokio::time::resume();
    assert_eq!(host(&connections).await, "two", "a failed question takes nothing away");
    assert_eq!(fake.runs(), 3);
}

#[tokio::test]
async fn each_failure_of_airflow_is_its_own_sentence() {
    for (behaviour, part) in [
        ("echo 'Connection not found.' >&2; exit 1", "none of them has it"),
        ("echo 'Traceback: postgresql://u:S3CRET@h' >&2; exit 1", "failed (exit status: 1)"),
        ("kill -9 $$", "failed (signal: 9"),
        ("echo nothing of use", "cannot be read"),
    ] {
        let fake = Fake::new(behaviour);
        let text = error(&connections(&fake, None, &[]), "c").await;
        assert!(text.contains(part) && !text.contains("S3CRET"), "{text}");
        let places =
            "neither in AIRFLOW_CONN_C nor in a configuration file, of which there is none, and Airflow was asked";
        assert!(text.contains(places), "{text}");
    }
    let fake = Fake::new("");
    fs::remove_file(fake.path("airflow")).unwrap();
    let text = error(&connections(&fake, None, &[]), "c").await;
    assert!(text.contains("is not there to ask Airflow with"), "{text}");
    assert!(error(&connections(&fake, None, &[]), "a\0b").await.contains("NUL"));
}

/// Waits until a process is gone or is only a zombie of somebody else's.
fn wait_for_end(pid: &str) {
    let deadline = Instant::now() + Duration::from_secs(20);
    let is_alive = || {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit(") ").next().is_some_and(|s| !s.is_empty() && !s.starts_with('Z'))
    };
    while is_alive() {
        assert!(Instant::now() < deadline, "process {pid} lives on");
        std::thread::yield_now();
    }
}

async fn wait_for_file(path: &Path) -> String {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let text = fs::read_to_string(path).unwrap_or_default();
        if text.ends_with('\n') {
            return text.trim().to_owned();
        }
        assert!(Instant::now() < deadline, "{} never came", path.display());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn an_airflow_that_hangs_is_killed_with_its_children() {
    let fake = Fake::new("sleep 1000 & echo $! > child; wait");
    let environment = Environment::default();
    let cli = fake.cli(Duration::from_secs(2));
    let connections = Connections::with_environment(None, cli, move || environment.clone());
    assert!(error(&connections, "c").await.contains("did not end within 2 s and was killed"));
    wait_for_end(&wait_for_file(&fake.path("child")).await);
}

#[tokio::test]
async fn a_dropped_question_kills_airflow_with_its_children() {
    let fake = Fake::new("sleep 1000 & echo $! > child; wait");
    let connections = connections(&fake, None, &[]);
    let conn = ConnId::new("c");
    let child = fake.path("child");
    let pid = tokio::select! {
        _ = connections.resolve(&conn) => panic!("it hangs"),
        pid = wait_for_file(&child) => pid,
    };
    wait_for_end(&pid);
}

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn a_doubt_is_logged_once_for_each_change() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone()).finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let fake = Fake::new("exit 9");
    let value = Rc::new(std::cell::RefCell::new("amqp://h?heartbeat=0".to_owned()));
    let shared = Rc::clone(&value);
    let connections = Connections::with_environment(None, fake.cli(LONG), move || {
        Environment::new([("AIRFLOW_CONN_C", shared.borrow().clone())], None)
    });
    let lines = || {
        let text = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
        text.lines().filter(|l| l.contains("connection.doubted") && l.contains("WARN")).count()
    };
    host(&connections).await;
    host(&connections).await;
    assert_eq!(lines(), 1);
    *value.borrow_mut() = "amqps://h?cert_reqs=CERT_NONE".to_owned();
    host(&connections).await;
    host(&connections).await;
    assert_eq!(lines(), 2);
}
