//! The findings for programs. The shape is documented in `docs/operations.md` and only grows.

use std::io::{self, Write};

use serde::Serialize;

use super::Findings;
use crate::discovery::{FileVerdict, Verdict};
use crate::domain::declaration::{Declaration, FileProblem, Refusal};
use crate::domain::options::Options;

#[derive(Serialize)]
struct Document<'a> {
    folders: Vec<String>,
    listed: usize,
    readable: usize,
    declarations: Vec<Declared<'a>>,
    refusals: Vec<Refused<'a>>,
    unreadable: Vec<Unreadable<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    files: Option<Vec<File<'a>>>,
}

#[derive(Serialize)]
struct Declared<'a> {
    file: &'a str,
    line: u32,
    column: u32,
    dag_id: &'a str,
    queue: &'a str,
    conn_id: &'a str,
    options: &'a Options,
}

#[derive(Serialize)]
struct Refused<'a> {
    file: &'a str,
    line: u32,
    column: u32,
    dag_id: Option<&'a str>,
    parameter: Option<&'a str>,
    code: &'static str,
    sentence: String,
}

#[derive(Serialize)]
struct Unreadable<'a> {
    file: &'a str,
    line: Option<u32>,
    code: &'static str,
    sentence: String,
}

#[derive(Serialize)]
struct File<'a> {
    file: &'a str,
    verdict: &'static str,
    declares: usize,
    refused: usize,
    reason: Option<&'a str>,
}

pub(super) fn write(Findings { folders, scan, files }: &Findings, out: &mut dyn Write) -> io::Result<()> {
    let document = Document {
        folders: folders.roots.iter().map(|root| root.path.display().to_string()).collect(),
        listed: scan.listed,
        readable: scan.readable,
        declarations: scan.declarations.iter().map(declared).collect(),
        refusals: scan.refusals.iter().map(refused).collect(),
        unreadable: scan.unreadable.iter().map(unreadable).collect(),
        files: files.as_ref().map(|files| files.iter().map(file).collect()),
    };
    serde_json::to_writer_pretty(&mut *out, &document)?;
    writeln!(out)
}

pub(super) fn write_failure(sentences: &[String], out: &mut dyn Write) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, &serde_json::json!({ "errors": sentences }))?;
    writeln!(out)
}

fn declared(declaration: &Declaration) -> Declared<'_> {
    Declared {
        file: &declaration.origin.file,
        line: declaration.origin.line,
        column: declaration.origin.column,
        dag_id: declaration.dag_id.as_str(),
        queue: declaration.queue.as_str(),
        conn_id: declaration.conn_id.as_str(),
        options: &declaration.options,
    }
}

fn refused(refusal: &Refusal) -> Refused<'_> {
    Refused {
        file: &refusal.origin.file,
        line: refusal.origin.line,
        column: refusal.origin.column,
        dag_id: refusal.dag_id.as_ref().map(|dag| dag.as_str()),
        parameter: refusal.parameter.as_deref(),
        code: refusal.reason.code(),
        sentence: refusal.to_string(),
    }
}

fn unreadable(problem: &FileProblem) -> Unreadable<'_> {
    Unreadable { file: &problem.file, line: problem.line, code: problem.kind.code(), sentence: problem.to_string() }
}

fn file(FileVerdict { file, verdict }: &FileVerdict) -> File<'_> {
    let (verdict, declares, refused, reason) = match verdict {
        Verdict::Read { declares: 0, refused: 0 } => ("nothing", 0, 0, None),
        Verdict::Read { declares, refused: 0 } => ("declares", *declares, 0, None),
        Verdict::Read { declares, refused } => ("refused", *declares, *refused, None),
        Verdict::LeftOut { rule } => ("ignored", 0, 0, Some(rule.as_str())),
        Verdict::Unreadable { why } => ("unreadable", 0, 0, Some(why.as_str())),
    };
    File { file, verdict, declares, refused, reason }
}
