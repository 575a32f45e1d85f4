//! What of a body goes into a conf: all of it, a reference to a file, or nothing because the message is refused.
//!
//! Called once per request for a run, before anything is sent. The key and the fingerprint of a message stay over the body
//! as it was published, whatever is decided here.

use std::fmt;

use sha2::{Digest, Sha256};

use super::encoding::{Unpacked, unpack};
use super::envelope::Envelope;

/// The default of [`BodyLimits::max_bytes`]. Airflow 2 takes requests of 1 MB unless told otherwise, and both versions read the
/// conf with every look at the run.
pub const DEFAULT_MAX_BYTES: usize = 1024 * 1024;

/// How large a body may be, and what becomes of a larger one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BodyLimits {
    /// The most bytes, as published and unpacked alike.
    pub max_bytes: usize,
    /// What becomes of a larger one.
    pub large: LargeBody,
}

impl Default for BodyLimits {
    fn default() -> Self {
        Self { max_bytes: DEFAULT_MAX_BYTES, large: LargeBody::Refuse }
    }
}

/// What becomes of a body over the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LargeBody {
    /// The message is dead-lettered.
    Refuse,
    /// The body is written to a file, as published, and the conf says where.
    File,
}

impl LargeBody {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Refuse, Self::File];

    /// Its name in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            Self::Refuse => "refuse",
            Self::File => "file",
        }
    }
}

/// What is to be done with a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// It goes into the conf.
    Inline(Unpacked),
    /// It is to be written to a file as it was published, and the conf is to name the file.
    File,
    /// The message is refused.
    Refused(BodyTooLarge),
}

/// Why a body is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BodyTooLarge {
    /// As it was published.
    Published {
        /// Its size.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// Unpacked.
    Unpacked {
        /// What it is packed with, such as `gzip`.
        encodings: String,
        /// The limit.
        limit: usize,
    },
}

impl fmt::Display for BodyTooLarge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Published { bytes, limit } => {
                write!(f, "the body has {bytes} bytes, and consume.max_body_bytes is {limit}")
            }
            Self::Unpacked { encodings, limit } => {
                write!(f, "the body unpacks ({encodings}) to more than the {limit} bytes of consume.max_body_bytes")
            }
        }
    }
}

/// Decides about the body of a delivery.
pub fn content(envelope: &Envelope, limits: BodyLimits) -> Content {
    let too_large = if envelope.body.len() > limits.max_bytes {
        BodyTooLarge::Published { bytes: envelope.body.len(), limit: limits.max_bytes }
    } else {
        match unpack(envelope.properties.content_encoding.as_deref(), &envelope.body, limits.max_bytes) {
            Ok(unpacked) => return Content::Inline(unpacked),
            Err(error) => {
                let encodings: Vec<_> = error.encodings.iter().map(|encoding| encoding.code()).collect();
                BodyTooLarge::Unpacked { encodings: encodings.join(", "), limit: limits.max_bytes }
            }
        }
    };
    match limits.large {
        LargeBody::Refuse => Content::Refused(too_large),
        LargeBody::File => Content::File,
    }
}

/// A body that was written to a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BodyFile {
    /// Where.
    pub path: String,
    /// Its size in bytes.
    pub size: usize,
    /// Its SHA-256 in hex.
    pub sha256: String,
}

/// The SHA-256 of a body, in hex.
pub fn body_digest(body: &[u8]) -> String {
    use fmt::Write as _;
    Sha256::digest(body).iter().fold(String::with_capacity(64), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// The name of the file for a run's body. The run id alone does not tell bodies apart: two connections may have a queue of one
/// name; the digest does, so that one name always stands for one body.
pub fn file_name(run_id: &str, sha256: &str) -> String {
    let allowed = |c: char| if c.is_ascii_alphanumeric() || "_.~:+-".contains(c) { c } else { '_' };
    let run: String = run_id.chars().take(200).map(allowed).collect();
    let digest: String = sha256.chars().take(16).collect();
    format!("{run}.{digest}.body")
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::domain::envelope::tests_support::envelope;

    fn limits(max_bytes: usize, large: LargeBody) -> BodyLimits {
        BodyLimits { max_bytes, large }
    }

    #[test]
    fn the_limit_is_exact() {
        let mut e = envelope("q");
        e.body = Bytes::from_static(b"12345");
        assert!(matches!(content(&e, limits(5, LargeBody::Refuse)), Content::Inline(_)));
        let Content::Refused(why) = content(&e, limits(4, LargeBody::Refuse)) else { panic!("refused") };
        assert_eq!(why.to_string(), "the body has 5 bytes, and consume.max_body_bytes is 4");
        assert_eq!(content(&e, limits(4, LargeBody::File)), Content::File);
    }

    #[test]
    fn a_body_that_unpacks_beyond_the_limit_is_too_large() {
        let mut e = envelope("q");
        // 200 zeros as one zstd frame of one repeated byte.
        e.body = Bytes::from_static(b"\x28\xb5\x2f\xfd\x20\xc8\x43\x06\x00\x00");
        e.properties.content_encoding = Some("zstd".into());
        assert!(matches!(content(&e, limits(200, LargeBody::Refuse)), Content::Inline(u) if u.body.len() == 200));
        let Content::Refused(why) = content(&e, limits(199, LargeBody::Refuse)) else { panic!("refused") };
        assert_eq!(why.to_string(), "the body unpacks (zstd) to more than the 199 bytes of consume.max_body_bytes");
        assert_eq!(content(&e, limits(199, LargeBody::File)), Content::File);
    }

    #[test]
    fn a_file_name_is_one_step_and_short_enough() {
        let digest = body_digest(b"abc");
        assert_eq!(digest, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        assert_eq!(file_name("rmq__q__m-1", &digest), "rmq__q__m-1.ba7816bf8f01cfea.body");
        let long = file_name(&"../é".repeat(200), &digest);
        assert!(long.len() < 255 && !long.contains('/'), "{long}");
    }
}
