//! AMQP values as JSON: one documented form for every field type (docs/payload.md).
//!
//! Serves the conf and what is kept of a message. The same value has the same form wherever it stands, and nothing that
//! Airflow's databases refuse (a NUL, a number that JSON lacks) comes out of here.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::envelope::{Field, Properties, Table};

/// Text as it stands in a conf: Airflow's database may refuse NUL in JSON text (Postgres does), so it never gets there.
pub(super) fn without_nul(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}

/// The properties that are set, under the protocol's names. `timestamp` is the number as it was sent; beside it stands
/// `timestamp_iso` where [`iso`] knows what it means.
pub fn properties_to_json(p: &Properties) -> Value {
    let mut map = Map::new();
    let texts = [
        ("content_type", &p.content_type),
        ("content_encoding", &p.content_encoding),
        ("correlation_id", &p.correlation_id),
        ("reply_to", &p.reply_to),
        ("expiration", &p.expiration),
        ("message_id", &p.message_id),
        ("type", &p.kind),
        ("user_id", &p.user_id),
        ("app_id", &p.app_id),
        ("cluster_id", &p.cluster_id),
    ];
    for (name, text) in texts {
        if let Some(text) = text {
            map.insert(name.to_owned(), json!(without_nul(text)));
        }
    }
    let numbers = [
        ("delivery_mode", p.delivery_mode.map(u64::from)),
        ("priority", p.priority.map(u64::from)),
        ("timestamp", p.timestamp),
    ];
    for (name, number) in numbers {
        if let Some(number) = number {
            map.insert(name.to_owned(), json!(number));
        }
    }
    if let Some(text) = p.timestamp.and_then(iso) {
        map.insert("timestamp_iso".to_owned(), json!(text));
    }
    Value::Object(map)
}

/// A header table as a JSON object:
///
/// | AMQP | JSON |
/// |---|---|
/// | void | `null` |
/// | boolean, any integer | itself, exact |
/// | float, double | a number; what JSON lacks as `"NaN"`, `"Infinity"`, `"-Infinity"` |
/// | decimal | its exact digits as text: `"-12.34"` |
/// | text | text |
/// | text that is not UTF-8 or holds a NUL, byte array | `{"base64": "…"}` |
/// | timestamp | `{"timestamp": n}` as it was sent, with `"iso"` beside it where [`iso`] knows what it means |
/// | array, table | the same, nested |
pub fn table_to_json(table: &Table) -> Value {
    Value::Object(table.iter().map(|(name, field)| (without_nul(name), field_to_json(field))).collect())
}

fn field_to_json(field: &Field) -> Value {
    match field {
        Field::Void => Value::Null,
        Field::Boolean(b) => json!(b),
        Field::I8(n) => json!(n),
        Field::U8(n) => json!(n),
        Field::I16(n) => json!(n),
        Field::U16(n) => json!(n),
        Field::I32(n) => json!(n),
        Field::U32(n) => json!(n),
        Field::I64(n) => json!(n),
        Field::F32(n) => float_to_json(f64::from(*n)),
        Field::F64(n) => float_to_json(*n),
        Field::Decimal { scale, value } => json!(decimal_text(*scale, *value)),
        Field::Text(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) if !text.contains('\0') => json!(text),
            Ok(_) | Err(_) => bytes_to_json(bytes),
        },
        Field::Bytes(bytes) => bytes_to_json(bytes),
        Field::Timestamp(n) => match iso(*n) {
            Some(text) => json!({ "timestamp": n, "iso": text }),
            None => json!({ "timestamp": n }),
        },
        Field::Array(items) => Value::Array(items.iter().map(field_to_json).collect()),
        Field::Table(table) => table_to_json(table),
    }
}

fn bytes_to_json(bytes: &[u8]) -> Value {
    json!({ "base64": BASE64.encode(bytes) })
}

fn float_to_json(n: f64) -> Value {
    if n.is_nan() {
        json!("NaN")
    } else if n.is_infinite() {
        json!(if n > 0.0 { "Infinity" } else { "-Infinity" })
    } else {
        json!(n)
    }
}

/// `value / 10^scale` in digits.
fn decimal_text(scale: u8, value: i32) -> String {
    let (sign, scale) = (if value < 0 { "-" } else { "" }, usize::from(scale));
    let digits = format!("{:0>width$}", value.unsigned_abs(), width = scale + 1);
    let (whole, fraction) = digits.split_at(digits.len() - scale);
    if fraction.is_empty() { format!("{sign}{whole}") } else { format!("{sign}{whole}.{fraction}") }
}

/// A timestamp as ISO 8601 in UTC. The protocol says seconds; publishers send milliseconds and microseconds too, and the
/// number of digits tells which: 9 or 10 are seconds (1973 to 2286), 12 or 13 milliseconds, 15 or 16 microseconds. Any other
/// number is not read as a time.
pub fn iso(n: u64) -> Option<String> {
    let signed = i64::try_from(n).ok()?;
    let (time, digits) = match n.checked_ilog10()? {
        8 | 9 => (Timestamp::from_second(signed), 0),
        11 | 12 => (Timestamp::from_millisecond(signed), 3),
        14 | 15 => (Timestamp::from_microsecond(signed), 6),
        _ => return None,
    };
    Some(format!("{:.digits$}", time.ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_header_type_has_its_form() {
        let table: Table = [
            ("void", Field::Void),
            ("bool", Field::Boolean(true)),
            ("i64", Field::I64(i64::MIN)),
            ("u32", Field::U32(u32::MAX)),
            ("nan", Field::F64(f64::NAN)),
            ("inf", Field::F32(f32::NEG_INFINITY)),
            ("f", Field::F32(1.5)),
            ("dec", Field::Decimal { scale: 2, value: -5 }),
            ("text", Field::Text("é".into())),
            ("bad", Field::Text(vec![0xff])),
            ("nul", Field::Text(vec![0])),
            ("bytes", Field::Bytes(vec![1])),
            ("time", Field::Timestamp(1_700_000_000)),
            ("list", Field::Array(vec![Field::I8(-1), Field::Table(Table::new())])),
        ]
        .into_iter()
        .map(|(name, field)| (name.to_owned(), field))
        .collect();
        assert_eq!(
            table_to_json(&table),
            json!({
                "void": null, "bool": true, "i64": i64::MIN, "u32": u32::MAX, "nan": "NaN", "inf": "-Infinity", "f": 1.5,
                "dec": "-0.05", "text": "é", "bad": {"base64": "/w=="}, "nul": {"base64": "AA=="},
                "bytes": {"base64": "AQ=="}, "time": {"timestamp": 1_700_000_000, "iso": "2023-11-14T22:13:20Z"},
                "list": [-1, {}],
            })
        );
    }

    #[test]
    fn decimals_are_exact() {
        for (scale, value, text) in [
            (0, 5, "5"),
            (0, -5, "-5"),
            (1, 0, "0.0"),
            (2, 12_345, "123.45"),
            (2, -12_345, "-123.45"),
            (12, i32::MIN, "-0.002147483648"),
        ] {
            assert_eq!(decimal_text(scale, value), text);
        }
        assert_eq!(decimal_text(u8::MAX, 1).len(), 257);
    }

    #[test]
    fn integers_beyond_what_a_float_holds_stay_exact_in_text() {
        let table = Table::from([
            ("n".to_owned(), Field::I64(9_007_199_254_740_993)),
            ("t".to_owned(), Field::Timestamp(u64::MAX)),
        ]);
        assert_eq!(
            table_to_json(&table).to_string(),
            r#"{"n":9007199254740993,"t":{"timestamp":18446744073709551615}}"#
        );
    }

    fn any_field() -> impl proptest::strategy::Strategy<Value = Field> {
        use proptest::prelude::*;
        let bytes = proptest::collection::vec(any::<u8>(), 0..20);
        let plain = prop_oneof![
            Just(Field::Void),
            any::<i64>().prop_map(Field::I64),
            any::<u32>().prop_map(Field::U32),
            any::<u32>().prop_map(|bits| Field::F32(f32::from_bits(bits))),
            any::<u64>().prop_map(|bits| Field::F64(f64::from_bits(bits))),
            any::<(u8, i32)>().prop_map(|(scale, value)| Field::Decimal { scale, value }),
            bytes.clone().prop_map(Field::Text),
            ".*".prop_map(|text| Field::Text(text.into_bytes())),
            bytes.prop_map(Field::Bytes),
            any::<u64>().prop_map(Field::Timestamp),
        ];
        plain.prop_recursive(64, 100, 5, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..5).prop_map(Field::Array),
                proptest::collection::btree_map(".*", inner, 0..5).prop_map(Field::Table),
            ]
        })
    }

    proptest::proptest! {
        #[test]
        fn no_header_makes_a_conf_that_must_not_be_sent(name in ".*", field in any_field()) {
            let mut conf = Map::new();
            conf.insert("headers".to_owned(), table_to_json(&Table::from([(name, field)])));
            proptest::prop_assert_eq!(super::super::conf::validate(&conf), Ok(()));
        }
    }

    #[test]
    fn a_timestamp_is_read_by_its_number_of_digits() {
        for (n, text) in [
            (99_999_999, None),
            (100_000_000, Some("1973-03-03T09:46:40Z")),
            (9_999_999_999, Some("2286-11-20T17:46:39Z")),
            (10_000_000_000, None),
            (100_000_000_000, Some("1973-03-03T09:46:40.000Z")),
            (1_700_000_000_123, Some("2023-11-14T22:13:20.123Z")),
            (10_000_000_000_000, None),
            (1_700_000_000_123_456, Some("2023-11-14T22:13:20.123456Z")),
            (9_999_999_999_999_999, Some("2286-11-20T17:46:39.999999Z")),
            (0, None),
            (1_700_000_000_000_000_000, None),
            (u64::MAX, None),
        ] {
            assert_eq!(iso(n).as_deref(), text, "{n}");
        }
    }
}
