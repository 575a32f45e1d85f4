#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::io::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use flate2::Compression;
use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};

use super::*;

const LIMIT: usize = 1000;
const TEXT: &[u8] = b"{\"order\": 7}";

fn gzip(plain: &[u8]) -> Vec<u8> {
    let mut to = GzEncoder::new(Vec::new(), Compression::default());
    to.write_all(plain).unwrap();
    to.finish().unwrap()
}

fn zlib(plain: &[u8]) -> Vec<u8> {
    let mut to = ZlibEncoder::new(Vec::new(), Compression::default());
    to.write_all(plain).unwrap();
    to.finish().unwrap()
}

fn deflate(plain: &[u8]) -> Vec<u8> {
    let mut to = DeflateEncoder::new(Vec::new(), Compression::default());
    to.write_all(plain).unwrap();
    to.finish().unwrap()
}

/// A frame of one repeated byte: `windowed` says its window (8 MiB as 0x68), else it declares its size.
fn zstd_of_zeros(count: u32, windowed: Option<u8>) -> Vec<u8> {
    let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd];
    match windowed {
        Some(window) => frame.extend([0x00, window]),
        None => {
            frame.push(0xa0);
            frame.extend(count.to_le_bytes());
        }
    }
    let mut left = count;
    loop {
        let block = left.min(128 * 1024);
        left -= block;
        let head = (block << 3) | (1 << 1) | u32::from(left == 0);
        frame.extend(&head.to_le_bytes()[..3]);
        frame.push(0);
        if left == 0 {
            return frame;
        }
    }
}

fn unpacked(encoding: &str, body: impl Into<Vec<u8>>) -> Result<Unpacked, TooLarge> {
    unpack(Some(encoding), &Bytes::from(body.into()), LIMIT)
}

fn plain(encoding: &str, body: impl Into<Vec<u8>>) -> Vec<u8> {
    let found = unpacked(encoding, body).unwrap();
    assert_eq!(found.problem, None);
    found.body.to_vec()
}

#[test]
fn each_encoding_is_taken_off_under_each_of_its_names() {
    assert_eq!(plain("gzip", gzip(TEXT)), TEXT);
    assert_eq!(plain(" X-GZip ", gzip(TEXT)), TEXT);
    assert_eq!(plain("deflate", zlib(TEXT)), TEXT);
    assert_eq!(plain("deflate", deflate(TEXT)), TEXT);
    assert_eq!(plain("zstd", zstd_of_zeros(5, None)), [0; 5]);
}

#[test]
fn what_a_compressor_made_is_read_with_its_checksum() {
    // `printf 'hello hello hello hello zstd' | zstd -19`, in Base64.
    let mut made = BASE64.decode("KLUv/QRohQAAUGhlbGxvIHpzdGQBAPFKEd44sFU=").unwrap();
    assert_eq!(plain("zstd", made.clone()), b"hello hello hello hello zstd");
    *made.last_mut().unwrap() ^= 1;
    assert!(unpacked("zstd", made).unwrap().problem.unwrap().contains("checksum"));
}

#[test]
fn several_are_taken_off_last_first() {
    let found = unpacked("gzip, identity, deflate", zlib(&gzip(TEXT))).unwrap();
    assert_eq!((&found.body[..], found.encodings), (TEXT, vec![Encoding::Gzip, Encoding::Deflate]));
}

#[test]
fn members_and_frames_follow_one_another() {
    assert_eq!(plain("gzip", [gzip(b"a"), gzip(b"b")].concat()), b"ab");
    let skippable = b"\x50\x2a\x4d\x18\x03\x00\x00\x00abc".to_vec();
    assert_eq!(plain("zstd", [zstd_of_zeros(1, None), skippable, zstd_of_zeros(2, Some(0))].concat()), [0; 3]);
}

#[test]
fn labels_that_are_none_of_ours_change_nothing() {
    for label in ["", "utf-8", "identity", "br", "aes128, utf-8", ",, ,"] {
        let found = unpacked(label, TEXT).unwrap();
        assert_eq!((&found.body[..], found.encodings, found.problem), (TEXT, vec![], None), "{label}");
    }
    assert_eq!(unpack(None, &Bytes::from_static(TEXT), 0).unwrap().body, TEXT);
    assert_eq!(unpacked("gzip", b"").unwrap().problem, None);
}

#[test]
fn labels_that_do_not_fit_leave_the_body_and_say_so() {
    let short = |whole: Vec<u8>| whole[..whole.len() - 5].to_vec();
    for (label, body) in [
        ("gzip", TEXT.to_vec()),
        ("gzip", short(gzip(TEXT))),
        ("gzip", [gzip(TEXT), b"tail".to_vec()].concat()),
        ("deflate", b"\xff\xff\xff".to_vec()),
        ("deflate", short(zlib(TEXT))),
        ("zstd", TEXT.to_vec()),
        ("zstd", short(zstd_of_zeros(9, None))),
        ("zstd", b"\x50\x2a\x4d\x18\xff\xff\xff\xffabc".to_vec()),
        ("zstd", zstd_of_zeros(9, Some(0x70))),
        ("gzip, br", gzip(TEXT)),
        ("gzip, gzip, gzip, gzip", gzip(&gzip(&gzip(&gzip(TEXT))))),
        ("gzip, deflate", gzip(TEXT)),
    ] {
        let found = unpacked(label, body.clone()).unwrap();
        assert_eq!((&found.body[..], &found.encodings[..]), (&body[..], &[][..]), "{label}");
        assert!(found.problem.is_some(), "{label}: {body:?}");
    }
}

#[test]
fn the_bound_is_exact_for_each_encoding() {
    let zeros = |n: u32| vec![0; n as usize];
    let pack_all = |plain: &[u8]| [("gzip", gzip(plain)), ("deflate", zlib(plain)), ("deflate", deflate(plain))];
    for ((label, whole), (_, beyond)) in pack_all(&zeros(1000)).into_iter().zip(pack_all(&zeros(1001))) {
        assert_eq!(plain(label, whole).len(), LIMIT, "{label}");
        assert!(unpacked(label, beyond).is_err(), "{label}");
    }
    for window in [None, Some(0x68)] {
        assert_eq!(plain("zstd", zstd_of_zeros(1000, window)).len(), LIMIT);
        assert!(unpacked("zstd", zstd_of_zeros(1001, window)).is_err());
    }
}

#[test]
fn bombs_are_refused_without_being_unpacked() {
    let layers = gzip(&gzip(&vec![0; 20 << 20]));
    assert!(layers.len() < 1000);
    assert_eq!(unpacked("gzip, gzip", layers).unwrap_err().encodings.len(), 2);
    for window in [None, Some(0x68)] {
        assert!(unpacked("zstd", zstd_of_zeros(2_000_000_000, window)).is_err());
    }
    // Two frames, each within the bound.
    assert!(unpacked("zstd", zstd_of_zeros(600, None).repeat(2)).is_err());
}

proptest::proptest! {
    #[test]
    fn no_bytes_at_all_cost_more_than_the_bound(
        label in "(gzip|deflate|zstd|x-gzip|br|,| ){0,5}",
        body in proptest::collection::vec(proptest::num::u8::ANY, 0..300),
        magic in 0..4_usize,
    ) {
        let magic: &[u8] = [&b""[..], b"\x1f\x8b\x08\x00", b"\x78\x9c", b"\x28\xb5\x2f\xfd"][magic];
        let body = Bytes::from([magic, &body].concat());
        if let Ok(found) = unpack(Some(&label), &body, LIMIT) {
            proptest::prop_assert!(found.body.len() <= LIMIT);
        }
    }
}
