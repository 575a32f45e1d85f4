//! Taking compression off a body, as `content_encoding` says, within a bound.
//!
//! Serves the making of the conf and whoever must look into a body (filters). It must never fail a message for a label that
//! does not fit: publishers write `utf-8` there, or `gzip` over plain text, and the Python provider hands such bodies on. Only
//! what unpacks to more than the bound is an error, found after the bound was reached and no more memory was taken.
//!
//! Sources: RFC 9110 §8.4 (order of codings, `x-gzip`), RFC 1950–1952, RFC 8878.

use std::fmt;
use std::io::{self, Read as _};

use bytes::Bytes;
use flate2::bufread::{DeflateDecoder, MultiGzDecoder, ZlibDecoder};
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

/// The most encodings over one another that are taken off. A publisher has no use for more than one.
pub const MAX_ENCODINGS: usize = 3;

/// The largest window of a zstd frame, which a decoder sets aside before it has read anything. RFC 8878 asks readers to take
/// 8 MiB and writers to stay within.
pub const MAX_ZSTD_WINDOW: u64 = 8 * 1024 * 1024;

/// What is taken off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// `gzip`, `x-gzip`.
    Gzip,
    /// `deflate`: zlib's form, and the bare one that some senders take it for.
    Deflate,
    /// `zstd`.
    Zstd,
}

impl Encoding {
    /// The name under which it stands in a conf.
    pub fn code(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Deflate => "deflate",
            Self::Zstd => "zstd",
        }
    }

    fn named(word: &str) -> Option<Self> {
        match word {
            "gzip" | "x-gzip" => Some(Self::Gzip),
            "deflate" => Some(Self::Deflate),
            "zstd" => Some(Self::Zstd),
            _ => None,
        }
    }
}

/// A body as its reader is meant to see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unpacked {
    /// The body, unpacked where it could be.
    pub body: Bytes,
    /// What was taken off, in the order in which it had been put on.
    pub encodings: Vec<Encoding>,
    /// Why the body is as it was published although `content_encoding` names an encoding.
    pub problem: Option<String>,
}

/// The body unpacks to more than the bound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TooLarge {
    /// The encodings that `content_encoding` names.
    pub encodings: Vec<Encoding>,
}

/// Takes off what `content_encoding` names. The result has at most `limit` bytes, unless nothing was taken off.
///
/// # Errors
/// Any step gives more than `limit` bytes.
pub fn unpack(content_encoding: Option<&str>, body: &Bytes, limit: usize) -> Result<Unpacked, TooLarge> {
    let as_it_is = |problem| Unpacked { body: body.clone(), encodings: Vec::new(), problem };
    let encodings = match read(content_encoding.unwrap_or_default()) {
        Ok(encodings) if !encodings.is_empty() && !body.is_empty() => encodings,
        Ok(_) => return Ok(as_it_is(None)),
        Err(problem) => return Ok(as_it_is(Some(problem))),
    };
    let mut now = body.clone();
    for encoding in encodings.iter().rev() {
        now = match take_off(*encoding, &now, limit) {
            Ok(plain) => Bytes::from(plain),
            Err(Fault::TooLarge) => return Err(TooLarge { encodings }),
            Err(Fault::Broken(fault)) => return Ok(as_it_is(Some(format!("not {}: {fault}", encoding.code())))),
        };
    }
    Ok(Unpacked { body: now, encodings, problem: None })
}

/// The encodings that a `content_encoding` names. One that names none of ours is none of our business: a character set, or
/// something that only the publisher's readers know.
fn read(content_encoding: &str) -> Result<Vec<Encoding>, String> {
    let words = content_encoding.split(',').map(|word| word.trim().to_ascii_lowercase());
    let words: Vec<String> = words.filter(|word| !word.is_empty() && word != "identity").collect();
    let known: Vec<Encoding> = words.iter().filter_map(|word| Encoding::named(word)).collect();
    if known.is_empty() {
        return Ok(Vec::new());
    }
    if known.len() < words.len() {
        return Err("content_encoding names an encoding that is not known here beside one that is".to_owned());
    }
    if known.len() > MAX_ENCODINGS {
        return Err(format!("content_encoding names more than {MAX_ENCODINGS} encodings"));
    }
    Ok(known)
}

enum Fault {
    TooLarge,
    Broken(String),
}

fn broken(fault: impl fmt::Display) -> Fault {
    Fault::Broken(fault.to_string())
}

fn take_off(encoding: Encoding, body: &[u8], limit: usize) -> Result<Vec<u8>, Fault> {
    match encoding {
        Encoding::Gzip => read_within(MultiGzDecoder::new(body), limit),
        Encoding::Deflate if is_zlib(body) => read_within(ZlibDecoder::new(body), limit),
        Encoding::Deflate => read_within(DeflateDecoder::new(body), limit),
        Encoding::Zstd => unpack_zstd(body, limit),
    }
}

/// zlib's two bytes: method 8, a window of at most 32 KiB, and a check.
fn is_zlib(body: &[u8]) -> bool {
    matches!(*body, [method, flags, ..]
        if method & 0x0f == 8 && method >> 4 <= 7 && u16::from_be_bytes([method, flags]) % 31 == 0)
}

fn read_within(decoder: impl io::Read, limit: usize) -> Result<Vec<u8>, Fault> {
    let mut plain = Vec::new();
    decoder.take(limit as u64 + 1).read_to_end(&mut plain).map_err(broken)?;
    if plain.len() > limit { Err(Fault::TooLarge) } else { Ok(plain) }
}

/// Frames one after the other, skippable ones left out; a frame's checksum must fit where it has one.
fn unpack_zstd(mut body: &[u8], limit: usize) -> Result<Vec<u8>, Fault> {
    let mut plain = Vec::new();
    let mut decoder = FrameDecoder::new();
    decoder.set_max_window_size(MAX_ZSTD_WINDOW.max(limit as u64));
    while !body.is_empty() {
        // Bit 5 of the descriptor: the window is the whole content.
        let is_single_segment = body.get(4).is_some_and(|descriptor| descriptor & 0x20 != 0);
        match decoder.init(&mut body) {
            Ok(()) => {}
            Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame { length, .. })) => {
                body =
                    usize::try_from(length).ok().and_then(|n| body.get(n..)).ok_or_else(|| broken("it is cut off"))?;
                continue;
            }
            Err(FrameDecoderError::WindowSizeTooBig { .. }) if is_single_segment => return Err(Fault::TooLarge),
            Err(FrameDecoderError::WindowSizeTooBig { .. }) => return Err(broken("its window is larger than 8 MiB")),
            Err(error) => return Err(broken(error)),
        }
        if decoder.content_size() > limit as u64 {
            return Err(Fault::TooLarge);
        }
        loop {
            decoder.decode_blocks(&mut body, BlockDecodingStrategy::UptoBlocks(1)).map_err(broken)?;
            decoder.collect_to_writer(&mut plain).map_err(broken)?;
            if plain.len() > limit {
                return Err(Fault::TooLarge);
            }
            if decoder.is_finished() && decoder.can_collect() == 0 {
                break;
            }
        }
        let (said, found) = (decoder.get_checksum_from_data(), decoder.get_calculated_checksum());
        if said.is_some() && said != found {
            return Err(broken("its checksum does not fit"));
        }
    }
    Ok(plain)
}

#[cfg(test)]
mod tests;
