//! From the start of a process until the broker has its consumer, beside a bare lapin consumer in the same run.
//!
//! `cargo bench --bench start [-- --rounds 20 --broker 4]`. They take turns: a bare consumer; `rmq-watcher run
//! --standalone`; `rmq-launcher -- python3 …`, a scheduler of which only the interpreter is real; and that Python to its
//! first line, with and without the launcher before it. Every watcher begins with an empty state directory;
//! its connection is in the environment and Airflow answers. The broker is asked each millisecond by a passive declare.
//! Needs a node of `tests/env` and `python3`.

#![expect(clippy::print_stdout, reason = "a benchmark prints what it measured")]
#![expect(clippy::unwrap_used, reason = "a benchmark stops at the first surprise")]

mod common;
#[path = "../tests/support/mod.rs"]
mod support;

use std::io::Read as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use common::bare::{self, Bare};
use common::scene::{Launched, QUEUE, Scene, launcher};
use common::{flag, load, ms, quantile, say_machine};
use support::Dialect;
use tempfile::TempDir;

const SCHEDULER: [&str; 3] = ["python3", "-c", "import time; time.sleep(3600)"];
const FIRST_LINE: [&str; 3] = ["python3", "-c", "import time; print('\x01', flush=True); time.sleep(3600)"];

fn main() {
    bare::become_one_if_asked();
    let rounds = flag("--rounds", 20);
    say_machine(&format!("start to consumer registered, {rounds} rounds each, taking turns"));
    let scene = Scene::set(Dialect::V2);
    let mut times: [Vec<Duration>; 5] = Default::default();
    for _ in 0..rounds {
        times[0].push(to_consumer(&scene, || Bare::start(&scene.broker.url(), QUEUE)));
        times[1].push(to_consumer(&scene, || Launched::start_alone(&scene)));
        times[2].push(to_consumer(&scene, || Launched::start(&scene, &SCHEDULER)));
        times[3].push(to_first_line(&scene, false));
        times[4].push(to_first_line(&scene, true));
    }
    println!("load at the end {}\n", load());
    println!("{:<44} {:>9} {:>9} {:>9} {:>7}", "ms", "median", "fastest", "slowest", "ratio");
    let names = ["consumer: bare lapin", "consumer: rmq-watcher run", "consumer: rmq-launcher -- python3"];
    print(&names, &mut times[..3]);
    let names = ["first line of python3", "first line of rmq-launcher -- python3"];
    print(&names, &mut times[3..]);
}

/// The ratio is to the first of them.
fn print(names: &[&str], times: &mut [Vec<Duration>]) {
    let base = ms(quantile(&mut times[0], 0.5));
    for (name, times) in names.iter().zip(times) {
        let median = ms(quantile(times, 0.5));
        let (fastest, slowest) = (ms(times[0]), ms(times[times.len() - 1]));
        println!("{name:<44} {median:>9.1} {fastest:>9.1} {slowest:>9.1} {:>6.2}×", median / base);
    }
}

/// What was started ends at the end of the round, and its consumer with it.
fn to_consumer<T: Started>(scene: &Scene, start: impl FnOnce() -> T) -> Duration {
    let began = Instant::now();
    let mut started = start();
    let registered = scene.line.wait_consumers(QUEUE, 1);
    started.make_certain();
    drop(started);
    scene.line.wait_consumers(QUEUE, 0);
    registered - began
}

trait Started {
    /// Finds out what has to be ended.
    fn make_certain(&mut self) {}
}

impl Started for Bare {}

impl Started for Launched {
    fn make_certain(&mut self) {
        self.watcher();
    }
}

/// How long until the scheduler's first line, with the launcher before it or not. Its watcher begins beside it.
fn to_first_line(scene: &Scene, launched: bool) -> Duration {
    let folder = TempDir::new().unwrap();
    let setup = scene.setup(folder.path());
    let mut command = if launched {
        launcher(&setup, folder.path(), &FIRST_LINE)
    } else {
        let mut python = Command::new(FIRST_LINE[0]);
        python.args(&FIRST_LINE[1..]);
        python
    };
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let began = Instant::now();
    let mut child = command.spawn().unwrap();
    // The watcher's log lines come through the same pipe; they hold no such byte.
    let mut byte = [0];
    while byte != [1] {
        child.stdout.as_mut().unwrap().read_exact(&mut byte).unwrap();
    }
    let took = began.elapsed();
    // The watcher leaves with its parent and closes the pipe.
    drop(child.kill());
    child.stdout.take().unwrap().read_to_end(&mut Vec::new()).unwrap();
    child.wait().unwrap();
    took
}
