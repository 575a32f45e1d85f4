//! Messages that start runs, with everything that is remembered of them, beside a consumer that posts with a plain HTTP client
//! and remembers nothing. Flags: `--burst 4000`, `--singles 200`.
//!
//! - *Burst*: the messages lie in the queue before the consumer starts; from the first request that the stand-in for Airflow
//!   has read to the last. It answers at once, or after 1 or 20 ms.
//! - *Singles*: the next message is published 20 ms after the last request was read. Time from before the publish until the
//!   stand-in has read the request.
//!
//! At most 8 requests are under way: an Airflow that takes 1 ms cannot be asked more than 8,000 times a second, one that
//! takes 20 ms no more than 400.

use std::time::{Duration, Instant};

use crate::common::bare::Bare;
use crate::common::consumer::{Consumer, Cost, Meter, median};
use crate::common::scene::{Launched, QUEUE, Scene};
use crate::common::{flag, ms, quantile};
use crate::support::wait::pause;
use crate::support::{Dialect, Fault, Message, What};

/// Messages a second that the watcher has to reach on two processors.
const PER_SECOND: f64 = 2_000.0;
/// Milliseconds of the median.
const SOON: f64 = 5.0;
const BETWEEN: Duration = Duration::from_millis(20);
const LIMIT: Duration = Duration::from_secs(120);

pub(crate) fn measure_bursts() {
    let most = flag("--burst", 4_000);
    for (name, late) in [
        ("at once", None),
        ("after 1 ms", Some(Duration::from_millis(1))),
        ("after 20 ms", Some(Duration::from_millis(20))),
    ] {
        // At 400 a second at most.
        let (count, rounds) = if name == "after 20 ms" { (most.min(1_000), 1) } else { (most, crate::rounds()) };
        let (mut rates, mut costs) = ([vec![], vec![]], [vec![], vec![]]);
        for _ in 0..rounds {
            for is_watcher in [false, true] {
                let (rate, cost) = burst_of(is_watcher, count, late);
                rates[usize::from(is_watcher)].push(rate);
                costs[usize::from(is_watcher)].push(cost);
            }
        }
        let [bare, watcher] = rates.map(median);
        crate::heading(&format!("bursts of {count}, Airflow answers {name}, 8 requests under way at most"));
        crate::row("messages /s", watcher, bare);
        crate::costs(&costs[1], &costs[0]);
        if late.is_none() {
            crate::verdict("messages /s", watcher, ("at least 2,000 on two cores", watcher >= PER_SECOND));
        }
    }
}

pub(crate) fn measure_singles() {
    let count = flag("--singles", 200);
    let [(bare, bare_cost), (watcher, watcher_cost)] = [false, true].map(|is_watcher| one_at_a_time(is_watcher, count));
    crate::heading(&format!("{count} messages one at a time, publish to request"));
    for (name, share) in [("p50 ms", 0.5), ("p95 ms", 0.95), ("p99 ms", 0.99)] {
        let of = |latencies: &[Duration]| ms(quantile(&mut latencies.to_vec(), share));
        crate::row(name, of(&watcher), of(&bare));
    }
    crate::costs(&[watcher_cost], &[bare_cost]);
    let p50 = ms(quantile(&mut watcher.clone(), 0.5));
    crate::verdict("p50 ms", p50, ("under 5 ms", p50 < SOON));
}

fn start(scene: &Scene, is_watcher: bool) -> Consumer {
    if is_watcher {
        return Consumer::Watcher(Launched::start_alone(scene));
    }
    let (runs_url, token) = scene.plain_access();
    Consumer::Bare(Bare::start_posting(&scene.broker.url(), QUEUE, &runs_url, &token))
}

fn one_at_a_time(is_watcher: bool, count: usize) -> (Vec<Duration>, Cost) {
    let scene = Scene::set(Dialect::V2);
    let mut consumer = start(&scene, is_watcher);
    scene.line.wait_consumers(QUEUE, 1);
    // The first one opens connections and logs in; that is not what is asked here.
    scene.line.publish(QUEUE, "first", b"{}");
    wait_requests(&scene, 1, Duration::from_millis(1));
    pause(Duration::from_secs(1));

    let meter = Meter::start(&mut consumer);
    let mut published = Vec::with_capacity(count);
    for n in 0..count {
        published.push(scene.line.publish(QUEUE, &format!("single-{n}"), crate::BODY));
        wait_requests(&scene, n + 2, Duration::from_millis(1));
        pause(BETWEEN);
    }
    let_settle();
    let cost = meter.read(&mut consumer, count);
    check_acknowledged(&scene, consumer);
    let read = request_times(&scene).into_iter().skip(1);
    (published.into_iter().zip(read).map(|(from, to)| to.saturating_duration_since(from)).collect(), cost)
}

fn burst_of(is_watcher: bool, count: usize, late: Option<Duration>) -> (f64, Cost) {
    let scene = Scene::set(Dialect::V2);
    if let Some(late) = late {
        scene.airflow.always(What::Trigger, Fault::Late(late));
    }
    let message = |n| Message::to_queue(QUEUE, crate::BODY).id(&format!("burst-{n}"));
    scene.broker.publish(&(0..count).map(message).collect::<Vec<_>>());
    let mut consumer = start(&scene, is_watcher);
    wait_requests(&scene, 1, Duration::from_millis(1));
    let meter = Meter::start(&mut consumer);
    wait_requests(&scene, count, Duration::from_millis(20));
    let_settle();
    let cost = meter.read(&mut consumer, count);
    check_acknowledged(&scene, consumer);
    let times = request_times(&scene);
    assert_eq!(times.len(), count, "one request for each message");
    ((count - 1) as f64 / (times[count - 1] - times[0]).as_secs_f64(), cost)
}

fn request_times(scene: &Scene) -> Vec<Instant> {
    let requests = scene.airflow.requests().into_iter();
    requests.filter(|seen| seen.what == What::Trigger).map(|seen| seen.at).collect()
}

/// Waits until so many requests were read.
pub(crate) fn wait_requests(scene: &Scene, count: usize, look_every: Duration) {
    let end = Instant::now() + LIMIT;
    while scene.airflow.count(What::Trigger) < count {
        assert!(Instant::now() < end, "{} of {count} requests came", scene.airflow.count(What::Trigger));
        pause(look_every);
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
