//! How long a stop takes while a whole window is held, and how soon the queue is whole again. Flag: `--rounds 5`.
//!
//! From SIGTERM until the process has ended, and from there until the queue has as many messages ready as before. Three
//! states: Airflow answers 503, so that a whole window is held; Airflow takes 20 ms for each answer, so that runs are being
//! started; and Airflow does not answer, so that eight requests are under way. For these a stop waits up to 2 s.

use std::time::{Duration, Instant};

use crate::common::consumer::median;
use crate::common::scene::{Launched, QUEUE, Scene};
use crate::common::{load, ms};
use crate::runs::wait_requests;
use crate::support::wait::pause;
use crate::support::{Dialect, Fault, Message, What};

const COUNT: u32 = 1_000;
const WINDOW: u32 = 32;
const LIMIT_MS: f64 = 1_000.0;

pub(crate) fn measure() {
    let rounds = crate::rounds();
    println!("\nstop with a window of {WINDOW}, {rounds} rounds; load {}", load());
    println!("{:<24} {:>10} {:>10} {:>10} {:>10}", "ms", "stop", "worst", "whole", "worst");
    for (name, fault, requests, has_bound) in [
        // So many open the breaker; the others of the window then wait for it.
        ("held after 503s", Fault::status(503), 3, true),
        ("runs being started", Fault::Late(Duration::from_millis(20)), WINDOW as usize, true),
        ("8 without an answer", Fault::Silent, 8, false),
    ] {
        let times: Vec<_> = (0..rounds).map(|_| one(&fault, requests)).collect();
        let column = |of: fn(&(Duration, Duration)) -> Duration| times.iter().map(of).map(ms).collect::<Vec<_>>();
        let (stop, whole) = (column(|times| times.0), column(|times| times.1));
        let worst = |values: &[f64]| values.iter().copied().fold(0.0, f64::max);
        let (stop_ms, whole_ms) = (median(stop.clone()), median(whole.clone()));
        println!("{name:<24} {stop_ms:>10.0} {:>10.0} {whole_ms:>10.0} {:>10.0}", worst(&stop), worst(&whole));
        if has_bound {
            crate::verdict("  stop ms", stop_ms, ("under 1 s", stop_ms < LIMIT_MS));
            crate::verdict("  whole again ms", whole_ms, ("within 1 s", whole_ms <= LIMIT_MS));
        }
    }
}

fn one(fault: &Fault, requests: usize) -> (Duration, Duration) {
    let scene = Scene::set(Dialect::V2);
    scene.airflow.always(What::Trigger, fault.clone());
    let message = |n| Message::to_queue(QUEUE, crate::BODY).id(&format!("held-{n}"));
    scene.broker.publish(&(0..COUNT).map(message).collect::<Vec<_>>());
    let mut launched = Launched::start_alone(&scene);
    wait_requests(&scene, requests, Duration::from_millis(1));
    let full = Instant::now();
    while scene.line.counts(QUEUE).0 > COUNT - WINDOW {
        assert!(full.elapsed() < Duration::from_secs(10), "{} are not taken", scene.line.counts(QUEUE).0);
        pause(Duration::from_millis(1));
    }
    let stopped = launched.stop();
    let ended = Instant::now();
    // What has its run is acknowledged; all else is to be in the queue.
    let runs = u32::try_from(scene.airflow.runs(crate::common::scene::DAG).len()).expect("few");
    while scene.line.counts(QUEUE).0 < COUNT - runs {
        assert!(ended.elapsed() < Duration::from_secs(10), "{} are back", scene.line.counts(QUEUE).0);
        pause(Duration::from_millis(1));
    }
    (stopped, ended.elapsed())
}
