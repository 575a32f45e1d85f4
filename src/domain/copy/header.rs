//! The table inside our header, written and read.
//!
//! Numbers are signed 64-bit and texts long strings, which every AMQP client carries through unchanged. Reading takes what
//! writing makes and nothing else.

use super::super::envelope::{Field, Table};
use super::super::ids::RunId;
use super::super::key::{DeliveryKey, KeyKind};
use super::super::ledger::Outcome;
use super::super::run_id::MAX_LEN;
use super::{CopyHeader, MOST_COPIES, MOST_PARTS, Part};

/// Bytes of a key at most that is carried: a message id is a short string.
const KEY_MOST_BYTES: usize = 255;
/// Bytes of a target at most: its prefix and a DAG id of 250 characters.
const TARGET_MOST_BYTES: usize = 1_100;
/// Bytes of an exchange, a routing key or a user id at most: short strings, whose invalid bytes were replaced by three each.
const NAME_MOST_BYTES: usize = 3 * 255;
/// The form that this version writes.
const FORM: u32 = 1;

/// What the original had and a copy cannot have.
pub(super) struct Origin {
    pub(super) exchange: String,
    pub(super) routing_key: String,
    pub(super) user_id: Option<String>,
    pub(super) headers: Table,
}

pub(super) fn write(header: &CopyHeader, origin: &Origin) -> Table {
    let mut table = Table::from([
        ("form".to_owned(), number(FORM)),
        ("key_kind".to_owned(), text(header.key.kind().code())),
        ("key".to_owned(), text(header.key.text())),
        ("copy".to_owned(), number(header.copy)),
        ("seen".to_owned(), number(header.seen)),
        ("exchange".to_owned(), text(&origin.exchange)),
        ("routing_key".to_owned(), text(&origin.routing_key)),
        ("headers".to_owned(), Field::Table(origin.headers.clone())),
        ("parts".to_owned(), Field::Array(header.parts.iter().map(write_part).collect())),
    ]);
    if let Some(user_id) = &origin.user_id {
        table.insert("user_id".to_owned(), text(user_id));
    }
    table
}

fn write_part(part: &Part) -> Field {
    let mut table = Table::from([
        ("target".to_owned(), text(&part.target)),
        ("n".to_owned(), number(part.n)),
        ("run_id".to_owned(), text(part.run_id.as_str())),
    ]);
    if let Some(outcome) = part.outcome {
        table.insert("outcome".to_owned(), text(outcome.code()));
    }
    Field::Table(table)
}

fn text(text: &str) -> Field {
    Field::Text(text.as_bytes().to_vec())
}

fn number(number: u32) -> Field {
    Field::I64(number.into())
}

/// `None`: not a table that we write.
pub(super) fn read(table: &Table) -> Option<(CopyHeader, Origin)> {
    if read_number(table, "form")? != FORM {
        return None;
    }
    let kind = KeyKind::from_code(&read_text(table, "key_kind", KEY_MOST_BYTES)?)?;
    let key = DeliveryKey::new(kind, read_text(table, "key", 3 * KEY_MOST_BYTES)?);
    let copy = read_number(table, "copy").filter(|copy| (1..=MOST_COPIES).contains(copy))?;
    let seen = read_number(table, "seen")?;
    let (Field::Array(parts), Field::Table(headers)) = (table.get("parts")?, table.get("headers")?) else {
        return None;
    };
    if !(1..=MOST_PARTS).contains(&parts.len()) || !headers.keys().all(|name| super::acts_on_publish(name)) {
        return None;
    }
    let parts: Vec<Part> = parts.iter().map(read_part).collect::<Option<_>>()?;
    let has_double =
        parts.iter().enumerate().any(|(at, part)| parts[..at].iter().any(|other| other.target == part.target));
    if has_double {
        return None;
    }
    let user_id = match table.get("user_id") {
        Some(_) => Some(read_text(table, "user_id", NAME_MOST_BYTES)?),
        None => None,
    };
    let origin = Origin {
        exchange: read_text(table, "exchange", NAME_MOST_BYTES)?,
        routing_key: read_text(table, "routing_key", NAME_MOST_BYTES)?,
        user_id,
        headers: headers.clone(),
    };
    Some((CopyHeader { key, copy, seen, parts }, origin))
}

fn read_part(field: &Field) -> Option<Part> {
    let Field::Table(table) = field else { return None };
    let outcome = match table.get("outcome") {
        Some(_) => Some(Outcome::from_code(&read_text(table, "outcome", KEY_MOST_BYTES)?)?),
        None => None,
    };
    let n = read_number(table, "n").filter(|n| *n > 0)?;
    let run_id = RunId::new(read_text(table, "run_id", MAX_LEN)?);
    Some(Part { target: read_text(table, "target", TARGET_MOST_BYTES)?, n, run_id, outcome })
}

fn read_text(table: &Table, name: &str, most_bytes: usize) -> Option<String> {
    let Field::Text(bytes) = table.get(name)? else { return None };
    if bytes.len() > most_bytes {
        return None;
    }
    String::from_utf8(bytes.clone()).ok()
}

fn read_number(table: &Table, name: &str) -> Option<u32> {
    let Field::I64(number) = table.get(name)? else { return None };
    u32::try_from(*number).ok()
}
