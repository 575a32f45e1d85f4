//! From a published message to the request for its run, and how many a second, beside a bare lapin consumer that posts
//! with a plain HTTP client and remembers nothing, in the same run.
//!
//! `cargo bench --bench latency [-- --singles 200 --burst 2000 --broker 4]`.
//! - *One at a time*: the next message is published 20 ms after the last request was read. Time from before the publish
//!   until the stand-in for Airflow has read the request.
//! - *Burst*: the messages lie in the queue before the consumer starts; from the first request that was read to the last.
//!   Airflow answers at once, or after 20 ms.
//!
//! Processor time is of the whole process, commits are those of the state file. Needs a node of `tests/env`.

#![expect(clippy::print_stdout, reason = "a benchmark prints what it measured")]

mod common;
#[path = "../tests/support/mod.rs"]
mod support;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use common::bare::{self, Bare};
use common::scene::{Launched, QUEUE, Scene};
use common::{flag, load, ms, proc, quantile, say_machine};
use support::wait::pause;
use support::{Dialect, Fault, Message, What};

const BETWEEN: Duration = Duration::from_millis(20);
const SLOW_ANSWER: Duration = Duration::from_millis(20);
const LIMIT: Duration = Duration::from_secs(120);

/// Who is measured.
enum Consumer {
    Watcher(Launched),
    Bare(Bare),
}

impl Consumer {
    fn start(scene: &Scene, is_watcher: bool) -> Self {
        if is_watcher {
            return Self::Watcher(Launched::start_alone(scene));
        }
        let (runs_url, token) = scene.plain_access();
        Self::Bare(Bare::start_posting(&scene.broker.url(), QUEUE, &runs_url, &token))
    }

    fn pid(&mut self) -> i32 {
        match self {
            Self::Watcher(launched) => launched.watcher(),
            Self::Bare(bare) => bare.pid(),
        }
    }

    fn state_file(&self) -> Option<PathBuf> {
        match self {
            Self::Watcher(launched) => Some(launched.state_file()),
            Self::Bare(_) => None,
        }
    }
}

/// What a number of messages cost.
#[derive(Default)]
struct Cost {
    latencies: Vec<Duration>,
    per_second: f64,
    cpu_us: f64,
    commits: Option<f64>,
}

fn main() {
    bare::become_one_if_asked();
    let (singles, burst) = (flag("--singles", 200), flag("--burst", 2000));
    say_machine(&format!("message to request: {singles} one at a time, bursts of {burst}"));
    let [bare, watcher] = [false, true].map(|is_watcher| one_at_a_time(is_watcher, singles));
    println!("load {}\n\none at a time", load());
    heading();
    for (name, share) in [("p50 ms", 0.5), ("p95 ms", 0.95), ("p99 ms", 0.99)] {
        let of = |cost: &Cost| ms(quantile(&mut cost.latencies.clone(), share));
        row(name, of(&watcher), of(&bare));
    }
    costs(&watcher, &bare);
    for (name, late) in [("at once", None), ("after 20 ms", Some(SLOW_ANSWER))] {
        let [bare, watcher] = [false, true].map(|is_watcher| burst_of(is_watcher, burst, late));
        println!("\nburst, Airflow answers {name}; load {}", load());
        heading();
        row("messages /s", watcher.per_second, bare.per_second);
        costs(&watcher, &bare);
    }
}

fn heading() {
    println!("{:<24} {:>10} {:>10} {:>7}", "", "watcher", "bare", "ratio");
}

fn row(name: &str, watcher: f64, bare: f64) {
    println!("{name:<24} {watcher:>10.2} {bare:>10.2} {:>6.2}×", watcher / bare);
}

fn costs(watcher: &Cost, bare: &Cost) {
    row("CPU µs /message", watcher.cpu_us, bare.cpu_us);
    println!("{:<24} {:>10.2}", "commits /message", watcher.commits.unwrap_or(f64::NAN));
}

fn one_at_a_time(is_watcher: bool, count: usize) -> Cost {
    let scene = Scene::set(Dialect::V2);
    let mut consumer = Consumer::start(&scene, is_watcher);
    scene.line.wait_consumers(QUEUE, 1);
    // The first one opens connections and logs in; that is not what is asked here.
    scene.line.publish(QUEUE, "first", b"{}");
    wait_requests(&scene, 1);
    pause(Duration::from_secs(1));

    let meter = Meter::start(&mut consumer);
    let mut published = Vec::with_capacity(count);
    for n in 0..count {
        published.push(scene.line.publish(QUEUE, &format!("single-{n}"), br#"{"order": 7, "path": "in/7.csv"}"#));
        wait_requests(&scene, n + 2);
        pause(BETWEEN);
    }
    let_settle();
    let mut cost = meter.read(&mut consumer, count);
    check_acknowledged(&scene, consumer);
    let read = request_times(&scene).into_iter().skip(1);
    cost.latencies = published.into_iter().zip(read).map(|(from, to)| to.saturating_duration_since(from)).collect();
    cost
}

fn burst_of(is_watcher: bool, count: usize, late: Option<Duration>) -> Cost {
    let scene = Scene::set(Dialect::V2);
    if let Some(late) = late {
        scene.airflow.always(What::Trigger, Fault::Late(late));
    }
    let body = br#"{"order": 7, "path": "in/7.csv"}"#;
    let messages: Vec<_> = (0..count).map(|n| Message::to_queue(QUEUE, body).id(&format!("burst-{n}"))).collect();
    scene.broker.publish(&messages);
    let mut consumer = Consumer::start(&scene, is_watcher);
    wait_requests(&scene, 1);
    let meter = Meter::start(&mut consumer);
    wait_requests(&scene, count);
    let_settle();
    let mut cost = meter.read(&mut consumer, count);
    check_acknowledged(&scene, consumer);
    let times = request_times(&scene);
    assert_eq!(times.len(), count, "one request for each message");
    cost.per_second = (count - 1) as f64 / (times[count - 1] - times[0]).as_secs_f64();
    cost
}

fn request_times(scene: &Scene) -> Vec<Instant> {
    let requests = scene.airflow.requests().into_iter();
    requests.filter(|seen| seen.what == What::Trigger).map(|seen| seen.at).collect()
}

fn wait_requests(scene: &Scene, count: usize) {
    let end = Instant::now() + LIMIT;
    while scene.airflow.count(What::Trigger) < count {
        assert!(Instant::now() < end, "{} of {count} requests came", scene.airflow.count(What::Trigger));
        pause(Duration::from_millis(1));
    }
}

/// Waits until the last verbs have had their confirmation: a tenth of a second after the last answer at most.
fn let_settle() {
    pause(Duration::from_millis(500));
}

/// What was not acknowledged comes back to the queue when its consumer ends.
fn check_acknowledged(scene: &Scene, consumer: Consumer) {
    drop(consumer);
    scene.line.wait_consumers(QUEUE, 0);
    assert_eq!(scene.line.counts(QUEUE).0, 0, "every message was acknowledged");
}

/// Counters at the begin.
struct Meter {
    cpu: Duration,
    commits: Option<u32>,
}

impl Meter {
    fn start(consumer: &mut Consumer) -> Self {
        let commits = consumer.state_file().map(|file| proc::commits(&file));
        Self { cpu: proc::cpu_in_ticks(consumer.pid()), commits }
    }

    fn read(&self, consumer: &mut Consumer, count: usize) -> Cost {
        let now = Self::start(consumer);
        let each = |total: f64| total / count as f64;
        let cpu_us = each((now.cpu - self.cpu).as_secs_f64() * 1e6);
        let commits = self.commits.zip(now.commits).map(|(before, after)| each(f64::from(after - before)));
        Cost { cpu_us, commits, ..Cost::default() }
    }
}
