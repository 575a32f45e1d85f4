//! What the benchmarks share: the scene, the bare consumer to compare with, readings of a process, tables.
//!
//! Every benchmark prints ratios against a baseline measured in the same run, on the same machine, under the same load;
//! absolute figures are printed for the reader and never asserted. The scene is that of the tests: a virtual host of one's
//! own on a node that `tests/env` started, and the scripted stand-in for Airflow inside the benchmark's own process.

#![allow(
    clippy::allow_attributes,
    clippy::unwrap_used,
    clippy::print_stdout,
    dead_code,
    unreachable_pub,
    reason = "each benchmark takes in the whole module and uses its own part of it, prints, and stops at the first surprise"
)]

pub mod bare;
pub mod broker_line;
pub mod consumer;
pub mod proc;
pub mod scene;

use std::str::FromStr;
use std::time::Duration;

/// The value after a flag such as `--rounds`, or the default.
///
/// # Panics
/// When the value cannot be read.
pub fn flag<T: FromStr>(name: &str, default: T) -> T {
    let mut words = std::env::args().skip_while(|word| word != name).skip(1);
    match words.next() {
        Some(value) => value.parse().unwrap_or_else(|_| panic!("{name} {value}: not a value of this flag")),
        None => default,
    }
}

/// Says on which machine, and how busy it is: figures without that are worth nothing.
pub fn say_machine(what: &str) {
    let cpus = std::thread::available_parallelism().map_or(0, usize::from);
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model =
        info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": ")).map_or("?", |pair| pair.1);
    println!("{what}\n{cpus} × {model}, load {}", load());
}

/// The load of 1, 5 and 15 minutes.
pub fn load() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').take(3).collect::<Vec<_>>().join(" ")
}

/// The value below which this share of the values lies, by nearest rank. Sorts.
pub fn quantile(values: &mut [Duration], share: f64) -> Duration {
    values.sort_unstable();
    let rank = (share * values.len() as f64).ceil() as usize;
    values[rank.clamp(1, values.len()) - 1]
}

/// Milliseconds.
pub fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}
