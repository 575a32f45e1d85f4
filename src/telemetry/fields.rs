//! The fields of an event or a span, collected as JSON values in the order they were written.

use std::fmt::{self, Write as _};

use serde_json::Value;
use tracing::field::{Field, Visit};

use super::line::escape_into;

/// Fields in order; `message` apart.
#[derive(Debug, Default)]
pub(super) struct Fields {
    pub(super) message: String,
    pub(super) others: Vec<(String, Value)>,
}

impl Fields {
    fn put(&mut self, field: &Field, value: Value) {
        if field.name() == "message" {
            self.message = match value {
                Value::String(text) => text,
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
                    value.to_string()
                }
            };
            return;
        }
        // A span field may be recorded again: the last value holds.
        match self.others.iter_mut().find(|(name, _)| name == field.name()) {
            Some((_, old)) => *old = value,
            None => self.others.push((field.name().to_owned(), value)),
        }
    }
}

impl Visit for Fields {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, value.into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, value.into());
    }

    fn record_error(&mut self, field: &Field, value: &(dyn std::error::Error + 'static)) {
        self.put(field, value.to_string().into());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.put(field, format!("{value:?}").into());
    }
}

/// Adds ` key=value`, quoted where the value would not read as one word.
pub(super) fn push_text(line: &mut String, name: &str, value: &Value) {
    let _ = write!(line, " {name}=");
    match value {
        Value::String(text) if is_one_word(text) => line.push_str(text),
        Value::String(text) => {
            line.push('"');
            escape_into(line, &text.replace('\\', "\\\\").replace('"', "\\\""));
            line.push('"');
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            let _ = write!(line, "{value}");
        }
    }
}

fn is_one_word(text: &str) -> bool {
    !text.is_empty() && !text.chars().any(|c| c.is_whitespace() || c.is_control() || matches!(c, '"' | '=' | '\\'))
}
