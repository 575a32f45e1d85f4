//! The corpora of `tests/fixtures`: header tables and bodies, each with what a conf makes of it. The scripts beside them say
//! how they are written.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use super::{BrokerVersion, raw};

/// A header table.
pub struct HeaderCase {
    /// What it is about.
    pub name: String,
    /// Its entries on the wire.
    pub table: Vec<u8>,
    json: Value,
    /// On RabbitMQ 4, where that differs.
    json4: Option<Value>,
}

impl HeaderCase {
    /// Its JSON in a conf.
    pub fn json(&self, broker: BrokerVersion) -> &Value {
        match broker {
            BrokerVersion::V3 => &self.json,
            BrokerVersion::V4 => self.json4.as_ref().unwrap_or(&self.json),
        }
    }
}

/// A body.
pub struct BodyCase {
    /// What it is about.
    pub name: String,
    /// As it is published.
    pub body: Vec<u8>,
    /// The property, where it is set.
    pub content_encoding: Option<String>,
    /// Part of the reason for which it is refused by us; `None`: it is not.
    pub refused: Option<String>,
    /// Part of the reason for which Airflow 2 refuses it.
    pub refused_by_airflow2: Option<String>,
    run: Value,
}

/// All header tables that RabbitMQ takes.
///
/// # Panics
/// If the file is not what the script writes.
pub fn headers() -> Vec<HeaderCase> {
    let mut cases = Vec::new();
    for case in read(include_str!("../fixtures/headers/corpus.json")) {
        if case["never_taken"] == true {
            continue;
        }
        let mut json = case["json"].clone();
        let table = match case["times"].as_u64() {
            None => hex(case["table"].as_str().unwrap()),
            Some(times) => {
                let value = json["h0"].take();
                let entry = hex(case["first"].as_str().unwrap());
                let entries = (0..times).map(|n| [&raw::short(format!("h{n}").as_bytes())[..], &entry[3..]].concat());
                json = (0..times).map(|n| (format!("h{n}"), value.clone())).collect::<Map<_, _>>().into();
                entries.collect::<Vec<_>>().concat()
            }
        };
        let json4 = case.get("json4").cloned();
        cases.push(HeaderCase { name: text(&case["name"]).unwrap(), table, json, json4 });
    }
    cases
}

/// Entries of tables that RabbitMQ refuses, each with its name.
///
/// # Panics
/// If the file is not what the script writes.
pub fn headers_never_taken() -> Vec<(String, Vec<u8>)> {
    let cases = read(include_str!("../fixtures/headers/corpus.json"));
    let cases = cases.iter().filter(|case| case["never_taken"] == true);
    cases.map(|case| (text(&case["name"]).unwrap(), hex(case["table"].as_str().unwrap()))).collect()
}

/// All bodies.
///
/// # Panics
/// If the file is not what the script writes.
pub fn bodies() -> Vec<BodyCase> {
    let mut cases = Vec::new();
    for case in read(include_str!("../fixtures/bodies/corpus.json")) {
        let mut body = Vec::new();
        for part in case["parts"].as_array().unwrap() {
            let piece = BASE64.decode(part[0].as_str().unwrap()).unwrap();
            body.extend(piece.repeat(usize::try_from(part[1].as_u64().unwrap()).unwrap()));
        }
        cases.push(BodyCase {
            name: text(&case["name"]).unwrap(),
            body,
            content_encoding: text(&case["content_encoding"]),
            refused: text(&case["refused"]),
            refused_by_airflow2: text(&case["airflow2"]),
            run: case["run"].clone(),
        });
    }
    cases
}

impl BodyCase {
    /// Holds a conf against what the case promises.
    ///
    /// # Panics
    /// Where it differs.
    #[track_caller]
    pub fn assert_conf(&self, conf: &Value) {
        let (name, run) = (&self.name, &self.run);
        let body = conf["body"].as_str().unwrap_or_else(|| panic!("{name}: {conf}"));
        match text(&run["body"]) {
            Some(expected) => assert_eq!(body, expected, "{name}"),
            None => {
                assert_eq!(body.chars().count() as u64, run["body_chars"].as_u64().unwrap(), "{name}");
                assert_eq!(digest(body.as_bytes()), run["body_sha256"], "{name}");
            }
        }
        assert_eq!(conf.get("body_b64").is_none(), run["exact"], "{name}");
        let exact = match conf["body_b64"].as_str() {
            Some(text) => BASE64.decode(text).unwrap(),
            None => body.into(),
        };
        assert_eq!(digest(&exact), run["sha256"], "{name}");
        assert_eq!(conf["body_decoded"], run["decoded"], "{name}");
        match text(&run["problem"]) {
            Some(part) => {
                assert!(conf["body_problem"].as_str().is_some_and(|text| text.contains(&part)), "{name}: {conf}")
            }
            None => assert_eq!(conf["body_problem"], Value::Null, "{name}"),
        }
        assert_eq!(text(&conf["properties"]["content_encoding"]), self.content_encoding, "{name}");
    }
}

fn read(json: &str) -> Vec<Value> {
    serde_json::from_str(json).unwrap()
}

fn text(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

fn hex(text: &str) -> Vec<u8> {
    let digits = text.as_bytes().chunks(2);
    digits.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}
