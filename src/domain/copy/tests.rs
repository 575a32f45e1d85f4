//! A copy put together and taken apart, what is not believed, and the table of bindings.

use proptest::prelude::*;

use super::*;
use crate::domain::envelope::tests_support::envelope;
use crate::domain::ids::QueueName;
use crate::domain::ledger::State;
use crate::domain::run_id::run_id;

fn ids(_target: &str, key: &DeliveryKey, n: u32) -> RunId {
    run_id(&QueueName::new("q"), key, n)
}

fn header(key: &DeliveryKey) -> CopyHeader {
    let part = |target: &str, n, outcome| Part { target: target.into(), n, run_id: ids(target, key, n), outcome };
    CopyHeader {
        key: key.clone(),
        copy: 2,
        seen: 35,
        parts: vec![part("dag:a", 1, Some(Outcome::Started)), part("dag:b", 7, None)],
    }
}

/// As the broker hands the copy out.
fn delivered(original: &Envelope, header: &CopyHeader) -> Envelope {
    let Dressed { properties, headers } = dress(original, header);
    let routing_key = original.queue.as_str().to_owned();
    Envelope { exchange: String::new(), routing_key, properties, headers, ..original.clone() }
}

fn taken_apart(envelope: &Envelope) -> Undressed {
    undress(envelope, DeliveryKey::of, |original, part| {
        ids(&part.target, &DeliveryKey::of(original), part.n) == part.run_id
    })
}

fn original() -> Envelope {
    let mut e = envelope("q");
    e.exchange = "orders".into();
    e.properties.user_id = Some("shop".into());
    e.properties.priority = Some(3);
    e.headers.insert("CC".into(), Field::Array(vec![Field::Text(b"elsewhere".to_vec())]));
    e.headers.insert("x-death".into(), Field::Array(vec![Field::Table(Table::new())]));
    e.headers.insert("x-first-death-queue".into(), Field::Text(b"q0".to_vec()));
    e.headers.insert("event".into(), Field::Text(b"trigger".to_vec()));
    e.headers.insert("odd".into(), Field::Decimal { scale: 2, value: 5 });
    e
}

#[test]
fn a_copy_taken_apart_is_the_original_again() {
    let e = original();
    let h = header(&DeliveryKey::of(&e));
    let copy = delivered(&e, &h);
    assert_eq!(copy.properties.user_id, None, "the broker would compare it with our login");
    assert!(["CC", "x-death", "x-first-death-queue"].iter().all(|name| !copy.headers.contains_key(*name)));
    assert_eq!(taken_apart(&copy), Undressed::Copy(Box::new(e), h));
}

#[test]
fn a_copy_of_a_copy_has_one_header_and_no_count_of_the_originals() {
    let mut e = original();
    let h = header(&DeliveryKey::of(&e));
    e.headers.insert("x-delivery-count".into(), Field::I64(17));
    let Undressed::Copy(again, first) = taken_apart(&delivered(&e, &h)) else { panic!("not a copy") };
    assert!(!again.headers.contains_key("x-delivery-count"));
    let second = CopyHeader { copy: 3, ..first };
    assert_eq!(taken_apart(&delivered(&again, &second)), Undressed::Copy(again, second));
}

#[test]
fn an_ordinary_message_is_plain() {
    assert_eq!(taken_apart(&original()), Undressed::Plain);
}

#[test]
fn a_strangers_header_is_believed_only_as_far_as_the_message_bears_it_out() {
    let e = original();
    let key = DeliveryKey::of(&e);
    let good = delivered(&e, &header(&key));
    let forged = |change: &dyn Fn(&mut Table)| {
        let mut copy = good.clone();
        let Some(Field::Table(table)) = copy.headers.get_mut(HEADER) else { panic!("no header") };
        change(table);
        taken_apart(&copy)
    };
    let form = Undressed::Forged(Disbelief::Form);
    for (name, value) in [
        ("form", Field::I64(2)),
        ("copy", Field::I64(0)),
        ("copy", Field::I64(i64::from(MOST_COPIES) + 1)),
        ("copy", Field::Text(b"1".to_vec())),
        ("seen", Field::I64(-1)),
        ("parts", Field::Array(Vec::new())),
        ("parts", Field::Array(vec![Field::Void])),
        ("headers", Field::Table(Table::from([("event".to_owned(), Field::Void)]))),
        ("key", Field::Text(vec![b'x'; 1_000])),
        ("key", Field::Text(vec![0xff])),
        ("user_id", Field::I64(1)),
    ] {
        assert_eq!(forged(&|table| drop(table.insert(name.to_owned(), value.clone()))), form, "{name} {value:?}");
    }
    let twice = |table: &mut Table| {
        let Some(Field::Array(parts)) = table.get_mut("parts") else { panic!("no parts") };
        parts.push(parts[0].clone());
    };
    assert_eq!(forged(&twice), form, "a target twice");
    for name in ["form", "key", "key_kind", "copy", "seen", "exchange", "routing_key", "headers", "parts"] {
        assert_eq!(forged(&|table| drop(table.remove(name))), form, "{name} is missing");
    }
    let other = |table: &mut Table| drop(table.insert("key".to_owned(), Field::Text(b"another".to_vec())));
    assert_eq!(forged(&other), Undressed::Forged(Disbelief::Key));
    let moved = |table: &mut Table| drop(table.insert("exchange".to_owned(), Field::Text(b"another".to_vec())));
    assert_eq!(forged(&moved), Undressed::Forged(Disbelief::Key), "the fingerprint covers it");
    let run = |table: &mut Table| {
        let Some(Field::Array(parts)) = table.get_mut("parts") else { panic!("no parts") };
        let Some(Field::Table(part)) = parts.first_mut() else { panic!("no part") };
        part.insert("run_id".into(), Field::Text(b"manual__of_somebody".to_vec()));
    };
    assert_eq!(forged(&run), Undressed::Forged(Disbelief::RunId));
    assert_eq!(
        taken_apart(&Envelope { exchange: "orders".into(), ..good.clone() }),
        Undressed::Forged(Disbelief::Exchange)
    );
    assert_eq!(
        taken_apart(&Envelope { routing_key: "x".into(), ..good.clone() }),
        Undressed::Forged(Disbelief::Exchange)
    );
    let text = Envelope { headers: Table::from([(HEADER.to_owned(), Field::Text(b"x".to_vec()))]), ..good.clone() };
    assert_eq!(taken_apart(&text), form);
}

#[test]
fn the_copy_with_the_highest_number_drives_the_row() {
    use Outcome::{Dlq, Started};
    let key = DeliveryKey::of(&original());
    let open = Part { outcome: None, ..header(&key).parts[1].clone() };
    let done = Part { outcome: Some(Started), ..open.clone() };
    let at = |state, outcome, confirmed| Some((state, outcome, Copies { made: 5, confirmed, original_is_open: true }));
    for (part, row, want) in [
        (&open, None, CopyBinding::Adopt),
        (&done, None, CopyBinding::SettleAgain(Started)),
        (&open, at(State::Received, None, 4), CopyBinding::Stale),
        (&open, at(State::Settled, Some(Started), 4), CopyBinding::Stale),
        (&open, at(State::Received, None, 3), CopyBinding::Start),
        (&open, at(State::Received, None, 0), CopyBinding::Start),
        (&open, at(State::Sent, None, 3), CopyBinding::LookUp),
        (&open, at(State::Decided, Some(Started), 3), CopyBinding::SettleAgain(Started)),
        (&open, at(State::VerbSent, Some(Dlq), 3), CopyBinding::SettleAgain(Dlq)),
        (&open, at(State::Settled, Some(Started), 3), CopyBinding::SettleAgain(Started)),
        (&open, at(State::Settled, None, 3), CopyBinding::LookUp),
        (&done, at(State::Sent, None, 3), CopyBinding::SettleAgain(Started)),
    ] {
        assert_eq!(bind_copy(part, 3, row), want, "{row:?}");
    }
    for (confirmed, original_is_open, want) in [(0, true, false), (1, true, true), (1, false, false), (0, false, false)]
    {
        assert_eq!(
            is_replaced(Copies { made: 1, confirmed, original_is_open }),
            want,
            "{confirmed} {original_is_open}"
        );
    }
    assert_eq!(Copies { made: 1, confirmed: 4, original_is_open: false }.next(), 5);
}

fn any_field() -> impl Strategy<Value = Field> {
    let leaf = prop_oneof![
        Just(Field::Void),
        any::<i64>().prop_map(Field::I64),
        any::<bool>().prop_map(Field::Boolean),
        prop::collection::vec(any::<u8>(), 0..20).prop_map(Field::Text),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        let name = "form|key|key_kind|copy|seen|exchange|routing_key|headers|parts|target|n|run_id|outcome|CC|x";
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Field::Array),
            prop::collection::btree_map(name, inner, 0..9).prop_map(Field::Table),
        ]
    })
}

proptest! {
    #[test]
    fn any_header_is_read_without_surprise(field in any_field()) {
        let mut e = original();
        e.headers.insert(HEADER.to_owned(), field);
        prop_assert!(matches!(taken_apart(&e), Undressed::Forged(_)));
    }

    #[test]
    fn any_message_comes_out_as_it_went_in(
        headers in prop::collection::btree_map("CC|x-death|x-last-death-queue|a|b|x-rmq-watcher-other", any_field(), 0..6),
        exchange in "[a-z.é]{0,9}", routing_key in "\\PC{0,9}", user_id in prop::option::of("[a-z]{1,9}"), copy in 1..=MOST_COPIES,
    ) {
        let mut e = Envelope { exchange, routing_key, headers, ..envelope("q") };
        e.properties.user_id = user_id;
        let h = CopyHeader { copy, ..header(&DeliveryKey::of(&e)) };
        prop_assert_eq!(taken_apart(&delivered(&e, &h)), Undressed::Copy(Box::new(e), h));
    }
}
