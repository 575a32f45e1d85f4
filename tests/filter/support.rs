//! Messages and verdicts in few words.

use rmq_watcher::domain::envelope::{Field, Table};
use rmq_watcher::domain::filter::{Content, Filter, Message, Verdict};
use serde_json::{Value, json};

pub(crate) fn text(text: &str) -> Field {
    Field::Text(text.as_bytes().to_vec())
}

pub(crate) fn table<const N: usize>(members: [(&str, Field); N]) -> Table {
    members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// The filter with these conditions.
pub(crate) fn filter(conditions: &Value) -> Filter {
    Filter::parse(&json!({ "filter_headers": conditions })).unwrap_or_else(|problem| panic!("{problem}"))
}

pub(crate) fn evaluate(conditions: &Value, headers: &Table, body: &[u8]) -> Verdict {
    filter(conditions).evaluate(&Message { headers, body: Content::Bytes(body) })
}

/// The verdict of one condition on one header.
pub(crate) fn on_header(expected: Value, found: Field) -> &'static str {
    evaluate(&json!({ "h": expected }), &table([("h", found)]), b"").code()
}

/// The verdict of conditions on a body.
pub(crate) fn on_body(conditions: Value, body: &str) -> &'static str {
    evaluate(&conditions, &Table::new(), body.as_bytes()).code()
}
