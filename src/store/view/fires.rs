//! What became of messages, read beside a watcher.

use std::collections::BTreeMap;
use std::path::Path;

use rusqlite::{Connection, OptionalExtension as _, Row, named_params, params};

use super::super::StoreError;
use super::tables::{count, optional_text, text};
use super::{Reading, read_with};
use crate::domain::fire::{FailedAttempt, Fire, Judged, Message, Query, Told, Wanted, messages};
use crate::domain::ids::SubscriptionId;

/// Rows that are read while the file is held once.
const PAGE: i64 = 500;

/// Ids that one look for a message goes through.
const WINDOW: i64 = 20_000;

/// The most fires and verdicts that are told of one name; the newest.
const MOST: usize = 200;

const COLUMNS: &str = "l.id, l.subscription_id, l.target, l.queue, l.conn_id, l.message_id, l.key_kind, l.key, l.n, l.state, \
    l.outcome, l.reason, l.run_id, l.epoch, l.is_first_delivery, l.deliveries, l.replays, l.copies_made, l.created_at_ms, \
    l.sent_at_ms, l.decided_at_ms, l.settled_at_ms, k.bytes \
    FROM ledger l LEFT JOIN kept k ON k.row_id = l.id";

/// The fires that are asked for, the newest first.
///
/// # Errors
/// As [`super::read`].
pub fn fires(dir: &Path, query: &Query) -> Result<Vec<Fire>, StoreError> {
    read_with(dir, &Reading(&|connection| newest(connection, query)))
}

/// What is known of messages of this id, key, or whose run has this id.
///
/// # Errors
/// As [`super::read`].
pub fn why(dir: &Path, name: &str) -> Result<Vec<Message>, StoreError> {
    read_with(dir, &Reading(&|connection| known_of(connection, name)))
}

fn newest(connection: &Connection, query: &Query) -> rusqlite::Result<Vec<Fire>> {
    let mut statement = connection.prepare(&format!("SELECT {COLUMNS} WHERE l.id < ?1 ORDER BY l.id DESC LIMIT ?2"))?;
    let (mut found, mut before) = (Vec::new(), i64::MAX);
    loop {
        let page: Vec<Fire> = statement.query_map(params![before, PAGE], fire)?.collect::<rusqlite::Result<_>>()?;
        let is_last = i64::try_from(page.len()) != Ok(PAGE);
        for fire in page {
            before = fire.id;
            match query.wants(&fire) {
                Wanted::Yes => found.push(fire),
                Wanted::No => {}
                Wanted::NoOlder => return Ok(found),
            }
            if found.len() >= query.most {
                return Ok(found);
            }
        }
        if is_last {
            return Ok(found);
        }
    }
}

fn known_of(connection: &Connection, name: &str) -> rusqlite::Result<Vec<Message>> {
    let mut fires: BTreeMap<i64, Fire> = BTreeMap::new();
    let earlier = "SELECT DISTINCT row_id FROM attempts WHERE run_id = ?1 LIMIT ?2";
    let earlier: Vec<i64> = connection
        .prepare(earlier)?
        .query_map(params![name, i64::try_from(MOST).unwrap_or(i64::MAX)], |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    let mut by_id = connection.prepare(&format!("SELECT {COLUMNS} WHERE l.id = ?1"))?;
    for id in earlier {
        fires.extend(by_id.query_row([id], fire).optional()?.map(|fire| (fire.id, fire)));
    }
    let (oldest, newest): (Option<i64>, Option<i64>) =
        connection.query_row("SELECT min(id), max(id) FROM ledger", [], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let sql = format!(
        "SELECT {COLUMNS} WHERE l.id > :from AND l.id <= :to AND (l.key = :name OR l.run_id = :name OR l.message_id = :name) \
         ORDER BY l.id DESC"
    );
    let mut in_window = connection.prepare(&sql)?;
    if let (Some(oldest), Some(mut to)) = (oldest, newest) {
        while to >= oldest && fires.len() < MOST {
            let from = to.saturating_sub(WINDOW);
            let found = in_window.query_map(named_params! { ":from": from, ":to": to, ":name": name }, fire)?;
            for fire in found.take(MOST) {
                let fire = fire?;
                fires.insert(fire.id, fire);
            }
            to = from;
        }
    }
    let mut keys = vec![name.to_owned()];
    keys.extend(fires.values().map(|fire| fire.message_id.as_ref().unwrap_or(&fire.key).clone()));
    keys.sort_unstable();
    keys.dedup();
    let verdicts = verdicts(connection, &keys)?;
    let told = fires.into_values().map(|fire| told(connection, fire)).collect::<rusqlite::Result<_>>()?;
    Ok(messages(told, verdicts))
}

fn told(connection: &Connection, fire: Fire) -> rusqlite::Result<Told> {
    let sql = "SELECT number, at_ms, run_id, answer FROM attempts WHERE row_id = ?1 ORDER BY number";
    let read = |row: &Row<'_>| {
        Ok(FailedAttempt {
            number: count(row.get("number")?),
            at_ms: row.get("at_ms")?,
            run_id: text(row, "run_id")?,
            answer: text(row, "answer")?,
        })
    };
    let failed_attempts =
        connection.prepare_cached(sql)?.query_map([fire.id], read)?.collect::<rusqlite::Result<_>>()?;
    Ok(Told { fire, failed_attempts })
}

fn verdicts(connection: &Connection, keys: &[String]) -> rusqlite::Result<Vec<Judged>> {
    let mut statement = connection.prepare(
        "SELECT id AS number, at_ms, conn_id, queue, epoch, redelivered, key_kind, key, said FROM verdicts WHERE key = ?1 \
         ORDER BY id DESC LIMIT ?2",
    )?;
    let most = i64::try_from(MOST).unwrap_or(i64::MAX);
    let mut all = Vec::new();
    for key in keys {
        let read = |row: &Row<'_>| {
            let said = text(row, "said")?;
            let judged = Judged {
                at_ms: row.get("at_ms")?,
                conn_id: text(row, "conn_id")?,
                queue: text(row, "queue")?,
                epoch: row.get("epoch")?,
                redelivered: row.get("redelivered")?,
                key_kind: text(row, "key_kind")?,
                key: text(row, "key")?,
                said: serde_json::from_str(&said).unwrap_or_default(),
            };
            Ok((row.get::<_, i64>("number")?, judged))
        };
        let found: Vec<_> = statement.query_map(params![key, most], read)?.collect::<rusqlite::Result<_>>()?;
        all.extend(found);
    }
    all.sort_by_key(|(number, _)| *number);
    Ok(all.into_iter().map(|(_, judged)| judged).collect())
}

fn fire(row: &Row<'_>) -> rusqlite::Result<Fire> {
    let target = text(row, "target")?;
    let (key_kind, key) = (text(row, "key_kind")?, text(row, "key")?);
    let message_id = optional_text(row, "message_id")?;
    let is_the_key = key_kind == "message_id";
    Ok(Fire {
        id: row.get("id")?,
        subscription_id: row.get::<_, Option<i64>>("subscription_id")?.map(SubscriptionId),
        dag_id: target.strip_prefix("dag:").map(str::to_owned),
        queue: text(row, "queue")?,
        conn_id: text(row, "conn_id")?,
        message_id: message_id.or_else(|| is_the_key.then(|| key.clone())),
        key_kind,
        key,
        n: count(row.get("n")?),
        state: text(row, "state")?,
        outcome: optional_text(row, "outcome")?,
        reason: optional_text(row, "reason")?,
        run_id: optional_text(row, "run_id")?,
        epoch: row.get("epoch")?,
        redelivered: !row.get::<_, bool>("is_first_delivery")?,
        deliveries: count(row.get("deliveries")?),
        replays: count(row.get("replays")?),
        copies: count(row.get("copies_made")?),
        delivered_at_ms: row.get("created_at_ms")?,
        sent_at_ms: row.get("sent_at_ms")?,
        decided_at_ms: row.get("decided_at_ms")?,
        settled_at_ms: row.get("settled_at_ms")?,
        kept_bytes: row.get("bytes")?,
    })
}
