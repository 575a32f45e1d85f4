//! How the history stays bounded, and what of it outlives its rows.

use rmq_watcher::domain::fire::{Query, Word};
use rmq_watcher::domain::ids::{ConnId, Epoch, QueueName, RunId, SubscriptionId};
use rmq_watcher::domain::key::{DeliveryKey, KeyKind};
use rmq_watcher::domain::ledger::{Binding, Outcome};
use rmq_watcher::domain::options::OnUnreadable;
use rmq_watcher::domain::retention::Retention;
use rmq_watcher::domain::routing::{Row, Standing, Verdict};
use rmq_watcher::store::history::{VERDICTS, VerdictRow};
use rmq_watcher::store::ledger::{Bound, Candidate, NewDelivery, Read, RowId};
use rmq_watcher::store::prune::Pruned;
use rmq_watcher::store::view;

use crate::rows::{File, run};

const NOW: i64 = 1_700_000_000_000;

fn delivery(key: DeliveryKey, redelivered: bool, refused_times: Option<u32>) -> NewDelivery {
    NewDelivery {
        conn_id: ConnId::new("c"),
        queue: QueueName::new("q"),
        key,
        message_id: None,
        content: "content".into(),
        redelivered,
        again: false,
        refused_times,
        epoch: Epoch(9),
        copy: None,
    }
}

fn candidate(id: i64, key: Option<DeliveryKey>) -> Candidate {
    let row = Row {
        subscription: SubscriptionId(id),
        standing: Standing::Listening,
        ack_unmatched: false,
        on_unreadable: OnUnreadable::Return,
        verdict: Some(Verdict::Match),
    };
    Candidate { target: format!("dag:d{id}"), key, row, send: true }
}

fn fingerprint(text: &str) -> DeliveryKey {
    DeliveryKey::new(KeyKind::Fingerprint, text)
}

/// Rows of a message each, made at once: half of them a fingerprint's, the last one unsettled.
fn fill(file: &File, rows: i64, settled_at_ms: i64) {
    file.execute(&format!(
        "INSERT INTO ledger (conn_id, queue, target, key_kind, key, n, state, outcome, run_id, epoch, is_first_delivery, content, \
                             created_at_ms, updated_at_ms, settled_at_ms)
         WITH RECURSIVE i(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM i WHERE x < {rows})
         SELECT 'c', 'q', 'dag:d1', iif(x % 2, 'fingerprint', 'message_id'), 'k' || (x / 4), x, 'settled', 'started', 'r' || x, 1, 1, 'c', \
                {settled_at_ms}, {settled_at_ms}, {settled_at_ms} FROM i"
    ));
}

async fn prune_all(file: &File, kept: Retention) -> usize {
    let (mut after, mut steps) = (i64::MIN, 1);
    while let Pruned::UpTo(row) = file.store.prune_ledger(kept, after, NOW).await.unwrap() {
        after = row;
        steps += 1;
    }
    steps
}

#[test]
fn many_rows_are_removed_in_small_steps_and_the_file_does_not_grow_on() {
    run(async {
        let file = File::new();
        let kept = Retention { keep_rows: 2_000, ..Retention::default() };
        let mut sizes = Vec::new();
        for _ in 0..4 {
            fill_more(&file, 10_000);
            let steps = prune_all(&file, kept).await;
            assert!(steps >= 16, "{steps}");
            assert_eq!(file.number("SELECT count(*) FROM ledger"), 2_000);
            file.execute("PRAGMA wal_checkpoint(TRUNCATE)");
            sizes.push(file.number("SELECT page_count FROM pragma_page_count"));
        }
        assert!(sizes[3] <= sizes[1] + sizes[1] / 20, "{sizes:?}");
    });
}

fn fill_more(file: &File, rows: i64) {
    let from = file.number("SELECT ifnull(max(n), 0) FROM ledger");
    file.execute(&format!(
        "INSERT INTO ledger (conn_id, queue, target, key_kind, key, n, state, outcome, run_id, epoch, is_first_delivery, content, \
                             created_at_ms, updated_at_ms, settled_at_ms)
         WITH RECURSIVE i(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM i WHERE x < {rows})
         SELECT 'c', 'q', 'dag:d1', 'message_id', 'k' || (x + {from}), x + {from}, 'settled', 'started', 'r' || (x + {from}), 1, 1, \
                hex(randomblob(100)), {at}, {at}, {at} FROM i",
        at = NOW - 100_000
    ));
}

#[test]
fn old_rows_go_and_those_that_are_needed_and_the_newest_stay() {
    run(async {
        let file = File::new();
        fill(&file, 1_000, NOW - 40 * 86_400_000);
        file.execute("UPDATE ledger SET state = 'sent', outcome = NULL, settled_at_ms = NULL WHERE id = 7");
        file.execute("UPDATE ledger SET original_open = 5 WHERE id = 9");
        file.execute(
            "INSERT INTO attempts VALUES (8, 1, 0, 'r', 'no'); INSERT INTO kept VALUES (8, 0, 1, '{}', x'00')",
        );
        prune_all(&file, Retention::default()).await;
        assert_eq!(file.number("SELECT CAST(group_concat(id, '') AS INTEGER) FROM ledger"), 791_000);
        assert_eq!(file.number("SELECT (SELECT count(*) FROM attempts) + (SELECT count(*) FROM kept)"), 0);
        assert_eq!(file.number("SELECT highest FROM numbers"), 999, "of fingerprints");
    });
}

#[test]
fn a_twin_of_removed_messages_has_a_number_that_none_of_them_had() {
    run(async {
        let file = File::new();
        fill(&file, 1_000, NOW - 40 * 86_400_000);
        prune_all(&file, Retention::default()).await;
        for (redelivered, n) in [(false, 1_000), (true, 1_001)] {
            let delivery = delivery(fingerprint("k1"), redelivered, None);
            let bound = file.store.bind(delivery, vec![candidate(1, None)], NOW).await.unwrap();
            assert_eq!(bound.matches[0].binding, Binding::New { n, id_collision: false });
            assert_eq!(bound.matches[0].run_id, RunId::new(format!("rmq__q__k1_{n}")));
        }
        let other = Candidate { target: "dag:other".into(), ..candidate(1, None) };
        let bound = file.store.bind(delivery(fingerprint("k1"), false, None), vec![other], NOW).await.unwrap();
        assert_eq!(bound.matches[0].run_id, RunId::new("rmq__q__k1"), "another target has numbers of its own");
        let row =
            file.store.bind(delivery(fingerprint("new"), false, None), vec![candidate(1, None)], NOW).await.unwrap();
        let clashed = file.store.take_next_number(row.matches[0].row, NOW).await.unwrap();
        assert_eq!(clashed, RunId::new("rmq__q__new_1700000000"));
        let id = DeliveryKey::new(KeyKind::MessageId, "m");
        let bound = file.store.bind(delivery(id, true, None), vec![candidate(1, None)], NOW).await.unwrap();
        assert_eq!(bound.matches[0].run_id, RunId::new("rmq__q__m"), "ids keep their run id");
    });
}

#[test]
fn refused_messages_are_bounded_in_total_and_the_newest_stay() {
    run(async {
        let file = File::new();
        fill(&file, 100, NOW);
        file.execute("INSERT INTO kept SELECT id, 0, 1000, '{}', zeroblob(1000) FROM ledger");
        file.execute("UPDATE ledger SET state = 'reject_sent', outcome = 'dlq' WHERE id = 1");
        let kept = Retention { keep_bytes: 10_500, ..Retention::default() };
        let mut steps = 1;
        while file.store.prune_kept(kept).await.unwrap() {
            steps += 1;
        }
        assert_eq!((steps, file.number("SELECT count(*) FROM kept")), (5, 11));
        assert_eq!(file.number("SELECT min(row_id) FROM kept"), 1, "its rejection was not confirmed");
        assert_eq!(file.number("SELECT min(row_id) FROM kept WHERE row_id > 1"), 91);
    });
}

#[test]
fn old_channels_go_and_the_newest_of_each_queue_stays() {
    run(async {
        let file = File::new();
        for (queue, at) in [("a", 0), ("a", 1), ("b", 0), ("a", NOW)] {
            file.store.open_epoch(ConnId::new("c"), QueueName::new(queue), at).await.unwrap();
        }
        assert!(!file.store.prune_epochs(Retention::default(), NOW).await.unwrap());
        assert_eq!(file.number("SELECT CAST(group_concat(id, '') AS INTEGER) FROM epochs"), 34);
    });
}

#[test]
fn of_many_failed_attempts_the_first_and_the_last_are_kept() {
    run(async {
        let file = File::new();
        fill(&file, 1, NOW);
        for n in 1..=50 {
            file.store.attempt_failed(RowId(1), RunId::new("r1"), format!("answer {n}"), n).await;
        }
        let told = view::why(file.dir.path(), "r1").unwrap().remove(0).fires.remove(0);
        let numbers: Vec<u32> = told.failed_attempts.iter().map(|attempt| attempt.number).collect();
        assert_eq!(numbers, (1..=5).chain(36..=50).collect::<Vec<_>>());
    });
}

#[test]
fn the_newest_verdicts_are_kept() {
    run(async {
        let file = File::new();
        let row = |n: u32| VerdictRow {
            at_ms: NOW,
            conn_id: "c".into(),
            queue: "q".into(),
            epoch: 1,
            redelivered: false,
            key: DeliveryKey::new(KeyKind::MessageId, n.to_string()),
            said: "[]".into(),
        };
        for from in [0, VERDICTS / 2, VERDICTS] {
            file.store.add_verdicts((from..from + VERDICTS / 2).map(row).collect()).await.unwrap();
        }
        assert_eq!(file.number("SELECT count(*) FROM verdicts"), i64::from(VERDICTS));
        assert_eq!(view::why(file.dir.path(), "5").unwrap(), []);
        let newest = view::why(file.dir.path(), &VERDICTS.to_string()).unwrap();
        assert_eq!(newest.len(), 1);
        assert_eq!(newest[0].message_id, Some(VERDICTS.to_string()));
    });
}

#[test]
fn each_match_has_the_row_of_its_subscriptions_key() {
    run(async {
        let file = File::new();
        let dedup = DeliveryKey::new(KeyKind::DedupKey, "o7");
        let mut message = delivery(DeliveryKey::new(KeyKind::MessageId, "m1"), false, None);
        message.message_id = Some("m1".into());
        let both = || vec![candidate(1, None), candidate(2, Some(dedup.clone()))];
        let bound = file.store.bind(message.clone(), both(), NOW).await.unwrap();
        let ids: Vec<&str> = bound.matches.iter().map(|one| one.run_id.as_str()).collect();
        assert_eq!(ids, ["rmq__q__m1", "rmq__q__o7"]);
        message.redelivered = true;
        message.epoch = Epoch(10);
        let again = file.store.bind(message, both(), NOW).await.unwrap();
        let rows = |bound: &Bound| bound.matches.iter().map(|one| one.row).collect::<Vec<_>>();
        assert_eq!(rows(&again), rows(&bound));
        let found: Vec<_> = view::why(file.dir.path(), "m1").unwrap().remove(0).fires;
        assert_eq!(found.len(), 2, "both are found by the message's id");
        assert!(found.iter().all(|told| told.fire.deliveries == 2));
        assert_eq!(view::why(file.dir.path(), "o7").unwrap().remove(0).fires.len(), 1);
    });
}

#[test]
fn a_refused_message_that_was_put_back_starts_the_refused_target_alone() {
    for kind in [KeyKind::MessageId, KeyKind::DedupKey, KeyKind::Fingerprint] {
        run(async {
            let file = File::new();
            let key = DeliveryKey::new(kind, "k");
            let both = || vec![candidate(1, None), candidate(2, None)];
            let bound = file.store.bind(delivery(key.clone(), false, None), both(), NOW).await.unwrap();
            let (a, b) = (bound.matches[0].row, bound.matches[1].row);
            file.store.keep_refused(b, "no".into(), ("{}".into(), "x".into()), NOW).await.unwrap();
            let outcomes = vec![(a, Outcome::Started, String::new()), (b, Outcome::Dlq, String::new())];
            file.store.send_verb(outcomes, NOW).await;
            file.store.settled(vec![(a, Read::Settled), (b, Read::Settled)], NOW).await;
            for replay in 1..3 {
                let back = delivery(key.clone(), false, Some(replay));
                let bound = file.store.bind(back, both(), NOW + 1).await.unwrap();
                let got: Vec<_> = bound.matches.iter().map(|one| (one.row, one.binding.clone())).collect();
                let started = Binding::SettleAgain { n: 1, outcome: Outcome::Started };
                assert_eq!(got, [(a, started), (b, Binding::Replay { n: 1 })]);
                assert_eq!(bound.matches[1].run_id, RunId::new(format!("rmq__q__k_r{replay}")));
                let outcomes = vec![(a, Outcome::Started, String::new()), (b, Outcome::Dlq, String::new())];
                file.store.send_verb(outcomes, NOW).await;
                file.store.settled(vec![(a, Read::Settled), (b, Read::Settled)], NOW).await;
            }
            assert_eq!(file.number("SELECT count(*) FROM ledger"), 2);
        });
    }
}

#[test]
fn what_an_earlier_settlement_confirms_does_not_settle_a_row_that_began_anew() {
    run(async {
        let file = File::new();
        let key = DeliveryKey::new(KeyKind::MessageId, "k");
        let bound = file.store.bind(delivery(key.clone(), false, None), vec![candidate(1, None)], NOW).await.unwrap();
        let row = bound.matches[0].row;
        file.store.send_verb(vec![(row, Outcome::Dlq, String::new())], NOW).await;
        file.store.settled(vec![(row, Read::Settled)], NOW).await;
        file.store.bind(delivery(key, false, Some(1)), vec![candidate(1, None)], NOW).await.unwrap();
        file.store.settled(vec![(row, Read::Settled)], NOW).await;
        assert_eq!(file.number("SELECT state = 'sent' FROM ledger"), 1);
    });
}

#[test]
fn fires_are_read_the_newest_first_by_what_is_asked_for() {
    run(async {
        let file = File::new();
        fill(&file, 1_200, NOW);
        file.execute("UPDATE ledger SET subscription_id = id % 2, created_at_ms = id WHERE id <= 1100");
        file.execute("UPDATE ledger SET outcome = NULL, state = 'sent' WHERE id = 3");
        let ids = |query: &Query| -> Vec<i64> {
            view::fires(file.dir.path(), query).unwrap().iter().map(|fire| fire.id).collect()
        };
        let all = Query { subscription: None, word: None, since_ms: None, most: 2 };
        assert_eq!(ids(&all), [1200, 1199]);
        assert_eq!(ids(&Query { subscription: Some(SubscriptionId(1)), ..all.clone() }), [1099, 1097]);
        assert_eq!(ids(&Query { word: Some(Word::Open), ..all.clone() }), [3]);
        assert_eq!(ids(&Query { since_ms: Some(1_099), most: 9_999, ..all }).len(), 102);
    });
}
