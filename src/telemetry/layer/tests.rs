use super::*;

fn field(name: &str, value: impl Into<Value>) -> (String, Value) {
    (name.to_owned(), value.into())
}

#[test]
fn text_line_has_airflow_s_shape() {
    let line = render(
        LogFormat::Text,
        Duration::from_millis(1_796_054_400_120),
        LogLevel::Warn,
        line::WATCHER,
        "something\nhappened",
        &[
            field("event", "thing.happened"),
            field("queue.name", "a b"),
            field("quote", "say \"x\"\\\n"),
            field("count", 3),
            field("empty", ""),
        ],
    );
    assert_eq!(
        line,
        "[2026-11-30T16:00:00.120+0000] {rmq-watcher} WARNING - something\\nhappened event=thing.happened \
         queue.name=\"a b\" quote=\"say \\\"x\\\"\\\\\\n\" count=3 empty=\"\"\n"
    );
}

#[test]
fn json_line_is_one_object() {
    let line = render(
        LogFormat::Json,
        Duration::from_millis(1_796_054_400_120),
        LogLevel::Info,
        line::WATCHER,
        "two\nlines",
        &[field("event", "thing.happened"), field("count", 3)],
    );
    assert_eq!(line.matches('\n').count(), 1);
    let value: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(
        value,
        serde_json::json!({"timestamp": "2026-11-30T16:00:00.120+0000", "level": "INFO", "logger": "rmq-watcher",
                           "message": "two\nlines", "event": "thing.happened", "count": 3})
    );
}

#[test]
fn json_line_too_long_stays_valid_and_keeps_the_event() {
    for message in ["\u{1}".repeat(9000), "ä".repeat(9000), "short".to_owned()] {
        let line = render(
            LogFormat::Json,
            Duration::ZERO,
            LogLevel::Info,
            line::WATCHER,
            &message,
            &[field("event", "thing.happened"), field("long", "y".repeat(9000))],
        );
        assert!(line.len() <= MAX_LINE_BYTES, "{}", line.len());
        let value: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(value["event"], "thing.happened");
        assert!(value["cut_from_bytes"].as_u64().unwrap() > 9000);
        assert!(message.starts_with(value["message"].as_str().unwrap()));
    }
}

#[test]
fn layer_writes_span_fields_after_the_event_s_own() {
    let (layer, out) = layer_into_memory(LogLevel::Info);
    tracing::subscriber::with_default(layer, || {
        let span = tracing::info_span!("delivery", run.id = "r1", late = tracing::field::Empty);
        let _in = span.enter();
        span.record("late", 7);
        tracing::info!(event = "run.started", "started");
        tracing::debug!("not written");
    });
    let text = out();
    assert!(text.ends_with("{rmq-watcher} INFO - started event=run.started run.id=r1 late=7\n"), "{text}");
}

#[test]
fn layer_writes_other_crates_from_warning_on_and_the_amqp_library_never() {
    let (layer, out) = layer_into_memory(LogLevel::Trace);
    tracing::subscriber::with_default(layer, || {
        tracing::trace!(target: "rmq_watcher::broker", "ours");
        tracing::info!(target: "hyper::proto", "password in a header");
        tracing::info!(target: "rmq_watcher_plugin", "somebody else");
        tracing::error!(target: "lapin::channel", "said by us in better words");
        tracing::warn!(target: "hyper::proto", "trouble");
    });
    let text = out();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 2, "{text}");
    assert!(lines[0].ends_with("{rmq-watcher} TRACE - ours"), "{text}");
    assert!(lines[1].ends_with("{hyper::proto} WARNING - trouble"), "{text}");
}

/// A subscriber whose lines stay in the queue of a handle without a writer thread, and a way to read them.
fn layer_into_memory(level: LogLevel) -> (impl Subscriber + Send + Sync, impl Fn() -> String) {
    use tracing_subscriber::layer::SubscriberExt;
    let handle = LogHandle::without_thread();
    let settings = LogSettings { level, format: LogFormat::Text };
    let layer = LineLayer::new(settings, handle.clone());
    (tracing_subscriber::registry().with(layer), move || handle.take_lines())
}
