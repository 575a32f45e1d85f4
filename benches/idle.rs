//! What an idle watcher costs, beside a bare lapin consumer in the same run.
//!
//! `cargo bench --bench idle [-- --seconds 60 --settle 15 --broker 4]`. Both processes have one consumer on one queue without
//! messages; the watcher runs under a parent, as it does beside a scheduler, and has one subscription. After a time to
//! settle (a thread that reads files ends once it has had nothing to do for 10 s) both are looked at twice, and what happened
//! between the looks is printed. Needs a node of `tests/env`.

#![expect(clippy::print_stdout, reason = "a benchmark prints what it measured")]

mod common;
#[path = "../tests/support/mod.rs"]
mod support;

use std::time::{Duration, Instant};

use common::bare::{self, Bare};
use common::proc::{Reading, Thread};
use common::scene::{Launched, QUEUE, Scene};
use common::{flag, load, say_machine};
use support::Dialect;
use support::wait::pause;

/// One process over the time.
struct Idle {
    now: Reading,
    threads: Vec<(String, Thread)>,
    over: Duration,
}

fn main() {
    bare::become_one_if_asked();
    let (settle, over) = (seconds("--settle", 15), seconds("--seconds", 60));
    say_machine(&format!("idle, 1 subscription, over {} s after {} s", over.as_secs(), settle.as_secs()));
    let scene = Scene::set(Dialect::V2);
    let mut launched = Launched::start(&scene, &["sleep", "3600"]);
    scene.line.wait_consumers(QUEUE, 1);
    let bare = Bare::start(&scene.broker.url(), QUEUE);
    scene.line.wait_consumers(QUEUE, 2);
    pause(settle);

    let pids = [launched.watcher(), bare.pid()];
    let began = Instant::now();
    let before = pids.map(Reading::of);
    pause(over);
    let [watcher, bare] = [0, 1].map(|n| {
        let now = Reading::of(pids[n]);
        Idle { threads: now.since(&before[n]), over: began.elapsed(), now }
    });
    print(&watcher, &bare);
}

fn seconds(name: &str, default: u64) -> Duration {
    Duration::from_secs(flag(name, default))
}

impl Idle {
    fn cpu_percent(&self) -> f64 {
        let cpu: Duration = self.threads.iter().map(|(_, thread)| thread.cpu).sum();
        100.0 * cpu.as_secs_f64() / self.over.as_secs_f64()
    }

    /// Something counted, all threads together, a second.
    fn rate(&self, of: impl Fn(&Thread) -> u64) -> f64 {
        let total: u64 = self.threads.iter().map(|(_, thread)| of(thread)).sum();
        total as f64 / self.over.as_secs_f64()
    }
}

fn print(watcher: &Idle, bare: &Idle) {
    println!("load at the end {}\n\n{:<24} {:>10} {:>10} {:>7}", load(), "", "watcher", "bare", "ratio");
    for name in ["VmRSS", "RssAnon", "RssFile", "Pss", "Pss_Anon"] {
        row(&format!("{name} MiB"), watcher.now.mib(name), bare.now.mib(name), 2);
    }
    row("CPU %", watcher.cpu_percent(), bare.cpu_percent(), 4);
    for (name, of) in
        [("wake-ups /s", (|thread| thread.wakes) as fn(&Thread) -> u64), ("pre-emptions /s", |thread| thread.preempted)]
    {
        row(name, watcher.rate(of), bare.rate(of), 2);
    }
    row("threads", watcher.threads.len() as f64, bare.threads.len() as f64, 0);
    row("descriptors", watcher.now.descriptors as f64, bare.now.descriptors as f64, 0);
    for (who, idle) in [("watcher", watcher), ("bare", bare)] {
        println!("\n{who}: wake-ups by thread");
        for (name, thread) in &idle.threads {
            println!("  {name:<16} {:>6}  {:>6.2} /s", thread.wakes, thread.wakes as f64 / idle.over.as_secs_f64());
        }
    }
}

fn row(name: &str, watcher: f64, bare: f64, digits: usize) {
    println!("{name:<24} {watcher:>10.digits$} {bare:>10.digits$} {:>6.1}×", watcher / bare);
}
