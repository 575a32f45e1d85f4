//! The state as text: everything at a glance, and one subscription in full.

use std::collections::BTreeMap;

use super::WIDTH;
use super::table::{Cell, Column, Paint, Row, lines};
use super::text::{instant, plain, since, span, wrap};
use crate::domain::ids::SubscriptionId;
use crate::domain::view::{
    ConnectionView, MISSES_ALLOWED, Process, Reason, RefusalView, ShownStatus, SubscriptionView, Tone, View,
    WatcherState, WatcherView,
};

/// Everything at a glance.
pub(crate) fn overview(view: &View, paint: Paint) -> Vec<String> {
    let mut all = watcher(view, paint);
    if !view.connections.is_empty() {
        all.push(String::new());
        all.extend(connections(&view.connections, paint));
    }
    all.push(String::new());
    all.extend(subscriptions(&view.subscriptions, paint));
    let silent: Vec<_> = view.refusals.iter().filter(|refusal| refusal.subscriptions.is_empty()).collect();
    if !silent.is_empty() {
        all.push(String::new());
        all.push(paint.heading("REFUSED, SO NOT RUNNING"));
        let told =
            |refusal: &&RefusalView| sentence(refusal.status.code(), refusal.status.tone(), &refusal.sentence, paint);
        all.extend(silent.iter().flat_map(told));
    }
    if !view.unreadable.is_empty() {
        all.push(String::new());
        all.push(paint.heading("NOT READ, SO NOT KNOWN"));
        all.extend(view.unreadable.iter().flat_map(|one| sentence("unread", Tone::Bad, &one.sentence, paint)));
    }
    all.push(String::new());
    all.push(counted(view, silent.len()));
    all
}

/// A word in its colour, and a sentence beside it.
fn sentence(word: &str, tone: Tone, sentence: &str, paint: Paint) -> Vec<String> {
    let indent = word.len() + 2;
    let mut text = wrap(&plain(sentence), WIDTH - indent - 2).into_iter();
    let first = format!("{}  {}", paint.tone(word, tone), text.next().unwrap_or_default());
    std::iter::once(first).chain(text.map(|line| format!("{}{line}", " ".repeat(indent)))).collect()
}

/// The table of subscriptions.
pub(crate) fn subscriptions(rows: &[SubscriptionView], paint: Paint) -> Vec<String> {
    if rows.is_empty() {
        return vec!["No subscriptions.".to_owned()];
    }
    let rows: Vec<Row> = rows
        .iter()
        .map(|row| Row {
            cells: vec![
                Cell::of(&row.id.to_string()),
                Cell::of(row.dag_id.as_str()),
                Cell::of(row.queue.as_str()),
                Cell::of(row.conn_id.as_str()),
                Cell::toned(row.status.code(), row.status.tone()),
                Cell::of(&note(row)),
            ],
            below: trouble(row).map(str::to_owned),
        })
        .collect();
    let name = |title| Column { title, is_number: false, may_be_cut: true };
    let columns = [
        Column { title: "ID", is_number: true, may_be_cut: false },
        name("DAG"),
        name("QUEUE"),
        name("CONNECTION"),
        Column { title: "STATUS", is_number: false, may_be_cut: false },
        name("NOTE"),
    ];
    lines(&columns, &rows, WIDTH, paint)
}

/// What a name that is not clear may mean.
pub(crate) fn candidates(rows: &[SubscriptionView], ids: &[SubscriptionId]) -> Vec<String> {
    let meant = rows.iter().filter(|row| ids.contains(&row.id));
    meant.map(|row| plain(&format!("  {}  {}/{}/{}", row.id, row.dag_id, row.queue, row.conn_id))).collect()
}

/// One subscription in full, nothing cut.
pub(crate) fn one(row: &SubscriptionView, view: &View, paint: Paint) -> Vec<String> {
    let mut all = Vec::new();
    let mut say = |name: &str, value: &str| all.push(format!("{name:<13}{}", plain(value)));
    say("id", &row.id.to_string());
    say("dag", row.dag_id.as_str());
    say("queue", row.queue.as_str());
    say("connection", row.conn_id.as_str());
    say("declared", &format!("{} ({})", row.origin, row.source));
    say("enabled", if row.enabled { "yes" } else { "no" });
    all.push(format!("{:<13}{}", "status", paint.tone(row.status.code(), row.status.tone())));
    let mut say = |name: &str, value: &str| all.push(format!("{name:<13}{}", plain(value)));
    if let Some(reason) = row.reason {
        say("why", why(reason));
    }
    if let Some(said) = &row.said {
        say("said last", said);
    }
    if let Some(refusal) = &row.refusal {
        say("refused", refusal);
    }
    if let Some(at_ms) = row.changed_at_ms {
        say("changed", &format!("{} ({} ago)", instant(at_ms), since(at_ms, view.at_ms)));
    }
    if let Some(error) = &row.last_error {
        say("last error", error);
    }
    if let Some(tag) = &row.consumer_tag {
        say("consumer", tag);
    }
    if row.misses > 0 {
        say("missed by", &missed(row.misses));
    }
    if row.options.is_empty() {
        say("options", "all at their defaults");
    }
    for (name, value) in &row.options {
        say("option", &format!("{name} = {value}"));
    }
    all
}

fn missed(misses: u32) -> String {
    format!("{misses} of {MISSES_ALLOWED} scans; the one after those deletes it")
}

fn why(reason: Reason) -> &'static str {
    match reason {
        Reason::Disabled => "it is switched off",
        Reason::Refused => "its declaration was refused",
        Reason::WatcherDead => "no watcher runs",
        Reason::WatcherStalled => "the watcher is stalled",
        Reason::WatcherStarting => "the watcher has only just begun",
    }
}

/// The few words beside a status.
fn note(row: &SubscriptionView) -> String {
    let mut notes = Vec::new();
    if row.reason == Some(Reason::Disabled) {
        notes.push("disabled".to_owned());
    }
    if let Some(said) = &row.said {
        notes.push(if row.reason.is_some() { format!("was {said}") } else { said.clone() });
    }
    if row.misses > 0 {
        notes.push(format!("missed {}/{MISSES_ALLOWED}", row.misses));
    }
    notes.join(", ")
}

/// The sentence below a row. A last error that is over is told in full view only.
fn trouble(row: &SubscriptionView) -> Option<&str> {
    if let Some(refusal) = &row.refusal {
        return Some(refusal);
    }
    let said = row.said.as_deref().map(|said| ShownStatus::ALL.iter().find(|status| status.code() == said));
    let tone = match (row.reason, said) {
        (Some(Reason::Disabled | Reason::Refused), _) => return None,
        (_, Some(said)) => said.map_or(Tone::Off, |status| status.tone()),
        (_, None) => row.status.tone(),
    };
    row.last_error.as_deref().filter(|_| matches!(tone, Tone::Bad | Tone::Waiting))
}

fn connections(rows: &[ConnectionView], paint: Paint) -> Vec<String> {
    let rows: Vec<Row> = rows
        .iter()
        .map(|row| {
            let mut notes: Vec<String> = row.said.iter().map(|said| format!("was {said}")).collect();
            if row.is_stale {
                notes.push("stale".to_owned());
            }
            if !row.is_in_use {
                notes.push("not in use".to_owned());
            }
            let tone = if row.is_stale && row.is_in_use { Tone::Bad } else { Tone::Off };
            let age = row.last_reconcile_age_secs.map_or_else(|| "—".to_owned(), |secs| format!("{} ago", span(secs)));
            let is_over = row.status.tone() != Tone::Bad && row.said.as_deref() != Some("error");
            Row {
                cells: vec![
                    Cell::of(row.conn_id.as_str()),
                    Cell::toned(row.status.code(), row.status.tone()),
                    Cell::of(&row.consumers.map_or_else(|| "—".to_owned(), |count| count.to_string())),
                    Cell::of(&age),
                    Cell::toned(&notes.join(", "), tone),
                ],
                below: row.last_error.clone().filter(|_| !is_over),
            }
        })
        .collect();
    let fixed = |title, is_number| Column { title, is_number, may_be_cut: false };
    let name = |title| Column { title, is_number: false, may_be_cut: true };
    let columns = [
        name("CONNECTION"),
        fixed("STATUS", false),
        fixed("CONSUMERS", true),
        fixed("LAST RECONCILE", false),
        name("NOTE"),
    ];
    lines(&columns, &rows, WIDTH, paint)
}

fn watcher(view: &View, paint: Paint) -> Vec<String> {
    let watcher = &view.watcher;
    let state = watcher.state;
    let mut text = wrap(&plain(&told(watcher, view.at_ms)), WIDTH - 9).into_iter();
    let first = text.next().unwrap_or_default();
    let first = first.replacen(state.code(), &paint.tone(state.code(), state.tone()), 1);
    let mut all = vec![format!("{}  {first}", paint.heading("WATCHER"))];
    all.extend(text.map(|line| format!("         {line}")));
    if let Some(error) = &watcher.last_error {
        all.extend(
            wrap(&plain(&format!("last cycle: {error}")), WIDTH - 9).iter().map(|line| format!("         {line}")),
        );
    }
    all
}

/// The sentence about the watcher; begins with the word for its state.
pub(super) fn told(watcher: &WatcherView, now_ms: i64) -> String {
    let WatcherView { state, pid, process, hostname, version, .. } = watcher;
    let pid = pid.map_or_else(|| "a process that is not named".to_owned(), |pid| format!("PID {pid}"));
    let whose = match (hostname, version) {
        (Some(hostname), Some(version)) => format!("{pid} on {hostname}, version {version}"),
        (_, _) => pid,
    };
    let process = process.unwrap_or(Process::NotVisible);
    let cycle = match watcher.last_cycle_age_secs {
        Some(secs) => format!("last cycle {} ago", span(secs)),
        None => "in its first cycle".to_owned(),
    };
    match state {
        WatcherState::Running => {
            let began =
                watcher.started_at_ms.map_or_else(String::new, |at_ms| format!(", for {}", since(at_ms, now_ms)));
            format!("running{began}, {cycle}; {whose}")
        }
        WatcherState::Starting => {
            format!("starting; {whose} ({process}) holds the state directory and has not begun its cycles")
        }
        WatcherState::Stalled if process == Process::Stopped => {
            format!(
                "stalled, {cycle}: its process is stopped and does nothing until SIGCONT tells it to go on; {whose} holds the state \
                 directory"
            )
        }
        WatcherState::Stalled => {
            let limit = span(watcher.stale_after_secs);
            format!("stalled, {cycle}, and one should end every {limit}; {whose} ({process}) holds the state directory")
        }
        WatcherState::Dead => match (watcher.last_seen_at_ms, watcher.stopped_at_ms) {
            (None, _) => "dead; none has run on this state file".to_owned(),
            (Some(_), Some(at_ms)) => {
                format!("dead; stopped at {} ({} ago); {whose}", instant(at_ms), since(at_ms, now_ms))
            }
            (Some(at_ms), None) => {
                format!(
                    "dead; last seen at {} ({} ago), and did not stop in order; {whose}",
                    instant(at_ms),
                    since(at_ms, now_ms)
                )
            }
        },
    }
}

/// How many there are of each status.
fn counted(view: &View, refused: usize) -> String {
    let mut by_status: BTreeMap<&str, usize> = BTreeMap::new();
    for row in &view.subscriptions {
        *by_status.entry(row.status.code()).or_default() += 1;
    }
    let each: Vec<String> = by_status.iter().map(|(status, count)| format!("{count} {status}")).collect();
    let total = view.subscriptions.len();
    let mut text = format!("{total} subscription{}", if total == 1 { "" } else { "s" });
    if total > 0 {
        text = format!("{text}: {}", each.join(", "));
    }
    if refused > 0 {
        text = format!("{text}; {refused} refused");
    }
    if !view.unreadable.is_empty() {
        text = format!("{text}; {} unread", view.unreadable.len());
    }
    text
}
