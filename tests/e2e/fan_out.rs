//! Two DAGs on one queue through kills at random moments: each message starts both, once.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::shared::KINDS;
use crate::support::stub_airflow::StubDag;
use crate::support::wait::pause;
use crate::support::{Broker, BrokerVersion, Dialect, Fault, Message, QueueKind, Setup, StubAirflow, What};
use crate::support::{eventually, long_round, seed};
use crate::waits::{LATER, SOON, assert_one_run_each, sql};

/// How messages are told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    ByIds,
    ByBodies,
    /// Not at all.
    Equal,
}

const ALL_WAYS: [Told; 3] = [Told::ByIds, Told::ByBodies, Told::Equal];

/// A queue, and the two DAGs on it.
struct Pair {
    queue: String,
    dags: [String; 2],
    told: Told,
}

impl Pair {
    fn new(kind: QueueKind, told: Told) -> Self {
        let queue = format!("{kind:?}_{told:?}").to_lowercase();
        Self { dags: [1, 2].map(|n| format!("{queue}_{n}")), queue, told }
    }

    fn messages(&self, numbers: Range<usize>) -> Vec<Message> {
        let message = |n: usize| match self.told {
            Told::ByIds => Message::to_queue(&self.queue, format!("{n}")).id(&format!("m{n}")),
            Told::ByBodies => Message::to_queue(&self.queue, format!("{n}")),
            Told::Equal => Message::to_queue(&self.queue, "the same"),
        };
        numbers.map(message).collect()
    }

    /// The rows whose verb was sent and not confirmed: what may be gone from the queue, or not.
    fn on_their_way(&self, setup: &Setup, dag: &str) -> usize {
        let query = format!("SELECT count(*) FROM ledger WHERE state = 'ack_sent' AND target = 'dag:{dag}'");
        sql(&setup.state_dir(), &query).parse().unwrap_or(0)
    }
}

fn set_up(pair: &Pair, stub: &StubAirflow, setup: &Setup) {
    for dag in &pair.dags {
        stub.set_dag(dag, StubDag::default());
        setup.dag(dag, &pair.queue, "rmq_default");
    }
}

/// How often each body ran, and that it ran at all.
fn times(stub: &StubAirflow, dag: &str, count: usize, what: &str) -> BTreeMap<String, usize> {
    let mut times: BTreeMap<String, usize> = (0..count).map(|n| (n.to_string(), 0)).collect();
    for run in stub.runs(dag) {
        *times.get_mut(run.conf["body"].as_str().unwrap()).unwrap() += 1;
    }
    let lost: Vec<_> = times.iter().filter(|(_, times)| **times == 0).map(|(body, _)| body).collect();
    assert!(lost.is_empty(), "{what}: {dag} lost {lost:?}");
    times
}

// --- kills of the watcher -----------------------------------------------------------------------------------------------

#[test]
fn real_kills_of_the_watcher_leave_one_run_of_each_message_for_both_dags() {
    for version in BrokerVersion::for_this_round() {
        for kind in KINDS {
            for told in ALL_WAYS {
                kills_of_the_watcher(version, &Pair::new(kind, told));
            }
        }
    }
}

fn kills_of_the_watcher(version: BrokerVersion, pair: &Pair) {
    let (count, kills) = if long_round() { (1000, 20) } else { (120, 5) };
    let what = format!("{version:?} {}, RMQ_TEST_SEED={}", pair.queue, seed());
    let (broker, stub) = (Broker::shared(version), StubAirflow::start(Dialect::V2));
    let kind = if pair.queue.starts_with("quorum") { QueueKind::Quorum } else { QueueKind::Classic };
    broker.declare(&pair.queue, kind, json!({}));
    let folder = tempfile::tempdir().unwrap();
    let setup = Setup::in_folder(folder.path()).stub(&stub).connection("rmq_default", &broker.url());
    set_up(pair, &stub, &setup);
    broker.publish(&pair.messages(0..count));
    stub.always(What::Trigger, Fault::Late(Duration::from_millis(20)));
    let mut random = fastrand::Rng::with_seed(seed());
    let mut may_double = [0, 0];
    for kill in 0..kills {
        let mut watcher = setup.start();
        // The first life sees some of the messages: before two equal ones were seen, they are not known to have equals.
        if kill > 0 && random.u8(..5) == 0 {
            pause(Duration::from_millis(random.u64(..300)));
        } else {
            watcher.wait_event("consumer.attached", LATER);
            let so_far = stub.count_runs(&pair.dags[0]);
            let more = 2 + random.usize(..2 * count / kills - 4);
            stub.wait_runs(&pair.dags[0], (so_far + more).min(count - kills), LATER);
            pause(Duration::from_micros(random.u64(..60_000)));
        }
        watcher.kill();
        for (dag, may_double) in pair.dags.iter().zip(&mut may_double) {
            *may_double += pair.on_their_way(&setup, dag);
        }
    }
    let left = count.saturating_sub(stub.count_runs(&pair.dags[0]));
    assert!(left > 0, "{what}: all had run before the last kill");
    run_until_empty(&broker, &setup, &[&pair.queue]);
    for (dag, may_double) in pair.dags.iter().zip(may_double) {
        match pair.told {
            Told::ByIds => assert_one_run_each(&stub, dag, &pair.queue, count),
            Told::ByBodies => {
                let more: Vec<_> =
                    times(&stub, dag, count, &what).into_iter().filter(|(_, times)| *times > 1).collect();
                assert!(more.is_empty(), "{what}: {dag} ran {more:?}");
            }
            Told::Equal => {
                let runs = stub.count_runs(dag);
                assert!(runs >= count, "{what}: {dag} lost {} of equal messages", count - runs);
                let doubles = runs - count;
                say(&format!("{what}: {dag} has {doubles} doubles, {may_double} verbs were on their way at kills"));
                assert!(doubles <= may_double, "{what}: {dag} has {doubles} doubles, {may_double} are explained");
            }
        }
    }
}

/// Lets a watcher run until nothing is in its queues: what one held when it stopped is ready again.
fn run_until_empty(broker: &Broker, setup: &Setup, queues: &[&str]) {
    const UNSETTLED: &str = "SELECT count(*) FROM ledger WHERE state <> 'settled' AND epoch IN \
                             (SELECT max(id) FROM epochs GROUP BY conn_id, queue)";
    let are_empty = || queues.iter().all(|queue| broker.ready(queue) == 0);
    eventually(LATER, "the queues are empty after a stop", || {
        let mut watcher = setup.start();
        for _ in queues {
            watcher.wait_event("consumer.attached", LATER);
        }
        eventually(LATER, "the queues are empty", are_empty);
        eventually(LATER, "all is settled", || sql(&setup.state_dir(), UNSETTLED) == "0");
        assert!(watcher.stop(SOON).success());
        // A quorum queue says what came back a moment after it did.
        pause(Duration::from_millis(500));
        are_empty()
    });
}

// --- kills of the broker ------------------------------------------------------------------------------------------------

/// What a broker that is killed may give back: what was acknowledged so shortly before, and the time from request to ack.
const GIVEN_BACK: Duration = Duration::from_secs(6);

#[test]
fn real_kills_of_the_broker_leave_one_run_of_each_id_and_lose_nothing_without() {
    for version in BrokerVersion::for_this_round() {
        kills_of_the_broker(version);
    }
}

/// All queues on one node, so that each kill is one for all.
fn kills_of_the_broker(version: BrokerVersion) {
    let (count, kills) = if long_round() { (1000, 20) } else { (150, 3) };
    let what = format!("{version:?}, RMQ_TEST_SEED={}", seed());
    let (broker, stub) = (Broker::own(version, &[]), StubAirflow::start(Dialect::V2));
    let folder = tempfile::tempdir().unwrap();
    // Lives of a few seconds: a classic queue gives back what was acknowledged longer ago than that, too.
    let setup = Setup::in_folder(folder.path())
        .stub(&stub)
        .env("RMQ_WATCHER__AIRFLOW__MAX_IN_FLIGHT", "8")
        .connection("rmq_default", &broker.url());
    let mut pairs = Vec::new();
    for kind in KINDS {
        for told in [Told::ByIds, Told::ByBodies] {
            let pair = Pair::new(kind, told);
            broker.declare(&pair.queue, kind, json!({}));
            set_up(&pair, &stub, &setup);
            broker.publish(&pair.messages(0..count));
            pairs.push(pair);
        }
    }
    // What was declared moments before a kill may not be on the disk of its only node yet.
    broker.stop();
    broker.start();
    stub.always(What::Trigger, Fault::Late(Duration::from_millis(20)));
    let mut random = fastrand::Rng::with_seed(seed());
    let mut watcher = setup.start();
    watcher.announce("consumer.failed").announce("connection.doubted");
    let mut killed_at = Vec::new();
    let total = || pairs.iter().flat_map(|pair| &pair.dags).map(|dag| stub.count_runs(dag)).sum::<usize>();
    for _ in 0..kills {
        for _ in &pairs {
            watcher.wait_event("consumer.attached", LATER);
        }
        let more = total() + 1 + random.usize(..8 * count / kills);
        eventually(LATER, "some more ran", || total() >= more.min(8 * count - kills));
        pause(Duration::from_micros(random.u64(..60_000)));
        let began = Instant::now();
        broker.kill();
        killed_at.push(began..Instant::now());
        broker.start();
    }
    for pair in &pairs {
        for dag in &pair.dags {
            eventually(LATER, "each message ran", || stub.count_runs(dag) >= count);
        }
        eventually(LATER, "the queue is empty", || broker.ready(&pair.queue) == 0);
    }
    assert!(watcher.stop(SOON).success());
    run_until_empty(&broker, &setup, &pairs.iter().map(|pair| pair.queue.as_str()).collect::<Vec<_>>());
    for pair in &pairs {
        for dag in &pair.dags {
            match pair.told {
                Told::ByIds => assert_one_run_each(&stub, dag, &pair.queue, count),
                Told::ByBodies | Told::Equal => doubles_are_explained(&stub, dag, count, &killed_at, &what),
            }
        }
    }
}

/// Whatever ran twice was asked for the first time in the last seconds before a kill.
fn doubles_are_explained(stub: &StubAirflow, dag: &str, count: usize, killed_at: &[Range<Instant>], what: &str) {
    let times = times(stub, dag, count, what);
    let bodies: BTreeMap<_, _> =
        stub.runs(dag).into_iter().map(|run| (run.run_id, run.conf["body"].as_str().unwrap().to_owned())).collect();
    let mut last_asked = BTreeMap::new();
    let (mut doubles, mut unexplained) = (0, Vec::new());
    for (run_id, at) in stub.asked(dag) {
        let body = &bodies[&run_id];
        let Some((other, before)) = last_asked.insert(body, (run_id.clone(), at)) else { continue };
        if other == run_id {
            continue;
        }
        doubles += 1;
        let just_before = |kill: &Range<Instant>| {
            before <= kill.end && kill.start.saturating_duration_since(before) <= GIVEN_BACK && kill.start < at
        };
        if !killed_at.iter().any(just_before) {
            // How long before the last kill before the second request the first one was.
            let last = killed_at.iter().rev().find(|kill| kill.start < at);
            unexplained.push((body.clone(), last.map(|kill| kill.start.saturating_duration_since(before))));
        }
    }
    say(&format!("{what}: {dag} has {doubles} doubles of {} messages", times.len()));
    assert!(unexplained.is_empty(), "{what}: {dag} ran twice without a kill that explains it: {unexplained:?}");
}

#[expect(
    clippy::print_stderr,
    reason = "the count of doubles is what somebody who reads the log of the test wants to know"
)]
fn say(line: &str) {
    eprintln!("{line}");
}
