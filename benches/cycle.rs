//! What a cycle with nothing to do costs: 500 subscriptions on 50 queues over 3 connections, and nothing that changes.
//!
//! `cargo bench --bench cycle [-- --seconds 60 --settle 10 --rounds 3 --subscriptions 500 --broker 4]`. Two watchers over the same
//! folder, broker and stand-in for Airflow, each in turn: one with a cycle every second, one with a cycle every hour. What the first
//! takes more of a processor, divided by the cycles that its state file counts, is what a cycle costs. The interval is the Airflow
//! Variable, so a cycle asks Airflow for both Variables, and for its list of DAGs in pages. Needs a node of `tests/env`.

#![expect(clippy::print_stdout, reason = "a benchmark prints what it measured")]

mod common;
#[path = "../tests/support/mod.rs"]
mod support;

use std::path::Path;
use std::time::{Duration, Instant};

use common::proc::{Reading, cpu_in_ticks};
use common::scene::{Launched, Scene};
use common::{flag, load, ms, quantile, say_machine};
use support::wait::pause;
use support::{Broker, Dialect, QueueKind, Setup, StubAirflow};

const QUEUES: usize = 50;
const CONNECTIONS: usize = 3;

/// One watcher over the time.
struct Run {
    cycles: u64,
    cpu: Duration,
    over: Duration,
    rss_mib: f64,
}

impl Run {
    fn cpu_each_second(&self) -> Duration {
        self.cpu.div_f64(self.over.as_secs_f64())
    }
}

fn main() {
    let (settle, over) = (seconds("--settle", 10), seconds("--seconds", 60));
    let (rounds, subscriptions) = (flag("--rounds", 3), flag("--subscriptions", 500));
    say_machine(&format!(
        "cycles with nothing to do: {subscriptions} subscriptions, {QUEUES} queues, {CONNECTIONS} connections; {rounds} times {} s",
        over.as_secs()
    ));
    let scene = Scene::set(Dialect::V2);
    for n in 0..QUEUES {
        scene.broker.declare(&queue(n), QueueKind::Classic, serde_json::Value::Null);
    }
    for n in 0..subscriptions {
        scene.airflow.set_dag(&dag(n), support::stub_airflow::StubDag::default());
    }
    println!(
        "\n{:<8} {:>8} {:>14} {:>14} {:>14} {:>10}",
        "round", "cycles", "with CPU ms/s", "idle CPU ms/s", "CPU ms/cycle", "RSS MiB"
    );
    let mut costs = Vec::new();
    for round in 1..=rounds {
        let idle = measure(&scene, subscriptions, 3600, settle, over);
        let busy = measure(&scene, subscriptions, 1, settle, over);
        let more = busy.cpu_each_second().saturating_sub(idle.cpu_each_second());
        let cost = more.mul_f64(busy.over.as_secs_f64() / busy.cycles as f64);
        println!(
            "{round:<8} {:>8} {:>14.3} {:>14.3} {:>14.2} {:>10.1}",
            busy.cycles,
            ms(busy.cpu_each_second()),
            ms(idle.cpu_each_second()),
            ms(cost),
            busy.rss_mib
        );
        costs.push(cost);
    }
    println!("\nmedian {:.2} ms CPU a cycle; load at the end {}", ms(quantile(&mut costs, 0.5)), load());
}

fn seconds(name: &str, default: u64) -> Duration {
    Duration::from_secs(flag(name, default))
}

fn queue(n: usize) -> String {
    format!("cycle.{:02}", n % QUEUES)
}

fn dag(n: usize) -> String {
    format!("cycle_dag_{n:04}")
}

fn connection(n: usize) -> String {
    format!("cycle_{}", n % QUEUES % CONNECTIONS)
}

/// Runs a watcher with a cycle every `interval` seconds, and looks at it twice.
fn measure(scene: &Scene, subscriptions: usize, interval: u64, settle: Duration, over: Duration) -> Run {
    scene.airflow.set_variable("rmq_watcher_reconcile_interval", &interval.to_string());
    let make = |folder: &Path| setup(folder, &scene.broker, &scene.airflow, subscriptions);
    let mut launched = Launched::start_alone_with(make);
    for n in 0..QUEUES.min(subscriptions) {
        scene.line.wait_consumers(&queue(n), 1);
    }
    pause(settle);
    let pid = launched.watcher();
    // Threads that read files come and go, so the time of those that ended counts too.
    let (before, cycles, began) = (cpu_in_ticks(pid), launched.cycles(), Instant::now());
    pause(over);
    let (after, took) = (cpu_in_ticks(pid), began.elapsed());
    let rss_mib = Reading::of(pid).kib["VmRSS"] as f64 / 1024.0;
    Run { cycles: launched.cycles() - cycles, cpu: after - before, over: took, rss_mib }
}

fn setup(folder: &Path, broker: &Broker, airflow: &StubAirflow, subscriptions: usize) -> Setup {
    let mut setup = Setup::in_folder(folder).stub(airflow).env("RMQ_WATCHER__LOG__LEVEL", "info");
    for n in 0..CONNECTIONS {
        setup = setup.connection(&connection(n), &broker.url());
    }
    for n in 0..subscriptions {
        setup.dag(&dag(n), &queue(n), &connection(n));
    }
    setup
}
