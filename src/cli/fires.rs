//! `rmq-watcher fires`: what became of the newest messages. Reads the state file and asks nobody, also while no watcher runs.

use std::collections::HashMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::show::{Paint, fires, followed, plain};
use super::state::{self, NOTHING_TO_SHOW};
use super::status::paint;
use crate::app::now_ms;
use crate::domain::fire::{Fire, Query, Word};
use crate::domain::ids::SubscriptionId;
use crate::domain::since;
use crate::domain::view::pick;
use crate::store;

/// How often `--follow` looks again, and at how many of the newest fires.
const AGAIN: Duration = Duration::from_secs(1);
const FOLLOWED: usize = 1_000;

/// What is asked for.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Only of this subscription: its number, or DAG, DAG/QUEUE or DAG/QUEUE/CONNECTION where that means only one.
    #[arg(long, value_name = "S")]
    subscription: Option<String>,
    /// Only of this outcome: started, duplicate, dropped, dlq, open (none yet) or gone (none to come).
    #[arg(long, value_name = "O")]
    outcome: Option<String>,
    /// Only of messages that were delivered since then: 90s, 30m, 2h, 7d, or a time such as 2026-11-30T22:00:00Z.
    #[arg(long, value_name = "T")]
    since: Option<String>,
    /// At most so many, the newest.
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=200_000))]
    limit: u32,
    /// Go on with new ones, and with those whose outcome becomes known, until Ctrl-C.
    #[arg(long)]
    follow: bool,
    /// Print JSON, nothing cut: a list, or with --follow one object a line.
    #[arg(long)]
    json: bool,
    /// The configuration file.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

/// Runs the verb; returns the exit code: 0 shown, 2 there is nothing to show.
///
/// # Errors
/// The output could not be written.
pub async fn run(args: Args, out: &mut dyn Write) -> io::Result<i32> {
    let asked = state::dir(args.config.as_deref()).and_then(|dir| query(&args, &dir).map(|query| (dir, query)));
    let (dir, query) = match asked {
        Ok(asked) => asked,
        Err(sentence) => return say(&sentence),
    };
    if args.follow {
        return follow(&args, &dir, query, out).await;
    }
    match store::view::fires(&dir, &query) {
        Err(error) => say(&error.to_string()),
        Ok(rows) if args.json => {
            serde_json::to_writer_pretty(&mut *out, &rows)?;
            writeln!(out).map(|()| 0)
        }
        Ok(rows) => fires(&rows, paint()).iter().try_for_each(|line| writeln!(out, "{line}")).map(|()| 0),
    }
}

fn say(sentence: &str) -> io::Result<i32> {
    writeln!(io::stderr(), "{sentence}").map(|()| NOTHING_TO_SHOW)
}

fn query(args: &Args, dir: &Path) -> Result<Query, String> {
    let subscription = args.subscription.as_deref().map(|name| subscription(name, dir)).transpose()?;
    let word = match args.outcome.as_deref() {
        None => None,
        Some(text) => Some(Word::parse(text).ok_or_else(|| {
            let all = Word::ALL.map(Word::code).join(", ");
            format!("{} is no outcome; there are {all}", plain(&format!("{text:?}")))
        })?),
    };
    let since_ms = args.since.as_deref().map(|text| since::parse(text, now_ms())).transpose()?;
    Ok(Query { subscription, word, since_ms, most: usize::try_from(args.limit).unwrap_or(usize::MAX) })
}

/// A deleted one is meant by its number as well: its fires stay.
fn subscription(name: &str, dir: &Path) -> Result<SubscriptionId, String> {
    let facts = state::read(dir)?;
    if let Ok(row) = pick(name, &facts.subscriptions) {
        return Ok(row.id);
    }
    name.parse().map(SubscriptionId).map_err(|_| {
        format!(
            "there is no single subscription {}; `rmq-watcher subscriptions list` shows all, and S is a number or \
             DAG/QUEUE/CONNECTION",
            plain(name)
        )
    })
}

/// Prints what is there, the oldest first, and then whatever is new or has another outcome.
async fn follow(args: &Args, dir: &Path, query: Query, out: &mut dyn Write) -> io::Result<i32> {
    let most = query.most;
    let newest = Query { most: FOLLOWED.max(most), word: None, ..query.clone() };
    let mut shown: HashMap<i64, Word> = HashMap::new();
    let mut is_first = true;
    loop {
        let rows = match store::view::fires(dir, &newest) {
            Ok(rows) => rows,
            Err(error) => return say(&error.to_string()),
        };
        let is_wanted = |fire: &Fire| query.word.is_none_or(|word| word == fire.word());
        let mut new: Vec<&Fire> =
            rows.iter().filter(|fire| shown.get(&fire.id) != Some(&fire.word()) && is_wanted(fire)).collect();
        if is_first {
            new.truncate(most);
        }
        for fire in new.into_iter().rev() {
            print(fire, args.json, out)?;
        }
        out.flush()?;
        shown = rows.iter().map(|fire| (fire.id, fire.word())).collect();
        is_first = false;
        tokio::time::sleep(AGAIN).await;
    }
}

fn print(fire: &Fire, is_json: bool, out: &mut dyn Write) -> io::Result<()> {
    if is_json {
        serde_json::to_writer(&mut *out, fire)?;
        return writeln!(out);
    }
    let paint: Paint = paint();
    writeln!(out, "{}", followed(fire, paint))
}
