//! How long a scan takes, beside CPython's `ast.parse` over the same files in the same run.
//!
//! `cargo bench --bench scan` prints milliseconds (medians) and ratios; only the ratios compare between machines. CPython
//! reads and parses every file, which is what a scan in Python does first; the scan skips files without the word
//! `rmq_trigger` before parsing, so a folder in which every file has a declaration is measured too.

#![expect(clippy::print_stdout, reason = "a benchmark prints what it measured")]
#![expect(clippy::unwrap_used, reason = "a benchmark stops at the first surprise")]

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use rmq_watcher::discovery::Scanner;
use tempfile::TempDir;

/// Reads and parses every file given on standard input, and prints the seconds it took.
const PYTHON: &str = "
import ast, sys, time
names = sys.stdin.read().split()
start = time.perf_counter()
for name in names:
    with open(name, encoding='utf-8') as file:
        ast.parse(file.read())
print(time.perf_counter() - start)
";

fn main() {
    println!(
        "{:>6} {:>6} {:>8} | {:>10} {:>10} {:>8} {:>12} | {:>10} | {:>6}",
        "files", "decl.", "kB", "first ms", "again ms", "least", "1 changed ms", "CPython ms", "ratio"
    );
    for (files, declared_in_every) in [(1_000, 10), (1_000, 1), (10_000, 10)] {
        measure(files, declared_in_every);
    }
}

fn measure(files: usize, declared_in_every: usize) {
    let folder = TempDir::new().unwrap();
    let mut bytes = 0;
    for n in 0..files {
        let directory = folder.path().join(format!("team{:02}", n % 20));
        fs::create_dir_all(&directory).unwrap();
        let text = dag_file(n, n % declared_in_every == 0);
        bytes += text.len();
        fs::write(directory.join(format!("dag_{n:05}.py")), text).unwrap();
    }
    let declarations = files / declared_in_every;
    let scan = |scanner: &mut Scanner| {
        let start = Instant::now();
        let scan = scanner.scan().unwrap();
        let took = start.elapsed();
        assert_eq!(scan.declarations.len(), declarations);
        assert_eq!(scan.listed, files);
        took
    };
    let python = median(3, || python(folder.path()));
    let first = median(5, || scan(&mut Scanner::new(folder.path())));
    let mut scanner = Scanner::new(folder.path());
    scan(&mut scanner);
    let (again, least) = median_and_least(101, || scan(&mut scanner));
    let mut round = 0;
    let changed = median(11, || {
        round += 1;
        let text = format!("{}# {round}\n", dag_file(0, true));
        fs::write(folder.path().join("team00/dag_00000.py"), text).unwrap();
        scan(&mut scanner)
    });
    println!(
        "{files:>6} {declarations:>6} {:>8} | {:>10.1} {:>10.2} {:>8.2} {:>12.2} | {:>10.0} | {:>5.0}×",
        bytes / 1000,
        ms(first),
        ms(again),
        ms(least),
        ms(changed),
        ms(python),
        python.as_secs_f64() / first.as_secs_f64()
    );
}

fn python(folder: &Path) -> Duration {
    let mut names = String::new();
    for team in fs::read_dir(folder).unwrap() {
        for file in fs::read_dir(team.unwrap().path()).unwrap() {
            writeln!(names, "{}", file.unwrap().path().display()).unwrap();
        }
    }
    let list = TempDir::new().unwrap();
    fs::write(list.path().join("names"), names).unwrap();
    let output = Command::new("python3")
        .args(["-c", PYTHON])
        .stdin(fs::File::open(list.path().join("names")).unwrap())
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    Duration::from_secs_f64(text.trim().parse().unwrap())
}

/// A DAG file of about 2.1 kB, as people write them.
fn dag_file(n: usize, declared: bool) -> String {
    let (import, decorator) = if declared {
        (
            "from airflow_rmq_watcher import rmq_trigger\n",
            format!("@rmq_trigger(queue=\"orders.{n}\", conn_id=\"rmq_default\")\n"),
        )
    } else {
        ("", String::new())
    };
    let mut text = format!(
        "from __future__ import annotations\n\nfrom datetime import datetime, timedelta\n\n\
         from airflow.decorators import dag, task\n{import}\n\
         DEFAULTS = {{\"owner\": \"team\", \"retries\": 2, \"retry_delay\": timedelta(minutes=5)}}\n\n\n\
         {decorator}@dag(dag_id=\"dag_{n:05}\", schedule=None, start_date=datetime(2026, 1, 1), default_args=DEFAULTS)\n\
         def build():\n"
    );
    for step in 0..7 {
        write!(
            text,
            "    @task\n    def step_{step}(items: list[dict], limit: int = {step}0) -> list[dict]:\n        \
             \"\"\"Keeps what is within the limit.\"\"\"\n        \
             kept = [item for item in items if item.get(\"size\", 0) > limit and item[\"name\"]]\n        \
             return sorted(kept, key=lambda item: (item[\"size\"], item[\"name\"]))\n\n"
        )
        .unwrap();
    }
    text + "    step_1(step_0([]))\n\n\nbuild()\n"
}

fn median(rounds: usize, measured: impl FnMut() -> Duration) -> Duration {
    median_and_least(rounds, measured).0
}

/// The least is what it takes where nobody else wants the processor.
fn median_and_least(rounds: usize, mut measured: impl FnMut() -> Duration) -> (Duration, Duration) {
    let mut times: Vec<Duration> = (0..rounds).map(|_| measured()).collect();
    times.sort();
    (times[rounds / 2], times[0])
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}
