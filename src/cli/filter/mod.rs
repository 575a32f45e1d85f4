//! `rmq-watcher filter test`: what a filter says of a message, condition by condition.
//!
//! The message comes from a file, or from the head of a queue: that one is taken and given back, which is said and asked first.

mod message_file;
mod peek;

use std::fs::File;
use std::io::{self, Read as _, Write};
use std::path::PathBuf;

use clap::{ArgGroup, Args, Subcommand};
use serde_json::{Value, json};

use message_file::MessageFile;
use peek::{Order, Peeked, Refused};

use crate::domain::content::{Content as Carried, content};
use crate::domain::filter::{Content, Explained, Filter, Message, Verdict};
use crate::domain::ids::{ConnId, QueueName};

/// Exit codes of `filter test`.
const MATCH: i32 = 0;
const MISS: i32 = 1;
const USAGE: i32 = 2;
const ERROR: i32 = 3;
const NO_MESSAGE: i32 = 4;

/// The largest file that is read: the largest message RabbitMQ hands out, as base64, and some room.
const MAX_FILE: u64 = 32 * 1024 * 1024;

/// Try filters.
#[derive(Args, Debug)]
pub struct FilterArgs {
    #[command(subcommand)]
    verb: FilterVerb,
}

#[derive(Subcommand, Debug)]
enum FilterVerb {
    /// Say whether a filter matches a message, and why. Exit code: 0 match, 1 miss, 2 wrong usage, 3 the message cannot be judged,
    /// 4 no message could be had from the queue.
    Test(Test),
}

#[derive(Args, Debug)]
#[command(group = ArgGroup::new("source").required(true))]
struct Test {
    /// The `filter_data`, as JSON or as @FILE with the JSON in it.
    #[arg(long, value_name = "JSON|@FILE")]
    filter: String,
    /// A file with the message as a JSON object: body or body_b64, headers, properties, routing_key. The conf of a run will do.
    #[arg(long, value_name = "FILE", group = "source")]
    message: Option<String>,
    /// Take the message at the head of a queue, and give it back. On a quorum queue that costs it one delivery of its budget.
    #[arg(long, value_name = "QUEUE", group = "source")]
    peek: Option<String>,
    /// The connection of that queue.
    #[arg(long, value_name = "ID", default_value = "rmq_default", conflicts_with = "message")]
    conn_id: String,
    /// Do not ask before the message is taken.
    #[arg(long, conflicts_with = "message")]
    yes: bool,
    /// The configuration file, for the connection.
    #[arg(long, value_name = "FILE", conflicts_with = "message")]
    config: Option<PathBuf>,
    /// Answer with a JSON object.
    #[arg(long)]
    json: bool,
}

/// Runs the verb; returns the exit code.
///
/// # Errors
/// The output could not be written.
pub async fn run(args: FilterArgs, out: &mut dyn Write) -> io::Result<i32> {
    let FilterVerb::Test(test) = args.verb;
    let (sentence, code) = match filter(&test) {
        Ok(filter) => match message(&test).await {
            Ok(message) => return judge(&filter, &message, test.json, out),
            Err(Refused::Usage(sentence)) => (sentence, USAGE),
            Err(Refused::NoMessage(sentence)) => (sentence, NO_MESSAGE),
        },
        Err(sentence) => (sentence, USAGE),
    };
    writeln!(io::stderr(), "{sentence}")?;
    Ok(code)
}

fn judge(filter: &Filter, message: &Given, json: bool, out: &mut dyn Write) -> io::Result<i32> {
    let carried = match message {
        Given::File(_) => None,
        Given::Peeked(peeked) => Some(content(&peeked.envelope, peeked.limits)),
    };
    let unreadable;
    let message = match (message, &carried) {
        (Given::File(file), _) => Message { headers: &file.headers, body: Content::Bytes(&file.body) },
        (Given::Peeked(peeked), carried) => {
            let body = match carried {
                Some(Carried::Inline(unpacked)) => Content::Bytes(&unpacked.body),
                Some(Carried::Refused(too_large)) => {
                    unreadable = too_large.to_string();
                    Content::Unreadable(&unreadable)
                }
                Some(Carried::File) | None => Content::Unreadable("it is over consume.max_body_bytes"),
            };
            Message { headers: &peeked.envelope.headers, body }
        }
    };
    let verdict = filter.evaluate(&message);
    let lines = filter.explain(&message);
    if json {
        writeln!(out, "{}", as_json(&verdict, &lines))?;
    } else {
        print(&verdict, &lines, out)?;
    }
    Ok(match verdict {
        Verdict::Match => MATCH,
        Verdict::Miss(_) => MISS,
        Verdict::Error(_) => ERROR,
    })
}

/// A message, wherever it comes from.
enum Given {
    File(MessageFile),
    Peeked(Box<Peeked>),
}

fn filter(test: &Test) -> Result<Filter, String> {
    let text = match test.filter.strip_prefix('@') {
        Some(path) => text_of("--filter", path)?,
        None => test.filter.clone(),
    };
    let data: Value = serde_json::from_str(&text).map_err(|error| format!("--filter: this is not JSON: {error}"))?;
    Filter::parse(&data).map_err(|problem| format!("--filter: {problem}"))
}

async fn message(test: &Test) -> Result<Given, Refused> {
    if let Some(queue) = &test.peek {
        let (queue, conn_id) = (QueueName::new(queue), ConnId::new(&test.conn_id));
        let order = Order { queue, conn_id, config: test.config.clone(), yes: test.yes };
        return peek::peek(&order).await.map(|peeked| Given::Peeked(Box::new(peeked)));
    }
    // The command line has seen to it that there is one of both.
    let path = test.message.as_deref().unwrap_or_default();
    file(path).map(Given::File).map_err(Refused::Usage)
}

fn file(path: &str) -> Result<MessageFile, String> {
    let text = text_of("--message", path)?;
    let value: Value =
        serde_json::from_str(&text).map_err(|error| format!("--message: {path} is not JSON: {error}"))?;
    message_file::read(&value).map_err(|sentence| format!("--message: {path}: {sentence}"))
}

fn text_of(flag: &str, path: &str) -> Result<String, String> {
    let failed = |error: io::Error| format!("{flag}: read {path}: {error}");
    let mut text = String::new();
    File::open(path).map_err(failed)?.take(MAX_FILE + 1).read_to_string(&mut text).map_err(failed)?;
    if text.len() as u64 > MAX_FILE {
        return Err(format!("{flag}: {path} is larger than {MAX_FILE} bytes"));
    }
    Ok(text)
}

fn print(verdict: &Verdict, lines: &[Explained], out: &mut dyn Write) -> io::Result<()> {
    match verdict {
        Verdict::Match => writeln!(out, "match")?,
        Verdict::Miss(clause) => writeln!(out, "miss   {clause}")?,
        Verdict::Error(reason) => writeln!(out, "error  {reason}")?,
    }
    if !lines.is_empty() {
        writeln!(out)?;
    }
    for line in lines {
        let Explained { level, subject, expected, found, verdict } = line;
        let indent = "  ".repeat(*level);
        write!(out, "{:<5}  {indent}`{subject}`: expected {expected}", verdict.code())?;
        match (found, verdict) {
            (_, Verdict::Error(reason)) => writeln!(out, "; {}: {reason}", reason.code())?,
            (Some(found), Verdict::Match | Verdict::Miss(_)) => writeln!(out, ", found {found}")?,
            (None, Verdict::Match | Verdict::Miss(_)) => writeln!(out)?,
        }
    }
    Ok(())
}

fn as_json(verdict: &Verdict, lines: &[Explained]) -> Value {
    let answer = |verdict: &Verdict| match verdict {
        Verdict::Match => json!({"verdict": "match"}),
        Verdict::Miss(clause) => json!({"verdict": "miss", "why": clause.to_string()}),
        Verdict::Error(reason) => json!({"verdict": "error", "reason": reason.code(), "why": reason.to_string()}),
    };
    let mut whole = answer(verdict);
    let lines = lines.iter().map(|line| {
        let mut shown = answer(&line.verdict);
        shown["level"] = json!(line.level);
        shown["subject"] = json!(*line.subject);
        shown["expected"] = json!(line.expected);
        shown["found"] = json!(line.found);
        shown
    });
    whole["conditions"] = Value::Array(lines.collect());
    whole
}
