//! What answers of real brokers say, and what follows from it.

use proptest::prelude::*;
use serde_json::json;

use super::*;

const OURS: &str = "rmq_watcher.h.1.";
const OLD: Option<Release> = Some(Release(3, 10));
const NEW: Option<Release> = Some(Release(4, 0));

fn quorum(argument: Option<i64>, policy: Option<i64>) -> QueueFacts {
    QueueFacts {
        kind: Some(QueueKind::Quorum),
        limit_argument: argument,
        limit_policy: policy,
        policy_is_known: true,
        ..QueueFacts::default()
    }
}

#[test]
fn an_answer_is_read_whole() {
    let facts = QueueFacts::parse(
        &json!({
            "name": "q", "type": "quorum", "durable": true, "exclusive": false,
            "arguments": {"x-queue-type": "quorum", "x-delivery-limit": 5, "x-single-active-consumer": true,
                          "x-dead-letter-exchange": "dlx"},
            "effective_policy_definition": {"delivery-limit": 9, "dead-letter-exchange": "other"},
        }),
        OURS,
    );
    let want = QueueFacts {
        kind: Some(QueueKind::Quorum),
        durable: Some(true),
        exclusive: Some(false),
        single_active_consumer: Some(true),
        dead_letters: DeadLetters::Exchange("dlx".into()),
        limit_argument: Some(5),
        limit_policy: Some(9),
        policy_is_known: true,
        ..QueueFacts::default()
    };
    assert_eq!(facts, want);
    assert_eq!(facts.limit(NEW), Limit::At(5));
}

#[test]
fn what_is_not_said_is_not_known() {
    for nothing in [json!(null), json!([]), json!({}), json!("x"), json!({"type": 5, "durable": "yes"})] {
        assert_eq!(QueueFacts::parse(&nothing, OURS), QueueFacts::default(), "{nothing}");
    }
    let empty = json!({"type": "classic", "arguments": [], "effective_policy_definition": []});
    let facts = QueueFacts::parse(&empty, OURS);
    assert_eq!((facts.single_active_consumer, facts.dead_letters), (Some(false), DeadLetters::Nowhere));
    let young = QueueFacts::parse(&json!({"type": "classic", "arguments": {}}), OURS);
    assert_eq!(young.dead_letters, DeadLetters::Unknown, "a policy may name one");
    let policy = QueueFacts::parse(&json!({"effective_policy_definition": {"dead-letter-exchange": "p"}}), OURS);
    assert_eq!(policy.dead_letters, DeadLetters::Exchange("p".into()));
}

#[test]
fn the_limit_comes_from_argument_policy_and_release() {
    for (argument, policy, old, new) in [
        (None, None, Limit::None, Limit::At(20)),
        (Some(5), None, Limit::At(5), Limit::At(5)),
        (None, Some(7), Limit::At(7), Limit::At(7)),
        (Some(9), Some(7), Limit::At(7), Limit::At(7)),
        (Some(0), None, Limit::At(0), Limit::At(0)),
        (Some(-1), None, Limit::At(0), Limit::None),
        (Some(-1), Some(7), Limit::At(0), Limit::At(7)),
        (Some(7), Some(-1), Limit::At(0), Limit::At(7)),
        (Some(-1), Some(-1), Limit::At(0), Limit::None),
        (Some(i64::MAX), None, Limit::None, Limit::None),
    ] {
        assert_eq!(quorum(argument, policy).limit(OLD), old, "{argument:?} {policy:?}");
        assert_eq!(quorum(argument, policy).limit(NEW), new, "{argument:?} {policy:?}");
        assert_eq!(quorum(argument, policy).limit(None), new, "an unknown release is taken for a new one");
    }
    let classic = QueueFacts { kind: Some(QueueKind::Classic), limit_argument: Some(3), ..QueueFacts::default() };
    assert_eq!(classic.limit(NEW), Limit::None);
    assert_eq!(QueueFacts::default().limit(NEW), Limit::At(20));
    assert_eq!(QueueFacts::default().limit(OLD), Limit::Unknown);
}

/// Answers of real brokers: with a limit by argument and a lower one by an operator's policy; with consumers; and so on.
macro_rules! answer {
    ($name:literal) => {
        QueueFacts::parse(
            &serde_json::from_str(include_str!(concat!("../../../tests/fixtures/management/", $name, ".json")))
                .expect("a frozen answer"),
            OURS,
        )
    };
}

#[test]
fn answers_of_real_brokers_are_read_as_they_mean() {
    let minutes = |minutes: u64| Some(Duration::from_secs(60 * minutes));
    for (facts, release, limit, timeout) in [
        (answer!("quorum_limited_single_active_3"), OLD, Limit::At(4), None),
        (answer!("quorum_limited_single_active_4"), NEW, Limit::At(4), minutes(30)),
        (answer!("quorum_argument_timeout_3"), OLD, Limit::None, minutes(2)),
        (answer!("quorum_argument_timeout_4"), NEW, Limit::At(20), minutes(2)),
        (answer!("quorum_unlimited_4"), NEW, Limit::None, None),
        (answer!("quorum_young_3"), OLD, Limit::Unknown, None),
        (answer!("quorum_young_4"), NEW, Limit::At(20), None),
        (answer!("classic_plain_3"), OLD, Limit::None, None),
        (answer!("classic_3"), OLD, Limit::None, None),
        (answer!("classic_4"), NEW, Limit::None, minutes(30)),
        (answer!("classic_policy_timeout_4"), NEW, Limit::None, Some(Duration::from_secs(90))),
    ] {
        assert_eq!((facts.limit(release), facts.consumer_timeout), (limit, timeout), "{facts:?}");
        assert_eq!(facts.exclusive, Some(false), "{facts:?}");
    }
    for facts in [answer!("quorum_limited_single_active_3"), answer!("quorum_limited_single_active_4")] {
        assert_eq!((facts.single_active_consumer, facts.foreign_consumers), (Some(true), Some(1)));
        assert_eq!(facts.dead_letters, DeadLetters::Exchange("dlx".into()));
    }
    for facts in [answer!("classic_3"), answer!("classic_4")] {
        // A policy that names a delivery limit does not apply to a classic queue at all, its dead-letter exchange neither.
        assert_eq!((facts.dead_letters, facts.foreign_consumers), (DeadLetters::Nowhere, Some(0)));
    }
    assert_eq!(answer!("quorum_young_3").dead_letters, DeadLetters::Unknown, "a policy may name one");
}

#[test]
fn another_look_takes_nothing_away_that_it_does_not_tell() {
    let (known, young) = (answer!("quorum_limited_single_active_3"), answer!("quorum_young_3"));
    let after = known.clone().renewed(young);
    assert_eq!((after.limit(OLD), after.policy_is_known), (Limit::At(4), true));
    assert_eq!(after.single_active_consumer, Some(false), "arguments are always told");
    assert_eq!(known.clone().renewed(QueueFacts::default()), known);
    let classic = answer!("classic_3");
    let there = |name: &str, there| QueueFacts {
        dead_letters: DeadLetters::Exchange(name.into()),
        exchange_is_there: there,
        ..known.clone()
    };
    let after = |look| there("dlx", Some(true)).renewed(look).exchange_is_there;
    assert_eq!((after(there("dlx", None)), after(there("other", None))), (Some(true), None));
    let limited = answer!("quorum_limited_single_active_4").renewed(answer!("quorum_young_4"));
    assert_eq!(limited.limit_in_force, None, "made anew with another argument");
    assert_eq!(known.renewed(classic.clone()), classic, "made anew as another kind of queue");
}

#[test]
fn a_delivery_is_given_back_before_the_broker_loses_patience() {
    let secs = Duration::from_secs;
    let with = |timeout| QueueFacts { consumer_timeout: timeout, ..QueueFacts::default() };
    for (timeout, wanted, want) in [
        (None, 1500, 1500),
        (Some(secs(1800)), 1500, 1500),
        (Some(secs(1800)), 86_400, 1500),
        (Some(secs(3600)), 1500, 1500),
        (Some(secs(60)), 1500, 50),
        (Some(secs(60)), 10, 10),
    ] {
        assert_eq!(with(timeout).ack_deadline(secs(wanted)), secs(want), "{timeout:?} {wanted}");
    }
}

#[test]
fn a_redelivery_tells_what_kind_of_queue_it_is() {
    let kind = |redelivered, counts| QueueFacts::default().learn(redelivered, counts).kind;
    assert_eq!(kind(true, true), Some(QueueKind::Quorum));
    assert_eq!(kind(true, false), Some(QueueKind::Classic));
    assert_eq!((kind(false, true), kind(false, false)), (None, None), "a publisher may set any header");
    let known = QueueFacts { kind: Some(QueueKind::Classic), ..QueueFacts::default() };
    assert_eq!(known.clone().learn(true, true), known);
}

#[test]
fn nothing_is_rejected_that_is_neither_kept_nor_known_to_go_somewhere() {
    let with = |dead_letters| QueueFacts { dead_letters, ..QueueFacts::default() };
    let named = with(DeadLetters::Exchange("dlx".into()));
    assert!(!named.must_keep_rejected(Some(true)));
    assert!(named.must_keep_rejected(Some(false)) && named.must_keep_rejected(None));
    let found = |there| QueueFacts { exchange_is_there: there, ..named.clone() }.must_keep_rejected(None);
    assert_eq!((found(Some(true)), found(Some(false))), (false, true));
    assert!(with(DeadLetters::Nowhere).must_keep_rejected(Some(true)));
    assert!(with(DeadLetters::Unknown).must_keep_rejected(Some(true)));
}

#[test]
fn releases_are_read_as_brokers_write_them() {
    for (text, want) in [
        ("3.10.8", Some(Release(3, 10))),
        ("4.0.5", Some(Release(4, 0))),
        ("4.3.0-rc.1", Some(Release(4, 3))),
        ("4", None),
        ("", None),
        ("x.y", None),
    ] {
        assert_eq!(Release::parse(text), want, "{text}");
    }
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "[a-z]{0,8}".prop_map(Value::from)
    ];
    leaf.prop_recursive(3, 20, 5, |inner| {
        let name = prop::sample::select(vec![
            "type",
            "arguments",
            "effective_policy_definition",
            "x-delivery-limit",
            "delivery-limit",
            "x-dead-letter-exchange",
            "durable",
            "delivery_limit",
            "consumer_details",
            "consumer_tag",
            "consumer_timeout",
            "x-consumer-timeout",
        ]);
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::hash_map(name, inner, 0..5)
                .prop_map(|map| Value::Object(map.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())),
        ]
    })
}

proptest! {
    #[test]
    fn any_answer_is_read_without_surprise(answer in any_json()) {
        let facts = QueueFacts::parse(&answer, OURS);
        for release in [OLD, NEW, None] {
            facts.limit(release);
        }
    }
}
