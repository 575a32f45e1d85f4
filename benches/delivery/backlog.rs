//! Memory beside a long queue. Flags: `--backlog 200000 --hold 10`.
//!
//! Three watchers, one after the other, over the same backlog, each for `--hold` seconds and from a state of its own: Airflow
//! answers 503, so that a window of messages is held; Airflow takes runs as fast as they come; and a filter rejects every
//! message without `ack_unmatched`, so that as many are parked as may be. The most that was resident is what counts. The
//! bare consumer holds a window of the same backlog.

use std::time::Duration;

use crate::common::bare::Bare;
use crate::common::flag;
use crate::common::proc::Reading;
use crate::common::scene::{Launched, QUEUE, Scene};
use crate::support::wait::pause;
use crate::support::{Dialect, Fault, Message, What};

const MIB: f64 = 48.0;
const FOREIGN: &str = ", filter_data={\"filter_headers\": {\"kind\": \"mine\"}}";

pub(crate) fn measure() {
    let (count, hold) = (flag("--backlog", 200_000), Duration::from_secs(flag("--hold", 10)));
    let scene = Scene::set(Dialect::V2);
    // A confirm of each is remembered meanwhile, so not all at once.
    for from in (0..count).step_by(10_000) {
        let message = |n| Message::to_queue(QUEUE, crate::BODY).id(&format!("backlog-{n}"));
        scene.broker.publish(&(from..count.min(from + 10_000)).map(message).collect::<Vec<_>>());
    }
    scene.airflow.always(What::Trigger, Fault::Silent);
    let (runs_url, token) = scene.plain_access();
    let bare = Bare::start_posting(&scene.broker.url(), QUEUE, &runs_url, &token);
    scene.line.wait_consumers(QUEUE, 1);
    pause(hold);
    let bare = end(&scene, bare.pid(), bare);
    scene.airflow.heal();
    scene.airflow.always(What::Trigger, Fault::status(503));
    let held = watch(&scene, "", hold);
    let parked = watch(&scene, FOREIGN, hold);
    scene.airflow.heal();
    let running = watch(&scene, "", hold);
    crate::heading(&format!("a backlog of {count}, {} s each", hold.as_secs()));
    for (what, reading) in [("a window held", &held), ("all parked", &parked), ("runs started", &running)] {
        for name in ["VmHWM", "RssAnon"] {
            crate::row(&format!("{what}, {name} MiB"), reading.mib(name), bare.mib(name));
        }
    }
    let most = [&held, &parked, &running].map(|reading| reading.mib("VmHWM")).into_iter().fold(0.0, f64::max);
    crate::verdict("most resident MiB", most, ("under 48 MiB", most < MIB));
}

fn watch(scene: &Scene, arguments: &str, hold: Duration) -> Reading {
    let mut launched = Launched::start_alone_with(|folder| scene.setup_with(folder, arguments));
    scene.line.wait_consumers(QUEUE, 1);
    pause(hold);
    end(scene, launched.watcher(), launched)
}

fn end<T>(scene: &Scene, pid: i32, consumer: T) -> Reading {
    let reading = Reading::of(pid);
    drop(consumer);
    scene.line.wait_consumers(QUEUE, 0);
    reading
}
