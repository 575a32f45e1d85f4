//! `rmq-watcher filter test`: what a filter says of a message, condition by condition. Reads files and changes nothing.

use std::fs::File;
use std::io::{self, Read as _, Write};

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::message_file::{self, MessageFile};
use crate::domain::filter::{Content, Explained, Filter, Message, Verdict};

/// Exit codes of `filter test`.
const MATCH: i32 = 0;
const MISS: i32 = 1;
const USAGE: i32 = 2;
const ERROR: i32 = 3;

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
    /// Say whether a filter matches a message, and why. Exit code: 0 match, 1 miss, 2 wrong usage, 3 the message cannot be judged.
    Test(Test),
}

#[derive(Args, Debug)]
struct Test {
    /// The `filter_data`, as JSON or as @FILE with the JSON in it.
    #[arg(long, value_name = "JSON|@FILE")]
    filter: String,
    /// A file with the message as a JSON object: body or body_b64, headers, properties, routing_key. The conf of a run will do.
    #[arg(long, value_name = "FILE")]
    message: String,
    /// Answer with a JSON object.
    #[arg(long)]
    json: bool,
}

/// Runs the verb; returns the exit code.
///
/// # Errors
/// The output could not be written.
pub fn run(args: &FilterArgs, out: &mut dyn Write) -> io::Result<i32> {
    let FilterVerb::Test(test) = &args.verb;
    let (filter, message) = match read(test) {
        Ok(read) => read,
        Err(sentence) => {
            writeln!(io::stderr(), "{sentence}")?;
            return Ok(USAGE);
        }
    };
    let message = Message { headers: &message.headers, body: Content::Bytes(&message.body) };
    let verdict = filter.evaluate(&message);
    let lines = filter.explain(&message);
    if test.json {
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

fn read(test: &Test) -> Result<(Filter, MessageFile), String> {
    let text = match test.filter.strip_prefix('@') {
        Some(path) => text_of("--filter", path)?,
        None => test.filter.clone(),
    };
    let data: Value = serde_json::from_str(&text).map_err(|error| format!("--filter: this is not JSON: {error}"))?;
    let filter = Filter::parse(&data).map_err(|problem| format!("--filter: {problem}"))?;
    let path = &test.message;
    let text = text_of("--message", path)?;
    let value: Value =
        serde_json::from_str(&text).map_err(|error| format!("--message: {path} is not JSON: {error}"))?;
    let message = message_file::read(&value).map_err(|sentence| format!("--message: {path}: {sentence}"))?;
    Ok((filter, message))
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
