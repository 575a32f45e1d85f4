//! One strict pass over a JSON text that picks what a selection asks for.
//!
//! Accepts what Python's `json.loads` accepts, `NaN` and infinities included, and numbers keep their exact value. Memory is
//! bounded by the selection and not by the text: what nobody asked for is checked and passed over. What is valid and
//! without a single meaning (a key twice, half a surrogate pair) is told where it is asked for, and nowhere else.

use std::borrow::Cow;

use super::body::{BodyFault, BodyFaultKind};
use super::number::{MAX_DIGITS, Number};
use super::select::{Selection, Slot, Wanted};
use super::value::{Extent, Json, Unclear};

/// The most levels of lists and objects. Python takes a few hundred to a thousand, by its version and stack.
pub const MAX_LEVELS: usize = 256;

type Read<T> = Result<T, BodyFault>;

/// Reads a whole body.
pub(super) fn pick<'a>(bytes: &'a [u8], selection: &Selection) -> Read<Vec<Slot<'a>>> {
    let fault = |kind, at| Err(BodyFault { kind, at });
    if bytes.is_empty() {
        return fault(BodyFaultKind::Empty, 0);
    }
    if bytes.starts_with(b"\xef\xbb\xbf") {
        return fault(BodyFaultKind::ByteOrderMark, 0);
    }
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => return fault(BodyFaultKind::NotUtf8, error.valid_up_to()),
    };
    let mut reader = Reader { text, bytes, at: 0 };
    let mut slots = selection.no_values();
    reader.blank();
    reader.walk(&selection.root, 0, &mut slots)?;
    reader.blank();
    if reader.at < bytes.len() {
        return reader.not_json();
    }
    Ok(slots)
}

struct Reader<'a> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
}

/// A text, or what takes its place where it holds half a surrogate pair.
struct Text<'a> {
    text: Cow<'a, str>,
    is_clear: bool,
}

impl<'a> Reader<'a> {
    fn fault<T>(&self, kind: BodyFaultKind) -> Read<T> {
        Err(BodyFault { kind, at: self.at })
    }

    fn not_json<T>(&self) -> Read<T> {
        self.fault(BodyFaultKind::NotJson)
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn blank(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\n' | b'\t' | b'\r')) {
            self.at += 1;
        }
    }

    /// Passes a byte and the blanks behind it, if it is the next one.
    fn takes(&mut self, byte: u8) -> bool {
        let is_next = self.peek() == Some(byte);
        if is_next {
            self.at += 1;
            self.blank();
        }
        is_next
    }

    fn expect(&mut self, byte: u8) -> Read<()> {
        if self.takes(byte) { Ok(()) } else { self.not_json() }
    }

    fn expect_word(&mut self, word: &str) -> Read<()> {
        if !self.bytes[self.at..].starts_with(word.as_bytes()) {
            return self.not_json();
        }
        self.at += word.len();
        Ok(())
    }

    /// Whether a list or an object goes on behind a member; passes the comma or the bracket.
    fn goes_on(&mut self, bracket: u8) -> Read<bool> {
        self.blank();
        if self.takes(b',') {
            return Ok(true);
        }
        if self.peek() != Some(bracket) {
            return self.not_json();
        }
        self.at += 1;
        Ok(false)
    }

    /// Opens a list or an object that is the `level`-th; says whether it has members.
    fn opens(&mut self, level: usize, bracket: u8) -> Read<bool> {
        if level > MAX_LEVELS {
            return self.fault(BodyFaultKind::TooDeep);
        }
        self.at += 1;
        self.blank();
        let is_empty = self.peek() == Some(bracket);
        self.at += usize::from(is_empty);
        Ok(!is_empty)
    }

    fn key(&mut self) -> Read<Text<'a>> {
        let key = self.string()?;
        self.blank();
        self.expect(b':')?;
        Ok(key)
    }

    /// Reads a value that stands inside `level` lists and objects, and keeps what is wanted of it.
    fn walk(&mut self, wanted: &Wanted, level: usize, slots: &mut [Slot<'a>]) -> Read<()> {
        if let Some((slot, extent)) = wanted.value {
            let start = self.at;
            slots[slot] = Slot::Found(self.value(extent, level)?);
            if wanted.below.is_empty() {
                return Ok(());
            }
            // Something inside this value is wanted as well, so it is read again.
            self.at = start;
        }
        match self.peek() {
            Some(b'{') => self.walk_object(wanted, level + 1, slots),
            Some(b'[') => self.walk_list(wanted, level + 1, slots),
            Some(_) | None => self.skip(level),
        }
    }

    fn walk_object(&mut self, wanted: &Wanted, level: usize, slots: &mut [Slot<'a>]) -> Read<()> {
        let mut seen = Vec::new();
        let mut more = self.opens(level, b'}')?;
        while more {
            let key = self.key()?;
            match wanted.key(&key.text) {
                None => self.skip(level)?,
                Some(below) if seen.contains(&below) || !key.is_clear => {
                    self.skip(level)?;
                    let unclear = if key.is_clear { Unclear::Twice } else { Unclear::Surrogate };
                    wanted.below[below].1.cloud(unclear, slots);
                    seen.push(below);
                }
                Some(below) => {
                    seen.push(below);
                    self.walk(&wanted.below[below].1, level, slots)?;
                }
            }
            more = self.goes_on(b'}')?;
        }
        Ok(())
    }

    fn walk_list(&mut self, wanted: &Wanted, level: usize, slots: &mut [Slot<'a>]) -> Read<()> {
        let mut place = 0;
        let mut more = self.opens(level, b']')?;
        while more {
            match wanted.place(place) {
                Some(below) => self.walk(&wanted.below[below].1, level, slots)?,
                None => self.skip(level)?,
            }
            place += 1;
            more = self.goes_on(b']')?;
        }
        Ok(())
    }

    /// Reads a value and keeps so much of it.
    fn value(&mut self, extent: Extent, level: usize) -> Read<Json<'a>> {
        match self.peek() {
            Some(b'"') => {
                let Text { text, is_clear } = self.string()?;
                Ok(if is_clear { Json::Text(text) } else { Json::Unclear(Unclear::Surrogate) })
            }
            Some(b'[') if extent.levels == 0 => self.skip(level).map(|()| Json::List(Vec::new(), true)),
            Some(b'{') if extent.levels == 0 => self.skip(level).map(|()| Json::Table(Vec::new(), true)),
            Some(b'[') => self.list(Extent { levels: extent.levels - 1, ..extent }, level + 1),
            Some(b'{') => self.table(Extent { levels: extent.levels - 1, ..extent }, level + 1),
            Some(_) | None => self.scalar(),
        }
    }

    fn list(&mut self, inner: Extent, level: usize) -> Read<Json<'a>> {
        let (mut items, mut has_more) = (Vec::new(), false);
        let mut more = self.opens(level, b']')?;
        while more {
            if items.len() < inner.width {
                items.push(self.value(inner, level)?);
            } else {
                self.skip(level)?;
                has_more = true;
            }
            more = self.goes_on(b']')?;
        }
        Ok(Json::List(items, has_more))
    }

    fn table(&mut self, inner: Extent, level: usize) -> Read<Json<'a>> {
        let mut members: Vec<(Cow<'a, str>, Json<'a>)> = Vec::new();
        let mut has_more = false;
        let mut more = self.opens(level, b'}')?;
        while more {
            let key = self.key()?;
            if has_more {
                self.skip(level)?;
            } else if let Some((_, known)) = members.iter_mut().find(|(known, _)| *known == key.text) {
                *known = Json::Unclear(Unclear::Twice);
                self.skip(level)?;
            } else if members.len() < inner.width {
                let value = self.value(inner, level)?;
                let value = if key.is_clear { value } else { Json::Unclear(Unclear::Surrogate) };
                members.push((key.text, value));
            } else {
                has_more = true;
                self.skip(level)?;
            }
            more = self.goes_on(b'}')?;
        }
        Ok(Json::Table(members, has_more))
    }

    /// Everything but texts, lists and objects.
    fn scalar(&mut self) -> Read<Json<'a>> {
        let float = |float| Ok(Json::Number(Number::Float(float)));
        match self.peek() {
            Some(b'n') => self.expect_word("null").map(|()| Json::Null),
            Some(b't') => self.expect_word("true").map(|()| Json::Bool(true)),
            Some(b'f') => self.expect_word("false").map(|()| Json::Bool(false)),
            Some(b'N') => self.expect_word("NaN").and_then(|()| float(f64::NAN)),
            Some(b'I') => self.expect_word("Infinity").and_then(|()| float(f64::INFINITY)),
            Some(b'-') if self.bytes.get(self.at + 1) == Some(&b'I') => {
                self.expect_word("-Infinity").and_then(|()| float(f64::NEG_INFINITY))
            }
            Some(_) | None => {
                let start = self.at;
                let is_int = self.number()?;
                let text = &self.text[start..self.at];
                if is_int {
                    return Ok(Json::Number(Number::of_digits(text)));
                }
                // Every number of JSON is one of Rust too.
                text.parse().map_or_else(|_| self.not_json(), float)
            }
        }
    }

    /// Passes a number; says whether it is an integer.
    fn number(&mut self) -> Read<bool> {
        let start = self.at;
        self.at += usize::from(self.peek() == Some(b'-'));
        let has_zero = self.peek() == Some(b'0');
        let digits = self.digits();
        if digits == 0 || has_zero && digits > 1 {
            return self.not_json();
        }
        let mut is_int = true;
        if self.peek() == Some(b'.') {
            self.at += 1;
            is_int = false;
            if self.digits() == 0 {
                return self.not_json();
            }
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            is_int = false;
            self.at += usize::from(matches!(self.peek(), Some(b'+' | b'-')));
            if self.digits() == 0 {
                return self.not_json();
            }
        }
        if is_int && digits > MAX_DIGITS {
            self.at = start;
            return self.fault(BodyFaultKind::LongInteger);
        }
        Ok(is_int)
    }

    fn digits(&mut self) -> usize {
        let start = self.at;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        self.at - start
    }

    /// Passes a value without keeping anything, and without recursion.
    fn skip(&mut self, level: usize) -> Read<()> {
        let mut open = Open::default();
        loop {
            let is_complete = match self.peek() {
                Some(b'{') => {
                    let has_members = self.opens(level + open.levels + 1, b'}')?;
                    if has_members {
                        open.push(true);
                        self.skip_key()?;
                    }
                    !has_members
                }
                Some(b'[') => {
                    let has_members = self.opens(level + open.levels + 1, b']')?;
                    if has_members {
                        open.push(false);
                    }
                    !has_members
                }
                Some(b'"') => self.skip_string().map(|_| true)?,
                Some(b'-' | b'0'..=b'9') if self.bytes.get(self.at + 1) != Some(&b'I') => {
                    self.number().map(|_| true)?
                }
                Some(_) | None => self.scalar().map(|_| true)?,
            };
            if is_complete && !self.skip_ends(&mut open)? {
                return Ok(());
            }
        }
    }

    /// Behind a value: closes what ends here; says whether another value follows.
    fn skip_ends(&mut self, open: &mut Open) -> Read<bool> {
        while open.levels > 0 {
            let is_object = open.is_object();
            if self.goes_on(if is_object { b'}' } else { b']' })? {
                if is_object {
                    self.skip_key()?;
                }
                return Ok(true);
            }
            open.levels -= 1;
        }
        Ok(false)
    }

    fn skip_key(&mut self) -> Read<()> {
        self.skip_string()?;
        self.blank();
        self.expect(b':')
    }

    /// Passes a text; says whether it has escapes.
    fn skip_string(&mut self) -> Read<bool> {
        if self.peek() != Some(b'"') {
            return self.not_json();
        }
        self.at += 1;
        let mut has_escapes = false;
        loop {
            while self.peek().is_some_and(|byte| !ENDS_RUN[usize::from(byte)]) {
                self.at += 1;
            }
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(has_escapes);
                }
                Some(b'\\') => {
                    has_escapes = true;
                    self.skip_escape()?;
                }
                Some(_) | None => return self.not_json(),
            }
        }
    }

    fn skip_escape(&mut self) -> Read<()> {
        match self.bytes.get(self.at + 1) {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => self.at += 2,
            Some(b'u') => {
                let hex = self.bytes.get(self.at + 2..self.at + 6);
                if !hex.is_some_and(|hex| hex.iter().all(u8::is_ascii_hexdigit)) {
                    return self.not_json();
                }
                self.at += 6;
            }
            Some(_) | None => return self.not_json(),
        }
        Ok(())
    }

    fn string(&mut self) -> Read<Text<'a>> {
        let start = self.at + 1;
        let has_escapes = self.skip_string()?;
        let written = &self.text[start..self.at - 1];
        if has_escapes { Ok(unescaped(written)) } else { Ok(Text { text: Cow::Borrowed(written), is_clear: true }) }
    }
}

/// Bytes at which a run of plain characters of a text ends.
const ENDS_RUN: [bool; 256] = {
    let mut ends = [false; 256];
    let mut byte = 0;
    while byte < 0x20 {
        ends[byte] = true;
        byte += 1;
    }
    ends[b'"' as usize] = true;
    ends[b'\\' as usize] = true;
    ends
};

/// The text behind valid escapes.
fn unescaped<'a>(written: &str) -> Text<'a> {
    let (mut text, mut is_clear) = (String::with_capacity(written.len()), true);
    let mut rest = written;
    while let Some((plain, escape)) = rest.split_once('\\') {
        text.push_str(plain);
        let mut length = 1;
        text.push(match escape.as_bytes()[0] {
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => {
                let (c, taken) = unicode(escape);
                length = taken;
                is_clear &= c.is_some();
                c.unwrap_or(char::REPLACEMENT_CHARACTER)
            }
            plain => char::from(plain),
        });
        rest = &escape[length..];
    }
    text.push_str(rest);
    Text { text: Cow::Owned(text), is_clear }
}

/// The character of an escape that begins with its `u`, none for half a surrogate pair; and how long the escape is.
fn unicode(escape: &str) -> (Option<char>, usize) {
    let unit = |text: &str| u16::from_str_radix(text, 16).unwrap_or_default();
    let first = unit(&escape[1..5]);
    let second = escape[5..].strip_prefix("\\u").map(|hex| unit(&hex[..4]));
    let pair = char::decode_utf16([first, second.unwrap_or_default()]).next();
    match (char::from_u32(first.into()), pair) {
        (Some(c), _) => (Some(c), 5),
        (None, Some(Ok(c))) => (Some(c), 11),
        (None, Some(Err(_)) | None) => (None, 5),
    }
}

/// Which of the open levels are objects, one bit each.
#[derive(Default)]
struct Open {
    levels: usize,
    objects: [u64; MAX_LEVELS / 64],
}

impl Open {
    fn push(&mut self, is_object: bool) {
        let (word, bit) = (self.levels / 64, self.levels % 64);
        self.objects[word] = self.objects[word] & !(1 << bit) | u64::from(is_object) << bit;
        self.levels += 1;
    }

    /// Whether the innermost is an object.
    fn is_object(&self) -> bool {
        let last = self.levels - 1;
        self.objects[last / 64] >> (last % 64) & 1 == 1
    }
}
