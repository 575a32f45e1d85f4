//! `rmq-watcher why`: what became of one message, from its delivery to its settlement. Reads the state file and asks nobody, also while
//! no watcher runs.

use std::io::{self, Write};
use std::path::PathBuf;

use super::show::{chains, plain};
use super::state::{self, NOTHING_TO_SHOW};
use super::status::paint;
use crate::store;

/// Nothing is known of it.
const UNKNOWN: i32 = 1;

/// What is asked for.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// A message id, the id of a run, the value of a `dedup_key`, or a fingerprint.
    #[arg(value_name = "MESSAGE-ID | RUN-ID", allow_hyphen_values = true)]
    name: String,
    /// Print JSON, nothing cut.
    #[arg(long)]
    json: bool,
    /// The configuration file.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

/// Runs the verb; returns the exit code: 0 shown, 1 nothing is known of it, 2 there is nothing to show.
///
/// # Errors
/// The output could not be written.
pub fn run(args: &Args, out: &mut dyn Write) -> io::Result<i32> {
    let known = state::dir(args.config.as_deref())
        .and_then(|dir| store::view::why(&dir, &args.name).map_err(|error| error.to_string()));
    let messages = match known {
        Ok(messages) => messages,
        Err(sentence) => return writeln!(io::stderr(), "{sentence}").map(|()| NOTHING_TO_SHOW),
    };
    if messages.is_empty() {
        let sentence = format!(
            "nothing is known of {}: no message of that id and no run of that id came through this state file, or it is longer ago \
             than history.keep_days and history.keep_rows; `rmq-watcher fires` shows the newest. What filters let pass is \
             written down within a minute",
            plain(&args.name)
        );
        return writeln!(io::stderr(), "{sentence}").map(|()| UNKNOWN);
    }
    if args.json {
        serde_json::to_writer_pretty(&mut *out, &messages)?;
        return writeln!(out).map(|()| 0);
    }
    chains(&messages, paint()).iter().try_for_each(|line| writeln!(out, "{line}")).map(|()| 0)
}
