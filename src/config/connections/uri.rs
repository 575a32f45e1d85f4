//! A connection written as a URI, read as Airflow reads it.
//!
//! Airflow leans on Python's `urlsplit`, which follows no single RFC, so `split` is that function rebuilt step by step
//! rather than a URL crate: those normalise (`..`, IDNA, default ports) or refuse what Airflow takes.
//!
//! Source: Airflow 2.11.2 and 3.3.2, `Connection._parse_from_uri`; CPython 3.11.7, `urllib.parse.urlsplit`. Held by
//! `tests/fixtures/airflow_connections/golden-*.json`.

use std::borrow::Cow;
use std::net::Ipv6Addr;

use serde_json::{Map, Value};

use super::python::unquote;
use super::{AirflowConnection, AirflowDialect, ParseError, read_extra};
use crate::domain::connection::Secret;

/// The query key whose value replaces all other extras.
const EXTRA_KEY: &str = "__extra__";

/// Characters that Unicode's compatibility form (NFKC) turns into something holding one of `/ ? # @ :`.
///
/// Source: Unicode 14, every code point tried with Python's `unicodedata.normalize`.
const LOOK_ALIKES: [char; 19] = [
    '\u{2047}', '\u{2048}', '\u{2049}', '\u{2100}', '\u{2101}', '\u{2105}', '\u{2106}', '\u{2a74}', '\u{fe13}',
    '\u{fe16}', '\u{fe55}', '\u{fe56}', '\u{fe5f}', '\u{fe6b}', '\u{ff03}', '\u{ff0f}', '\u{ff1a}', '\u{ff1f}',
    '\u{ff20}',
];

/// Reads a URI, stripped of white space around it.
///
/// # Errors
/// Where Airflow raises.
pub fn parse(uri: &str, dialect: AirflowDialect) -> Result<AirflowConnection, ParseError> {
    let protocols = uri.matches("://").count();
    if protocols > 2 {
        return Err(ParseError::TooManyProtocols);
    }
    let host_with_protocol = protocols == 2;
    let scheme = split(uri)?.scheme;
    // Airflow replaces every occurrence, and only the lower-cased one.
    let rest = uri.replace(&format!("{scheme}://"), if host_with_protocol { "" } else { "//" });
    if host_with_protocol {
        let before = rest.split_once("://").map_or(rest.as_str(), |(b, _)| b);
        if before.contains(['@', ':']) {
            return Err(ParseError::UserBeforeProtocol);
        }
    }
    let parts = split(&rest)?;
    let (user_info, host_info) = match parts.netloc.rsplit_once('@') {
        Some((user, host)) => (Some(user), host),
        None => (None, parts.netloc.as_str()),
    };
    let (login, password) = match user_info.map(|user| user.split_once(':').ok_or(user)) {
        Some(Ok((login, password))) => (Some(unquote(login)), Some(unquote(password))),
        Some(Err(login)) => (Some(unquote(login)), None),
        None => (None, None),
    };
    let (raw_host, raw_port) = host_and_port(host_info);
    let host = host_name(raw_host, &parts.netloc);
    let host = if host_with_protocol && !host.is_empty() && !parts.scheme.is_empty() {
        format!("{}://{host}", parts.scheme)
    } else {
        host
    };
    let mut connection = AirflowConnection {
        conn_type: Some(normalize_type(&scheme)),
        host: Some(host),
        port: read_port(raw_port)?,
        login,
        // Airflow does not store an empty password.
        password: password.filter(|p| !p.is_empty()).map(Secret::new),
        schema: Some(unquote(&parts.path.chars().skip(1).collect::<String>())),
        ..AirflowConnection::default()
    };
    connection.is_torn = user_info.is_none() && parts.has_stray_at();
    if parts.fragment.is_some() {
        connection
            .notes
            .push("its URI holds a #, and Airflow drops all that follows it; in a password write it as %23");
    }
    read_query(&parts.query, dialect, &mut connection)?;
    Ok(connection)
}

/// `postgresql` becomes `postgres`, dashes become underscores: Airflow's own habit.
pub(super) fn normalize_type(conn_type: &str) -> String {
    if conn_type == "postgresql" { "postgres".to_owned() } else { conn_type.replace('-', "_") }
}

/// What `urlsplit` returns.
struct Parts {
    scheme: String,
    netloc: String,
    path: String,
    query: String,
    fragment: Option<String>,
}

impl Parts {
    /// An `@` where only a torn password leaves one.
    fn has_stray_at(&self) -> bool {
        let in_key = |pair: &str| pair.split('=').next().is_some_and(|key| key.contains('@'));
        self.path.contains('@')
            || self.fragment.as_ref().is_some_and(|f| f.contains('@'))
            || self.query.split('&').any(in_key)
    }
}

/// Python's `urlsplit`.
fn split(url: &str) -> Result<Parts, ParseError> {
    let url = url.trim_start_matches(|c: char| c <= ' ');
    let url: Cow<'_, str> =
        if url.contains(['\t', '\r', '\n']) { url.replace(['\t', '\r', '\n'], "").into() } else { url.into() };
    let mut rest: &str = &url;
    let mut scheme = String::new();
    if let Some((before, after)) = rest.split_once(':')
        && before.starts_with(|c: char| c.is_ascii_alphabetic())
        && before.bytes().all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b))
    {
        scheme = before.to_ascii_lowercase();
        rest = after;
    }
    let mut netloc = "";
    if let Some(after) = rest.strip_prefix("//") {
        let end = after.find(['/', '?', '#']).unwrap_or(after.len());
        (netloc, rest) = after.split_at(end);
        check_brackets(netloc)?;
    }
    let (rest, fragment) = cut(rest, '#');
    let (path, query) = cut(rest, '?');
    if netloc.contains(LOOK_ALIKES) {
        return Err(ParseError::LookAlike);
    }
    Ok(Parts {
        scheme,
        netloc: netloc.to_owned(),
        path: path.to_owned(),
        query: query.unwrap_or_default().to_owned(),
        fragment: fragment.map(str::to_owned),
    })
}

fn cut(text: &str, at: char) -> (&str, Option<&str>) {
    match text.split_once(at) {
        Some((before, after)) => (before, Some(after)),
        None => (text, None),
    }
}

/// Both brackets or none; between the first pair an IPv6 address or an "IPvFuture" literal.
fn check_brackets(netloc: &str) -> Result<(), ParseError> {
    match (netloc.contains('['), netloc.contains(']')) {
        (false, false) => return Ok(()),
        (true, true) => {}
        (true, false) | (false, true) => return Err(ParseError::Brackets),
    }
    let after = netloc.split_once('[').map_or("", |(_, after)| after);
    let inside = after.split_once(']').map_or(after, |(inside, _)| inside);
    let valid = match inside.strip_prefix('v') {
        Some(future) => future.split_once('.').is_some_and(|(version, address)| {
            !version.is_empty() && version.bytes().all(|b| b.is_ascii_hexdigit()) && !address.is_empty()
        }),
        None => is_ipv6(inside),
    };
    if valid { Ok(()) } else { Err(ParseError::Brackets) }
}

/// An IPv6 address, with a zone after `%` where there is one.
fn is_ipv6(text: &str) -> bool {
    let (address, zone) = cut(text, '%');
    address.parse::<Ipv6Addr>().is_ok() && zone.is_none_or(|z| !z.is_empty() && !z.contains('%'))
}

/// The host and the port as written; what follows a closing bracket up to the next colon is dropped.
fn host_and_port(host_info: &str) -> (&str, &str) {
    match host_info.split_once('[') {
        Some((_, bracketed)) => {
            let (host, after) = bracketed.split_once(']').unwrap_or((bracketed, ""));
            (host, after.split_once(':').map_or("", |(_, port)| port))
        }
        None => host_info.split_once(':').unwrap_or((host_info, "")),
    }
}

/// The host in lower case (a zone keeps its case), decoded; a path to a socket keeps its case altogether.
fn host_name(raw: &str, netloc: &str) -> String {
    let lowered = match raw.split_once('%') {
        Some((name, zone)) => format!("{}%{zone}", name.to_lowercase()),
        None => raw.to_lowercase(),
    };
    let host = unquote(&lowered);
    if !host.contains('/') {
        return host;
    }
    let after_user = netloc.rsplit_once('@').map_or(netloc, |(_, after)| after);
    unquote(after_user.split_once(':').map_or(after_user, |(h, _)| h))
}

fn read_port(raw: &str) -> Result<Option<i64>, ParseError> {
    if raw.is_empty() {
        return Ok(None);
    }
    if !raw.bytes().all(|b| b.is_ascii_digit()) {
        return Err(ParseError::Port);
    }
    let port: u16 = raw.parse().map_err(|_| ParseError::Port)?;
    Ok(Some(i64::from(port)))
}

/// The query as extras: `__extra__` alone, or every key with the last of its values.
fn read_query(query: &str, dialect: AirflowDialect, into: &mut AirflowConnection) -> Result<(), ParseError> {
    let mut pairs: Map<String, Value> = Map::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let [name, value] = [name, value].map(|text| unquote(&text.replace('+', " ")));
        pairs.insert(name, Value::String(value));
    }
    if let Some(Value::String(extra)) = pairs.get(EXTRA_KEY) {
        return read_extra(extra, dialect, into);
    }
    if dialect == AirflowDialect::V3 {
        for value in pairs.values_mut() {
            if let Some(converted) = value.as_str().and_then(|v| serde_json::from_str(v).ok()) {
                *value = converted;
            }
        }
    }
    into.extra = pairs;
    Ok(())
}
