//! What the rows say of copies, and what a delivery is bound to once there are any.

use rmq_watcher::domain::copy::{CopyHeader, Part};
use rmq_watcher::domain::ids::{ConnId, Epoch, QueueName, RunId, SubscriptionId};
use rmq_watcher::domain::key::{DeliveryKey, KeyKind};
use rmq_watcher::domain::ledger::{Binding, Outcome};
use rmq_watcher::domain::options::OnUnreadable;
use rmq_watcher::domain::routing::{Row, Standing, Verdict};
use rmq_watcher::store::ledger::{Bound, Candidate, NewDelivery, Read, RowId};

use crate::rows::{File, run};

fn delivery(kind: KeyKind, epoch: i64, redelivered: bool, copy: Option<CopyHeader>) -> NewDelivery {
    NewDelivery {
        conn_id: ConnId::new("c"),
        queue: QueueName::new("q"),
        key: DeliveryKey::new(kind, "k"),
        message_id: None,
        content: "content".into(),
        redelivered,
        again: false,
        refused_times: None,
        epoch: Epoch(epoch),
        copy,
    }
}

fn header(kind: KeyKind, copy: u32, outcome: Option<Outcome>) -> CopyHeader {
    let part = Part { target: "dag:d1".into(), n: 1, run_id: RunId::new("rmq__q__k"), outcome };
    CopyHeader { key: DeliveryKey::new(kind, "k"), copy, seen: 0, parts: vec![part] }
}

fn candidates(count: i64) -> Vec<Candidate> {
    let row = |id| Row {
        subscription: SubscriptionId(id),
        standing: Standing::Listening,
        ack_unmatched: false,
        on_unreadable: OnUnreadable::Return,
        verdict: Some(Verdict::Match),
    };
    (1..=count).map(|id| Candidate { target: format!("dag:d{id}"), key: None, row: row(id), send: false }).collect()
}

async fn bind(file: &File, delivery: NewDelivery) -> Bound {
    file.store.bind(delivery, candidates(1), 1_000).await.unwrap()
}

fn rows(bound: &Bound) -> Vec<RowId> {
    bound.matches.iter().map(|one| one.row).collect()
}

fn text(file: &File, sql: &str) -> String {
    file.sql().query_row(sql, [], |row| row.get(0)).unwrap()
}

const MARKS: &str =
    "SELECT concat_ws(' ', copies_made, copies_confirmed, original_open) FROM ledger ORDER BY id LIMIT 1";

#[test]
fn a_copy_is_numbered_above_all_others_of_each_of_its_rows_and_only_the_original_is_marked() {
    run(async {
        let file = File::new();
        let first = delivery(KeyKind::MessageId, 1, false, None);
        let bound = file.store.bind(first, candidates(2), 1_000).await.unwrap();
        let (number, parts) = file.store.begin_copy(rows(&bound), Some(Epoch(1)), 1_000).await.unwrap();
        assert_eq!((number, parts.len()), (1, 2));
        assert_eq!(text(&file, MARKS), "1 0 1");
        file.store.confirm_copy(rows(&bound)[..1].to_vec(), 3, 1_000).await;
        let (number, _) = file.store.begin_copy(rows(&bound), None, 1_000).await.unwrap();
        assert_eq!(number, 4, "of the row that has seen the most");
        let settled = rows(&bound).into_iter().map(|row| (row, Read::SettledByCopy)).collect();
        file.store.settled(settled, 2_000).await;
        assert_eq!(text(&file, MARKS), "4 3 1", "the original is another question");
        file.store.settled(rows(&bound).into_iter().map(|row| (row, Read::Replaced)).collect(), 2_000).await;
        assert_eq!(text(&file, MARKS), "4 3 0");
    });
}

#[test]
fn an_original_that_comes_again_after_its_copy_starts_nothing() {
    run(async {
        for kind in [KeyKind::MessageId, KeyKind::DedupKey, KeyKind::Fingerprint] {
            let file = File::new();
            let row = rows(&bind(&file, delivery(kind, 1, false, None)).await);
            file.store.begin_copy(row.clone(), Some(Epoch(1)), 1_000).await.unwrap();
            assert_eq!(
                bind(&file, delivery(kind, 2, true, None)).await.superseded,
                None,
                "{kind:?}: it may not be there"
            );
            file.store.confirm_copy(row.clone(), 1, 1_000).await;
            assert_eq!(bind(&file, delivery(kind, 3, true, None)).await.superseded, Some(row.clone()), "{kind:?}");
            assert_eq!(text(&file, MARKS), "1 1 3", "{kind:?}: it was held again");
            file.store.close_older(ConnId::new("c"), QueueName::new("q"), Epoch(3), 2_000).await;
            assert_eq!(text(&file, MARKS), "1 1 3", "{kind:?}: it may be held now");
            file.store.close_older(ConnId::new("c"), QueueName::new("q"), Epoch(4), 2_000).await;
            assert_eq!(text(&file, MARKS), "1 1 0", "{kind:?}: it is gone");
            assert_eq!(bind(&file, delivery(kind, 4, true, None)).await.superseded, None, "{kind:?}");
        }
    });
}

#[test]
fn with_equal_messages_without_an_id_no_redelivery_is_taken_for_a_replaced_one() {
    run(async {
        let file = File::new();
        let row = rows(&bind(&file, delivery(KeyKind::Fingerprint, 1, true, None)).await);
        bind(&file, delivery(KeyKind::Fingerprint, 1, true, None)).await;
        file.store.begin_copy(row.clone(), Some(Epoch(1)), 1_000).await.unwrap();
        file.store.confirm_copy(row, 1, 1_000).await;
        assert_eq!(bind(&file, delivery(KeyKind::Fingerprint, 2, true, None)).await.superseded, None);
    });
}

#[test]
fn an_earlier_copy_is_stale_and_an_unknown_one_is_adopted() {
    run(async {
        let kind = KeyKind::Fingerprint;
        let file = File::new();
        let bound = bind(&file, delivery(kind, 1, false, Some(header(kind, 2, None)))).await;
        assert_eq!(bound.matches[0].binding, Binding::LookUp { n: 1 }, "another watcher's, or the file was lost");
        assert_eq!(
            text(&file, "SELECT concat_ws(' ', state, n, is_first_delivery, copies_confirmed) FROM ledger"),
            "sent 1 0 2"
        );
        let stale = bind(&file, delivery(kind, 1, false, Some(header(kind, 1, None)))).await;
        assert_eq!((stale.superseded, stale.matches.len()), (Some(Vec::new()), 0));
        let again = bind(&file, delivery(kind, 2, true, Some(header(kind, 2, None)))).await;
        assert_eq!(again.matches[0].binding, Binding::LookUp { n: 1 });
        let done = File::new();
        let bound = bind(&done, delivery(kind, 1, false, Some(header(kind, 1, Some(Outcome::Started))))).await;
        assert_eq!(bound.matches[0].binding, Binding::SettleAgain { n: 1, outcome: Outcome::Started });
    });
}
