//! The answer to "what is this Variable".
//!
//! Serves the control flow's settings. Invariant: "not set" is said only in Airflow's own words; every other failure is a
//! failed read.

use serde_json::Value;

use super::Exchange;
use super::absence::says_no_variable;
use super::lookup::{Read, read};
use super::reply::strange;
use crate::domain::cycle_settings::Variable;

/// What an exchange means that asked for the Variable `key`.
pub fn classify_variable(exchange: &Exchange, key: &str) -> Variable {
    match read(exchange) {
        Read::Json(reply, json) if reply.status == 200 => match text(&json, key) {
            Some(text) => Variable::Set(text.to_owned()),
            None => Variable::Unread("Airflow's answer does not describe the Variable asked for".to_owned()),
        },
        Read::Json(reply, json) if says_no_variable(reply, &json, key) => Variable::Unset,
        Read::Json(reply, _) => Variable::Unread(strange(reply)),
        Read::Nothing(reason) => Variable::Unread(reason),
    }
}

fn text<'a>(json: &'a Value, key: &str) -> Option<&'a str> {
    (json.get("key")?.as_str()? == key).then_some(())?;
    json.get("value")?.as_str()
}

#[cfg(test)]
mod tests {
    use super::super::Reply;
    use super::*;

    fn json(status: u16, body: &str) -> Exchange {
        Exchange::Replied(Reply::plain(status, Some("application/json"), body))
    }

    #[test]
    fn a_variable_needs_airflows_json_that_names_it() {
        assert_eq!(classify_variable(&json(200, r#"{"key":"k","value":"45"}"#), "k"), Variable::Set("45".to_owned()));
        for body in [r#"{"key":"other","value":"45"}"#, r#"{"key":"k","value":null}"#, r#"{"key":"k"}"#, "{}", "[]"] {
            assert!(matches!(classify_variable(&json(200, body), "k"), Variable::Unread(_)), "{body}");
        }
    }

    #[test]
    fn a_variable_is_unset_only_in_airflows_words() {
        for body in [
            r#"{"detail":"The Variable with key: `k` was not found"}"#,
            r#"{"detail":"Variable does not exist","status":404,"title":"Variable not found"}"#,
        ] {
            assert_eq!(classify_variable(&json(404, body), "k"), Variable::Unset, "{body}");
        }
        for other in [
            json(404, r#"{"detail":"The Variable with key: `other` was not found"}"#),
            json(404, r#"{"detail":"Not Found"}"#),
            json(404, r#"{"detail":"Variable does not exist"}"#),
            json(403, r#"{"detail":"Variable does not exist","title":"Variable not found"}"#),
            json(500, "{}"),
            Exchange::Replied(Reply::plain(404, Some("text/html"), "Variable not found")),
            Exchange::NotSent("x".to_owned()),
        ] {
            assert!(matches!(classify_variable(&other, "k"), Variable::Unread(_)), "{other:?}");
        }
    }
}
