//! The findings for people: tables of at most 80 columns, and each fault in one line.

use std::io::{self, Write};

use super::Findings;
use crate::discovery::{FileVerdict, Scan};
use crate::domain::declaration::Declaration;

/// The width of a terminal that nobody made wider.
const WIDTH: usize = 80;

/// The columns of the table of subscriptions.
const DAG: usize = 30;
const QUEUE: usize = 28;

pub(super) fn write(findings: &Findings, out: &mut dyn Write) -> io::Result<()> {
    let Findings { folders, scan, files } = findings;
    for root in &folders.roots {
        writeln!(out, "Folder: {}", root.path.display())?;
    }
    if !scan.declarations.is_empty() {
        writeln!(out, "\n{:<DAG$} {:<QUEUE$} CONNECTION", "DAG", "QUEUE")?;
        scan.declarations.iter().try_for_each(|declaration| subscription(declaration, out))?;
    }
    let refusals: Vec<String> = scan.refusals.iter().map(ToString::to_string).collect();
    let problems: Vec<String> = scan.unreadable.iter().map(ToString::to_string).collect();
    for (title, sentences) in [("REFUSED", refusals), ("UNREADABLE", problems)] {
        if !sentences.is_empty() {
            writeln!(out, "\n{title}")?;
            sentences.iter().try_for_each(|sentence| writeln!(out, "{}", one_line(sentence)))?;
        }
    }
    if let Some(files) = files {
        writeln!(out, "\nFILES")?;
        files.iter().try_for_each(|file| verdict(file, out))?;
    }
    writeln!(out, "\n{}", summary(scan))
}

/// The three names as a row of the table, where it is written below them, and what is not at its default.
fn subscription(declaration: &Declaration, out: &mut dyn Write) -> io::Result<()> {
    let connection = WIDTH - DAG - QUEUE - 2;
    let names = [declaration.dag_id.as_str(), declaration.queue.as_str(), declaration.conn_id.as_str()];
    let [dag, queue, conn] = names.map(one_line);
    let cells = [pieces(&dag, DAG), pieces(&queue, QUEUE), pieces(&conn, connection)];
    let height = cells.iter().map(Vec::len).max().unwrap_or(0);
    for row in 0..height {
        let [dag, queue, conn] = [0, 1, 2].map(|cell: usize| cells[cell].get(row).map_or("", String::as_str));
        writeln!(out, "{}", format!("{dag:<DAG$} {queue:<QUEUE$} {conn}").trim_end())?;
    }
    indented(&declaration.origin.to_string(), out)?;
    let options = serde_json::to_value(&declaration.options)?;
    for (name, value) in options.as_object().into_iter().flatten() {
        indented(&format!("{name}: {value}"), out)?;
    }
    Ok(())
}

fn verdict(FileVerdict { file, verdict }: &FileVerdict, out: &mut dyn Write) -> io::Result<()> {
    let line = format!("{file}: {verdict}");
    if line.chars().count() <= WIDTH {
        return writeln!(out, "{line}");
    }
    writeln!(out, "{file}:")?;
    indented(&verdict.to_string(), out)
}

fn summary(scan: &Scan) -> String {
    let counted = |n: usize, one: &str, more: &str| format!("{n} {}", if n == 1 { one } else { more });
    format!(
        "{}, {} of them read: {}, {} refused, {} unreadable.",
        counted(scan.listed, "file", "files"),
        scan.readable,
        counted(scan.declarations.len(), "subscription", "subscriptions"),
        scan.refusals.len(),
        scan.unreadable.len(),
    )
}

/// Writes a text below what it belongs to.
fn indented(text: &str, out: &mut dyn Write) -> io::Result<()> {
    pieces(&one_line(text), WIDTH - 4).iter().try_for_each(|piece| writeln!(out, "    {piece}"))
}

/// The text in pieces of that many characters; nothing of a name is left out.
fn pieces(text: &str, width: usize) -> Vec<String> {
    let characters: Vec<char> = text.chars().collect();
    characters.chunks(width).map(|piece| piece.iter().collect()).collect()
}

/// Names of queues may hold line ends and worse.
fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { c.escape_default().to_string() } else { c.to_string() }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_go_on_in_the_next_line_of_their_column() {
        assert_eq!(pieces("abcdefg", 3), ["abc", "def", "g"]);
        assert_eq!(one_line("a\nb\u{1b}[0mж"), "a\\nb\\u{1b}[0mж");
    }
}
