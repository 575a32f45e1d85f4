//! One event becomes one line: the subscriber layer and the two line shapes.
//!
//! Text is Airflow's own shape, because people tail the scheduler's log: message, then the event's fields in order, then those
//! of the spans around it, innermost first. JSON is one object a line with the same names.
//!
//! Events of other crates (targets outside `rmq_watcher`) are written from WARNING on whatever the level: the debug lines of
//! HTTP and TLS crates hold bodies and credentials. Those of the AMQP library are not written at all. A line that would be too long is cut visibly; a JSON line stays valid
//! JSON and loses its fields before its message.

use std::time::Duration;

use serde_json::{Map, Value};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::layer::{Context, Layer};
use tracing_subscriber::registry::LookupSpan;

use super::fields::{Fields, push_text};
use super::line::{self, MAX_LINE_BYTES};
use super::writer::LogHandle;
use crate::config::log::{LogFormat, LogLevel, LogSettings};

/// Crates whose lines are not written at all: the AMQP library says every lost connection and refused call several times at
/// ERROR, each of which comes back to us as a value and is said once, in a person's words.
const SILENT: &[&str] = &["lapin", "async_rs"];

/// Turns events into lines and hands them to the writer.
pub(super) struct LineLayer {
    level: LevelFilter,
    format: LogFormat,
    handle: LogHandle,
}

impl LineLayer {
    pub(super) fn new(settings: LogSettings, handle: LogHandle) -> Self {
        let level = match settings.level {
            LogLevel::Error => LevelFilter::ERROR,
            LogLevel::Warn => LevelFilter::WARN,
            LogLevel::Info => LevelFilter::INFO,
            LogLevel::Debug => LevelFilter::DEBUG,
            LogLevel::Trace => LevelFilter::TRACE,
        };
        Self { level, format: settings.format, handle }
    }

    fn wants(&self, metadata: &Metadata<'_>) -> bool {
        let target = metadata.target();
        let ours = target == "rmq_watcher" || target.starts_with("rmq_watcher::");
        let crate_name = target.split("::").next().unwrap_or(target);
        let limit = if ours { self.level } else { self.level.min(LevelFilter::WARN) };
        !SILENT.contains(&crate_name) && *metadata.level() <= limit
    }
}

impl<S> Layer<S> for LineLayer
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> tracing::subscriber::Interest {
        if self.wants(metadata) {
            tracing::subscriber::Interest::always()
        } else {
            tracing::subscriber::Interest::never()
        }
    }

    fn enabled(&self, metadata: &Metadata<'_>, _: Context<'_, S>) -> bool {
        self.wants(metadata)
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(self.level)
    }

    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        if let Some(span) = context.span(id) {
            let mut fields = Fields::default();
            attributes.record(&mut fields);
            span.extensions_mut().insert(fields);
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        if let Some(span) = context.span(id)
            && let Some(fields) = span.extensions_mut().get_mut::<Fields>()
        {
            values.record(fields);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        if let Some(scope) = context.event_scope(event) {
            for span in scope {
                if let Some(of_span) = span.extensions().get::<Fields>() {
                    for (name, value) in &of_span.others {
                        if !fields.others.iter().any(|(known, _)| known == name) {
                            fields.others.push((name.clone(), value.clone()));
                        }
                    }
                }
            }
        }
        let metadata = event.metadata();
        let who = if metadata.target().starts_with("rmq_watcher") { line::WATCHER } else { metadata.target() };
        let level = level_of(*metadata.level());
        self.handle.push(render(self.format, line::now(), level, who, &fields.message, &fields.others));
    }
}

fn level_of(level: Level) -> LogLevel {
    if level == Level::ERROR {
        LogLevel::Error
    } else if level == Level::WARN {
        LogLevel::Warn
    } else if level == Level::INFO {
        LogLevel::Info
    } else if level == Level::DEBUG {
        LogLevel::Debug
    } else {
        LogLevel::Trace
    }
}

/// A finished line, newline included, of at most [`MAX_LINE_BYTES`] bytes.
pub(super) fn render(
    format: LogFormat,
    time: Duration,
    level: LogLevel,
    who: &str,
    message: &str,
    fields: &[(String, Value)],
) -> String {
    match format {
        LogFormat::Text => {
            let mut text = String::new();
            line::escape_into(&mut text, message);
            for (name, value) in fields {
                push_text(&mut text, name, value);
            }
            line::text(time, who, level, &text)
        }
        LogFormat::Json => json(time, level, who, message, fields),
    }
}

fn json(time: Duration, level: LogLevel, who: &str, message: &str, fields: &[(String, Value)]) -> String {
    let mut object = Map::new();
    object.insert("timestamp".to_owned(), line::timestamp(time).into());
    object.insert("level".to_owned(), line::level_word(level).into());
    object.insert("logger".to_owned(), who.into());
    object.insert("message".to_owned(), message.into());
    let mut whole = object.clone();
    for (name, value) in fields {
        whole.entry(name.clone()).or_insert_with(|| value.clone());
    }
    let text = Value::Object(whole).to_string();
    if text.len() < MAX_LINE_BYTES {
        return text + "\n";
    }
    let cut = text.len();
    if let Some((_, event)) = fields.iter().find(|(name, _)| name == "event") {
        object.insert("event".to_owned(), event.clone());
    }
    object.insert("cut_from_bytes".to_owned(), cut.into());
    let mut keep = message.len();
    loop {
        let text = Value::Object(object.clone()).to_string();
        if text.len() < MAX_LINE_BYTES {
            return text + "\n";
        }
        // Escapes make a character up to six bytes long, so half is tried until it fits. The empty message always does.
        keep /= 2;
        while !message.is_char_boundary(keep) {
            keep -= 1;
        }
        object.insert("message".to_owned(), message.get(..keep).unwrap_or_default().into());
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]
mod tests;
