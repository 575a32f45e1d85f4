//! Refusals: what is written down and does not run, as the last trusted scan found it.

use rusqlite::{Connection, params};

use super::subscriptions::{text, text_or_null};
use crate::domain::declaration::{Names, Refusal};

/// A refusal as it is stored, but for the time; one for each subscription it names.
#[derive(Debug, PartialEq, Eq)]
struct Stored {
    origin: String,
    origin_file: String,
    dag_id: Option<String>,
    queue: Option<String>,
    conn_id: Option<String>,
    parameter: Option<String>,
    reason: String,
    sentence: String,
}

impl Stored {
    /// The same refusal: a line that moved within its file changes nothing about it.
    fn is_same(&self, other: &Self) -> bool {
        let parts = |stored: &Self| {
            let Self { origin: _, origin_file, dag_id, queue, conn_id, parameter, reason, sentence: _ } = stored;
            [Some(origin_file), dag_id.as_ref(), queue.as_ref(), conn_id.as_ref(), parameter.as_ref(), Some(reason)]
                .map(|part| part.cloned())
        };
        parts(self) == parts(other)
    }
}

/// Makes the table hold these and no others. Those that were there keep their `since_ms`.
pub(super) fn replace(connection: &Connection, refusals: &[Refusal], now_ms: i64) -> rusqlite::Result<()> {
    let wanted: Vec<Stored> = refusals.iter().flat_map(to_stored).collect();
    let mut there = read(connection)?;
    if there.iter().map(|(stored, _)| stored).eq(&wanted) {
        return Ok(());
    }
    connection.prepare_cached("DELETE FROM refusals")?.execute([])?;
    let sql = "INSERT INTO refusals (origin, origin_file, dag_id, queue, conn_id, parameter, reason, sentence, since_ms) \
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)";
    let mut insert = connection.prepare_cached(sql)?;
    for wanted in wanted {
        let known = there.iter().position(|(stored, _)| stored.is_same(&wanted));
        let since_ms = known.map_or(now_ms, |at| there.remove(at).1);
        let Stored { origin, origin_file, dag_id, queue, conn_id, parameter, reason, sentence } = wanted;
        insert.execute(params![origin, origin_file, dag_id, queue, conn_id, parameter, reason, sentence, since_ms])?;
    }
    Ok(())
}

fn read(connection: &Connection) -> rusqlite::Result<Vec<(Stored, i64)>> {
    let sql = "SELECT origin, origin_file, dag_id, queue, conn_id, parameter, reason, sentence, since_ms FROM refusals ORDER BY id";
    let to_stored = |row: &rusqlite::Row<'_>| {
        let stored = Stored {
            origin: text(row, 0)?,
            origin_file: text(row, 1)?,
            dag_id: text_or_null(row, 2)?,
            queue: text_or_null(row, 3)?,
            conn_id: text_or_null(row, 4)?,
            parameter: text_or_null(row, 5)?,
            reason: text(row, 6)?,
            sentence: text(row, 7)?,
        };
        Ok((stored, row.get(8)?))
    };
    connection.prepare_cached(sql)?.query_map([], to_stored)?.collect()
}

fn to_stored(refusal: &Refusal) -> Vec<Stored> {
    let one = |key: Option<&crate::domain::subscription::Key>| Stored {
        origin: refusal.origin.to_string(),
        origin_file: refusal.origin.file.clone(),
        dag_id: key.map(|key| &key.dag_id).or(refusal.dag_id.as_ref()).map(|dag| dag.as_str().to_owned()),
        queue: key.map(|key| key.queue.as_str().to_owned()),
        conn_id: key.map(|key| key.conn_id.as_str().to_owned()),
        parameter: refusal.parameter.clone(),
        reason: refusal.reason.code().to_owned(),
        sentence: refusal.to_string(),
    };
    match &refusal.names {
        Names::Keys(keys) if !keys.is_empty() => keys.iter().map(|key| one(Some(key))).collect(),
        Names::Keys(_) | Names::Unknown => vec![one(None)],
    }
}
