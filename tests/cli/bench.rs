//! What most tests start from: a broker, a stand-in for Airflow and one subscription; and `check` as a person reads it.

use std::io::Read as _;
use std::process::Stdio;
use std::time::Duration;

use serde_json::json;

use crate::support::{Broker, BrokerVersion, Dialect, QueueKind, Setup, StubAirflow, eventually_some};

/// For what happens within a second on an idle machine.
pub(crate) const SOON: Duration = Duration::from_secs(30);

/// For what waits for pauses to end.
pub(crate) const LATER: Duration = Duration::from_secs(150);

/// The longest line a person is expected to read.
const LONGEST_LINE: usize = 400;

/// A broker with the queue `orders`, an Airflow with the DAG `orders`, and a folder.
pub(crate) struct Bench {
    pub(crate) broker: Broker,
    pub(crate) stub: StubAirflow,
    pub(crate) folder: tempfile::TempDir,
}

impl Bench {
    pub(crate) fn new(version: BrokerVersion, dialect: Dialect) -> Self {
        Self::on(Broker::shared(version), dialect)
    }

    pub(crate) fn on(broker: Broker, dialect: Dialect) -> Self {
        broker.declare("orders", QueueKind::Classic, json!({}));
        let (stub, folder) = (StubAirflow::with_dag(dialect, "orders"), tempfile::tempdir().unwrap());
        Self { broker, stub, folder }
    }

    /// Everything right.
    pub(crate) fn setup(&self) -> Setup {
        self.setup_with(&self.broker.url())
    }

    /// Everything right but, perhaps, the AMQP connection.
    pub(crate) fn setup_with(&self, amqp_url: &str) -> Setup {
        let setup = Setup::in_folder(self.folder.path())
            .stub(&self.stub)
            .env("RMQ_WATCHER__RECONCILE__INTERVAL_SECS", "1")
            .connection("rmq_default", amqp_url);
        setup.dag("orders", "orders", "rmq_default");
        setup
    }
}

/// What `check` said and how it ended.
#[derive(Debug)]
pub(crate) struct Checked {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
}

impl Checked {
    /// Runs `rmq-watcher check`, and holds what is true of every run: it ends by itself, says everything on standard output,
    /// and says it for people.
    #[track_caller]
    pub(crate) fn of(setup: &Setup) -> Self {
        Self::with(setup, &[])
    }

    #[track_caller]
    pub(crate) fn with(setup: &Setup, flags: &[&str]) -> Self {
        let mut command = setup.command(&[&["check"], flags].concat());
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let ended = eventually_some(LATER, "check has ended", || child.try_wait().unwrap());
        let (mut out, mut error) = (String::new(), String::new());
        child.stdout.take().unwrap().read_to_string(&mut out).unwrap();
        child.stderr.take().unwrap().read_to_string(&mut error).unwrap();
        assert_eq!(error, "", "on standard error");
        assert_readable(out.lines());
        Self { code: ended.code(), out }
    }

    /// The lines that begin with a mark: `ok`, `WARN` or `FAIL`.
    pub(crate) fn marked(&self, mark: &str) -> Vec<&str> {
        self.out.lines().filter_map(|line| line.strip_prefix(mark)?.strip_prefix(' ')).map(str::trim).collect()
    }

    /// Holds that exactly this one thing is wrong, said in one sentence with all these parts.
    #[track_caller]
    pub(crate) fn expect_one_fault(&self, parts: &[&str]) {
        let fails = self.marked("FAIL");
        assert_eq!(fails.len(), 1, "{}", self.out);
        for part in parts {
            assert!(fails[0].contains(part), "no {part:?} in: {}", fails[0]);
        }
        assert_eq!(self.code, Some(1), "{}", self.out);
        assert!(self.out.ends_with("\n1 thing is wrong.\n"), "{}", self.out);
    }
}

/// Lines as a stranger would read them: short enough, and nothing in Rust's own notation.
#[track_caller]
pub(crate) fn assert_readable<'a>(lines: impl Iterator<Item = &'a str>) {
    const RUST: [&str; 9] = ["Some(", "None)", "Err(", "Ok(", "{ kind", "kind: ", "Error {", "panicked at", "called `"];
    for line in lines {
        assert!(line.chars().count() <= LONGEST_LINE, "{} characters: {line}", line.chars().count());
        for notation in RUST {
            assert!(!line.contains(notation), "{notation:?} in: {line}");
        }
    }
}
