//! Headers tables that are too large for lapin's frames, carried around lapin.
//!
//! RabbitMQ sends a message's headers in one frame of any size; lapin ends the connection over a frame larger than agreed, and
//! sets aside 64 times the agreed size for each connection. So small frames are agreed on, and `repair` takes a large table out
//! of its frame, leaves a note with a number in its place, and puts the table here, where `convert` finds it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use crate::domain::envelope::{Field, Table};

/// The header that stands for the whole table; its value is the number to ask the stash for.
pub(super) const NOTE: &str = "rmq_watcher.stashed_headers";

/// How many tables may wait. Only deliveries that nobody takes out of a closed channel leave theirs behind; with more than
/// this many in flight, the oldest shows its note instead of its headers.
const MAX_WAITING: usize = 4096;

/// Numbers and the tables' entries, oldest first.
type Waiting = VecDeque<(i64, Vec<u8>)>;

/// Shared by a connection's wire and its consumers.
#[derive(Clone, Debug, Default)]
pub(super) struct Stash(Arc<Mutex<Waiting>>);

impl Stash {
    /// Takes a table's entries in; the number is random, so that no publisher can ask for another's headers.
    pub(super) fn put(&self, entries: Vec<u8>) -> i64 {
        let number = fastrand::i64(..);
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.len() == MAX_WAITING {
            waiting.pop_front();
        }
        waiting.push_back((number, entries));
        number
    }

    /// The table that `headers` is the note of, or `headers` itself.
    pub(super) fn redeem(&self, headers: Table) -> Table {
        let number = match headers.get(NOTE) {
            Some(Field::I64(number)) if headers.len() == 1 => *number,
            Some(_) | None => return headers,
        };
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(at) = waiting.iter().position(|(n, _)| *n == number) else {
            return headers;
        };
        let Some((_, entries)) = waiting.remove(at) else {
            return headers;
        };
        table(&mut Entries(&entries)).unwrap_or(headers)
    }
}

/// What is left to read of a table or an array. Every step returns `None` where it ends too early.
struct Entries<'a>(&'a [u8]);

impl<'a> Entries<'a> {
    fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(n)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    fn long(&mut self) -> Option<&'a [u8]> {
        let len = u32::from_be_bytes(self.array()?);
        self.take(usize::try_from(len).ok()?)
    }
}

/// A table's entries as the broker sends them; `None` where they are not well-formed.
pub(super) fn read(entries: &[u8]) -> Option<Table> {
    table(&mut Entries(entries))
}

fn table(from: &mut Entries<'_>) -> Option<Table> {
    let mut table = Table::new();
    while !from.0.is_empty() {
        let len = from.array::<1>()?[0];
        let key = String::from_utf8_lossy(from.take(usize::from(len))?).into_owned();
        table.insert(key, field(from)?);
    }
    Some(table)
}

/// The types as RabbitMQ reads and writes them. `repair` has bounded the depth before.
fn field(from: &mut Entries<'_>) -> Option<Field> {
    Some(match from.array::<1>()?[0] {
        b'V' => Field::Void,
        b't' => Field::Boolean(from.array::<1>()?[0] != 0),
        b'b' => Field::I8(i8::from_be_bytes(from.array()?)),
        b'B' => Field::U8(u8::from_be_bytes(from.array()?)),
        b's' | b'U' => Field::I16(i16::from_be_bytes(from.array()?)),
        b'u' => Field::U16(u16::from_be_bytes(from.array()?)),
        b'I' => Field::I32(i32::from_be_bytes(from.array()?)),
        b'i' => Field::U32(u32::from_be_bytes(from.array()?)),
        b'l' | b'L' => Field::I64(i64::from_be_bytes(from.array()?)),
        b'f' => Field::F32(f32::from_be_bytes(from.array()?)),
        b'd' => Field::F64(f64::from_be_bytes(from.array()?)),
        b'D' => Field::Decimal { scale: from.array::<1>()?[0], value: i32::from_be_bytes(from.array()?) },
        b'T' => Field::Timestamp(u64::from_be_bytes(from.array()?)),
        b'S' => Field::Text(from.long()?.to_vec()),
        b'x' => Field::Bytes(from.long()?.to_vec()),
        b'F' => Field::Table(table(&mut Entries(from.long()?))?),
        b'A' => {
            let mut inside = Entries(from.long()?);
            let mut items = Vec::new();
            while !inside.0.is_empty() {
                items.push(field(&mut inside)?);
            }
            Field::Array(items)
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(number: i64) -> Table {
        Table::from([(NOTE.to_owned(), Field::I64(number))])
    }

    #[test]
    fn a_note_is_redeemed_once() {
        let stash = Stash::default();
        let number = stash.put(b"\x01kV".to_vec());
        let expected = Table::from([("k".to_owned(), Field::Void)]);
        assert_eq!(stash.redeem(note(number)), expected);
        assert_eq!(stash.redeem(note(number)), note(number));
    }

    #[test]
    fn ordinary_headers_and_foreign_notes_stay_as_they_are() {
        let stash = Stash::default();
        let number = stash.put(b"\x01kV".to_vec());
        let mut more = note(number);
        more.insert("other".to_owned(), Field::Void);
        for headers in [Table::new(), note(number.wrapping_add(1)), more] {
            assert_eq!(stash.redeem(headers.clone()), headers);
        }
    }

    #[test]
    fn a_table_that_ends_too_early_leaves_its_note() {
        let stash = Stash::default();
        let number = stash.put(b"\x01kS\x00\x00\x00\x09short".to_vec());
        assert_eq!(stash.redeem(note(number)), note(number));
    }

    #[test]
    fn the_stash_is_bounded() {
        let stash = Stash::default();
        let first = stash.put(b"\x01kV".to_vec());
        for _ in 0..MAX_WAITING {
            stash.put(Vec::new());
        }
        assert_eq!(stash.redeem(note(first)), note(first));
    }
}
