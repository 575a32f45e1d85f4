//! The ledger's rows: what the rules decide is what the file holds.

use rmq_watcher::domain::ids::{ConnId, Epoch, QueueName, SubscriptionId};
use rmq_watcher::domain::key::{DeliveryKey, KeyKind};
use rmq_watcher::domain::ledger::{Binding, Outcome};
use rmq_watcher::domain::options::OnUnreadable;
use rmq_watcher::domain::routing::{Row, Standing, Verdict};
use rmq_watcher::store::Store;
use rmq_watcher::store::ledger::{BoundMatch, Candidate, NewDelivery, Read};
use rmq_watcher::store::open::{open, open_inline};
use rusqlite::Connection;

struct Ledger {
    store: Store,
    dir: tempfile::TempDir,
}

impl Ledger {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        Self { store: open_inline(dir.path(), 0).unwrap().0, dir }
    }

    async fn epoch(&self) -> Epoch {
        self.store.open_epoch(ConnId::new("c"), QueueName::new("q"), 0).await.unwrap()
    }

    async fn bind(&self, kind: KeyKind, epoch: Epoch, redelivered: bool) -> BoundMatch {
        let delivery = NewDelivery {
            conn_id: ConnId::new("c"),
            queue: QueueName::new("q"),
            key: DeliveryKey::new(kind, "k"),
            message_id: None,
            refused_times: None,
            content: "content".into(),
            redelivered,
            again: false,
            epoch,
            copy: None,
        };
        let bound = self.store.bind(delivery, vec![candidate(1, Verdict::Match)], 1_000).await.unwrap();
        bound.matches.into_iter().next().unwrap()
    }

    fn column(&self, column: &str) -> Vec<String> {
        let connection = Connection::open(self.dir.path().join("state.db")).unwrap();
        let mut rows = connection.prepare(&format!("SELECT CAST({column} AS TEXT) FROM ledger ORDER BY n")).unwrap();
        rows.query_map([], |row| row.get::<_, Option<String>>(0))
            .unwrap()
            .map(|text| text.unwrap().unwrap_or_default())
            .collect()
    }
}

fn candidate(id: i64, verdict: Verdict) -> Candidate {
    let row = Row {
        subscription: SubscriptionId(id),
        standing: Standing::Listening,
        ack_unmatched: false,
        on_unreadable: OnUnreadable::Return,
        verdict: Some(verdict),
    };
    Candidate { target: format!("dag:d{id}"), key: None, row, send: true }
}

fn run(flow: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(flow);
}

#[test]
fn fingerprints_are_counted_in_run_ids_and_message_ids_are_not() {
    run(async {
        for (kind, ids) in
            [(KeyKind::Fingerprint, ["rmq__q__k", "rmq__q__k_2"]), (KeyKind::MessageId, ["rmq__q__k"; 2])]
        {
            let ledger = Ledger::new();
            let epoch = ledger.epoch().await;
            for (n, id) in (1..).zip(ids) {
                let bound = ledger.bind(kind, epoch, false).await;
                assert_eq!((bound.run_id.as_str(), bound.binding), (id, Binding::New { n, id_collision: false }));
            }
        }
    });
}

#[test]
fn a_row_goes_through_its_states_and_is_found_in_each() {
    run(async {
        let ledger = Ledger::new();
        let first = ledger.bind(KeyKind::Fingerprint, ledger.epoch().await, false).await;
        assert_eq!(ledger.column("state"), ["sent"]);
        let again = ledger.bind(KeyKind::Fingerprint, ledger.epoch().await, true).await;
        assert_eq!((again.row, again.binding), (first.row, Binding::LookUp { n: 1 }));
        ledger.store.decide(first.row, Outcome::Started, String::new(), 2_000).await;
        assert_eq!(ledger.column("state"), ["started"]);
        let again = ledger.bind(KeyKind::Fingerprint, ledger.epoch().await, true).await;
        assert_eq!(again.binding, Binding::SettleAgain { n: 1, outcome: Outcome::Started });
        ledger.store.send_verb(vec![(first.row, Outcome::Started, String::new())], 3_000).await;
        assert_eq!(ledger.column("state"), ["ack_sent"]);
        ledger.store.settled(vec![(first.row, Read::Settled)], 4_000).await;
        assert_eq!(
            (ledger.column("state"), ledger.column("settled_at_ms")),
            (vec!["settled".into()], vec!["4000".into()])
        );
        let new = ledger.bind(KeyKind::Fingerprint, ledger.epoch().await, true).await;
        assert_eq!(new.binding, Binding::New { n: 2, id_collision: false });
    });
}

#[test]
fn a_settlement_just_before_the_end_of_its_epoch_is_not_believed_of_a_message_id() {
    run(async {
        for (ended_at, believed) in [(8_999, false), (9_000, true)] {
            let ledger = Ledger::new();
            let epoch = ledger.epoch().await;
            let bound = ledger.bind(KeyKind::MessageId, epoch, false).await;
            ledger.store.decide(bound.row, Outcome::Started, String::new(), 2_000).await;
            ledger.store.settled(vec![(bound.row, Read::Settled)], 4_000).await;
            ledger.store.end_epoch(epoch, ended_at).await;
            let again = ledger.bind(KeyKind::MessageId, ledger.epoch().await, true).await;
            let want = if believed {
                Binding::New { n: 2, id_collision: false }
            } else {
                Binding::SettleAgain { n: 1, outcome: Outcome::Started }
            };
            assert_eq!(again.binding, want);
        }
    });
}

#[test]
fn a_row_that_was_given_back_is_found_again_in_the_same_epoch() {
    run(async {
        let ledger = Ledger::new();
        let epoch = ledger.epoch().await;
        let bound = ledger.bind(KeyKind::Fingerprint, epoch, false).await;
        ledger.store.release(vec![bound.row], 2_000).await.unwrap();
        let again = ledger.bind(KeyKind::Fingerprint, epoch, true).await;
        assert_eq!((again.row, again.binding), (bound.row, Binding::LookUp { n: 1 }));
    });
}

#[test]
fn the_next_number_is_fixed_before_it_is_asked_for() {
    run(async {
        let ledger = Ledger::new();
        let epoch = ledger.epoch().await;
        let first = ledger.bind(KeyKind::Fingerprint, epoch, false).await;
        ledger.bind(KeyKind::Fingerprint, epoch, false).await;
        let id = ledger.store.take_next_number(first.row, 1_700_000_000_000).await.unwrap();
        assert_eq!(id.as_str(), "rmq__q__k_1700000000");
        assert_eq!(ledger.column("run_id"), ["rmq__q__k_2", "rmq__q__k_1700000000"]);
        let next = ledger.bind(KeyKind::Fingerprint, epoch, false).await;
        assert_eq!(next.run_id.as_str(), "rmq__q__k_1700000001", "counting goes on from there");
    });
}

#[test]
fn a_hundred_thousand_equal_messages_cost_the_next_one_nothing() {
    run(async {
        let ledger = Ledger::new();
        let epoch = ledger.epoch().await;
        let first = ledger.bind(KeyKind::Fingerprint, epoch, false).await;
        ledger.store.settled(vec![(first.row, Read::Settled)], 2_000).await;
        let fill = "WITH RECURSIVE n(value) AS (SELECT 2 UNION ALL SELECT value + 1 FROM n WHERE value < 100000) \
                    INSERT INTO ledger (conn_id, queue, target, key_kind, key, n, state, outcome, run_id, epoch, \
                                        is_first_delivery, content, created_at_ms, updated_at_ms, settled_at_ms) \
                    SELECT conn_id, queue, target, key_kind, key, value, 'settled', 'started', run_id, epoch, 1, content, 0, 0, 0 \
                    FROM ledger, n";
        Connection::open(ledger.dir.path().join("state.db")).unwrap().execute_batch(fill).unwrap();
        let begun = std::time::Instant::now();
        for n in 100_001..100_101 {
            let bound = ledger.bind(KeyKind::Fingerprint, epoch, n % 2 == 0).await;
            assert_eq!(bound.binding, Binding::New { n, id_collision: false });
        }
        // Reading them all takes over ten seconds; this takes a few milliseconds.
        assert!(begun.elapsed() < std::time::Duration::from_secs(3), "{:?}", begun.elapsed());
    });
}

#[test]
fn an_id_that_looks_like_a_fingerprint_is_another_key() {
    run(async {
        let ledger = Ledger::new();
        let epoch = ledger.epoch().await;
        for kind in [KeyKind::MessageId, KeyKind::Fingerprint] {
            assert_eq!(ledger.bind(kind, epoch, false).await.binding, Binding::New { n: 1, id_collision: false });
        }
    });
}

#[test]
fn old_rows_are_closed_and_younger_ones_are_not() {
    run(async {
        let ledger = Ledger::new();
        let (old, now) = (ledger.epoch().await, ledger.epoch().await);
        ledger.bind(KeyKind::Fingerprint, old, false).await;
        ledger.bind(KeyKind::Fingerprint, now, false).await;
        ledger.store.close_older(ConnId::new("c"), QueueName::new("q"), now, 5_000).await;
        assert_eq!(ledger.column("state"), ["settled", "sent"]);
    });
}

#[test]
fn what_is_refused_is_kept() {
    run(async {
        let ledger = Ledger::new();
        let bound = ledger.bind(KeyKind::MessageId, ledger.epoch().await, false).await;
        let message = ("{}".to_owned(), bytes::Bytes::from_static(b"body"));
        ledger.store.keep_refused(bound.row, "no".into(), message, 2_000).await.unwrap();
        assert_eq!(ledger.column("state"), ["dlq"]);
        assert_eq!(
            ledger.column("(SELECT CAST(body AS TEXT) || head || bytes || kept_at_ms FROM kept WHERE row_id = id)"),
            ["body{}42000"]
        );
    });
}

#[test]
fn times_of_a_row_never_go_back() {
    run(async {
        let ledger = Ledger::new();
        let bound = ledger.bind(KeyKind::MessageId, ledger.epoch().await, false).await;
        ledger.store.mark_sent(bound.row, 10).await.unwrap();
        assert_eq!(ledger.column("updated_at_ms"), ["1001"], "a clock that jumped back");
    });
}

#[test]
fn a_noted_verb_is_in_the_file_before_it_is_sent() {
    run(async {
        let dir = tempfile::tempdir().unwrap();
        let (store, _closed, _) = open(dir.path(), 0).unwrap();
        let ledger = Ledger { store, dir };
        let epoch = ledger.epoch().await;
        let bound = ledger.bind(KeyKind::Fingerprint, epoch, false).await;
        // Somebody else writes: a record that is only handed over would not be there yet.
        let other = Connection::open(ledger.dir.path().join("state.db")).unwrap();
        other.execute_batch("BEGIN IMMEDIATE").unwrap();
        let rows = vec![(bound.row, Outcome::Started, String::new())];
        let noted = ledger.store.send_verb_noted(rows, 3_000);
        tokio::pin!(noted);
        let early = std::future::poll_fn(|context| std::task::Poll::Ready(noted.as_mut().poll(context).is_ready()));
        assert!(!early.await);
        other.execute_batch("ROLLBACK").unwrap();
        noted.await.unwrap();
        assert_eq!(ledger.column("state"), ["ack_sent"]);
    });
}
