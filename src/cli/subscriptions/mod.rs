//! `rmq-watcher subscriptions`: list them, show one in full, switch one on or off.
//!
//! Looking asks nobody. Switching goes over the control socket to the watcher that runs, and is in force when the answer comes;
//! where none runs, the state file is changed under the watcher's own lock, so that none can begin in between.

mod switch;

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde_json::json;

use super::show::{candidates, instant, one, plain, subscriptions};
use super::state::{self, NOTHING_TO_SHOW};
use super::status::paint;
use crate::app::now_ms;
use crate::domain::view::{Facts, NotPicked, SubscriptionRow, SubscriptionView, View, may_switch, pick, view};
use switch::{Switch, Switched};

const DONE: i32 = 0;
const FAILED: i32 = 1;

/// What is asked for.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    order: Order,
    /// Print JSON, nothing cut.
    #[arg(long, global = true)]
    json: bool,
    /// The configuration file.
    #[arg(long, value_name = "FILE", global = true)]
    config: Option<PathBuf>,
}

#[derive(Debug, clap::Subcommand)]
enum Order {
    /// List all subscriptions.
    List,
    /// Show one in full.
    Show(Which),
    /// Switch one on.
    Enable(Which),
    /// Switch one off: its messages wait in their queue.
    Disable(Which),
}

#[derive(Debug, clap::Args)]
struct Which {
    /// Its number, or DAG, DAG/QUEUE or DAG/QUEUE/CONNECTION where that means only one.
    #[arg(value_name = "ID")]
    id: String,
}

/// Runs the verb; returns the exit code: 0 done, 1 not done, 2 there is nothing to show.
///
/// # Errors
/// The output could not be written.
pub async fn run(args: Args, out: &mut dyn Write) -> io::Result<i32> {
    let found = state::dir(args.config.as_deref()).and_then(|dir| state::read(&dir).map(|facts| (dir, facts)));
    let (dir, facts) = match found {
        Ok(found) => found,
        Err(sentence) => return say(&sentence, NOTHING_TO_SHOW),
    };
    match &args.order {
        Order::List => list(&view(facts, now_ms()), args.json, out),
        Order::Show(Which { id }) => show(id, facts, args.json, out),
        Order::Enable(Which { id }) => turn(id, true, &dir, &facts, args.json, out).await,
        Order::Disable(Which { id }) => turn(id, false, &dir, &facts, args.json, out).await,
    }
}

/// What went wrong goes to standard error, so that standard output is JSON, or nothing.
fn say(sentence: &str, code: i32) -> io::Result<i32> {
    writeln!(io::stderr(), "{sentence}").map(|()| code)
}

fn print_json(value: &impl serde::Serialize, out: &mut dyn Write) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, value)?;
    writeln!(out)
}

fn print(lines: &[String], out: &mut dyn Write) -> io::Result<()> {
    lines.iter().try_for_each(|line| writeln!(out, "{line}"))
}

fn list(view: &View, is_json: bool, out: &mut dyn Write) -> io::Result<i32> {
    if is_json {
        print_json(&view.subscriptions, out)?;
    } else {
        print(&subscriptions(&view.subscriptions, paint()), out)?;
    }
    Ok(DONE)
}

fn show(id: &str, facts: Facts, is_json: bool, out: &mut dyn Write) -> io::Result<i32> {
    let picked = pick(id, &facts.subscriptions).map(|row| row.id);
    let view = view(facts, now_ms());
    let meant = match picked {
        Ok(picked) => view.subscriptions.iter().find(|row| row.id == picked),
        Err(error) => return not_picked(id, &error, &view.subscriptions),
    };
    match meant {
        None => say(&unknown(id), FAILED),
        Some(row) if is_json => print_json(row, out).map(|()| DONE),
        Some(row) => print(&one(row, &view, paint()), out).map(|()| DONE),
    }
}

fn unknown(id: &str) -> String {
    format!(
        "there is no subscription {}; `rmq-watcher subscriptions list` shows all, and ID is a number or DAG/QUEUE/CONNECTION",
        plain(id)
    )
}

fn not_picked(id: &str, error: &NotPicked, rows: &[SubscriptionView]) -> io::Result<i32> {
    match error {
        NotPicked::Unknown => say(&unknown(id), FAILED),
        NotPicked::Several(ids) => {
            let all = candidates(rows, ids).join("\n");
            say(&format!("{} may be any of these; say which by its number:\n{all}", plain(id)), FAILED)
        }
        NotPicked::Deleted { id, at_ms } => say(
            &format!(
                "subscription {id} was deleted at {}, since no DAG file had it any more; it returns, switched as it was, when \
                 its declaration does",
                instant(*at_ms)
            ),
            FAILED,
        ),
    }
}

async fn turn(
    id: &str,
    enabled: bool,
    dir: &Path,
    facts: &Facts,
    is_json: bool,
    out: &mut dyn Write,
) -> io::Result<i32> {
    let row = match pick(id, &facts.subscriptions) {
        Ok(row) => row,
        Err(error) => return not_picked(id, &error, &view(facts.clone(), now_ms()).subscriptions),
    };
    if let Err(sentence) = may_switch(row) {
        return say(&plain(&sentence), FAILED);
    }
    let switched = if row.enabled == enabled {
        Ok(Switched::AlreadySo)
    } else {
        switch::switch(dir, Switch { id: row.id, enabled }).await
    };
    match switched {
        Err(sentence) => say(&plain(&sentence), FAILED),
        Ok(switched) => tell(row, enabled, switched, is_json, out).map(|()| DONE),
    }
}

fn tell(row: &SubscriptionRow, enabled: bool, by: Switched, is_json: bool, out: &mut dyn Write) -> io::Result<()> {
    let changed_by = match by {
        Switched::AlreadySo => None,
        Switched::ByWatcher => Some("watcher"),
        Switched::InTheFile => Some("state_file"),
    };
    if is_json {
        return print_json(&json!({"id": row.id, "enabled": enabled, "changed_by": changed_by}), out);
    }
    let SubscriptionRow { id, dag_id, queue, conn_id, .. } = row;
    let name = plain(&format!("subscription {id} (DAG {dag_id}, queue {queue}, connection {conn_id})"));
    let now = if enabled { "switched on" } else { "switched off" };
    match by {
        Switched::AlreadySo => writeln!(out, "{name} was {now} already"),
        Switched::ByWatcher => writeln!(out, "{name} is {now}"),
        Switched::InTheFile => {
            writeln!(out, "{name} is {now}; no watcher runs, so this holds from the start of the next")
        }
    }
}
