//! `rmq-watcher status`: the watcher, its connections and its subscriptions, also when it is dead.
//!
//! Reads the state file and the lock, and asks nobody: neither Airflow, nor a broker, nor the watcher itself.

use std::io::{self, IsTerminal as _, Write};
use std::path::PathBuf;
use std::time::Duration;

use super::show::{Paint, instant, overview};
use super::state::{self, NOTHING_TO_SHOW};
use crate::app::now_ms;
use crate::domain::view::{View, view};

/// How often `--watch` looks again.
const AGAIN: Duration = Duration::from_secs(2);

/// Takes the cursor to the top and clears what stands below it.
const TO_THE_TOP: &str = "\u{1b}[H\u{1b}[2J";

/// What is asked for.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Print JSON, nothing cut; with --watch one line each time.
    #[arg(long)]
    json: bool,
    /// Look again every 2 seconds, until Ctrl-C.
    #[arg(long)]
    watch: bool,
    /// The configuration file.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

/// Runs the verb; returns the exit code: 0 all is well, 1 something is wrong, 2 there is nothing to show.
///
/// # Errors
/// The output could not be written.
pub async fn run(args: Args, out: &mut dyn Write) -> io::Result<i32> {
    loop {
        let code = once(&args, out)?;
        out.flush()?;
        if !args.watch {
            return Ok(code);
        }
        tokio::time::sleep(AGAIN).await;
    }
}

fn once(args: &Args, out: &mut dyn Write) -> io::Result<i32> {
    let seen = state::dir(args.config.as_deref()).and_then(|dir| state::read(&dir)).map(|facts| view(facts, now_ms()));
    match seen {
        Ok(view) => {
            draw(args, &view, out)?;
            Ok(i32::from(!view.is_well))
        }
        Err(sentence) => {
            writeln!(io::stderr(), "{sentence}")?;
            Ok(NOTHING_TO_SHOW)
        }
    }
}

fn draw(args: &Args, view: &View, out: &mut dyn Write) -> io::Result<()> {
    if args.json {
        return if args.watch {
            serde_json::to_writer(&mut *out, view).map_err(io::Error::from).and_then(|()| writeln!(out))
        } else {
            serde_json::to_writer_pretty(&mut *out, view).map_err(io::Error::from).and_then(|()| writeln!(out))
        };
    }
    if args.watch {
        let again = if io::stdout().is_terminal() { TO_THE_TOP } else { "" };
        writeln!(out, "{again}{}, every {} s until Ctrl-C\n", instant(view.at_ms), AGAIN.as_secs())?;
    }
    overview(view, paint()).iter().try_for_each(|line| writeln!(out, "{line}"))?;
    if args.watch { writeln!(out) } else { Ok(()) }
}

/// Colours on a terminal, unless somebody wants none.
///
/// Source: no-color.org, "when present and not an empty string".
pub(super) fn paint() -> Paint {
    let is_set = |name: &str, wanted: fn(&str) -> bool| std::env::var(name).is_ok_and(|value| wanted(&value));
    let is_unwanted = is_set("NO_COLOR", |value| !value.is_empty()) || is_set("TERM", |value| value == "dumb");
    if io::stdout().is_terminal() && !is_unwanted { Paint::Colours } else { Paint::Plain }
}
