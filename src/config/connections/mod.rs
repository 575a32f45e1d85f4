//! AMQP connections: from Airflow's ways of writing them down to [`AmqpSettings`](crate::domain::connection::AmqpSettings).
//!
//! Two steps, both pure: a text becomes an [`AirflowConnection`] exactly as Airflow itself reads it ([`uri`], [`json`];
//! held by golden files made with Airflow 2.11 and 3.3), and that becomes settings with the provider's defaults and
//! doubts ([`amqp`], [`tls`], [`timing`]). [`mod@file`] reads the tables `[connections.<id>]` of the configuration file.
//!
//! Must not: let any part of a value into an error. A URI with an unescaped `/` or `#` in its password falls apart in
//! odd places, so not even the port may be quoted back. Held by the planted-secret test in `tests/config`.

pub mod amqp;
pub mod file;
pub mod json;
pub mod python;
pub mod timing;
pub mod tls;
pub mod uri;
pub mod watch;

use std::fmt;

use serde_json::{Map, Value};
use thiserror::Error;

use crate::domain::connection::Secret;
use crate::domain::python::strip;

/// Where the two Airflow generations read one value differently.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AirflowDialect {
    /// Airflow 2.x: extras in a URI's query stay text, an `extra` that is no JSON object counts as none.
    V2,
    /// Airflow 3.x: extras in a URI's query that read as JSON are converted, an `extra` that is no JSON object is an error.
    #[default]
    V3,
}

/// A connection with the fields that Airflow gives it. `None` and empty text mean the same to every later step; both
/// are kept apart only to agree with Airflow.
#[derive(Clone, PartialEq, Default)]
#[expect(missing_docs, reason = "the names are Airflow's own")]
pub struct AirflowConnection {
    pub conn_type: Option<String>,
    pub host: Option<String>,
    /// Not yet checked for its range: Airflow's JSON form takes any integer.
    pub port: Option<i64>,
    pub login: Option<String>,
    pub password: Option<Secret>,
    pub schema: Option<String>,
    pub extra: Map<String, Value>,
    /// What was read although it looks like a mistake; one sentence each, without any part of the value.
    pub notes: Vec<&'static str>,
    /// The URI names no user before its host but has an `@` behind it: its password holds an unescaped `/`, `?` or `#`,
    /// so that parts of the password stand in other fields. Airflow takes it; no setting may be made of it.
    pub is_torn: bool,
}

impl fmt::Debug for AirflowConnection {
    /// Shows the type and the names of the extras only: a mistyped password can end up in any other field.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AirflowConnection")
            .field("conn_type", &self.conn_type.as_deref().filter(|t| amqp::is_accepted_type(t)))
            .field("has_password", &self.password.is_some())
            .finish_non_exhaustive()
    }
}

/// Why a value is no connection. Each is a case in which Airflow says that the connection is not defined, unless noted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ParseError {
    /// Only white space.
    #[error("the value is blank")]
    Blank,
    /// More than two `://`.
    #[error("the URI holds `://` more than twice; percent-encode the later ones as %3A%2F%2F")]
    TooManyProtocols,
    /// `type://user:password@protocol://host`.
    #[error(
        "the URI has a user or a port before its second `://`; write the user after it, or, where it stands in an extra or a password, percent-encode it as %3A%2F%2F"
    )]
    UserBeforeProtocol,
    /// Unbalanced brackets, or something else than an IPv6 address between them.
    #[error("the URI has square brackets that do not hold an IPv6 address; in a password write [ as %5B and ] as %5D")]
    Brackets,
    /// Characters such as a full-width `@`.
    #[error(
        "the URI has a character before its path that Unicode turns into one of / ? # @ : (such as a full-width @); percent-encode it"
    )]
    LookAlike,
    /// Not a number, or not below 65536.
    #[error(
        "the URI's port is not a number from 0 to 65535; where the password holds one of / ? # @ : % write it percent-encoded (%2F %3F %23 %40 %3A %25)"
    )]
    Port,
    /// Not JSON. JSON's own extensions in Python (`NaN`, lone surrogates, more than 128 levels) are refused too.
    #[error(
        "the value starts with {{ but is not a JSON object (line {line}, column {column}); correct it, or write a URI"
    )]
    NotJson {
        /// From 1.
        line: usize,
        /// From 1.
        column: usize,
    },
    /// A key that Airflow does not know.
    #[error(
        "the JSON has a key that Airflow does not know; it takes conn_type, host, port, login, password, schema, extra, description, or uri alone{hint}"
    )]
    UnknownKey {
        /// What was probably meant, as a sentence part.
        hint: &'static str,
    },
    /// A value of the wrong kind.
    #[error("the JSON key `{key}` must hold {expected}")]
    WrongKind {
        /// The key.
        key: &'static str,
        /// What it must hold.
        expected: &'static str,
    },
    /// `uri` beside other keys.
    #[error("the JSON has `uri` beside other keys; use either `uri` alone or the single keys")]
    UriAndFields,
    /// `extra` is no JSON object (Airflow 3 only).
    #[error("the connection's extra is not a JSON object")]
    Extra,
}

/// Reads a value as Airflow reads that of `AIRFLOW_CONN_<ID>`: JSON where it starts with `{`, else a URI. An empty value
/// means "not defined here" and is the caller's case.
///
/// # Errors
/// Where Airflow says that the connection is not defined.
///
/// Source: Airflow 2.11.2 and 3.3.2, `BaseSecretsBackend.deserialize_connection`.
pub fn parse(value: &str, dialect: AirflowDialect) -> Result<AirflowConnection, ParseError> {
    let value = strip(value);
    if value.is_empty() {
        Err(ParseError::Blank)
    } else if value.starts_with('{') {
        json::parse(value, dialect)
    } else {
        uri::parse(value, dialect)
    }
}

/// Turns the text of an extra into its map, the two generations' way.
pub(crate) fn read_extra(text: &str, dialect: AirflowDialect, into: &mut AirflowConnection) -> Result<(), ParseError> {
    if text.is_empty() {
        return Ok(());
    }
    match (serde_json::from_str(text), dialect) {
        (Ok(Value::Object(map)), _) => into.extra = map,
        (_, AirflowDialect::V3) => return Err(ParseError::Extra),
        (_, AirflowDialect::V2) => {
            into.notes.push("its extra is not a JSON object and is ignored; Airflow 3 refuses it")
        }
    }
    Ok(())
}

/// Whether a value is written as one of the two forms at all: JSON, or text that begins with a type and `://`. Airflow
/// takes less (`user:secret@host` is a connection of type `user` to it), but from such a value no settings may be made.
pub fn is_value_of_a_kind(value: &str) -> bool {
    let value = strip(value);
    let is_uri = value.split_once("://").is_some_and(|(scheme, _)| {
        scheme.starts_with(|c: char| c.is_ascii_alphabetic())
            && scheme.bytes().all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b))
    });
    value.starts_with('{') || is_uri
}
