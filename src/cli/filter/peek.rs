//! The message at the head of a queue, for `filter test --peek`: says first what that costs, and asks.

use std::collections::BTreeMap;
use std::io::{self, BufRead as _, IsTerminal as _, Write as _};
use std::path::PathBuf;
use std::time::Duration;

use tokio::time::timeout;

use crate::airflow::AirflowClient;
use crate::airflow::connections::{AirflowCli, Connections};
use crate::broker::{self, ProbeFinding};
use crate::config::Settings;
use crate::config::connections::AirflowDialect;
use crate::config::problem::Problems;
use crate::config::sources::Sources;
use crate::domain::connection::AmqpSettings;
use crate::domain::content::BodyLimits;
use crate::domain::envelope::Envelope;
use crate::domain::ids::{ConnId, QueueName};
use crate::domain::outcome::Dialect;
use crate::domain::queue_facts::{Limit, NotLooked, QueueFacts, QueueKind, Release};

/// How long Airflow is asked which version it is: its two versions read some connections differently.
const VERSION_WITHIN: Duration = Duration::from_secs(5);

/// What is to be looked at.
pub(super) struct Order {
    pub(super) queue: QueueName,
    pub(super) conn_id: ConnId,
    pub(super) config: Option<PathBuf>,
    /// Do not ask.
    pub(super) yes: bool,
}

/// A message, and how large a body may be here.
pub(super) struct Peeked {
    pub(super) envelope: Envelope,
    pub(super) limits: BodyLimits,
}

/// Why there is no message; one sentence each.
pub(super) enum Refused {
    /// The command has to be given otherwise.
    Usage(String),
    /// There is none to be had.
    NoMessage(String),
}

/// Takes it and gives it back. What it costs is said on standard error.
pub(super) async fn peek(order: &Order) -> Result<Peeked, Refused> {
    if !order.yes && !io::stdin().is_terminal() {
        return Err(Refused::Usage(
            "--peek takes a message off its queue and gives it back, which may cost it one delivery; there is no terminal to \
             ask on, so say --yes if that is meant. Nothing was taken."
                .to_owned(),
        ));
    }
    let (queue, conn_id) = (&order.queue, &order.conn_id);
    let settings = settings(order)?;
    let connection = connection(&settings, conn_id).await?;
    let (waiting, release) = ready(&connection, queue).await?;
    let facts = broker::look(&connection, queue, "rmq_watcher.").await.map(|facts| QueueFacts { release, ..facts });
    if let Ok(QueueFacts { kind: Some(QueueKind::Other(kind)), .. }) = &facts {
        let text =
            format!("queue '{queue}' (connection '{conn_id}') is a {kind}: no single message can be taken from it");
        return Err(Refused::NoMessage(text));
    }
    let messages = if waiting == 1 { "1 message is".to_owned() } else { format!("{waiting} messages are") };
    let said = format!("Queue '{queue}' (connection '{conn_id}'): {messages} ready. {}", costs(&facts));
    let mut errors = io::stderr();
    // Where nobody can be told, nobody has agreed.
    let told = writeln!(errors, "{said}");
    if told.is_err() || !(order.yes || agreed()) {
        return Err(Refused::NoMessage("nothing was taken".to_owned()));
    }
    match broker::peek(&connection, queue).await {
        Ok(Some(envelope)) => {
            // What is wanted is on standard output.
            drop(writeln!(errors, "{}", shown(&envelope)));
            Ok(Peeked { envelope, limits: settings.consume.body })
        }
        Ok(None) => Err(empty(order)),
        Err(fault) => Err(Refused::NoMessage(fault.text)),
    }
}

fn settings(order: &Order) -> Result<Settings, Refused> {
    Sources::gather(order.config.as_deref(), BTreeMap::new()).and_then(|sources| Settings::load(&sources)).map_err(
        |Problems(problems)| {
            let all: Vec<String> = problems.iter().map(ToString::to_string).collect();
            Refused::Usage(all.join("\n"))
        },
    )
}

/// Found as `check` and the watcher find it.
async fn connection(settings: &Settings, conn_id: &ConnId) -> Result<AmqpSettings, Refused> {
    let connections = Connections::new(settings.file.clone(), AirflowCli::default());
    if let Ok(airflow) = AirflowClient::new(settings.airflow.clone())
        && let Ok(Ok((Dialect::V1, _))) = timeout(VERSION_WITHIN, airflow.version()).await
    {
        connections.set_dialect(AirflowDialect::V2);
    }
    let found = connections.locate(conn_id).await.map_err(|fault| Refused::NoMessage(fault.text))?;
    Ok(found.settings)
}

/// How many messages wait, and at which release; takes none.
async fn ready(connection: &AmqpSettings, queue: &QueueName) -> Result<(u32, Option<Release>), Refused> {
    let results = broker::probe(connection, std::slice::from_ref(queue)).await;
    let (mut messages, mut release) = (0, None);
    for result in results {
        match result.outcome.map_err(|fault| Refused::NoMessage(fault.text))? {
            ProbeFinding::Queue { messages: ready, .. } => messages = ready,
            ProbeFinding::Greeted(greeted) => release = greeted,
            ProbeFinding::Works => {}
        }
    }
    Ok((messages, release))
}

/// Which message it was.
fn shown(envelope: &Envelope) -> String {
    let id = envelope.properties.message_id.as_ref().map_or("without an id".to_owned(), |id| format!("with id {id:?}"));
    let before = match (envelope.redelivered, envelope.delivery_count()) {
        (true, Some(count)) => format!(", returned {count} times before"),
        (true, None) => ", returned before".to_owned(),
        (false, _) => String::new(),
    };
    let (key, bytes) = (&envelope.routing_key, envelope.body.len());
    format!("The message {id} (routing key {key:?}, {bytes} bytes{before}) is back in its queue.")
}

fn empty(order: &Order) -> Refused {
    let Order { queue, conn_id, .. } = order;
    Refused::NoMessage(format!(
        "queue '{queue}' (connection '{conn_id}') has no message ready; a consumer may hold some that it has not settled"
    ))
}

/// What taking a message and giving it back does to it.
fn costs(facts: &Result<QueueFacts, NotLooked>) -> String {
    let order = "The message comes back marked as redelivered, and others may be taken before it";
    match facts {
        Ok(facts) if facts.kind == Some(QueueKind::Classic) => format!("{order}."),
        Ok(facts) if facts.kind == Some(QueueKind::Quorum) => {
            let budget = match facts.limit(None) {
                Limit::At(limit) => format!(
                    "costs it one delivery of its budget of {limit}; one that has spent it is dead-lettered, or dropped where \
                     there is no dead-letter exchange"
                ),
                Limit::None => "is counted, and the queue sets no limit".to_owned(),
                Limit::Unknown => "costs it one delivery of its budget, if the queue has a delivery limit".to_owned(),
            };
            format!("It is a quorum queue: a look {budget}. {order}.")
        }
        Ok(_) | Err(_) => format!(
            "It cannot be told what kind of queue it is{}. If it is a quorum queue, a look costs the message one delivery of its \
             budget (20 from RabbitMQ 4 on); one that has spent it is dead-lettered, or dropped. {order}.",
            why(facts)
        ),
    }
}

fn why(facts: &Result<QueueFacts, NotLooked>) -> String {
    match facts {
        Ok(_) | Err(NotLooked::NotConnected | NotLooked::NoQueue) => String::new(),
        Err(NotLooked::NoManagement) => ", since its connection has no `management_url`".to_owned(),
        Err(NotLooked::Failed(reason)) => format!(", since the management API cannot be asked: {reason}"),
    }
}

fn agreed() -> bool {
    let mut answer = String::new();
    let asked = write!(io::stderr(), "Take it and give it back? [y/N] ").and_then(|()| io::stderr().flush());
    asked.and_then(|()| io::stdin().lock().read_line(&mut answer)).is_ok()
        && matches!(answer.trim().to_lowercase().as_str(), "y" | "yes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_look_costs_is_said_for_each_kind_of_queue() {
        let of = |kind, limit| QueueFacts { kind: Some(kind), limit_in_force: Some(limit), ..QueueFacts::default() };
        for (facts, says, says_not) in [
            (Ok(of(QueueKind::Classic, Limit::None)), "redelivered", "budget"),
            (Ok(of(QueueKind::Quorum, Limit::At(5))), "one delivery of its budget of 5", "cannot be told"),
            (Ok(of(QueueKind::Quorum, Limit::None)), "no limit", "cannot be told"),
            (Ok(QueueFacts::default()), "cannot be told", "management"),
            (Err(NotLooked::NoManagement), "no `management_url`", "cannot be asked"),
            (Err(NotLooked::Failed("because".into())), "because. If it is a quorum queue", "no `management_url`"),
        ] {
            let text = costs(&facts);
            assert!(text.contains(says) && !text.contains(says_not), "{text}");
        }
    }
}
