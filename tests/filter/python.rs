//! Python's own answers: its `==` over thousands of pairs, and its `json.loads` over thousands of texts.

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::{Command, Stdio};

use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use rmq_watcher::domain::envelope::{Field, Table};
use rmq_watcher::domain::filter::{Content, Filter, Message, Verdict};
use serde_json::{Value, json};

/// Reads pairs of Python expressions and prints 1 where they are equal.
const EQUALS: &str = "
import sys
from datetime import datetime, timezone
from decimal import Decimal
nan, inf = float('nan'), float('inf')
for line in sys.stdin.read().split('\\n')[:-1]:
    expected, found = line.split('\\t')
    print(int(eval(expected) == eval(found)))
";

/// Reads texts in hexadecimal; prints 1 where the provider would read them and find the value of `a` equal to 1.
const LOADS: &str = "
import json, sys
for line in sys.stdin.read().split('\\n')[:-1]:
    try:
        body = json.loads(bytes.fromhex(line).decode('utf-8'))
    except (ValueError, RecursionError):
        print('error')
    else:
        print('match' if isinstance(body, dict) and 'a' in body and body['a'] == 1 else 'miss')
";

/// The lines that a Python program prints for the lines it is given.
fn python(program: &str, input: String) -> Vec<String> {
    let mut child = Command::new("python3")
        .args(["-c", program])
        .env("PYTHONIOENCODING", "utf-8")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let feeder = std::thread::spawn(move || stdin.write_all(input.as_bytes()).unwrap());
    let output = child.wait_with_output().unwrap();
    feeder.join().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

/// Random values that are the same in each run of one seed.
fn samples<S: Strategy>(strategy: &S, count: usize) -> Vec<S::Value> {
    let seed = std::env::var("RMQ_TEST_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1_u64);
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    (0..count).map(|_| strategy.new_tree(&mut runner).unwrap().current()).collect()
}

/// A value in each of the three languages, as far as it has a form there.
#[derive(Clone, Debug)]
enum Sample {
    None,
    Bool(bool),
    Int(i128),
    Big(String),
    Float(f64),
    Text(String),
    Bytes(Vec<u8>),
    Timestamp(u32),
    Decimal(u8, u16),
    List(Vec<Sample>),
    Dict(Vec<(String, Sample)>),
}

fn sample() -> impl Strategy<Value = Sample> {
    let near = [0_i128, 1, 2, 1 << 24, 1 << 53, 1 << 62, 1 << 63];
    let near = (prop::sample::select(near.to_vec()), -1..2_i128, any::<bool>());
    let int = near.prop_map(|(base, off, negative)| if negative { -(base + off) } else { base + off });
    let float = prop_oneof![
        int.clone().prop_map(|int| int as f64),
        prop::sample::select(vec![
            0.1,
            0.5,
            1.5,
            -0.0,
            1e22,
            1e300,
            5e-324,
            f64::NAN,
            f64::INFINITY,
            f64::NEG_INFINITY
        ]),
        any::<f32>().prop_map(f64::from),
    ];
    let big = prop::sample::select(vec![
        "10000000000000000000000",
        "-340282366920938463463374607431768211456",
        "170141183460469231731687303715884105728",
    ]);
    let leaf = prop_oneof![
        1 => Just(Sample::None),
        1 => any::<bool>().prop_map(Sample::Bool),
        4 => int.prop_map(Sample::Int),
        1 => big.prop_map(|digits| Sample::Big(digits.to_owned())),
        3 => float.prop_map(Sample::Float),
        2 => prop::sample::select(vec!["", "a", "A", "1", "é", "😀", "None"]).prop_map(|text| Sample::Text(text.to_owned())),
        1 => prop::sample::select(vec!["", "a", "\u{ff}"]).prop_map(|text| Sample::Bytes(text.into())),
        1 => (0..3_u32).prop_map(Sample::Timestamp),
        1 => (0..3_u8, 0..200_u16).prop_map(|(scale, value)| Sample::Decimal(scale, value)),
    ];
    leaf.prop_recursive(3, 8, 3, |inner| {
        let names = prop::sample::select(vec!["a", "b", "é"]).prop_map(str::to_owned);
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Sample::List),
            prop::collection::btree_map(names, inner, 0..3)
                .prop_map(|members| Sample::Dict(members.into_iter().collect())),
        ]
    })
}

impl Sample {
    fn python(&self) -> String {
        match self {
            Self::None => "None".to_owned(),
            Self::Bool(value) => if *value { "True" } else { "False" }.to_owned(),
            Self::Int(int) => format!("({int})"),
            Self::Big(digits) => format!("({digits})"),
            Self::Float(float) if float.is_nan() => "nan".to_owned(),
            Self::Float(float) => format!("({float:?})"),
            Self::Text(text) => format!("{}", json!(text)),
            Self::Bytes(bytes) => format!("bytes({bytes:?})"),
            Self::Timestamp(seconds) => format!("datetime.fromtimestamp({seconds}, timezone.utc)"),
            Self::Decimal(scale, value) => format!("Decimal({value}).scaleb(-{scale})"),
            Self::List(items) => format!("[{}]", items.iter().map(Self::python).collect::<Vec<_>>().join(", ")),
            Self::Dict(members) => {
                let member = |(key, value): &(String, Self)| format!("{}: {}", json!(key), value.python());
                format!("{{{}}}", members.iter().map(member).collect::<Vec<_>>().join(", "))
            }
        }
    }

    /// As a filter names it.
    fn expected(&self) -> Option<Value> {
        Some(match self {
            Self::None => Value::Null,
            Self::Bool(value) => json!(value),
            Self::Int(int) => json!({ "$int": int.to_string() }),
            Self::Big(digits) => json!({ "$int": digits }),
            Self::Float(float) if float.abs() < 9e18 => json!(float),
            Self::Text(text) => json!(text),
            Self::List(items) => Value::Array(items.iter().map(Self::expected).collect::<Option<_>>()?),
            Self::Dict(members) => {
                let member = |(key, value): &(String, Self)| Some((key.clone(), value.expected()?));
                Value::Object(members.iter().map(member).collect::<Option<_>>()?)
            }
            Self::Float(_) | Self::Bytes(_) | Self::Timestamp(_) | Self::Decimal(..) => return None,
        })
    }

    /// As a header carries it.
    fn field(&self) -> Option<Field> {
        Some(match self {
            Self::None => Field::Void,
            Self::Bool(value) => Field::Boolean(*value),
            Self::Int(int) => Field::I64(i64::try_from(*int).ok()?),
            Self::Big(_) => return None,
            Self::Float(float) => Field::F64(*float),
            Self::Text(text) => Field::Text(text.clone().into()),
            Self::Bytes(bytes) => Field::Bytes(bytes.clone()),
            Self::Timestamp(seconds) => Field::Timestamp((*seconds).into()),
            Self::Decimal(scale, value) => Field::Decimal { scale: *scale, value: (*value).into() },
            Self::List(items) => Field::Array(items.iter().map(Self::field).collect::<Option<_>>()?),
            Self::Dict(members) => {
                let member = |(key, value): &(String, Self)| Some((key.clone(), value.field()?));
                Field::Table(members.iter().map(member).collect::<Option<Table>>()?)
            }
        })
    }

    /// As a body carries it.
    fn body(&self) -> Option<String> {
        Some(match self {
            Self::None => "null".to_owned(),
            Self::Bool(value) => value.to_string(),
            Self::Int(int) => int.to_string(),
            Self::Big(digits) => digits.clone(),
            Self::Float(float) if float.is_nan() => "NaN".to_owned(),
            Self::Float(float) if float.is_infinite() => if *float > 0.0 { "Infinity" } else { "-Infinity" }.to_owned(),
            Self::Float(float) => format!("{float:?}"),
            Self::Text(text) => json!(text).to_string(),
            Self::List(items) => format!("[{}]", items.iter().map(Self::body).collect::<Option<Vec<_>>>()?.join(", ")),
            Self::Dict(members) => {
                let member = |(key, value): &(String, Self)| Some(format!("{}: {}", json!(key), value.body()?));
                format!("{{{}}}", members.iter().map(member).collect::<Option<Vec<_>>>()?.join(", "))
            }
            Self::Bytes(_) | Self::Timestamp(_) | Self::Decimal(..) => return None,
        })
    }
}

#[test]
fn real_python_says_the_same_of_equality() {
    let mut pairs = samples(&(sample(), sample()), 6_000);
    // Values at random are rarely equal, so each meets itself too, and both of a pair once more inside something.
    let same: Vec<_> = pairs.iter().map(|(one, _)| (one.clone(), one.clone())).collect();
    let wrapped: Vec<_> = pairs
        .iter()
        .map(|(one, other)| {
            let pad =
                |value: &Sample| Sample::Dict(vec![("a".to_owned(), Sample::List(vec![one.clone(), value.clone()]))]);
            (pad(one), pad(other))
        })
        .collect();
    pairs.extend(same);
    pairs.extend(wrapped);
    pairs.retain(|(expected, _)| expected.expected().is_some());
    let mut input = String::new();
    for (expected, found) in &pairs {
        writeln!(input, "{}\t{}", expected.python(), found.python()).unwrap();
    }
    let answers = python(EQUALS, input);
    assert_eq!(answers.len(), pairs.len());
    let (mut compared, mut equal) = (0, 0);
    for ((expected, found), answer) in pairs.iter().zip(&answers) {
        let python = if answer == "1" { "match" } else { "miss" };
        let wanted = expected.expected().unwrap();
        let mut verdicts = Vec::new();
        if let Some(field) = found.field() {
            let headers: Table = [("h".to_owned(), field)].into_iter().collect();
            verdicts.push(verdict(json!({ "h": wanted }), &headers, b""));
        }
        if let Some(body) = found.body() {
            let body = format!("{{\"v\": {body}}}");
            verdicts.push(verdict(json!({ "body.v": wanted }), &Table::new(), body.as_bytes()));
        }
        for verdict in verdicts {
            assert_eq!(verdict, python, "{expected:?} == {found:?}");
            compared += 1;
            equal += usize::from(python == "match");
        }
    }
    assert!(compared > 10_000 && equal > 1_000, "{compared} compared, {equal} equal");
}

fn verdict(conditions: Value, headers: &Table, body: &[u8]) -> &'static str {
    let filter = Filter::parse(&json!({ "filter_headers": conditions })).unwrap();
    filter.evaluate(&Message { headers, body: Content::Bytes(body) }).code()
}

/// Texts that are JSON, or nearly.
#[expect(clippy::too_many_lines, reason = "a list of texts")]
fn texts() -> Vec<String> {
    let pieces = [
        "{",
        "}",
        "[",
        "]",
        ":",
        ",",
        "\"a\"",
        "\"b\"",
        "\"",
        "1",
        "01",
        "-",
        "1.0",
        "1e0",
        ".",
        "e",
        "E+",
        "null",
        "true",
        "false",
        "NaN",
        "Infinity",
        "-Infinity",
        " ",
        "\n",
        "\t",
        "\\u0061",
        "\\",
        "\\n",
        "\u{b}",
        "é",
        "{\"a\": 1}",
        "{\"a\": 1, \"b\": [",
        "]}",
        "\"\\u00e9\"",
        "\"\\ud83d\\ude00\"",
        "\"\\/\"",
        "//",
        "'a'",
        "undefined",
        "0x1",
        "1_000",
        "\u{feff}",
    ];
    let soup = prop::collection::vec(prop::sample::select(pieces.to_vec()), 0..8).prop_map(|pieces| pieces.concat());
    let member = prop::collection::vec(prop::sample::select(pieces.to_vec()), 1..4).prop_map(|pieces| pieces.concat());
    let object =
        (member.clone(), member).prop_map(|(one, other)| format!("{{\"b\": {one}, \"a\": 1, \"c\": [{other}]}}"));
    let value = || {
        sample()
            .prop_filter_map("has a body", |sample| sample.body())
            .prop_map(|body| format!("{{\"x\": {body}, \"a\": 1}}"))
    };
    let cut = (value(), any::<prop::sample::Index>()).prop_map(|(body, at)| {
        let chars: Vec<char> = body.chars().collect();
        let at = at.index(chars.len());
        chars[..at].iter().chain(&chars[at + 1..]).collect::<String>()
    });
    let mut texts = samples(&prop_oneof![2 => soup, 3 => object, 1 => value(), 2 => cut], 20_000);
    texts.push(format!("{{\"a\": 1, \"b\": {}}}", "9".repeat(4300)));
    texts.push(format!("{{\"a\": 1, \"b\": {}}}", "9".repeat(4301)));
    texts
}

#[test]
fn real_python_reads_the_same_bodies() {
    let texts = texts();
    let mut input = String::new();
    for text in &texts {
        text.bytes().for_each(|byte| write!(input, "{byte:02x}").unwrap());
        input.push('\n');
    }
    let answers = python(LOADS, input);
    assert_eq!(answers.len(), texts.len());
    let filter = Filter::parse(&json!({"filter_headers": {"body.a": 1}})).unwrap();
    let mut counts = std::collections::BTreeMap::new();
    for (text, python) in texts.iter().zip(&answers) {
        let verdict = filter.evaluate(&Message { headers: &Table::new(), body: Content::Bytes(text.as_bytes()) });
        let has_no_single_meaning = match &verdict {
            Verdict::Error(reason) => ["body_key_twice", "body_surrogate"].contains(&reason.code()),
            Verdict::Match | Verdict::Miss(_) => false,
        };
        if !has_no_single_meaning {
            assert_eq!(verdict.code(), python, "{text:?}");
            *counts.entry(verdict.code()).or_insert(0) += 1;
        }
    }
    assert!(counts.len() == 3 && counts.values().all(|count| *count > 200), "{counts:?}");
}
