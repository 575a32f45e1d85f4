//! Makes frames from the broker safe for lapin's parser, without loss where the protocol allows none.
//!
//! Short strings (header keys, `correlation_id`, routing keys, …) are bytes by the protocol, and RabbitMQ passes them on as
//! they are. lapin 4.12 reads them as UTF-8 and ends the whole connection where they are not; since the message then comes
//! back, one such message would keep every consumer of the connection from working for ever. Likewise lapin reads nested
//! tables by recursion, so a table nested thousands of levels deep would overflow its thread's stack and end the process.
//!
//! Therefore method and header frames are looked through on their way in: invalid sequences in short strings become U+FFFD
//! (cut at 255 bytes), and what is nested deeper than [`MAX_DEPTH`] becomes empty. Bodies and long strings pass untouched.
//! Headers too large for a frame of the agreed size go into the [`Stash`].
//! A frame that is not well-formed AMQP passes as it is: saying so is lapin's part.
//!
//! Source: AMQP 0-9-1 specification §4.2; lapin 4.12.3 `amq-protocol-types` `parsing.rs`, `make_str`. Remove when lapin
//! reads short strings as bytes and bounds its recursion.

use std::sync::{Arc, OnceLock};

use super::stash::{self, Stash};
use crate::domain::envelope::Field;
use crate::domain::queue_facts::Release;

/// Levels of tables and arrays inside the headers table that are kept. More than any known producer uses.
pub(super) const MAX_DEPTH: u8 = 64;

/// The largest frame that is held back to be looked through. RabbitMQ's own frame limit is 128 KiB unless it is told otherwise.
const MAX_HELD: u32 = 16 * 1024 * 1024;

/// The smallest frame size the protocol allows to agree on.
const FRAME_MIN: u32 = 4096;

/// What the broker says it is, once it has greeted us; lapin keeps that to itself.
pub(super) type Greeting = Arc<OnceLock<Release>>;

const METHOD: u8 = 1;
const HEADER: u8 = 2;
const BODY: u8 = 3;
const HEARTBEAT: u8 = 8;
const HEAD_LEN: usize = 7;

/// Takes the incoming byte stream in pieces of any size and yields it with repaired frames.
#[derive(Debug)]
pub(super) struct Repairer {
    state: State,
    frame_max: usize,
    stash: Stash,
    greeting: Greeting,
}

#[derive(Debug)]
enum State {
    /// Collecting a frame's head: type, channel, size.
    Head(Vec<u8>),
    /// Passing this many bytes on untouched.
    Pass(u64),
    /// Collecting a frame to look through; the number is its whole length with head and end mark.
    Hold(Vec<u8>, usize),
    /// Not a stream of AMQP frames: all passes.
    Foreign,
}

impl State {
    fn start() -> Self {
        Self::Head(Vec::with_capacity(HEAD_LEN))
    }
}

impl Repairer {
    /// `frame_max` is the size we ask for; the broker's offer may lower it.
    pub(super) fn new(frame_max: u32, stash: Stash) -> Self {
        Self { state: State::start(), frame_max: frame_max as usize, stash, greeting: Greeting::default() }
    }

    /// Where the broker's release is found after its greeting.
    pub(super) fn greeting(&self) -> Greeting {
        Arc::clone(&self.greeting)
    }

    /// Whether all of the next `len` bytes may pass without being looked at; if so, they count as passed.
    pub(super) fn pass(&mut self, len: usize) -> bool {
        match &mut self.state {
            State::Foreign => true,
            State::Pass(left) if *left >= len as u64 => {
                *left -= len as u64;
                if *left == 0 {
                    self.state = State::start();
                }
                true
            }
            State::Pass(_) | State::Head(_) | State::Hold(..) => false,
        }
    }

    /// Takes the next bytes in and appends what may go on to `out`.
    pub(super) fn feed(&mut self, mut input: &[u8], out: &mut Vec<u8>) {
        while !input.is_empty() {
            match &mut self.state {
                State::Foreign => {
                    out.extend_from_slice(input);
                    return;
                }
                State::Pass(left) => {
                    let n = usize::try_from(*left).unwrap_or(usize::MAX).min(input.len());
                    out.extend_from_slice(&input[..n]);
                    input = &input[n..];
                    *left -= n as u64;
                    if *left == 0 {
                        self.state = State::start();
                    }
                }
                State::Head(head) => {
                    let n = (HEAD_LEN - head.len()).min(input.len());
                    head.extend_from_slice(&input[..n]);
                    input = &input[n..];
                    self.state = after_head(std::mem::take(head), out);
                }
                State::Hold(frame, whole) => {
                    let n = (*whole - frame.len()).min(input.len());
                    frame.extend_from_slice(&input[..n]);
                    input = &input[n..];
                    if frame.len() == *whole {
                        let frame = std::mem::take(frame);
                        self.state = State::start();
                        self.emit(&frame, out);
                    }
                }
            }
        }
    }

    /// Appends a whole frame, repaired where it must be.
    fn emit(&mut self, frame: &[u8], out: &mut Vec<u8>) {
        let payload = &frame[HEAD_LEN..frame.len() - 1];
        self.note_greeting(frame[0], payload);
        self.note_offer(frame[0], payload);
        let repaired = repair(frame[0], payload);
        let payload = repaired.as_deref().unwrap_or(payload);
        let room = self.frame_max - HEAD_LEN - 1;
        let lightened = (frame[0] == HEADER && payload.len() > room).then(|| lighten(payload, &self.stash)).flatten();
        let payload = lightened.as_deref().unwrap_or(payload);
        let Ok(size) = u32::try_from(payload.len()) else {
            out.extend_from_slice(frame);
            return;
        };
        out.extend_from_slice(&frame[..3]);
        out.extend_from_slice(&size.to_be_bytes());
        out.extend_from_slice(payload);
        out.push(frame[frame.len() - 1]);
    }

    /// `connection.start` carries the server's properties, its version among them.
    fn note_greeting(&self, kind: u8, payload: &[u8]) {
        if kind == METHOD
            && let [0, 10, 0, 10, _, _, rest @ ..] = payload
            && let Some(release) = release(rest)
        {
            self.greeting.get_or_init(|| release);
        }
    }

    /// `connection.tune` carries the broker's frame size; lapin will take the smaller of the two.
    fn note_offer(&mut self, kind: u8, payload: &[u8]) {
        if kind == METHOD
            && let [0, 10, 0, 30, _, _, a, b, c, d, ..] = *payload
        {
            let offered = u32::from_be_bytes([a, b, c, d]);
            if offered != 0 {
                self.frame_max = self.frame_max.min(offered.max(FRAME_MIN) as usize);
            }
        }
    }
}

/// The version among a server's properties.
fn release(properties: &[u8]) -> Option<Release> {
    let (len, rest) = properties.split_first_chunk::<4>()?;
    let entries = rest.get(..usize::try_from(u32::from_be_bytes(*len)).ok()?)?;
    let properties = stash::read(entries)?;
    let Some(Field::Text(version)) = properties.get("version") else { return None };
    Release::parse(std::str::from_utf8(version).ok()?)
}

/// What comes after the head collected so far.
fn after_head(head: Vec<u8>, out: &mut Vec<u8>) -> State {
    let known = matches!(head[0], METHOD | HEADER | BODY | HEARTBEAT);
    if known && head.len() < HEAD_LEN {
        return State::Head(head);
    }
    if !known {
        out.extend_from_slice(&head);
        return State::Foreign;
    }
    let size = u32::from_be_bytes([head[3], head[4], head[5], head[6]]);
    if matches!(head[0], METHOD | HEADER) && size <= MAX_HELD {
        let whole = HEAD_LEN + size as usize + 1;
        return State::Hold(head, whole);
    }
    out.extend_from_slice(&head);
    State::Pass(u64::from(size) + 1)
}

/// The repaired payload, or `None` where nothing needs repair or the payload is not well-formed.
fn repair(kind: u8, payload: &[u8]) -> Option<Vec<u8>> {
    let mut copy = Copier::new(payload);
    if kind == HEADER {
        copy.content_header(|c| c.nested(0, Copier::table_entry))?;
    } else {
        copy.method()?;
    }
    copy.all();
    copy.changed.then_some(copy.out)
}

/// The payload of a header frame with its headers table stashed and a note in its place.
fn lighten(payload: &[u8], stash: &Stash) -> Option<Vec<u8>> {
    let mut copy = Copier::new(payload);
    copy.content_header(|c| {
        let len = c.take(4)?;
        let len = u32::from_be_bytes([len[0], len[1], len[2], len[3]]);
        let entries = c.take(usize::try_from(len).ok()?)?;
        let mut note = vec![u8::try_from(stash::NOTE.len()).ok()?];
        note.extend_from_slice(stash::NOTE.as_bytes());
        note.push(b'l');
        note.extend_from_slice(&stash.put(entries.to_vec()).to_be_bytes());
        c.out.extend_from_slice(&u32::try_from(note.len()).ok()?.to_be_bytes());
        c.out.extend_from_slice(&note);
        Some(())
    })?;
    copy.all();
    Some(copy.out)
}

/// Copies a payload field by field. Every step returns `None` where the payload ends too early.
struct Copier<'a> {
    rest: &'a [u8],
    out: Vec<u8>,
    changed: bool,
}

impl<'a> Copier<'a> {
    fn new(payload: &'a [u8]) -> Self {
        Self { rest: payload, out: Vec::with_capacity(payload.len() + 16), changed: false }
    }

    fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(n)?;
        self.rest = rest;
        Some(taken)
    }

    fn bytes(&mut self, n: usize) -> Option<&'a [u8]> {
        let taken = self.take(n)?;
        self.out.extend_from_slice(taken);
        Some(taken)
    }

    fn all(&mut self) {
        self.out.extend_from_slice(self.rest);
        self.rest = &[];
    }

    fn short_string(&mut self) -> Option<()> {
        let len = usize::from(self.take(1)?[0]);
        let raw = self.take(len)?;
        let text = String::from_utf8_lossy(raw);
        let kept = &text[..text.floor_char_boundary(usize::from(u8::MAX))];
        self.changed |= kept.as_bytes() != raw;
        self.out.push(u8::try_from(kept.len()).ok()?);
        self.out.extend_from_slice(kept.as_bytes());
        Some(())
    }

    /// The methods whose short strings come from other people: names and texts that a publisher or the broker chose.
    fn method(&mut self) -> Option<()> {
        let id = self.bytes(4)?;
        match (id[1], id[3]) {
            // basic.deliver: consumer tag, delivery tag, redelivered, exchange, routing key
            (60, 60) => {
                self.short_string()?;
                self.bytes(9)?;
                self.short_string()?;
                self.short_string()
            }
            // basic.get-ok: delivery tag, redelivered, exchange, routing key
            (60, 71) => {
                self.bytes(9)?;
                self.short_string()?;
                self.short_string()
            }
            // basic.return: reply code, reply text, exchange, routing key
            (60, 50) => {
                self.bytes(2)?;
                self.short_string()?;
                self.short_string()?;
                self.short_string()
            }
            // connection.close, channel.close: the broker cuts long texts, in the middle of a character if it falls so
            (10, 50) | (20, 40) => {
                self.bytes(2)?;
                self.short_string()
            }
            // connection.blocked
            (10, 60) => self.short_string(),
            _ => Some(()),
        }
    }

    /// Class, weight, body size, property flags, then the properties whose flag is set, from the highest bit down.
    /// `headers` does what is to be done with the headers table.
    fn content_header(&mut self, headers: impl Fn(&mut Self) -> Option<()>) -> Option<()> {
        self.bytes(12)?;
        let flags = self.bytes(2)?;
        let flags = u16::from_be_bytes([flags[0], flags[1]]);
        for bit in (2..16).rev() {
            if flags & (1 << bit) == 0 {
                continue;
            }
            match bit {
                13 => headers(self)?,
                12 | 11 => {
                    self.bytes(1)?;
                }
                6 => {
                    self.bytes(8)?;
                }
                _ => self.short_string()?,
            }
        }
        Some(())
    }

    /// A table or an array: a length in bytes, then entries until it is used up.
    fn nested(&mut self, depth: u8, entry: fn(&mut Self, u8) -> Option<()>) -> Option<()> {
        let len = self.take(4)?;
        let len = u32::from_be_bytes([len[0], len[1], len[2], len[3]]) as usize;
        let inside = self.take(len)?;
        if depth > MAX_DEPTH {
            self.changed = true;
            self.out.extend_from_slice(&[0; 4]);
            return Some(());
        }
        let length_at = self.out.len();
        self.out.extend_from_slice(&[0; 4]);
        let after = std::mem::replace(&mut self.rest, inside);
        while !self.rest.is_empty() {
            entry(self, depth)?;
        }
        self.rest = after;
        let written = u32::try_from(self.out.len() - length_at - 4).ok()?;
        self.out[length_at..length_at + 4].copy_from_slice(&written.to_be_bytes());
        Some(())
    }

    fn table_entry(&mut self, depth: u8) -> Option<()> {
        self.short_string()?;
        self.value(depth)
    }

    fn value(&mut self, depth: u8) -> Option<()> {
        let kind = self.bytes(1)?[0];
        let fixed = match kind {
            b'V' => 0,
            b't' | b'b' | b'B' => 1,
            b's' | b'U' | b'u' => 2,
            b'I' | b'i' | b'f' => 4,
            b'D' => 5,
            b'l' | b'L' | b'd' | b'T' => 8,
            b'S' | b'x' => {
                let len = self.bytes(4)?;
                u32::from_be_bytes([len[0], len[1], len[2], len[3]]) as usize
            }
            b'F' => return self.nested(depth + 1, Self::table_entry),
            b'A' => return self.nested(depth + 1, Self::value),
            _ => return None,
        };
        self.bytes(fixed)?;
        Some(())
    }
}

#[cfg(test)]
mod tests;
