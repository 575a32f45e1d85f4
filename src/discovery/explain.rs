//! What was found in every file, for people who ask. Serves `rmq-watcher scan --explain`.

use std::collections::BTreeMap;
use std::fmt;

use super::Scan;

/// One file and what was found in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileVerdict {
    /// Its name in origins; a directory's ends with `/`.
    pub file: String,
    /// What was found.
    pub verdict: Verdict,
}

/// What was found in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It was read.
    Read {
        /// Subscriptions that it declares.
        declares: usize,
        /// Subscriptions in it that are refused.
        refused: usize,
    },
    /// Not looked at: the rule that says so, as file and line.
    LeftOut {
        /// Which.
        rule: String,
    },
    /// It cannot be read, so that nothing is known of what it declares.
    Unreadable {
        /// Why, as a clause.
        why: String,
    },
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read { declares: 0, refused: 0 } => f.write_str("nothing"),
            Self::Read { declares, refused: 0 } => write!(f, "declares {declares}"),
            Self::Read { declares: 0, refused } => write!(f, "refused {refused}"),
            Self::Read { declares, refused } => write!(f, "declares {declares}, refused {refused}"),
            Self::LeftOut { rule } => write!(f, "ignored by {rule}"),
            Self::Unreadable { why } => write!(f, "unreadable: {why}"),
        }
    }
}

/// Puts together what a scan found in the files it listed, in the order of their names.
pub(super) fn verdicts(scan: &Scan, files: Vec<String>, left_out: Vec<(String, String)>) -> Vec<FileVerdict> {
    let nothing = Verdict::Read { declares: 0, refused: 0 };
    let mut found: BTreeMap<String, Verdict> = files.into_iter().map(|file| (file, nothing.clone())).collect();
    let mut count = |file: &str, more: (usize, usize)| {
        let verdict = found.entry(file.to_owned()).or_insert(nothing.clone());
        if let Verdict::Read { declares, refused } = verdict {
            *declares += more.0;
            *refused += more.1;
        }
    };
    for declaration in &scan.declarations {
        count(&declaration.origin.file, (1, 0));
    }
    for refusal in &scan.refusals {
        count(&refusal.origin.file, (0, 1));
    }
    for problem in &scan.unreadable {
        let line = problem.line.map(|line| format!("line {line} ")).unwrap_or_default();
        let why = format!("{line}{}", problem.text);
        found.insert(problem.file.clone(), Verdict::Unreadable { why });
    }
    found.extend(left_out.into_iter().map(|(file, rule)| (file, Verdict::LeftOut { rule })));
    found.into_iter().map(|(file, verdict)| FileVerdict { file, verdict }).collect()
}
