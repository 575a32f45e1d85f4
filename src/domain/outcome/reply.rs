//! Reading a [`Reply`] the way every classification needs it: who answered, and in which words.
//!
//! What must not happen here: deciding what an answer means for a delivery. Invariant: text made here is short, one line,
//! and never quotes a request (Airflow 3 echoes the refused input beside its message: only place and message are taken).

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;

use super::{Dialect, Reply};

/// How many characters of foreign text people get to read.
const TEXT_LIMIT: usize = 500;

/// How many complaints of one validation error are shown.
const COMPLAINTS: usize = 3;

/// An answer, sorted by who gave it.
pub(super) enum Voice<T = Value> {
    /// A JSON object, as Airflow's API sends them.
    Json(T),
    /// A redirect: in front of an API that is a login page or a move to another address.
    Redirect,
    /// Anything else: a page, plain text, JSON that is no object, nothing.
    Other,
}

/// Sorts an answer by who gave it.
pub(super) fn voice(reply: &Reply) -> Voice {
    heard(reply)
}

/// Sorts an answer by who gave it, and keeps no more of an object than is asked for: an answer that tells of a run carries the
/// run's whole conf.
pub(super) fn heard<'a, T: Deserialize<'a>>(reply: &'a Reply) -> Voice<T> {
    if (300..400).contains(&reply.status) {
        return Voice::Redirect;
    }
    // Said here, because a struct would be read from an array as well.
    let is_object = claims_json(reply) && reply.body.trim_ascii_start().starts_with(b"{");
    match serde_json::from_slice(&reply.body) {
        Ok(value) if is_object => Voice::Json(value),
        Ok(_) | Err(_) => Voice::Other,
    }
}

/// Whether the answer says that it is JSON (`application/json` or `application/problem+json`).
pub(super) fn claims_json(reply: &Reply) -> bool {
    reply.content_type.as_deref().is_some_and(|kind| kind == "application/json" || kind.ends_with("+json"))
}

/// Airflow's words in an error answer: `detail` (both generations), else `title` (2.x) or `error` (3.x, removed routes).
pub(super) fn words(json: &Value) -> String {
    let text = match json.get("detail") {
        Some(Value::String(detail)) => detail.clone(),
        // 3.x, validation: [{"loc": ["body", "conf"], "msg": "…", "input": …}, …]
        Some(Value::Array(complaints)) => {
            complaints.iter().take(COMPLAINTS).map(complaint).collect::<Vec<_>>().join("; ")
        }
        // 3.x, database: {"reason": "Unique constraint violation", "message": "…"}
        Some(Value::Object(detail)) => detail.get("reason").and_then(Value::as_str).unwrap_or_default().to_owned(),
        Some(Value::Null | Value::Bool(_) | Value::Number(_)) | None => String::new(),
    };
    if !text.is_empty() {
        return tidy(&text);
    }
    ["title", "error"].iter().find_map(|key| json.get(*key).and_then(Value::as_str)).map(tidy).unwrap_or_default()
}

fn complaint(complaint: &Value) -> String {
    let place = complaint
        .get("loc")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .map(|step| match step {
            Value::String(name) => name.clone(),
            Value::Number(index) => index.to_string(),
            Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => String::new(),
        })
        .collect::<Vec<_>>()
        .join(".");
    let message = complaint.get("msg").and_then(Value::as_str).unwrap_or("refused");
    format!("{place}: {message}")
}

/// One sentence about an answer that is not one of Airflow's.
pub(super) fn strange(reply: &Reply) -> String {
    match voice(reply) {
        Voice::Redirect => format!(
            "the address redirects ({}) to {}: a login page or another address stands in front of Airflow's API",
            reply.status,
            reply.location.as_deref().map_or_else(|| "nowhere".to_owned(), place_of)
        ),
        Voice::Json(json) => {
            format!("the answer {} is not one of Airflow's API: {}", reply.status, words(&json))
        }
        Voice::Other => format!(
            "the answer {} is not one of Airflow's API but {}: another program or a login page stands in front of it",
            reply.status,
            reply.content_type.as_deref().map_or_else(|| "of no type".to_owned(), tidy)
        ),
    }
}

/// A redirect's goal without its query, which may carry secrets.
fn place_of(location: &str) -> String {
    tidy(location.split(['?', '#']).next().unwrap_or_default())
}

/// Airflow's words in an answer; empty where it is not Airflow's.
fn said(reply: &Reply) -> String {
    match voice(reply) {
        Voice::Json(json) => words(&json),
        Voice::Redirect | Voice::Other => String::new(),
    }
}

/// One sentence about an answer that lets us not in (401, 403).
pub(super) fn refused_access(reply: &Reply) -> String {
    let said = said(reply);
    let said = if said.is_empty() { String::new() } else { format!(" ({said})") };
    if reply.status == 401 {
        format!("Airflow does not accept our credentials: 401{said}; check the user, password or token")
    } else {
        format!(
            "Airflow refuses us: 403{said}; check the user and its password (or the token), and that its role may trigger and read DAG runs"
        )
    }
}

/// One sentence about a 429 or 5xx.
pub(super) fn unwell(reply: &Reply) -> String {
    let said = said(reply);
    if said.is_empty() {
        format!("Airflow answered {}", reply.status)
    } else {
        format!("Airflow answered {}: {said}", reply.status)
    }
}

/// Whether a new login could change this answer. v2 says so: 401, or 403 with the words `Invalid JWT token`. v1 says 403
/// alike for no session, wrong credentials and missing permission (tried with 2.11), or redirects to its login page.
pub fn asks_for_login(reply: &Reply, dialect: Dialect) -> bool {
    match (reply.status, dialect) {
        (401, _) | (403, Dialect::V1) => true,
        (403, Dialect::V2) => match voice(reply) {
            Voice::Json(json) => words(&json).contains("Invalid JWT token"),
            Voice::Redirect | Voice::Other => false,
        },
        (300..=399, Dialect::V1) => reply.location.as_deref().is_some_and(|goal| place_of(goal).contains("/login")),
        (_, Dialect::V1 | Dialect::V2) => false,
    }
}

/// Whether this answer makes one doubt that Airflow's API of this generation still lives here (a 404 or 405 that is not
/// about a DAG, a run or a Variable, a redirect, a page with status 200). Several in a row are a reason to ask for the version again.
pub fn from_stranger(reply: &Reply) -> bool {
    match reply.status {
        300..400 | 405 => true,
        200..300 => !matches!(heard::<IgnoredAny>(reply), Voice::Json(_)),
        404 => match voice(reply) {
            Voice::Redirect | Voice::Other => true,
            Voice::Json(json) => {
                let text = words(&json).to_lowercase();
                let of_a_dag = text.contains("dag") && text.contains("not found");
                let of_a_variable = ["variable does not exist", "the variable with key"];
                !of_a_dag && !of_a_variable.iter().any(|words| text.starts_with(words))
            }
        },
        _ => false,
    }
}

/// Foreign text for people: control characters and runs of white space become one space, cut at 500 characters.
pub fn tidy(text: &str) -> String {
    let line = text
        .split(|c: char| c.is_whitespace() || c.is_control())
        .filter(|word| !word.is_empty())
        .collect::<Vec<_>>()
        .join(" ");
    if line.chars().count() <= TEXT_LIMIT {
        return line;
    }
    line.chars().take(TEXT_LIMIT - 1).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(status: u16, kind: &str, body: &str) -> Reply {
        Reply::plain(status, Some(kind), body)
    }

    #[test]
    fn tidy_makes_one_short_line() {
        assert_eq!(tidy("a\r\n\tb\u{1b}[31m  c\0"), "a b [31m c");
        let long = tidy(&"é ".repeat(2000));
        assert!(long.chars().count() <= TEXT_LIMIT, "{}", long.chars().count());
        assert!(long.ends_with('…'));
        assert_eq!(tidy(""), "");
    }

    #[test]
    fn words_of_a_validation_error_leave_the_refused_input_out() {
        let body = r#"{"detail":[{"type":"dict_type","loc":["body","conf",0],"msg":"Input should be a valid dictionary","input":"SECRET"}]}"#;
        let json = serde_json::from_str(body).expect("json");
        assert_eq!(words(&json), "body.conf.0: Input should be a valid dictionary");
    }

    #[test]
    fn words_fall_back_to_the_title() {
        let json = serde_json::json!({"detail": null, "status": 403, "title": "Forbidden"});
        assert_eq!(words(&json), "Forbidden");
    }

    #[test]
    fn a_new_login_is_worth_trying_only_where_airflow_says_so() {
        let jwt = reply(403, "application/json", r#"{"detail":"Invalid JWT token"}"#);
        let forbidden = reply(403, "application/json", r#"{"detail":"Forbidden"}"#);
        assert!(asks_for_login(&jwt, Dialect::V2));
        assert!(!asks_for_login(&forbidden, Dialect::V2));
        assert!(asks_for_login(&forbidden, Dialect::V1));
        assert!(asks_for_login(&reply(401, "text/html", ""), Dialect::V2));
        assert!(!asks_for_login(&reply(500, "text/html", ""), Dialect::V1));
        let mut login = reply(302, "text/html", "");
        login.location = Some("/login/?next=/home".to_owned());
        assert!(asks_for_login(&login, Dialect::V1));
        assert!(!asks_for_login(&login, Dialect::V2));
    }

    #[test]
    fn an_object_is_told_from_everything_else_whatever_is_kept_of_it() {
        let kinds = ["application/json", "text/html"];
        for body in ["{}", " {\"a\": 1}", "[]", "[{}]", "7", "\"{}\"", "{", "{} {}", "", "<html>"] {
            for (kind, is_object) in kinds.map(|kind| (kind, kind == kinds[0] && matches!(body, "{}" | " {\"a\": 1}")))
            {
                let reply = reply(200, kind, body);
                assert_eq!(matches!(voice(&reply), Voice::Json(_)), is_object, "{kind} {body}");
                assert_eq!(matches!(heard::<IgnoredAny>(&reply), Voice::Json(_)), is_object, "{kind} {body}");
                assert_eq!(from_stranger(&reply), !is_object, "{kind} {body}");
            }
        }
    }

    #[test]
    fn a_redirect_is_named_without_its_query() {
        let mut login = reply(302, "text/html", "");
        login.location = Some("https://sso.example/auth?token=SECRET".to_owned());
        assert!(strange(&login).contains("https://sso.example/auth:"), "{}", strange(&login));
    }
}
