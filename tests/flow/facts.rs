//! What the broker says of a queue: when it is asked, what hangs on it, and that nothing waits for it that need not.

use std::time::Duration;

use rmq_watcher::domain::options::Options;
use rmq_watcher::domain::outcome::TriggerAnswer;
use rmq_watcher::domain::queue_facts::{Limit, Look, NotLooked, QueueFacts, QueueKind, Release};
use rmq_watcher::domain::routing::Standing;
use rmq_watcher::pipeline::Limits;
use rmq_watcher::ports::Verb;
use serde_json::json;
use tokio::time::Instant;

use crate::fake_airflow::Turn;
use crate::world::{World, limits, route, run};

fn told(facts: QueueFacts) -> Option<Look> {
    Some(Look { release: Some(Release(4, 0)), facts: Ok(facts) })
}

fn not_told(why: NotLooked) -> Option<Look> {
    Some(Look { release: Some(Release(3, 10)), facts: Err(why) })
}

fn filtered() -> Options {
    Options { filter_data: Some(json!({"filter_headers": {"kind": "ours"}})), ..Options::default() }
}

async fn attached(world: &World) {
    world.start();
    world.until("attached", |w| w.broker.is_attached()).await;
}

#[test]
fn a_single_active_consumer_with_a_filter_gets_the_cap_from_the_start() {
    run(async {
        for (single_active, options, prefetch) in [
            (Some(true), filtered(), 10_000),
            (Some(true), Options::default(), 8),
            (Some(false), filtered(), 8),
            (None, filtered(), 8),
        ] {
            let world = World::new();
            world.set_options(options);
            world
                .broker
                .says_of_queue(told(QueueFacts { single_active_consumer: single_active, ..QueueFacts::default() }));
            attached(&world).await;
            assert_eq!(world.broker.prefetches(), [prefetch], "{single_active:?}");
        }
    });
}

#[test]
fn a_management_api_that_never_answers_holds_the_first_attach_up_for_two_seconds_and_no_other() {
    run(async {
        let world = World::new();
        world.broker.says_of_queue(None);
        let began = Instant::now();
        attached(&world).await;
        let took = began.elapsed();
        assert!((Duration::from_secs(2)..Duration::from_millis(2100)).contains(&took), "{took:?}");
        world.broker.drop_channel();
        let lost = Instant::now();
        world.until("attached again", |w| w.broker.channels() == 2).await;
        assert!(lost.elapsed() < Duration::from_secs(2), "{:?}", lost.elapsed());
        assert_eq!(world.broker.looks(), 1);
        world.broker.publish(Some("m"), "x");
        world.until_drained().await;
        assert_eq!(world.airflow.run_ids().len(), 1);
    });
}

#[test]
fn what_is_known_is_not_asked_again_before_an_attach_and_renewed_by_each_cycle() {
    run(async {
        let world = World::new();
        let quorum = QueueFacts { kind: Some(QueueKind::Quorum), ..QueueFacts::default() };
        world.broker.says_of_queue(told(quorum.clone()));
        attached(&world).await;
        assert_eq!(world.facts().limit(None), Limit::At(20));
        world.broker.drop_channel();
        world.until("attached again", |w| w.broker.channels() == 2).await;
        assert_eq!(world.broker.looks(), 1);
        let limited = QueueFacts { limit_argument: Some(3), single_active_consumer: Some(false), ..quorum };
        world.broker.says_of_queue(told(limited));
        world.look_at_queues().await;
        assert_eq!((world.facts().limit(None), world.broker.looks()), (Limit::At(3), 2));
    });
}

#[test]
fn a_broker_that_cannot_be_asked_takes_nothing_away_and_keeps_nobody_from_consuming() {
    run(async {
        let world = World::new();
        let limited = QueueFacts { kind: Some(QueueKind::Quorum), limit_argument: Some(3), ..QueueFacts::default() };
        world.broker.says_of_queue(told(limited));
        attached(&world).await;
        let known = QueueFacts { release: Some(Release(3, 10)), ..world.facts() };
        for why in [
            NotLooked::Failed("user is refused".into()),
            NotLooked::NoManagement,
            NotLooked::NoQueue,
            NotLooked::NotConnected,
        ] {
            world.broker.says_of_queue(not_told(why.clone()));
            world.look_at_queues().await;
            assert_eq!(world.facts(), known, "{why:?}");
        }
        world.broker.says_of_queue(None);
        let began = Instant::now();
        world.look_at_queues().await;
        assert_eq!((world.facts(), began.elapsed()), (known, Duration::from_secs(60)));
        world.broker.publish(Some("m"), "x");
        world.until_drained().await;
        assert_eq!(world.airflow.run_ids().len(), 1);
    });
}

#[test]
fn without_a_management_api_the_brokers_greeting_tells_whether_there_is_a_limit() {
    run(async {
        let world = World::new();
        world.broker.says_of_queue(not_told(NotLooked::NoManagement));
        attached(&world).await;
        assert_eq!(world.facts().limit(None), Limit::Unknown);
        world.broker.says_of_queue(Some(Look { release: Some(Release(4, 1)), facts: Err(NotLooked::NoManagement) }));
        world.look_at_queues().await;
        assert_eq!(world.facts().limit(None), Limit::At(20));
    });
}

/// After how long a delivery that cannot be started is given back.
async fn given_back_after(options: impl IntoIterator<Item = Options>, facts: QueueFacts, configured: u64) -> u64 {
    let world = World::new();
    let routes = (1..).zip(options).map(|(id, options)| route(id, &format!("dag{id}"), options, Standing::Listening));
    world.set_routes(routes.collect());
    world.broker.says_of_queue(told(facts));
    let unavailable = TriggerAnswer::Unavailable { reason: "503".into(), retry_after: None, server_error: false };
    world.airflow.script((0..500).map(|_| Turn::Answer(unavailable.clone())));
    world.start_with(Limits { ack_deadline: Duration::from_secs(configured), ..limits() });
    world.until("attached", |w| w.broker.is_attached()).await;
    world.broker.publish(Some("m"), "x");
    let published = Instant::now();
    world.until("given back", |w| !w.broker.verbs().is_empty()).await;
    assert_eq!(world.broker.verbs()[0], (Some("m".into()), Verb::GiveBackTried));
    published.elapsed().as_secs()
}

#[test]
fn a_delivery_goes_back_when_the_settings_the_subscription_or_the_broker_says_so_whoever_is_first() {
    run(async {
        let own = |secs| Options { ack_deadline_override: Some(secs), ..Options::default() };
        let broker = |secs| QueueFacts { consumer_timeout: Some(Duration::from_secs(secs)), ..QueueFacts::default() };
        for (options, facts, wanted) in [
            (Options::default(), QueueFacts::default(), 300),
            (Options::default(), broker(120), 100),
            (Options::default(), broker(1800), 300),
            (own(60), broker(120), 60),
            (own(600), QueueFacts::default(), 600),
            (own(600), broker(120), 100),
        ] {
            let shown = format!("{:?} {:?}", options.ack_deadline_override, facts.consumer_timeout);
            let after = given_back_after([options], facts, 300).await;
            assert!((wanted..=wanted + wanted / 50 + 1).contains(&after), "{shown}: {after}");
        }
    });
}

#[test]
fn of_several_subscriptions_of_a_queue_the_shortest_deadline_counts() {
    run(async {
        let own = |secs| Options { ack_deadline_override: Some(secs), ..Options::default() };
        for (options, wanted) in [([own(600), Options::default()], 300), ([own(600), own(60)], 60)] {
            let after = given_back_after(options, QueueFacts::default(), 300).await;
            assert!((wanted..=wanted + wanted / 50 + 1).contains(&after), "{after}");
        }
    });
}
