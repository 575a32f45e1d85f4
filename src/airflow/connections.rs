//! Where the settings of an AMQP connection come from: the environment, our configuration file, Airflow's own secrets.
//!
//! Flow: every connect of the broker adapter asks [`Connections::resolve`]. The environment and the file are looked at each
//! time (the file is read only when its stat has changed), so a rotated password counts at the next connect. Airflow is
//! asked last, through its command line, which costs seconds of CPU: one question at a time, answers kept for 15 minutes
//! or until the broker refuses a login.
//!
//! Must not: hold up the loop thread (files are read within the bounds of `readings`), or say any part of a
//! value. Why not over REST: Airflow never hands out passwords there (docs/adr/0014).

mod answer;
mod cache;
mod cli;

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::path::{Path, PathBuf};

use tokio::sync::Mutex;
use tokio::time::Instant;

pub use self::cli::{AirflowCli, CliError};

use self::cache::AnswerCache;
use super::readings::Readings;
use crate::config::connections::amqp::{self, ConnectionWarning};
use crate::config::connections::file::FileConnection;
use crate::config::connections::watch::{Snapshot, read_if_changed};
use crate::config::connections::{AirflowConnection, AirflowDialect, is_value_of_a_kind, parse};
use crate::config::environment::Environment;
use crate::config::files::first_line;
use crate::domain::connection::AmqpSettings;
use crate::domain::fault::{BrokerFault, BrokerFaultKind};
use crate::domain::ids::ConnId;
use crate::ports::ConnectionSource;
use crate::telemetry::events;

/// The sources of connections, in order.
pub struct Connections {
    environment: Box<dyn Fn() -> Environment>,
    file: Option<PathBuf>,
    snapshot: Mutex<Snapshot>,
    readings: Readings,
    cli: AirflowCli,
    cli_turn: Mutex<()>,
    cache: RefCell<AnswerCache>,
    dialect: Cell<AirflowDialect>,
    doubts: RefCell<HashMap<ConnId, Vec<ConnectionWarning>>>,
}

/// A connection that was found and makes sense.
#[derive(Clone, Debug)]
pub struct Resolved {
    /// Its settings.
    pub settings: AmqpSettings,
    /// Where it was found, for people.
    pub place: String,
    /// What is doubtful about it.
    pub warnings: Vec<ConnectionWarning>,
}

/// A connection as found, before it is judged.
struct Found {
    connection: AirflowConnection,
    place: String,
}

impl Connections {
    /// `file` is the configuration file that was read at start, if there was one; `cli` is how Airflow is asked.
    pub fn new(file: Option<PathBuf>, cli: AirflowCli) -> Self {
        Self::with_environment(file, cli, Environment::of_this_process)
    }

    /// [`Connections::new`] with another environment than this process's own.
    pub fn with_environment(
        file: Option<PathBuf>,
        cli: AirflowCli,
        environment: impl Fn() -> Environment + 'static,
    ) -> Self {
        Self {
            environment: Box::new(environment),
            file,
            snapshot: Mutex::default(),
            readings: Readings::default(),
            cli,
            cli_turn: Mutex::default(),
            cache: RefCell::default(),
            dialect: Cell::default(),
            doubts: RefCell::default(),
        }
    }

    /// Tells which Airflow's reading of `AIRFLOW_CONN_*` holds; Airflow 3's until then.
    pub fn set_dialect(&self, dialect: AirflowDialect) {
        self.dialect.set(dialect);
    }

    /// Finds a connection and says where; what is doubtful about it is returned and not logged.
    ///
    /// # Errors
    /// [`BrokerFaultKind::ConnectionUnknown`] with one sentence naming the connection, the place and what to do.
    ///
    /// # Cancel safety
    /// Cancel safe; an `airflow` that was started is killed with its process group.
    pub async fn locate(&self, conn: &ConnId) -> Result<Resolved, BrokerFault> {
        let found = self.find(conn).await?;
        match amqp::settings(conn, &found.connection) {
            Ok((settings, warnings)) => Ok(Resolved { settings, place: found.place, warnings }),
            Err(error) => Err(fault(conn, &found.place, &error.to_string())),
        }
    }

    async fn find(&self, conn: &ConnId) -> Result<Found, BrokerFault> {
        if let Some(found) = self.find_in_environment(conn)? {
            return Ok(found);
        }
        if let Some(found) = self.find_in_file(conn).await? {
            return Ok(found);
        }
        let place = "Airflow's connections";
        match self.ask_airflow(conn).await {
            Ok(connection) => Ok(Found { connection, place: place.to_owned() }),
            Err(error) => Err(self.not_found(conn, &error)),
        }
    }

    /// Where Airflow finds a variable that is broken it asks its next backend; we say so instead, since a connection that
    /// silently comes from elsewhere is the harder mistake to find.
    fn find_in_environment(&self, conn: &ConnId) -> Result<Option<Found>, BrokerFault> {
        let name = variable(conn);
        let place = format!("environment variable {name}");
        let environment = (self.environment)();
        let value = match environment.get(&name) {
            Ok(None | Some("")) => return Ok(None),
            Ok(Some(value)) => value,
            Err(_) => return Err(fault(conn, &place, "the value is not UTF-8 text")),
        };
        if !is_value_of_a_kind(value) {
            let sentence = "the value is neither a URI like amqp://user:password@host:5672/vhost nor a JSON object";
            return Err(fault(conn, &place, sentence));
        }
        match parse(value, self.dialect.get()) {
            Ok(connection) => Ok(Some(Found { connection, place })),
            Err(error) => Err(fault(conn, &place, &error.to_string())),
        }
    }

    async fn find_in_file(&self, conn: &ConnId) -> Result<Option<Found>, BrokerFault> {
        let Some(path) = &self.file else {
            return Ok(None);
        };
        let Some(entry) = self.entry_in_file(path, conn).await else {
            return Ok(None);
        };
        let place = format!("[connections.{conn}] in {}", path.display());
        let mut connection = entry.connection;
        if let Some(path) = entry.password_file {
            let password = self.readings.of(&path, first_line).await.map_err(|error| {
                fault(conn, &place, &format!("its password_file {} cannot be read: {error}", path.display()))
            })?;
            connection.password = Some(password);
        }
        Ok(Some(Found { connection, place }))
    }

    async fn entry_in_file(&self, path: &Path, conn: &ConnId) -> Option<FileConnection> {
        let mut snapshot = self.snapshot.lock().await;
        let before = snapshot.clone();
        match self.readings.of(path, move |path| read_if_changed(path, &before)).await {
            Ok(None) => {}
            Ok(Some(after)) => {
                for problem in &after.problems {
                    tracing::warn!(event = events::CONNECTION_KEPT, "{problem} What was read before stays in force.");
                }
                *snapshot = after;
            }
            Err(error) => {
                let sentence = format!("{} cannot be read: {error}", path.display());
                if snapshot.problems.first() != Some(&sentence) {
                    tracing::warn!(
                        event = events::CONNECTION_KEPT,
                        "{sentence}. Its connections stay as they were read before."
                    );
                    snapshot.problems = vec![sentence];
                }
                // Whatever comes back at this place is read, even if it looks like what was there.
                snapshot.stamp = None;
            }
        }
        snapshot.connections.get(conn.as_str()).cloned()
    }

    /// One question at a time; whoever waited for the same connection finds the answer in the cache.
    async fn ask_airflow(&self, conn: &ConnId) -> Result<AirflowConnection, CliError> {
        if let Some(answer) = self.cached(conn) {
            return answer;
        }
        let _turn = self.cli_turn.lock().await;
        if let Some(answer) = self.cached(conn) {
            return answer;
        }
        let answer = self.cli.get(conn).await;
        let kept = self.cache.borrow_mut().store(conn, answer.clone(), Instant::now());
        if let (Err(error), Ok(_)) = (&answer, &kept) {
            tracing::warn!(
                event = events::CONNECTION_KEPT,
                connection.id = %conn,
                "Airflow could not be asked for connection {conn}: {error}. What it said before is used."
            );
        }
        kept
    }

    fn cached(&self, conn: &ConnId) -> Option<Result<AirflowConnection, CliError>> {
        self.cache.borrow().fresh(conn, Instant::now())
    }

    fn not_found(&self, conn: &ConnId, error: &CliError) -> BrokerFault {
        let file = match &self.file {
            Some(path) => format!("in {}", path.display()),
            None => "in a configuration file, of which there is none".to_owned(),
        };
        BrokerFault {
            kind: BrokerFaultKind::ConnectionUnknown,
            text: format!(
                "Connection {conn} is neither in {} nor {file}, and Airflow was asked: {error}",
                variable(conn)
            ),
        }
    }

    /// Logs doubts that are new.
    fn report(&self, conn: &ConnId, resolved: &Resolved) {
        let mut doubts = self.doubts.borrow_mut();
        if doubts.get(conn).is_some_and(|known| *known == resolved.warnings) {
            return;
        }
        for warning in &resolved.warnings {
            tracing::warn!(
                event = events::CONNECTION_DOUBTED,
                connection.id = %conn,
                "Connection {conn} in {}: {warning}.",
                resolved.place
            );
        }
        doubts.insert(conn.clone(), resolved.warnings.clone());
    }
}

impl ConnectionSource for Connections {
    async fn resolve(&self, conn: &ConnId) -> Result<AmqpSettings, BrokerFault> {
        let resolved = self.locate(conn).await?;
        self.report(conn, &resolved);
        Ok(resolved.settings)
    }

    fn login_refused(&self, conn: &ConnId) {
        self.cache.borrow_mut().refuse(conn);
    }
}

/// Airflow's name for a connection's variable.
fn variable(conn: &ConnId) -> String {
    format!("AIRFLOW_CONN_{}", conn.as_str().to_uppercase())
}

fn fault(conn: &ConnId, place: &str, sentence: &str) -> BrokerFault {
    BrokerFault { kind: BrokerFaultKind::ConnectionUnknown, text: format!("Connection {conn} in {place}: {sentence}") }
}
