//! Fires as text: a table, and the chain of one message.

use serde_json::Value;

use super::WIDTH;
use super::table::{Cell, Column, Paint, Row, lines};
use super::text::{instant, plain, wrap};
use crate::domain::fire::{FailedAttempt, Fire, Judged, Message, Told, Word};

/// The columns of the table of fires.
const COLUMNS: [Column; 5] = [
    Column { title: "DELIVERED", is_number: false, may_be_cut: false },
    Column { title: "OUTCOME", is_number: false, may_be_cut: false },
    Column { title: "DAG", is_number: false, may_be_cut: true },
    Column { title: "QUEUE", is_number: false, may_be_cut: true },
    Column { title: "RUN", is_number: false, may_be_cut: true },
];

/// The table of fires.
pub(crate) fn fires(rows: &[Fire], paint: Paint) -> Vec<String> {
    if rows.is_empty() {
        return vec!["No fires.".to_owned()];
    }
    let rows: Vec<Row> = rows.iter().map(row).collect();
    lines(&COLUMNS, &rows, WIDTH, paint)
}

fn row(fire: &Fire) -> Row {
    let word = fire.word();
    Row {
        cells: vec![
            Cell::of(&instant(fire.delivered_at_ms)),
            Cell::toned(word.code(), word.tone()),
            Cell::of(fire.dag_id.as_deref().unwrap_or("")),
            Cell::of(&fire.queue),
            Cell::of(fire.run_id.as_deref().unwrap_or("")),
        ],
        below: fire.reason.clone(),
    }
}

/// One fire on lines of its own, for who follows: names stand in full.
pub(crate) fn followed(fire: &Fire, paint: Paint) -> String {
    let (word, or_none) = (fire.word(), |text: &Option<String>| plain(text.as_deref().unwrap_or("-")));
    let reason = fire.reason.as_deref().map(|reason| format!("  {}", plain(reason))).unwrap_or_default();
    format!(
        "{}  {}  {}  {}  {}{reason}",
        instant(fire.delivered_at_ms),
        paint.tone(&format!("{:<9}", word.code()), word.tone()),
        or_none(&fire.dag_id),
        plain(&fire.queue),
        or_none(&fire.run_id),
    )
}

/// All that is known of messages, each as a chain from its delivery to its settlement.
pub(crate) fn chains(messages: &[Message], paint: Paint) -> Vec<String> {
    let mut all = Vec::new();
    if messages.len() > 1 {
        all.push(format!("{} messages go by this name.", messages.len()));
        all.push(String::new());
    }
    for (at, message) in messages.iter().enumerate() {
        if at > 0 {
            all.push(String::new());
        }
        let id = message.message_id.as_deref().filter(|id| !id.is_empty()).unwrap_or("without an id");
        let title = format!("MESSAGE {id} in queue {}, connection {}", message.queue, message.conn_id);
        all.extend(wrap(&plain(&title), WIDTH).iter().map(|line| paint.heading(line)));
        message.fires.iter().for_each(|told| all.extend(chain(told, paint)));
        message.verdicts.iter().for_each(|judged| all.extend(verdicts(judged, paint)));
    }
    all
}

fn chain(Told { fire, failed_attempts }: &Told, paint: Paint) -> Vec<String> {
    let word = fire.word();
    let who = match (&fire.dag_id, fire.subscription_id) {
        (Some(dag), Some(id)) => format!("DAG {dag}, subscription {id}"),
        (Some(dag), None) => format!("DAG {dag}"),
        (None, _) => "no DAG".to_owned(),
    };
    let indent = word.code().len() + 4;
    let mut who = wrap(&plain(&who), WIDTH - indent).into_iter();
    let first = format!("  {}  {}", paint.tone(word.code(), word.tone()), who.next().unwrap_or_default());
    let mut all = vec![String::new(), first];
    all.extend(who.map(|line| format!("{}{line}", " ".repeat(indent))));
    let mut say = |at_ms: Option<i64>, text: String| {
        let at = at_ms.map_or_else(|| " ".repeat(20), instant);
        let mut lines = wrap(&plain(&text), WIDTH - 26).into_iter();
        all.push(format!("    {at}  {}", lines.next().unwrap_or_default()));
        all.extend(lines.map(|line| format!("{}{line}", " ".repeat(26))));
    };
    let again = if fire.redelivered { ", redelivered" } else { "" };
    let matched = if fire.dag_id.is_some() { ", matched" } else { "" };
    say(Some(fire.delivered_at_ms), format!("delivered{again}{matched}"));
    say(None, format!("told by its {} {}", kind(fire), fire.key));
    if fire.deliveries > 1 {
        say(None, format!("{} deliveries in all; the last in epoch {}", fire.deliveries, epoch(fire)));
    } else {
        say(None, format!("epoch {}", epoch(fire)));
    }
    if fire.replays > 0 {
        say(None, format!("refused and put back {}", times(fire.replays)));
    }
    if fire.copies > 0 {
        say(None, format!("published again near the end of its delivery budget, {}", times(fire.copies)));
    }
    let mut asked =
        fire.sent_at_ms.zip(fire.run_id.as_ref()).map(|(at_ms, run_id)| (at_ms, format!("run asked for: {run_id}")));
    let mut before = 0;
    for FailedAttempt { number, at_ms, run_id, answer } in failed_attempts {
        if *number > before + 1 {
            say(None, format!("… {} more …", number - before - 1));
        }
        before = *number;
        if let Some((sent_at_ms, text)) = asked.take_if(|(sent_at_ms, _)| *sent_at_ms <= *at_ms) {
            say(Some(sent_at_ms), text);
        }
        let other = if Some(run_id) == fire.run_id.as_ref() { String::new() } else { format!(" ({run_id})") };
        say(Some(*at_ms), format!("{answer}{other}"));
    }
    if let Some((at_ms, text)) = asked {
        say(Some(at_ms), text);
    }
    say_end(fire, word, &mut say);
    all
}

/// How it ended, as far as it has.
fn say_end(fire: &Fire, word: Word, say: &mut impl FnMut(Option<i64>, String)) {
    if word == Word::Gone {
        say(fire.settled_at_ms, "gone: purged, taken by another consumer, or settled unnoticed".to_owned());
        return;
    }
    if word != Word::Open {
        let reason = fire.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
        say(fire.decided_at_ms, format!("{}{reason}", word.code()));
    }
    if let Some(bytes) = fire.kept_bytes {
        say(None, format!("kept in the state file: row {}, {bytes} bytes", fire.id));
    }
    match fire.settled_at_ms {
        Some(at_ms) => say(Some(at_ms), "settled, confirmed by the broker".to_owned()),
        None => say(None, format!("not settled: {}", fire.state)),
    }
}

fn kind(fire: &Fire) -> &str {
    match fire.key_kind.as_str() {
        "message_id" => "message id",
        "dedup_key" => "dedup_key",
        _ => "fingerprint",
    }
}

fn epoch(fire: &Fire) -> String {
    if fire.epoch == 0 { "none: it was given back".to_owned() } else { fire.epoch.to_string() }
}

fn times(n: u32) -> String {
    if n == 1 { "once".to_owned() } else { format!("{n} times") }
}

fn verdicts(judged: &Judged, paint: Paint) -> Vec<String> {
    let again = if judged.redelivered { ", redelivered" } else { "" };
    let title = format!("  {}  delivered{again}, judged; epoch {}", instant(judged.at_ms), judged.epoch);
    let mut all = vec![String::new(), paint.heading(&title)];
    for said in &judged.said {
        let text = |name: &str| said.get(name).and_then(Value::as_str).unwrap_or("").to_owned();
        let id = said.get("subscription_id").map(ToString::to_string).unwrap_or_default();
        let off = if said.get("takes_part") == Some(&Value::Bool(false)) { ", which does not run" } else { "" };
        let mut line = format!("subscription {id} (DAG {}){off}: {}", text("dag_id"), text("verdict"));
        let because = text("because");
        if !because.is_empty() {
            line.push_str(&format!(", {because}"));
        }
        all.extend(wrap(&plain(&line), WIDTH - 6).iter().map(|line| format!("    {line}")));
    }
    all
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use unicode_width::UnicodeWidthStr as _;

    use super::*;
    use crate::domain::fire::tests_support::fire;

    #[test]
    fn long_and_hostile_names_fit_eighty_columns_and_rule_no_terminal() {
        let hostile = "日本\u{1b}[2J\n".repeat(30);
        let evil = Fire {
            dag_id: Some(hostile.clone()),
            queue: hostile.clone(),
            key: hostile.clone(),
            message_id: Some(hostile.clone()),
            run_id: Some(hostile.clone()),
            reason: Some(hostile.clone()),
            outcome: Some("dlq".into()),
            ..fire(1)
        };
        let attempt = FailedAttempt { number: 1, at_ms: 5, run_id: "other".into(), answer: hostile.clone() };
        let judged = Judged {
            at_ms: 1,
            conn_id: hostile.clone(),
            queue: hostile.clone(),
            epoch: 1,
            redelivered: true,
            key_kind: "message_id".into(),
            key: hostile.clone(),
            said: vec![json!({"subscription_id": 2, "dag_id": hostile, "verdict": "miss", "because": hostile})],
        };
        let message = Message {
            conn_id: hostile.clone(),
            queue: hostile.clone(),
            message_id: Some(hostile.clone()),
            fires: vec![Told { fire: evil.clone(), failed_attempts: vec![attempt] }],
            verdicts: vec![judged],
        };
        let table = fires(&[evil.clone(), fire(2)], Paint::Plain);
        for line in table.iter().chain(&chains(&[message], Paint::Plain)) {
            assert!(line.width() <= WIDTH, "{} columns: {line}", line.width());
            assert!(!line.chars().any(char::is_control), "{line:?}");
        }
        assert!(!followed(&evil, Paint::Plain).chars().any(char::is_control));
    }

    #[test]
    fn a_chain_goes_by_time() {
        let attempt = |number, at_ms| FailedAttempt {
            number,
            at_ms,
            run_id: "rmq__q__m".into(),
            answer: format!("answer {number}"),
        };
        let told = Told { fire: fire(1), failed_attempts: vec![attempt(1, 900), attempt(2, 1_001), attempt(3, 1_200)] };
        let text = chain(&told, Paint::Plain).join("\n");
        let places = ["answer 1", "run asked for", "answer 2", "answer 3", "settled"].map(|part| text.find(part));
        assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{text}");
    }

    #[test]
    fn a_message_that_no_filter_accepted_is_not_said_to_match() {
        let unread = Fire { subscription_id: None, dag_id: None, run_id: None, outcome: Some("dlq".into()), ..fire(1) };
        let text = chain(&Told { fire: unread, failed_attempts: Vec::new() }, Paint::Plain).join("\n");
        assert!(text.contains("dlq  no DAG") && !text.contains("matched"), "{text}");
    }

    #[test]
    fn attempts_that_were_left_out_are_counted() {
        let attempt = |number| FailedAttempt { number, at_ms: 5, run_id: "rmq__q__m".into(), answer: "503".into() };
        let text =
            chain(&Told { fire: fire(1), failed_attempts: vec![attempt(1), attempt(9)] }, Paint::Plain).join("\n");
        assert!(text.contains("… 7 more …"), "{text}");
    }
}
