//! The TLS keys of a connection's extra.
//!
//! Flat keys (`ca_certs`, `certfile`, `keyfile`, `cert_reqs`) and the same keys in `ssl_options`, an object or its JSON
//! text, which win one by one. Doubt never weakens: what cannot be read is an error, an unknown `cert_reqs` verifies.
//!
//! Source: airflow-provider-rmq 2.6.0, connection and TLS reading.

use std::path::PathBuf;

use serde_json::{Map, Value};

use super::amqp::{AmqpError, ConnectionWarning};
use super::json::is_true;
use crate::domain::connection::TlsSettings;

const KEYS: [&str; 4] = ["ca_certs", "certfile", "keyfile", "cert_reqs"];

/// Reads the TLS settings; `None` is plain text.
///
/// # Errors
/// A path that is no text, or `ssl_options` that is no object.
pub(super) fn read(
    extra: &Map<String, Value>,
    is_amqps: bool,
    warnings: &mut Vec<ConnectionWarning>,
) -> Result<Option<TlsSettings>, AmqpError> {
    let nested = nested(extra.get("ssl_options"))?;
    let is_enabled = is_enabled(extra.get("ssl_enabled"), warnings);
    let find = |key: &str| nested.get(key).or_else(|| extra.get(key));
    if !is_amqps && is_enabled != Some(true) {
        if KEYS.iter().any(|key| find(key).is_some_and(is_true)) {
            warnings.push(ConnectionWarning::new(
                "its extra has TLS keys, but neither the type amqps nor a true `ssl_enabled`: plain text is spoken",
            ));
        }
        return Ok(None);
    }
    if is_amqps && is_enabled == Some(false) {
        warnings.push(ConnectionWarning::new(
            "its type is amqps, so the false `ssl_enabled` in its extra is ignored and TLS is spoken",
        ));
    }
    let ca_certs = path("ca_certs", find("ca_certs"))?;
    let client = match (path("certfile", find("certfile"))?, path("keyfile", find("keyfile"))?) {
        (Some(certificate), Some(key)) => Some((certificate, key)),
        (None, None) => None,
        (Some(_), None) => {
            warnings.push(one_sided("certfile", "keyfile"));
            None
        }
        (None, Some(_)) => {
            warnings.push(one_sided("keyfile", "certfile"));
            None
        }
    };
    Ok(Some(TlsSettings { ca_certs, client, verify_none: verify_none(find("cert_reqs"), warnings) }))
}

/// `ssl_options` as a map, empty where there is none.
fn nested(value: Option<&Value>) -> Result<Map<String, Value>, AmqpError> {
    let wrong = AmqpError::TlsExtra { key: "ssl_options", expected: "a JSON object, or text holding one" };
    match value {
        Some(Value::Object(map)) => Ok(map.clone()),
        Some(Value::String(text)) if !text.trim().is_empty() => serde_json::from_str(text).map_err(|_| wrong),
        Some(other) if is_true(other) && !other.is_string() => Err(wrong),
        Some(_) | None => Ok(Map::new()),
    }
}

/// `None`: nothing was said.
fn is_enabled(value: Option<&Value>, warnings: &mut Vec<ConnectionWarning>) -> Option<bool> {
    let text = match value {
        None | Some(Value::Null) => return None,
        Some(Value::String(text)) => text.trim(),
        Some(other) => return Some(is_true(other)),
    };
    match text.to_ascii_lowercase().as_str() {
        "" => None,
        "true" | "1" | "yes" | "on" | "t" | "y" => Some(true),
        "false" | "0" | "no" | "off" | "f" | "n" | "none" | "null" => {
            warnings.push(ConnectionWarning::new(
                "its extra `ssl_enabled` is text that reads as false and is taken as false; the Python provider takes every text as true",
            ));
            Some(false)
        }
        _ => {
            warnings
                .push(ConnectionWarning::new("its extra `ssl_enabled` is neither true nor false and is taken as true"));
            Some(true)
        }
    }
}

fn path(key: &'static str, value: Option<&Value>) -> Result<Option<PathBuf>, AmqpError> {
    match value {
        Some(Value::String(text)) if !text.is_empty() => Ok(Some(PathBuf::from(text))),
        Some(other) if is_true(other) => Err(AmqpError::TlsExtra { key, expected: "the path of a PEM file" }),
        Some(_) | None => Ok(None),
    }
}

fn one_sided(given: &str, missing: &str) -> ConnectionWarning {
    ConnectionWarning::new(format!(
        "its extra has `{given}` without `{missing}`, so no client certificate is shown to the broker; give both"
    ))
}

/// Only the word `CERT_NONE` turns verification off.
fn verify_none(value: Option<&Value>, warnings: &mut Vec<ConnectionWarning>) -> bool {
    let text = match value {
        Some(Value::String(text)) => text.as_str(),
        Some(other) if is_true(other) => "?",
        Some(_) | None => "",
    };
    match text {
        "CERT_NONE" => {
            warnings.push(ConnectionWarning::new(
                "its extra `cert_reqs` is CERT_NONE: neither the broker's certificate nor its name is checked, so anyone in between can read the password",
            ));
            true
        }
        "" | "CERT_REQUIRED" | "CERT_OPTIONAL" => false,
        _ => {
            warnings.push(ConnectionWarning::new(
                "its extra `cert_reqs` is none of CERT_REQUIRED, CERT_OPTIONAL and CERT_NONE; the certificate is checked",
            ));
            false
        }
    }
}
