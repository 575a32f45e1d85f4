use serde_json::{Map, json};

use super::*;
use crate::domain::status::{ConnectionStatus, SubscriptionStatus};

const NOW: i64 = 10_000_000_000;
const STALE: i64 = 360_000;

fn watcher() -> WatcherRow {
    WatcherRow {
        hostname: "host".into(),
        pid: 12,
        version: "1.2.3".into(),
        started_at_ms: NOW - 7_200_000,
        last_cycle_at_ms: Some(NOW - 30_000),
        interval_ms: 60_000,
        budget_ms: 300_000,
        last_error: None,
        counters: json!({"cycles": 5}),
        stopped_at_ms: None,
    }
}

fn held() -> Lock {
    Lock::Held { pid: Some(12), process: Process::Running, since_ms: Some(NOW - 7_200_001) }
}

fn subscription(id: i64, status: &str) -> SubscriptionRow {
    SubscriptionRow {
        id: SubscriptionId(id),
        dag_id: DagId::new(format!("dag{id}")),
        queue: QueueName::new("q"),
        conn_id: ConnId::new("c"),
        source: "dag_file".into(),
        origin: "a.py:1:1".into(),
        options: Map::new(),
        enabled: true,
        invalid: None,
        absent_cycles: 0,
        deleted_at_ms: None,
        status: Some(status.to_owned()),
        last_error: None,
        consumer_tag: Some("tag".to_owned()),
        status_at_ms: Some(NOW - 1_000),
    }
}

fn connection(status: &str) -> ConnectionRow {
    ConnectionRow {
        conn_id: ConnId::new("c"),
        status: status.to_owned(),
        last_error: Some("was down".to_owned()),
        consumer_count: Some(3),
        last_reconcile_at_ms: Some(NOW - 30_000),
    }
}

fn refusal(sentence: &str) -> RefusalRow {
    RefusalRow {
        origin: "b.py:2:3".into(),
        dag_id: Some(DagId::new("dag1")),
        queue: None,
        conn_id: None,
        parameter: Some("queue".into()),
        reason: "not_literal".into(),
        sentence: sentence.to_owned(),
        since_ms: NOW - 5_000,
    }
}

fn facts() -> Facts {
    Facts {
        lock: held(),
        watcher: Some(watcher()),
        subscriptions: vec![subscription(1, "listening")],
        connections: vec![connection("connected")],
        refusals: vec![],
        unreadable: vec![],
    }
}

fn only(facts: Facts) -> SubscriptionView {
    let mut seen = view(facts, NOW).subscriptions;
    assert_eq!(seen.len(), 1);
    seen.remove(0)
}

/// How the watcher can be found, and what must be said of it.
fn watchers() -> Vec<(&'static str, Lock, Option<WatcherRow>, WatcherState)> {
    let cycle = |last| Some(WatcherRow { last_cycle_at_ms: last, ..watcher() });
    let started = |at| Some(WatcherRow { last_cycle_at_ms: None, started_at_ms: at, ..watcher() });
    let lock = |pid, since_ms| Lock::Held { pid, process: Process::Running, since_ms };
    let frozen = |pid, since| Lock::Held { pid, process: Process::Stopped, since_ms: Some(since) };
    let stopped = Some(WatcherRow { stopped_at_ms: Some(NOW - 10), ..watcher() });
    vec![
        ("in order", held(), Some(watcher()), WatcherState::Running),
        ("cycle as old as it may be", held(), cycle(Some(NOW - STALE)), WatcherState::Running),
        ("cycle too old", held(), cycle(Some(NOW - STALE - 1)), WatcherState::Stalled),
        ("cycle from the future", held(), cycle(Some(NOW + 60_000)), WatcherState::Running),
        ("in its first cycle", lock(Some(12), Some(NOW - STALE)), started(NOW - STALE), WatcherState::Running),
        ("never ended a cycle", lock(Some(12), Some(NOW - STALE - 2)), started(NOW - STALE - 1), WatcherState::Stalled),
        ("lock without a number", lock(None, Some(NOW - 7_200_001)), Some(watcher()), WatcherState::Running),
        ("lock of unknown age", lock(Some(12), None), Some(watcher()), WatcherState::Running),
        ("lock of another process", lock(Some(13), Some(NOW - 5)), Some(watcher()), WatcherState::Starting),
        (
            "same number, row older than the lock",
            lock(Some(12), Some(NOW - 5)),
            Some(watcher()),
            WatcherState::Starting,
        ),
        ("stopped a moment ago", frozen(Some(12), NOW - 7_200_001), Some(watcher()), WatcherState::Stalled),
        ("stopped before it has written its row", frozen(Some(12), NOW - 5), None, WatcherState::Stalled),
        ("no row yet", lock(Some(12), Some(NOW - 5)), None, WatcherState::Starting),
        ("no row for too long", lock(Some(12), Some(NOW - STALE - 1)), None, WatcherState::Stalled),
        ("stopped, new one of the same number", lock(Some(12), Some(NOW - 5)), stopped.clone(), WatcherState::Starting),
        ("free lock", Lock::Free, Some(watcher()), WatcherState::Dead),
        ("stopped in order", Lock::Free, stopped, WatcherState::Dead),
        ("nothing ever ran", Lock::Free, None, WatcherState::Dead),
    ]
}

#[test]
fn watcher_is_running_starting_stalled_or_dead() {
    for (name, lock, row, state) in watchers() {
        let seen = view(Facts { lock, watcher: row, ..facts() }, NOW);
        assert_eq!(seen.watcher.state, state, "{name}");
        assert_eq!(seen.is_well, state == WatcherState::Running, "{name}");
    }
}

#[test]
fn nothing_is_green_unless_a_watcher_runs_now() {
    for (name, lock, row, state) in watchers() {
        for status in ShownStatus::ALL {
            let mut facts = Facts { lock: lock.clone(), watcher: row.clone(), ..facts() };
            facts.subscriptions = vec![subscription(1, status.code())];
            let seen = view(facts, NOW);
            let (row, conn) = (&seen.subscriptions[0], &seen.connections[0]);
            if state == WatcherState::Running {
                assert_eq!(
                    (row.status, &row.said),
                    (*status, &(row.status == ShownStatus::Unknown).then(|| "unknown".into()))
                );
                assert_eq!((conn.status, &conn.said, conn.consumers), (ShownConnection::Connected, &None, Some(3)));
                continue;
            }
            assert!(row.status.tone() != Tone::Good && conn.status.tone() != Tone::Good, "{name} {status:?}");
            assert_eq!(row.said.as_deref(), Some(status.code()), "{name}");
            assert_eq!((conn.said.as_deref(), conn.consumers), (Some("connected"), None), "{name}");
            assert_eq!(row.consumer_tag, None, "{name}");
        }
    }
}

#[test]
fn dead_watchers_rows_are_disconnected_and_stalled_ones_an_error() {
    let expected = |state| match state {
        WatcherState::Running => (ShownStatus::Listening, None),
        WatcherState::Starting => (ShownStatus::Disconnected, Some(Reason::WatcherStarting)),
        WatcherState::Stalled => (ShownStatus::Error, Some(Reason::WatcherStalled)),
        WatcherState::Dead => (ShownStatus::Disconnected, Some(Reason::WatcherDead)),
    };
    for (name, lock, row, state) in watchers() {
        let seen = only(Facts { lock, watcher: row, ..facts() });
        assert_eq!((seen.status, seen.reason), expected(state), "{name}");
    }
}

#[test]
fn invalid_wins_over_disabled_and_disabled_over_the_watcher() {
    for (name, lock, row, _) in watchers() {
        for enabled in [true, false] {
            let mut facts = Facts { lock: lock.clone(), watcher: row.clone(), ..facts() };
            facts.subscriptions[0].enabled = enabled;
            facts.subscriptions[0].invalid = Some("a.py:1:1: refused".into());
            let seen = only(facts);
            assert_eq!((seen.status, seen.reason), (ShownStatus::Invalid, Some(Reason::Refused)), "{name}");
            assert_eq!((seen.refusal.as_deref(), seen.said), (Some("a.py:1:1: refused"), None), "{name}");
        }
        let mut facts = Facts { lock, watcher: row, ..facts() };
        facts.subscriptions[0].enabled = false;
        let seen = only(facts);
        assert_eq!(
            (seen.status, seen.reason, seen.said),
            (ShownStatus::Disconnected, Some(Reason::Disabled), None),
            "{name}"
        );
    }
}

#[test]
fn green_without_a_tag_is_still_connecting_and_no_word_is_too() {
    let with = |status: Option<&str>, tag: Option<&str>| {
        let mut facts = facts();
        facts.subscriptions[0].status = status.map(str::to_owned);
        facts.subscriptions[0].consumer_tag = tag.map(str::to_owned);
        only(facts).status
    };
    assert_eq!(with(Some("listening"), None), ShownStatus::Connecting);
    assert_eq!(with(Some("standby"), None), ShownStatus::Connecting);
    assert_eq!(with(Some("error"), None), ShownStatus::Error);
    assert_eq!(with(None, None), ShownStatus::Connecting);
    assert_eq!(with(Some("listening"), Some("t")), ShownStatus::Listening);
}

#[test]
fn word_that_is_not_known_is_told_as_it_stands_and_is_not_green() {
    let mut facts = facts();
    facts.subscriptions[0].status = Some("brilliant".into());
    facts.connections[0].status = "brilliant".into();
    let seen = view(facts, NOW);
    let (row, conn) = (&seen.subscriptions[0], &seen.connections[0]);
    assert_eq!((row.status, row.said.as_deref()), (ShownStatus::Unknown, Some("brilliant")));
    assert_eq!((conn.status, conn.said.as_deref()), (ShownConnection::Unknown, Some("brilliant")));
}

#[test]
fn every_word_that_the_watcher_writes_is_known() {
    for status in std::iter::successors(Some(SubscriptionStatus::Connecting), after_subscription) {
        assert_eq!(ShownStatus::read(status.code()).code(), status.code());
    }
    for status in std::iter::successors(Some(ConnectionStatus::Connected), after_connection) {
        assert_eq!(ShownConnection::read(status.code()).code(), status.code());
    }
}

/// The status after this one, so that all of them are walked through: one that is new has no place here until it is given one.
fn after_subscription(status: &SubscriptionStatus) -> Option<SubscriptionStatus> {
    use SubscriptionStatus::{
        Connecting, Disconnected, Error, Failing, Invalid, Listening, PausedDag, PausedTarget, WaitingForDag,
    };
    match status {
        Connecting => Some(Listening),
        Listening => Some(WaitingForDag),
        WaitingForDag => Some(PausedDag),
        PausedDag => Some(PausedTarget),
        PausedTarget => Some(Failing),
        Failing => Some(Error),
        Error => Some(Invalid),
        Invalid => Some(Disconnected),
        Disconnected => None,
    }
}

fn after_connection(status: &ConnectionStatus) -> Option<ConnectionStatus> {
    match status {
        ConnectionStatus::Connected => Some(ConnectionStatus::Error),
        ConnectionStatus::Error => Some(ConnectionStatus::Unknown),
        ConnectionStatus::Unknown => None,
    }
}

#[test]
fn tombstones_are_not_shown() {
    let mut facts = facts();
    facts.subscriptions.push(SubscriptionRow { deleted_at_ms: Some(1), ..subscription(2, "listening") });
    assert_eq!(only(facts).id, SubscriptionId(1));
}

#[test]
fn connection_is_flagged_when_its_last_reconcile_is_older_than_interval_and_budget() {
    for (age, is_stale) in [(0, false), (STALE, false), (STALE + 1, true), (-5_000, false)] {
        let mut facts = facts();
        facts.connections[0].last_reconcile_at_ms = Some(NOW - age);
        let seen = view(facts, NOW);
        assert_eq!((seen.connections[0].is_stale, seen.is_well), (is_stale, !is_stale), "{age}");
        assert_eq!(seen.connections[0].last_reconcile_age_secs, Some(u64::try_from(age.max(0) / 1000).unwrap_or(0)));
    }
    // The settings count, not the defaults.
    let mut facts = facts();
    facts.watcher = Some(WatcherRow { interval_ms: 20_000, budget_ms: 9_000, ..watcher() });
    facts.watcher.as_mut().unwrap().last_cycle_at_ms = Some(NOW);
    assert!(view(facts, NOW).connections[0].is_stale);
}

#[test]
fn connection_that_no_enabled_subscription_names_may_grow_stale_and_all_is_well() {
    let mut facts = facts();
    facts.subscriptions[0].enabled = false;
    facts.connections[0] = ConnectionRow { last_reconcile_at_ms: Some(1), ..connection("error") };
    let seen = view(facts, NOW);
    assert_eq!((seen.connections[0].is_stale, seen.connections[0].is_in_use, seen.is_well), (true, false, true));
}

#[test]
fn connection_that_is_named_and_has_no_row_is_shown_as_unknown() {
    let seen = view(Facts { connections: vec![], ..facts() }, NOW);
    assert_eq!(seen.connections.len(), 1);
    let conn = &seen.connections[0];
    assert_eq!((conn.status, conn.is_in_use, conn.said.as_deref()), (ShownConnection::Unknown, true, None));
}

#[test]
fn only_bad_words_make_it_unwell() {
    let bad = [ShownStatus::Failing, ShownStatus::Error, ShownStatus::Invalid];
    for status in ShownStatus::ALL {
        let mut facts = facts();
        facts.subscriptions[0].status = Some(status.code().to_owned());
        assert_eq!(view(facts, NOW).is_well, !bad.contains(status), "{status:?}");
    }
    for (status, is_well) in [("connected", true), ("unknown", true), ("error", false), ("degraded", false)] {
        let facts = Facts { connections: vec![connection(status)], ..facts() };
        assert_eq!(view(facts, NOW).is_well, is_well, "{status}");
    }
}

#[test]
fn refusals_are_invalid_rows_that_name_who_shows_them_already() {
    let mut facts = facts();
    facts.subscriptions[0].invalid = Some("one".into());
    facts.refusals = vec![refusal("two"), refusal("one")];
    let seen = view(facts, NOW);
    let shown: Vec<_> =
        seen.refusals.iter().map(|r| (r.sentence.as_str(), r.status, r.subscriptions.clone())).collect();
    assert_eq!(shown, [("two", ShownStatus::Invalid, vec![]), ("one", ShownStatus::Invalid, vec![SubscriptionId(1)])]);
    assert!(!seen.is_well);
}

#[test]
fn what_cannot_be_read_is_shown_and_makes_it_unwell() {
    let unreadable =
        Unreadable { file: "broken.py".into(), kind: "syntax".into(), sentence: "broken.py:3: invalid syntax".into() };
    let seen = view(Facts { unreadable: vec![unreadable.clone()], ..facts() }, NOW);
    assert_eq!((seen.unreadable, seen.is_well), (vec![unreadable], false));
}

#[test]
fn cycle_that_could_not_do_all_of_its_work_makes_it_unwell() {
    let row = WatcherRow { last_error: Some("the scan of the DAG folder is not believed".into()), ..watcher() };
    let seen = view(Facts { watcher: Some(row), ..facts() }, NOW);
    assert_eq!((seen.watcher.state, seen.is_well), (WatcherState::Running, false));
}

#[test]
fn dead_watcher_tells_when_it_was_last_seen() {
    let last_seen = |row| view(Facts { lock: Lock::Free, watcher: Some(row), ..facts() }, NOW).watcher.last_seen_at_ms;
    assert_eq!(last_seen(watcher()), Some(NOW - 30_000));
    assert_eq!(last_seen(WatcherRow { last_cycle_at_ms: None, ..watcher() }), Some(NOW - 7_200_000));
    assert_eq!(last_seen(WatcherRow { stopped_at_ms: Some(NOW - 9), ..watcher() }), Some(NOW - 9));
}

#[test]
fn rows_stand_in_the_order_of_their_names() {
    let mut facts = facts();
    facts.subscriptions = vec![subscription(3, "error"), subscription(2, "error"), subscription(1, "error")];
    let ids: Vec<_> = view(facts, NOW).subscriptions.iter().map(|row| row.id.0).collect();
    assert_eq!(ids, [1, 2, 3]);
}
