//! How the state is shown to people: tables of 80 columns, and words for times.

mod fires;
mod table;
mod text;
mod view;

pub(super) use fires::{chains, fires, followed};
pub(super) use table::Paint;
pub(super) use text::{instant, plain};
pub(super) use view::{candidates, one, overview, subscriptions};

/// Columns of a line.
pub(super) const WIDTH: usize = 80;

#[cfg(test)]
mod tests;
