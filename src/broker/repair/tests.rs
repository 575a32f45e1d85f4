use proptest::prelude::*;

use super::*;
use crate::domain::envelope::{Field, Table};

const FRAME_END: u8 = 0xce;
const HEADERS_FLAG: u16 = 1 << 13;
const TYPE_FLAG: u16 = 1 << 5;

fn short(bytes: &[u8]) -> Vec<u8> {
    let mut out = vec![u8::try_from(bytes.len()).expect("short")];
    out.extend(bytes);
    out
}

fn long(bytes: &[u8]) -> Vec<u8> {
    let mut out = u32::try_from(bytes.len()).expect("long").to_be_bytes().to_vec();
    out.extend(bytes);
    out
}

fn frame(kind: u8, payload: &[u8]) -> Vec<u8> {
    [vec![kind, 0, 1], long(payload), vec![FRAME_END]].concat()
}

fn header(flags: u16, properties: &[u8]) -> Vec<u8> {
    let mut payload = vec![0, 60, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5];
    payload.extend(flags.to_be_bytes());
    payload.extend(properties);
    frame(HEADER, &payload)
}

fn deliver(routing_key: &[u8]) -> Vec<u8> {
    let mut payload = vec![0, 60, 0, 60];
    payload.extend(short(b"tag"));
    payload.extend([0, 0, 0, 0, 0, 0, 0, 1, 0]);
    payload.extend(short(b"exchange"));
    payload.extend(short(routing_key));
    frame(METHOD, &payload)
}

/// Feeds the input in pieces of this size.
fn pass_through(input: &[u8], piece: usize) -> Vec<u8> {
    stashing(input, piece, &Stash::default())
}

fn stashing(input: &[u8], piece: usize, stash: &Stash) -> Vec<u8> {
    let mut repairer = Repairer::new(8192, stash.clone());
    let mut out = Vec::new();
    for part in input.chunks(piece) {
        if repairer.pass(part.len()) {
            out.extend_from_slice(part);
        } else {
            repairer.feed(part, &mut out);
        }
    }
    out
}

fn arrays(levels: usize) -> Vec<u8> {
    let mut value = vec![b'V'];
    for _ in 0..levels {
        value = [b"A".to_vec(), long(&value)].concat();
    }
    value
}

#[test]
fn clean_frames_pass_unchanged_in_pieces_of_any_size() {
    let table = long(&[short("käse".as_bytes()), b"S".to_vec(), long(&[0xff, 0xfe])].concat());
    let stream = [
        deliver(b"key"),
        header(HEADERS_FLAG, &table),
        frame(BODY, &[0xff; 300]),
        frame(HEARTBEAT, b""),
        deliver("schlüssel".as_bytes()),
    ]
    .concat();
    for piece in [1, 2, 7, 8, 50, 10_000] {
        assert_eq!(pass_through(&stream, piece), stream, "pieces of {piece}");
    }
}

#[test]
fn invalid_short_strings_become_text_and_the_stream_goes_on() {
    let input = [deliver(b"caf\xe9"), frame(HEARTBEAT, b"")].concat();
    let expected = [deliver("caf\u{fffd}".as_bytes()), frame(HEARTBEAT, b"")].concat();
    for piece in [1, 3, 1000] {
        assert_eq!(pass_through(&input, piece), expected);
    }
}

#[test]
fn a_short_string_that_grows_is_cut_at_a_character() {
    let out = pass_through(&header(TYPE_FLAG, &short(&[0xff; 255])), 1000);
    assert_eq!(out, header(TYPE_FLAG, &short("\u{fffd}".repeat(85).as_bytes())));
}

#[test]
fn keys_at_every_level_are_repaired_and_lengths_follow() {
    let table = |key: &[u8]| {
        let inner = long(&[short(key), b"V".to_vec()].concat());
        let array = long(&[b"F".to_vec(), inner].concat());
        long(&[short(b"list"), b"A".to_vec(), array].concat())
    };
    let out = pass_through(&header(HEADERS_FLAG, &table(b"\xffx")), 1000);
    assert_eq!(out, header(HEADERS_FLAG, &table("\u{fffd}x".as_bytes())));
}

#[test]
fn nesting_is_kept_up_to_the_limit_and_emptied_beyond() {
    let table = |levels| long(&[short(b"n"), arrays(levels)].concat());
    let kept = header(HEADERS_FLAG, &table(usize::from(MAX_DEPTH)));
    assert_eq!(pass_through(&kept, 1000), kept);
    let out = pass_through(&header(HEADERS_FLAG, &table(20_000)), 100_000);
    assert!(out.len() < 500, "{} bytes are left", out.len());
}

/// The note in a header frame that carries nothing but it.
fn note_in(out: &[u8]) -> Table {
    let number = out[out.len() - 9..out.len() - 1].try_into().expect("8 bytes");
    Table::from([(stash::NOTE.to_owned(), Field::I64(i64::from_be_bytes(number)))])
}

#[test]
fn headers_too_large_for_a_frame_are_stashed_and_the_rest_stays() {
    let table = long(&[short(b"\xffbig"), b"S".to_vec(), long(&[b'x'; 9000])].concat());
    let stash = Stash::default();
    let out = stashing(&header(HEADERS_FLAG, &table), 4096, &stash);
    assert!(out.len() < 100, "{} bytes are left", out.len());
    let expected = Table::from([("\u{fffd}big".to_owned(), Field::Text(vec![b'x'; 9000]))]);
    assert_eq!(stash.redeem(note_in(&out)), expected);

    let properties = [table, short(b"kind")].concat();
    let out = stashing(&header(HEADERS_FLAG | TYPE_FLAG, &properties), 4096, &stash);
    assert!(out.ends_with(b"\x04kind\xce"), "what follows the headers stays");
}

#[test]
fn a_smaller_offer_of_the_broker_counts() {
    let tune = frame(METHOD, &[0, 10, 0, 30, 0, 0, 0, 0, 0x10, 0, 0, 60]);
    let table = long(&[short(b"big"), b"S".to_vec(), long(&[b'x'; 5000])].concat());
    let plain = header(HEADERS_FLAG, &table);
    assert_eq!(pass_through(&plain, 4096), plain);
    let out = pass_through(&[tune, plain].concat(), 4096);
    assert!(out.len() < 200, "{} bytes are left", out.len());
}

#[test]
fn long_reply_texts_cut_by_the_broker_are_repaired() {
    let close = |text: &[u8]| {
        let payload = [vec![0, 20, 0, 40, 1, 0x94], short(text), vec![0; 4]].concat();
        frame(METHOD, &payload)
    };
    let cut = &"queue 'grün".as_bytes()[..10];
    let out = pass_through(&close(cut), 1000);
    assert_eq!(out, close("queue 'gr\u{fffd}".as_bytes()));
}

#[test]
fn what_is_not_amqp_passes() {
    let http = b"HTTP/1.1 400 Bad Request\r\n\r\n".repeat(20);
    assert_eq!(pass_through(&http, 5), http);
}

#[test]
fn malformed_frames_pass_as_they_are() {
    let lying = header(HEADERS_FLAG, &[0xff, 0xff, 0xff, 0xff, 1, 2, 3]);
    let unknown_type = header(HEADERS_FLAG, &long(&[short(b"\xff"), b"?".to_vec()].concat()));
    for stream in [lying, unknown_type] {
        assert_eq!(pass_through(&stream, 1000), stream);
    }
}

proptest! {
    #[test]
    fn no_input_panics_and_pieces_do_not_matter(input: Vec<u8>, kind in 1_u8..4, piece in 1_usize..40) {
        let stream = [frame(kind, &input), input.clone()].concat();
        prop_assert_eq!(pass_through(&stream, piece), pass_through(&stream, stream.len()));
    }

    #[test]
    fn repaired_names_are_text(name in proptest::collection::vec(any::<u8>(), 0..=255)) {
        let out = pass_through(&header(TYPE_FLAG, &short(&name)), 1000);
        let text = &out[HEAD_LEN + 14 + 1..out.len() - 1];
        prop_assert_eq!(usize::from(out[HEAD_LEN + 14]), text.len());
        prop_assert!(std::str::from_utf8(text).is_ok());
    }
}

#[test]
fn what_the_broker_says_it_is_is_read_as_it_passes() {
    let start = |version: &[u8]| {
        let entries =
            [short(b"product"), b"S".to_vec(), long(b"RabbitMQ"), short(b"version"), version.to_vec()].concat();
        frame(METHOD, &[vec![0, 10, 0, 10, 0, 9], long(&entries), long(b"PLAIN"), long(b"en_US")].concat())
    };
    let text = |version: &[u8]| [b"S".to_vec(), long(version)].concat();
    for (input, wanted) in [
        (start(&text(b"4.0.5")), Some(Release(4, 0))),
        (start(&text(b"3.10.8")), Some(Release(3, 10))),
        (start(&text(b"\xff")), None),
        (start(b"V"), None),
        (start(b"S"), None),
        (frame(METHOD, &[0, 10, 0, 10, 0, 9, 0xff, 0xff, 0xff, 0xff]), None),
        (deliver(b"4.0.5"), None),
    ] {
        for piece in [1, 1000] {
            let mut repairer = Repairer::new(8192, Stash::default());
            let (greeting, mut out) = (repairer.greeting(), Vec::new());
            input.chunks(piece).for_each(|part| repairer.feed(part, &mut out));
            assert_eq!((greeting.get().copied(), &out), (wanted, &input));
        }
    }
}

#[test]
fn a_message_that_is_fetched_is_repaired_like_one_that_is_delivered() {
    let fetched = |routing_key: &[u8]| {
        let mut payload = vec![0, 60, 0, 71, 0, 0, 0, 0, 0, 0, 0, 1, 0];
        payload.extend(short(b"exchange"));
        payload.extend(short(routing_key));
        payload.extend([0, 0, 0, 7]);
        frame(METHOD, &payload)
    };
    assert_eq!(pass_through(&fetched(b"caf\xe9"), 1000), fetched("caf\u{fffd}".as_bytes()));
}
