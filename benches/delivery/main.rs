//! The way of messages: how many a second, how soon, with how much memory, and how quickly it can be stopped; beside a bare
//! lapin consumer in the same run.
//!
//! `cargo bench --bench delivery [-- --only misses,runs,singles,backlog,stop --rounds 5 --broker 4]`; each part has flags of
//! its own. What is measured several times is given as its median. Needs a node of `tests/env`.

#![expect(clippy::print_stdout, reason = "a benchmark prints what it measured")]

mod backlog;
#[path = "../common/mod.rs"]
mod common;
mod misses;
mod runs;
mod stop;
#[path = "../../tests/support/mod.rs"]
mod support;

use common::consumer::{Cost, median};
use common::{bare, flag, load, say_machine};

/// What messages carry.
const BODY: &[u8] = br#"{"order": 7, "path": "in/7.csv"}"#;

fn main() {
    bare::become_one_if_asked();
    let parts: [(&str, fn()); 5] = [
        ("misses", misses::measure),
        ("runs", runs::measure_bursts),
        ("singles", runs::measure_singles),
        ("backlog", backlog::measure),
        ("stop", stop::measure),
    ];
    let only = flag("--only", parts.map(|(name, _)| name).join(","));
    say_machine("messages through the watcher");
    for (name, measure) in parts {
        if only.split(',').any(|one| one == name) {
            measure();
        }
    }
}

/// How often something is measured.
fn rounds() -> usize {
    flag("--rounds", 5)
}

fn heading(what: &str) {
    println!("\n{what}; load {}\n{:<24} {:>10} {:>10} {:>7}", load(), "", "watcher", "bare", "ratio");
}

fn row(name: &str, watcher: f64, bare: f64) {
    println!("{name:<24} {watcher:>10.2} {bare:>10.2} {:>6.2}×", watcher / bare);
}

/// A figure with the bound that it is to keep.
fn verdict(name: &str, value: f64, (bound, is_kept): (&str, bool)) {
    println!("{name:<24} {value:>10.2}   {bound}: {}", if is_kept { "kept" } else { "MISSED" });
}

fn costs(watcher: &[Cost], bare: &[Cost]) {
    let cpu = |costs: &[Cost]| median(costs.iter().map(|cost| cost.cpu_us));
    row("CPU µs /message", cpu(watcher), cpu(bare));
    println!("{:<24} {:>10.2}", "commits /message", median(watcher.iter().filter_map(|cost| cost.commits)));
}
