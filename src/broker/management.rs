//! The management API of a broker: what it says of a queue.
//!
//! The same user, password and TLS settings as the AMQP connection, at the address that the connection names. Every question is
//! one GET within [`TIMEOUT`]. What is not answered is not known, with a reason; nothing here keeps a consumer from consuming.
//! No reason holds the address's path or the password.
//!
//! What is needed: the user tag `management` and any permission in the vhost. Source: RabbitMQ 3.10.8 and 4.0.5.

use std::time::Duration;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::tls;
use crate::domain::connection::AmqpSettings;
use crate::domain::ids::QueueName;
use crate::domain::queue_facts::{DeadLetters, NotLooked, QueueFacts};
use crate::http_client::{self, Read, Reader};

/// Bound of one look at a queue, all of its questions together.
pub(super) const TIMEOUT: Duration = Duration::from_secs(5);

/// Bound of name look-up, TCP and TLS together.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// Bound of one answer: some ten thousand consumers or bindings.
const MAX_ANSWER: usize = 2 * 1024 * 1024;

/// So many questions to one broker at once.
const SIDE_BY_SIDE: usize = 4;

/// What is asked about a queue.
const COLUMNS: &str = "type,durable,exclusive,arguments,effective_policy_definition,delivery_limit,\
                       consumer_details.consumer_tag,consumer_details.consumer_timeout";

/// All but the unreserved characters of RFC 3986.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

const KNOWN_REASONS: [&str; 4] =
    ["Not management user", "User not authorised to access virtual host", "Login failed", "Not_Authorized"];

/// The management API as one user.
pub(super) struct Management {
    base: String,
    vhost: String,
    login: String,
    reader: Reader,
    turns: Semaphore,
}

/// Looks at a queue by these settings, without an AMQP connection.
pub async fn look(settings: &AmqpSettings, queue: &QueueName, our_tags: &str) -> Result<QueueFacts, NotLooked> {
    match Management::of(settings).await {
        Ok(Some(management)) => management.queue(queue, our_tags).await,
        Ok(None) => Err(NotLooked::NoManagement),
        Err(reason) => Err(NotLooked::Failed(reason)),
    }
}

impl Management {
    /// `None`: the connection names no management API. Opens no connection.
    ///
    /// # Errors
    /// The certificate files cannot be used.
    pub(super) async fn of(settings: &AmqpSettings) -> Result<Option<Self>, String> {
        let Some(base) = settings.management_url.clone() else { return Ok(None) };
        let tls = if base.starts_with("https:") {
            let by = settings.tls.clone().unwrap_or_default();
            match timeout(TIMEOUT, tls::client_config(&by, &settings.conn_id)).await {
                Ok(Ok(config)) => (*config).clone(),
                Ok(Err(fault)) => return Err(fault.text),
                Err(_) => return Err("the certificate files could not be read in time".to_owned()),
            }
        } else {
            http_client::trusts_nobody().map_err(|error| error.to_string())?
        };
        let reader = Reader::new(tls, CONNECT_TIMEOUT, &settings.login, &settings.password)?;
        let (vhost, login) = (segment(&settings.vhost), settings.login.clone());
        Ok(Some(Self { base, vhost, login, reader, turns: Semaphore::new(SIDE_BY_SIDE) }))
    }

    /// What it says of a queue, and of where its dead letters go.
    pub(super) async fn queue(&self, queue: &QueueName, our_tags: &str) -> Result<QueueFacts, NotLooked> {
        let looked = async {
            let _turn = self.turns.acquire().await.expect("the semaphore is never closed");
            let path = format!("queues/{}/{}?columns={COLUMNS}", self.vhost, segment(queue.as_str()));
            let answer = self.get(&path).await?;
            let mut facts = QueueFacts::parse(&answer.ok_or(NotLooked::NoQueue)?, our_tags);
            facts.exchange_is_there = match &facts.dead_letters {
                DeadLetters::Exchange(name) => self.takes_dead_letters(name).await,
                DeadLetters::Nowhere | DeadLetters::Unknown => None,
            };
            Ok(facts)
        };
        let late = || NotLooked::Failed(format!("no answer within {} s", TIMEOUT.as_secs()));
        timeout(TIMEOUT, looked).await.unwrap_or_else(|_| Err(late()))
    }

    /// Whether an exchange is there, and something bound to it. Of the default exchange that cannot be told: it takes a message
    /// to the queue that its key names, if there is one.
    async fn takes_dead_letters(&self, exchange: &str) -> Option<bool> {
        if exchange.is_empty() {
            return None;
        }
        let path = format!("exchanges/{}/{}", self.vhost, segment(exchange));
        if self.get(&path).await.ok()?.is_none() {
            return Some(false);
        }
        let bindings = self.get(&format!("{path}/bindings/source?columns=destination")).await.ok()??;
        Some(!bindings.as_array()?.is_empty())
    }

    /// One question; `None`: there is no such thing.
    async fn get(&self, path: &str) -> Result<Option<Value>, NotLooked> {
        // Every client and server takes these for a way up.
        if path.split(['/', '?']).any(|part| part == "." || part == "..") {
            return Err(NotLooked::Failed("a name of dots alone cannot stand in an address".to_owned()));
        }
        let asked = self.reader.get(&format!("{}/api/{path}", self.base), MAX_ANSWER, TIMEOUT).await;
        self.read(asked).map_err(NotLooked::Failed)
    }

    fn read(&self, asked: Result<Read, String>) -> Result<Option<Value>, String> {
        let read = asked?;
        let json = read.is_json.then(|| serde_json::from_slice::<Value>(&read.body).ok()).flatten();
        let reason = json.as_ref().map(reason).unwrap_or_default();
        match (read.status, json) {
            (200, Some(answer)) => Ok(Some(answer)),
            // Others answer in JSON too, and otherwise.
            (404, Some(answer)) if answer.get("error").and(answer.get("reason")).is_some() => Ok(None),
            (401 | 403, _) => Err(format!(
                "user {:?} is refused{reason}; give it the tag `management` and a permission in the vhost",
                self.login
            )),
            (200, None) => Err("what answers is not the management API: no JSON came".to_owned()),
            (404, _) => Err("what answers is not the management API: it knows no such page".to_owned()),
            (300..=399, _) => Err("what answers is not the management API: it sends us elsewhere".to_owned()),
            (status, _) => Err(format!("it answers with status {status}{reason}")),
        }
    }
}

/// What an answer says for people, as a parenthesis; words that are not known are left out, since whoever answers may repeat what
/// it was sent.
fn reason(answer: &Value) -> String {
    let said = answer.get("reason").and_then(Value::as_str);
    let known = said.and_then(|said| KNOWN_REASONS.iter().find(|known| **known == said));
    known.map_or_else(String::new, |known| format!(" ({known})"))
}

fn segment(name: &str) -> String {
    utf8_percent_encode(name, SEGMENT).to_string()
}
