//! Tables that fit a width, and colours where somebody sees them.

use super::text::{cut, plain, width, wrap};
use crate::domain::view::Tone;

/// Between two columns.
const GAP: usize = 2;

/// A column of names is not made narrower than this.
const NARROWEST: usize = 8;

/// How far a row's own lines stand to the right, and how many of one text are shown.
const INDENT: usize = 4;
const MOST_LINES: usize = 3;

/// Whether colours are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Paint {
    /// On a terminal.
    Colours,
    /// Elsewhere, and where nobody wants them.
    Plain,
}

impl Paint {
    /// A text in the colour of a tone.
    pub(super) fn tone(self, text: &str, tone: Tone) -> String {
        let code = match tone {
            Tone::Good => "32",
            Tone::Waiting => "33",
            Tone::Bad => "31",
            Tone::Off => "2",
        };
        self.with(text, code)
    }

    /// A heading.
    pub(super) fn heading(self, text: &str) -> String {
        self.with(text, "1")
    }

    fn with(self, text: &str, code: &str) -> String {
        match self {
            Self::Colours if !text.is_empty() => format!("\u{1b}[{code}m{text}\u{1b}[0m"),
            Self::Colours | Self::Plain => text.to_owned(),
        }
    }
}

/// One cell.
pub(super) struct Cell {
    text: String,
    tone: Option<Tone>,
}

impl Cell {
    pub(super) fn of(text: &str) -> Self {
        Self { text: plain(text), tone: None }
    }

    pub(super) fn toned(text: &str, tone: Tone) -> Self {
        Self { text: plain(text), tone: Some(tone) }
    }
}

/// A column.
pub(super) struct Column {
    /// Its heading.
    pub(super) title: &'static str,
    /// Numbers stand to the right.
    pub(super) is_number: bool,
    /// Names may lose their middle where the table is too wide.
    pub(super) may_be_cut: bool,
}

/// One row, and what is said below it.
pub(super) struct Row {
    /// As many as there are columns.
    pub(super) cells: Vec<Cell>,
    /// A sentence for the lines below.
    pub(super) below: Option<String>,
}

/// The lines of a table. A column that is empty in every row is left out.
pub(super) fn lines(columns: &[Column], rows: &[Row], most: usize, paint: Paint) -> Vec<String> {
    let used: Vec<usize> =
        (0..columns.len()).filter(|&at| rows.iter().any(|row| !row.cells[at].text.is_empty())).collect();
    let widths = fitted(columns, &used, rows, most);
    let heading: Vec<String> =
        used.iter().zip(&widths).map(|(&at, &wide)| padded(columns[at].title, wide, columns[at].is_number)).collect();
    let mut lines = vec![paint.heading(joined(&heading).trim_end())];
    for row in rows {
        let cells: Vec<String> = used
            .iter()
            .zip(&widths)
            .map(|(&at, &wide)| {
                let (column, cell) = (&columns[at], &row.cells[at]);
                let text = cut(&cell.text, wide);
                let shown = cell.tone.map_or_else(|| text.clone(), |tone| paint.tone(&text, tone));
                let blank = " ".repeat(wide - width(&text));
                if column.is_number { blank + &shown } else { shown + &blank }
            })
            .collect();
        lines.push(joined(&cells).trim_end().to_owned());
        lines.extend(row.below.iter().flat_map(|text| below(text, most)));
    }
    lines
}

fn joined(cells: &[String]) -> String {
    cells.join(&" ".repeat(GAP))
}

fn padded(text: &str, wide: usize, is_number: bool) -> String {
    let text = cut(text, wide);
    let blank = " ".repeat(wide - width(&text));
    if is_number { blank + &text } else { text + &blank }
}

/// As wide as the texts are, the widest names made narrower until all fits.
fn fitted(columns: &[Column], used: &[usize], rows: &[Row], most: usize) -> Vec<usize> {
    let natural = |&at: &usize| {
        rows.iter().map(|row| width(&row.cells[at].text)).chain([width(columns[at].title)]).max().unwrap_or(0)
    };
    let mut widths: Vec<usize> = used.iter().map(natural).collect();
    let gaps = GAP * used.len().saturating_sub(1);
    let mut excess = (widths.iter().sum::<usize>() + gaps).saturating_sub(most);
    while excess > 0 {
        let shrinkable = (0..used.len()).filter(|&n| columns[used[n]].may_be_cut && widths[n] > NARROWEST);
        let Some(widest) = shrinkable.max_by_key(|&n| widths[n]) else { break };
        widths[widest] -= 1;
        excess -= 1;
    }
    widths
}

/// The lines below a row. What is left out is said, and can be had in full elsewhere.
fn below(text: &str, most: usize) -> Vec<String> {
    let mut lines = wrap(&plain(text), most - INDENT - 2);
    if lines.len() > MOST_LINES {
        lines.truncate(MOST_LINES);
        if let Some(last) = lines.last_mut() {
            last.push_str(" …");
        }
    }
    lines.iter().map(|line| format!("{}{line}", " ".repeat(INDENT))).collect()
}
