//! Foreign messages that a filter rejects and that are acknowledged (`ack_unmatched`), beside a consumer that acknowledges
//! the same ones without a look. Flag: `--misses 20000`.
//!
//! They lie in the queue before the consumer starts. The clock runs from the first look at the queue that finds a twentieth of
//! them gone to the one that finds none left.

use std::time::{Duration, Instant};

use crate::common::bare::Bare;
use crate::common::consumer::{Consumer, Cost, Meter, median};
use crate::common::flag;
use crate::common::scene::{Launched, QUEUE, Scene};
use crate::support::wait::pause;
use crate::support::{Dialect, Message};

/// What the watcher has to reach of the bare consumer's rate.
const SHARE: f64 = 0.6;
const LOOK_EVERY: Duration = Duration::from_millis(5);
const LIMIT: Duration = Duration::from_secs(120);
const FILTER: &str = ", filter_data={\"filter_headers\": {\"kind\": \"mine\"}}, ack_unmatched=True";

pub(crate) fn measure() {
    let (count, scene) = (flag("--misses", 20_000), Scene::set(Dialect::V2));
    let messages: Vec<_> = (0..count)
        .map(|n| Message::to_queue(QUEUE, crate::BODY).id(&format!("foreign-{n}")).header("kind", "foreign"))
        .collect();
    let (mut rates, mut costs) = ([vec![], vec![]], [vec![], vec![]]);
    for _ in 0..crate::rounds() {
        for is_watcher in [false, true] {
            scene.broker.publish(&messages);
            let (rate, cost) = one(&scene, is_watcher, count);
            rates[usize::from(is_watcher)].push(rate);
            costs[usize::from(is_watcher)].push(cost);
        }
    }
    let [bare, watcher] = rates.map(median);
    crate::heading(&format!("misses with ack_unmatched, {count} each round"));
    crate::row("messages /s", watcher, bare);
    crate::costs(&costs[1], &costs[0]);
    let ratio = watcher / bare;
    crate::verdict("ratio", ratio, ("at least 0.6 of bare", ratio >= SHARE));
}

fn one(scene: &Scene, is_watcher: bool, count: usize) -> (f64, Cost) {
    let mut consumer = if is_watcher {
        Consumer::Watcher(Launched::start_alone_with(|folder| scene.setup_with(folder, FILTER)))
    } else {
        Consumer::Bare(Bare::start(&scene.broker.url(), QUEUE))
    };
    let (from, before) = wait_ready(scene, count - count / 20);
    let meter = Meter::start(&mut consumer);
    let (to, _) = wait_ready(scene, 0);
    // The last window may not be acknowledged yet.
    pause(Duration::from_millis(500));
    let cost = meter.read(&mut consumer, before);
    drop(consumer);
    scene.line.wait_consumers(QUEUE, 0);
    assert_eq!(scene.line.counts(QUEUE).0, 0, "every message was acknowledged");
    (before as f64 / (to - from).as_secs_f64(), cost)
}

/// Waits until no more than so many are ready. Returns when, and how many there are.
fn wait_ready(scene: &Scene, most: usize) -> (Instant, usize) {
    let end = Instant::now() + LIMIT;
    loop {
        let (ready, at) = (scene.line.counts(QUEUE).0 as usize, Instant::now());
        if ready <= most {
            return (at, ready);
        }
        assert!(at < end, "{ready} are left");
        pause(LOOK_EVERY);
    }
}
