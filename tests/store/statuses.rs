//! Status rows that the file refuses for a while.

use rmq_watcher::domain::ids::{ConnId, ConsumerTag, SubscriptionId};
use rmq_watcher::domain::status::{ConnectionStatus, SubscriptionStatus};

use crate::rows::{File, insert, run};

const ID: SubscriptionId = SubscriptionId(1);

async fn listening() -> File {
    let file = File::new();
    file.sync(vec![insert("d")], 0).await;
    let tag = ConsumerTag::new("tag");
    file.store.set_subscription_status(ID, SubscriptionStatus::Listening, None, Some(tag), 1).await;
    file.store.set_connection_status(ConnId::new("c"), ConnectionStatus::Connected, None, 1).await;
    file
}

fn fill(file: &File) {
    for (table, when) in ["subscription_status", "connection_status"]
        .into_iter()
        .flat_map(|table| [(table, "INSERT"), (table, "UPDATE")])
    {
        file.execute(&format!(
            "CREATE TRIGGER full_{table}_{when} BEFORE {when} ON {table} BEGIN SELECT raise(ABORT, 'disk full'); END"
        ));
    }
}

fn make_room(file: &File) {
    for table in ["subscription_status", "connection_status"] {
        file.execute(&format!("DROP TRIGGER full_{table}_INSERT; DROP TRIGGER full_{table}_UPDATE"));
    }
}

fn statuses(file: &File) -> String {
    let sql = "SELECT concat_ws(' ', s.status, ifnull(s.last_error, '-'), ifnull(s.consumer_tag, '-'), c.status, \
               ifnull(c.last_error, '-')) FROM subscription_status s, connection_status c";
    file.sql().query_row(sql, [], |row| row.get(0)).unwrap()
}

#[test]
fn the_newest_that_was_refused_is_written_once_there_is_room() {
    run(async {
        let file = listening().await;
        assert_eq!(statuses(&file), "listening - tag connected -");
        fill(&file);
        let error = Some("no".to_owned());
        file.store.set_subscription_status(ID, SubscriptionStatus::Error, error.clone(), None, 2).await;
        file.store.set_subscription_status(ID, SubscriptionStatus::Disconnected, None, None, 3).await;
        file.store.set_connection_status(ConnId::new("c"), ConnectionStatus::Error, error, 3).await;
        file.store.flush_statuses().await;
        assert_eq!(statuses(&file), "listening - tag connected -");
        make_room(&file);
        file.store.flush_statuses().await;
        assert_eq!(statuses(&file), "disconnected no - error no", "the error of the one between is not lost");
        let written = file.number("SELECT updated_at_ms FROM subscription_status");
        file.store.flush_statuses().await;
        assert_eq!(file.number("SELECT updated_at_ms FROM subscription_status"), written, "once");
    });
}

#[test]
fn a_newer_one_that_was_taken_is_not_written_over() {
    run(async {
        let file = listening().await;
        fill(&file);
        file.store.set_subscription_status(ID, SubscriptionStatus::Error, None, None, 2).await;
        make_room(&file);
        file.store.set_subscription_status(ID, SubscriptionStatus::WaitingForDag, None, None, 3).await;
        file.store.flush_statuses().await;
        assert_eq!(statuses(&file), "waiting_for_dag - - connected -");
    });
}

#[test]
fn the_status_of_a_subscription_that_is_no_more_is_not_tried_for_ever() {
    run(async {
        let file = listening().await;
        file.store.set_subscription_status(SubscriptionId(9), SubscriptionStatus::Error, None, None, 2).await;
        file.execute("INSERT INTO subscriptions SELECT 9, 'e', queue, conn_id, source, origin, origin_file, options, enabled, invalid, \
                      absent_cycles, deleted_at_ms, created_at_ms, updated_at_ms FROM subscriptions");
        file.store.flush_statuses().await;
        assert_eq!(file.number("SELECT count(*) FROM subscription_status"), 1);
    });
}
