//! The baseline: a bare lapin consumer as a process of its own, on a current-thread runtime. It remembers nothing.
//!
//! The benchmark starts its own program again with a variable that says what to do. Frame size, heartbeat, prefetch and
//! requests in flight are those of the watcher, so that what differs is the watcher's work. Left out, and therefore in the
//! ratio: the state file, the log, supervision, deadlines, conf checks, reconnecting.

use std::process::{Child, Command, Stdio};
use std::rc::Rc;
use std::sync::Arc;

use futures_util::StreamExt as _;
use lapin::message::Delivery;
use lapin::options::{BasicAckOptions, BasicConsumeOptions, BasicQosOptions};
use lapin::types::FieldTable;
use lapin::{Connection, ConnectionProperties};
use tokio::sync::Semaphore;
use tokio::task::LocalSet;

const QUEUE: &str = "RMQ_BENCH_BARE_QUEUE";
const AMQP: &str = "RMQ_BENCH_BARE_AMQP";
const POST_TO: &str = "RMQ_BENCH_BARE_POST_TO";
const TOKEN: &str = "RMQ_BENCH_BARE_TOKEN";

const PREFETCH: u16 = 32;
const IN_FLIGHT: usize = 8;

/// A running bare consumer; it ends when dropped.
pub struct Bare(Child);

impl Bare {
    /// Starts one that acknowledges every message.
    pub fn start(amqp_url: &str, queue: &str) -> Self {
        Self(command(amqp_url, queue).spawn().unwrap())
    }

    /// Starts one that asks for a run by a plain `POST` before it acknowledges.
    pub fn start_posting(amqp_url: &str, queue: &str, runs_url: &str, token: &str) -> Self {
        Self(command(amqp_url, queue).env(POST_TO, runs_url).env(TOKEN, token).spawn().unwrap())
    }

    /// Its process id.
    pub fn pid(&self) -> i32 {
        i32::try_from(self.0.id()).unwrap()
    }
}

impl Drop for Bare {
    fn drop(&mut self) {
        // It may have ended already; either way it is gone after this.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

fn command(amqp_url: &str, queue: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.env(AMQP, amqp_url).env(QUEUE, queue).stdin(Stdio::null());
    command
}

/// Becomes the bare consumer where this process was started as one. First thing in every benchmark's `main`.
pub fn become_one_if_asked() {
    let (Ok(amqp), Ok(queue)) = (std::env::var(AMQP), std::env::var(QUEUE)) else { return };
    let post = std::env::var(POST_TO).ok().map(|url| Rc::new(Post::new(url)));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    LocalSet::new().block_on(&runtime, consume(&amqp, &queue, post)).unwrap();
}

async fn consume(amqp: &str, queue: &str, post: Option<Rc<Post>>) -> lapin::Result<()> {
    let url = format!("{amqp}?frame_max=8192&heartbeat=30");
    let on = async_rs::Runtime::tokio_current();
    let connection = Connection::connect_with_runtime(&url, ConnectionProperties::default(), on).await?;
    let channel = connection.create_channel().await?;
    channel.basic_qos(PREFETCH, BasicQosOptions::default()).await?;
    let options = BasicConsumeOptions::default();
    let mut deliveries = channel.basic_consume(queue.into(), "bare".into(), options, FieldTable::default()).await?;
    while let Some(delivery) = deliveries.next().await {
        let delivery = delivery?;
        match &post {
            None => drop(delivery.ack(BasicAckOptions::default()).await?),
            Some(post) => drop(tokio::task::spawn_local(Rc::clone(post).see_through(delivery))),
        }
    }
    Ok(())
}

struct Post {
    client: reqwest::Client,
    url: String,
    token: String,
    in_flight: Arc<Semaphore>,
}

impl Post {
    fn new(url: String) -> Self {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(rustls::RootCertStore::empty())
            .with_no_client_auth();
        let client = reqwest::Client::builder().no_proxy().tls_backend_preconfigured(tls).build().unwrap();
        let token = std::env::var(TOKEN).unwrap();
        Self { client, url, token, in_flight: Arc::new(Semaphore::new(IN_FLIGHT)) }
    }

    async fn see_through(self: Rc<Self>, delivery: Delivery) {
        let _permit = self.in_flight.acquire().await.unwrap();
        let id = delivery.properties.message_id().as_ref().expect("a message id").as_str();
        let run = serde_json::json!({
            "dag_run_id": format!("bare__{id}"),
            "logical_date": null,
            "conf": {"body": String::from_utf8_lossy(&delivery.data), "routing_key": delivery.routing_key.as_str()},
        });
        let answer = self
            .client
            .post(&self.url)
            .bearer_auth(&self.token)
            .header("content-type", "application/json")
            .body(run.to_string())
            .send()
            .await
            .unwrap();
        assert!(answer.status().is_success(), "{}", answer.status());
        answer.bytes().await.unwrap();
        delivery.ack(BasicAckOptions::default()).await.unwrap();
    }
}
