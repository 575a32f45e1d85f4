//! `rmq-watcher check`: prints the effective settings, secrets left out, and then tries them.
//!
//! Changes nothing anywhere: it logs in, looks queues up passively and asks for DAGs. Every failure is one sentence that
//! names what, where and what to do.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::path::Path;

use crate::airflow::connections::{AirflowCli, Connections};
use crate::airflow::{AirflowClient, Blocked};
use crate::broker::{ProbeFinding, ProbeResult, ProbeSubject, look, probe};
use crate::config::Settings;
use crate::config::airflow::Credentials;
use crate::config::connections::AirflowDialect;
use crate::config::problem::Problems;
use crate::config::sources::Sources;
use crate::discovery::{Scan, Scanner};
use crate::domain::declaration::Declaration;
use crate::domain::ids::{ConnId, DagId, QueueName};
use crate::domain::outcome::{AccessAnswer, DagLookup, Dialect, FoundDag};
use crate::domain::plan::Withheld;
use crate::domain::queue_facts::{NotLooked, QueueFacts};
use crate::ports::Dags as _;
use crate::store::open::{self, Looked};

/// Runs the verb; returns the exit code.
///
/// # Errors
/// The output could not be written.
pub async fn run(config: Option<&Path>, out: &mut dyn Write) -> io::Result<i32> {
    let settings = Sources::gather(config, BTreeMap::new()).and_then(|sources| Settings::load(&sources));
    let settings = match settings {
        Ok(settings) => settings,
        Err(Problems(problems)) => {
            for problem in &problems {
                writeln!(out, "FAIL  {problem}")?;
            }
            let wrong = counted(problems.len(), "setting is wrong", "settings are wrong");
            writeln!(out, "\n{wrong}; nothing was tried")?;
            return Ok(1);
        }
    };
    let mut check = Check { out, failures: 0 };
    check.settings(&settings)?;
    check.state(&settings)?;
    let scan = check.folder(&settings)?;
    let airflow = check.airflow(&settings).await?;
    check.connections(&settings, &scan, airflow.as_ref().map(|(_, dialect)| *dialect)).await?;
    check.dags(airflow.as_ref().map(|(client, _)| client), &scan).await?;
    check.conclude()
}

struct Check<'a> {
    out: &'a mut dyn Write,
    failures: u32,
}

impl Check<'_> {
    fn title(&mut self, title: &str) -> io::Result<()> {
        writeln!(self.out, "\n{title}")
    }

    fn ok(&mut self, sentence: &str) -> io::Result<()> {
        writeln!(self.out, "ok    {sentence}")
    }

    fn warn(&mut self, sentence: &str) -> io::Result<()> {
        writeln!(self.out, "WARN  {sentence}")
    }

    fn fail(&mut self, sentence: &str) -> io::Result<()> {
        self.failures += 1;
        writeln!(self.out, "FAIL  {sentence}")
    }

    fn settings(&mut self, settings: &Settings) -> io::Result<()> {
        writeln!(self.out, "Settings")?;
        for setting in settings.effective() {
            writeln!(self.out, "      {} = {}  ({})", setting.key, setting.shown_value, setting.source)?;
        }
        settings.warnings.iter().try_for_each(|warning| self.warn(warning))
    }

    /// Makes nothing: looks whether the state file could be made or used.
    fn state(&mut self, settings: &Settings) -> io::Result<()> {
        self.title("State directory")?;
        let dir = &settings.state_dir;
        let shown = dir.display();
        match open::look(dir) {
            Ok(Looked::Usable) => self.ok(&format!("{shown} can be used")),
            Ok(Looked::ToBeMade) => self.ok(&format!("{shown} will be made")),
            Err(error) => self.fail(&error.to_string()),
        }
    }

    fn folder(&mut self, settings: &Settings) -> io::Result<Scan> {
        self.title("DAG folder")?;
        let scan = match Scanner::of(settings.dags.clone()).scan() {
            Ok(scan) => scan,
            Err(error) => {
                self.fail(&error.to_string())?;
                return Ok(Scan::default());
            }
        };
        let files = counted(scan.listed, "file", "files");
        let found = counted(scan.declarations.len(), "subscription", "subscriptions");
        self.ok(&format!("{}: {files}, {found}", settings.dags.shown()))?;
        scan.unreadable.iter().try_for_each(|problem| self.fail(&problem.to_string()))?;
        scan.refusals.iter().try_for_each(|refusal| self.fail(&refusal.to_string()))?;
        for declaration in &scan.declarations {
            if let Some(why) = declaration.options.not_handled().map(Withheld::NotHandled) {
                let reason = why.sentence().unwrap_or_default();
                let Declaration { dag_id, origin, .. } = declaration;
                self.fail(&format!("{origin}: subscription of DAG '{dag_id}' would not run: {reason}"))?;
            }
        }
        Ok(scan)
    }

    async fn airflow(&mut self, settings: &Settings) -> io::Result<Option<(AirflowClient, Dialect)>> {
        self.title("Airflow")?;
        let client = match AirflowClient::new(settings.airflow.clone()) {
            Ok(client) => client,
            Err(error) => return self.fail(&error.to_string()).map(|()| None),
        };
        let has_credentials = settings.airflow.credentials != Credentials::Missing;
        if !has_credentials {
            self.fail(
                "no Airflow credentials, so the watcher would attach nothing; set airflow.username and airflow.password, \
                 or airflow.password_file, airflow.token_file, airflow.token_command",
            )?;
        }
        let url = &settings.airflow.url;
        let dialect = match client.version().await {
            Ok((dialect, version)) => {
                self.ok(&format!("Airflow {version} answers at {url} (taken from {})", settings.airflow.url_source))?;
                dialect
            }
            Err(Blocked::Access(reason)) => return self.fail(&reason).map(|()| None),
            Err(Blocked::NotNow { reason, .. }) => {
                let source = &settings.airflow.url_source;
                return self
                    .fail(&format!(
                        "{reason}; check that Airflow's API server runs, and airflow.url (taken from {source})"
                    ))
                    .map(|()| None);
            }
        };
        if !has_credentials {
            return Ok(None);
        }
        match client.access().await {
            AccessAnswer::Granted => self.ok("the login is accepted")?,
            AccessAnswer::AccessFault(reason) | AccessAnswer::Unavailable(reason) => {
                return self.fail(&format!("log in to Airflow at {url}: {reason}")).map(|()| None);
            }
        }
        Ok(Some((client, dialect)))
    }

    async fn connections(&mut self, settings: &Settings, scan: &Scan, dialect: Option<Dialect>) -> io::Result<()> {
        self.title("RabbitMQ")?;
        let connections = Connections::new(settings.file.clone(), AirflowCli::default());
        if dialect == Some(Dialect::V1) {
            connections.set_dialect(AirflowDialect::V2);
        }
        let wanted = queues_by_connection(scan);
        if wanted.is_empty() {
            self.ok("no subscription names a connection")?;
        }
        for (conn, queues) in wanted {
            match connections.locate(&conn).await {
                Err(fault) => self.fail(&fault.text)?,
                Ok(found) => {
                    self.ok(&format!("connection '{conn}' was found in {}", found.place))?;
                    for warning in &found.warnings {
                        self.warn(&format!("connection '{conn}': {warning}"))?;
                    }
                    for result in probe(&found.settings, &queues).await {
                        self.probed(&conn, result)?;
                    }
                    if let Some(queue) = queues.first() {
                        self.management(&conn, look(&found.settings, queue, "rmq_watcher.").await)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// What it does not tell is a warning: nothing stops for it.
    fn management(&mut self, conn: &ConnId, looked: Result<QueueFacts, NotLooked>) -> io::Result<()> {
        match looked {
            Ok(_) | Err(NotLooked::NoQueue) => self.ok(&format!("connection '{conn}': the management API answers")),
            Err(NotLooked::Failed(reason)) => self.warn(&format!(
                "connection '{conn}': the management API cannot be asked: {reason}; limits and timeouts of its queues stay unknown"
            )),
            Err(NotLooked::NoManagement | NotLooked::NotConnected) => Ok(()),
        }
    }

    fn probed(&mut self, conn: &ConnId, result: ProbeResult) -> io::Result<()> {
        let finding = match result.outcome {
            Ok(finding) => finding,
            // A fault names the connection, the host and the port itself.
            Err(fault) => return self.fail(&fault.text),
        };
        match (result.subject, finding) {
            (ProbeSubject::Queue(queue), ProbeFinding::Queue { messages, consumers }) => {
                let messages = counted(messages as usize, "message", "messages");
                let consumers = counted(consumers as usize, "consumer", "consumers");
                self.ok(&format!("connection '{conn}': queue '{queue}' has {messages} and {consumers}"))
            }
            (ProbeSubject::Queue(queue), ProbeFinding::Works | ProbeFinding::Greeted(_)) => {
                self.ok(&format!("connection '{conn}': queue '{queue}' is there"))
            }
            (ProbeSubject::Connection, _) => self.ok(&format!("connection '{conn}': the broker answers")),
            (ProbeSubject::Login, _) => self.ok(&format!("connection '{conn}': the login is accepted")),
            (ProbeSubject::Vhost, _) => self.ok(&format!("connection '{conn}': the vhost is open to us")),
        }
    }

    async fn dags(&mut self, client: Option<&AirflowClient>, scan: &Scan) -> io::Result<()> {
        self.title("DAGs")?;
        let Some(client) = client else {
            return self.warn("not looked up, because Airflow could not be used, see above");
        };
        let dags: BTreeSet<DagId> = scan.declarations.iter().map(|declaration| declaration.dag_id.clone()).collect();
        if dags.is_empty() {
            self.ok("no subscription names a DAG")?;
        }
        for dag in dags {
            match client.look_up_dag(&dag).await {
                DagLookup::Found(found) => self.dag(&dag, found)?,
                DagLookup::Absent => self.fail(&format!(
                    "DAG '{dag}': Airflow does not know it; wait until it has read the file, or see its import errors"
                ))?,
                DagLookup::Unknown(reason) => self.fail(&format!("DAG '{dag}': {reason}"))?,
            }
        }
        Ok(())
    }

    fn dag(&mut self, dag: &DagId, found: FoundDag) -> io::Result<()> {
        if !found.is_active {
            return self.fail(&format!(
                "DAG '{dag}': Airflow does not find it in its DAG folder any more; put its file there, or take the subscription out"
            ));
        }
        if found.has_import_errors {
            return self.fail(&format!("DAG '{dag}': its file fails to import; mend what Airflow's import errors say"));
        }
        if found.is_paused {
            return self.warn(&format!(
                "DAG '{dag}' is paused: what becomes of its messages is decided by `on_paused`; unpause it"
            ));
        }
        self.ok(&format!("DAG '{dag}' can be started"))
    }

    fn conclude(&mut self) -> io::Result<i32> {
        match self.failures {
            0 => writeln!(self.out, "\nEverything that was tried works.")?,
            n => writeln!(self.out, "\n{}.", counted(n as usize, "thing is wrong", "things are wrong"))?,
        }
        Ok(i32::from(self.failures > 0))
    }
}

fn queues_by_connection(scan: &Scan) -> BTreeMap<ConnId, Vec<QueueName>> {
    let mut wanted: BTreeMap<ConnId, Vec<QueueName>> = BTreeMap::new();
    for declaration in &scan.declarations {
        let queues = wanted.entry(declaration.conn_id.clone()).or_default();
        if !queues.contains(&declaration.queue) {
            queues.push(declaration.queue.clone());
        }
    }
    wanted
}

/// A number with its noun.
fn counted(n: usize, one: &str, more: &str) -> String {
    format!("{n} {}", if n == 1 { one } else { more })
}
