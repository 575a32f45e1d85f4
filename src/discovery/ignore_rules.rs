//! `.airflowignore`: which files and directories Airflow does not look at. Serves the control flow: scan.
//!
//! Both of Airflow's syntaxes. In either, `#` begins a comment wherever it stands, a file's rules hold for what is below its
//! directory, and nothing below a directory that is left out can be taken in again. Where the syntax is not known, what either
//! leaves out is left out.
//!
//! Source: Airflow 2.11.2 `airflow/utils/file.py`, Airflow 3.3.2 `airflow/_shared/module_loading/file_discovery.py`.

use std::collections::HashMap;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use regex::bytes::Regex;

use super::file::{self, Stamp, Trouble};
use crate::config::dags::IgnoreSyntax;

/// The name of the files.
pub(super) const FILE_NAME: &str = ".airflowignore";

/// The largest size that one pattern's automaton may take, in bytes.
const MAX_PATTERN_BYTES: usize = 1 << 20;

/// The rules of one file.
#[derive(Debug)]
struct FileRules {
    path: PathBuf,
    patterns: Patterns,
    /// Lines that are no pattern, with what is wrong.
    bad: Vec<(u32, String)>,
}

#[derive(Debug)]
enum Patterns {
    /// Each with its line.
    Regexp(Vec<(u32, Regex)>),
    /// With the line of each pattern as it is written.
    Glob(Gitignore, HashMap<String, u32>),
}

/// The rules that hold in a directory. Of a syntax that is not asked for there are none.
#[derive(Clone, Debug, Default)]
pub(super) struct Rules {
    glob: Chain,
    regexp: Chain,
}

/// Those of the directory's own file, then those of the directories above.
#[derive(Clone, Debug, Default)]
struct Chain(Option<Arc<Link>>);

#[derive(Debug)]
struct Link {
    own: Arc<FileRules>,
    above: Chain,
}

/// The rule that leaves something out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rule {
    pub(super) file: PathBuf,
    pub(super) line: u32,
}

impl Rules {
    /// The rule by which a path is left out, if one does. `root` is the folder that is scanned.
    pub(super) fn ignores(&self, root: &Path, path: &Path, is_directory: bool) -> Option<Rule> {
        let by = |chain: &Chain| chain.ignores(root, path, is_directory);
        by(&self.glob).or_else(|| by(&self.regexp))
    }
}

impl Chain {
    fn ignores(&self, root: &Path, path: &Path, is_directory: bool) -> Option<Rule> {
        let mut rules = self;
        while let Some(link) = &rules.0 {
            let own = &link.own;
            let rule = |line| Rule { file: own.path.clone(), line };
            match &own.patterns {
                Patterns::Regexp(patterns) => {
                    let below = path.strip_prefix(root).unwrap_or(path).as_os_str().as_bytes();
                    if let Some((line, _)) = patterns.iter().find(|(_, pattern)| pattern.is_match(below)) {
                        return Some(rule(*line));
                    }
                }
                // The last pattern that matches decides, so the nearest file does.
                Patterns::Glob(patterns, lines) => match patterns.matched(path, is_directory) {
                    Match::Ignore(glob) => return Some(rule(lines.get(glob.original()).copied().unwrap_or(0))),
                    Match::Whitelist(_) => return None,
                    Match::None => {}
                },
            }
            rules = &link.above;
        }
        None
    }
}

/// Files of rules that were read before.
#[derive(Debug, Default)]
pub(super) struct Cache(HashMap<(PathBuf, IgnoreSyntax), (Stamp, Arc<FileRules>)>);

/// What the file of a directory says.
pub(super) struct Loaded {
    pub(super) rules: Rules,
    /// Lines that are no pattern.
    pub(super) bad: Vec<(u32, String)>,
}

impl Cache {
    /// The rules in a directory that holds such a file, in the syntax that is given, else in both: then no line is told, since it
    /// may be one of the other. `None` where the file is gone, or is no file.
    ///
    /// # Errors
    /// The file cannot be read, so what is left out is not known.
    pub(super) fn load(
        &mut self,
        directory: &Path,
        syntax: Option<IgnoreSyntax>,
        above: &Rules,
    ) -> io::Result<Option<Loaded>> {
        let path = directory.join(FILE_NAME);
        let stamp = match std::fs::metadata(&path) {
            Ok(metadata) if metadata.is_file() => Stamp::of(&metadata),
            Ok(_) => return Ok(None),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let mut loaded = Loaded { rules: above.clone(), bad: Vec::new() };
        for one in [IgnoreSyntax::Glob, IgnoreSyntax::Regexp] {
            if syntax.is_some_and(|syntax| syntax != one) {
                continue;
            }
            let own = self.own(&path, stamp, one)?;
            if syntax.is_some() {
                loaded.bad.clone_from(&own.bad);
            }
            let chain = match one {
                IgnoreSyntax::Glob => &mut loaded.rules.glob,
                IgnoreSyntax::Regexp => &mut loaded.rules.regexp,
            };
            *chain = Chain(Some(Arc::new(Link { own, above: std::mem::take(chain) })));
        }
        Ok(Some(loaded))
    }

    fn own(&mut self, path: &Path, stamp: Stamp, syntax: IgnoreSyntax) -> io::Result<Arc<FileRules>> {
        let key = (path.to_owned(), syntax);
        if let Some((then, own)) = self.0.get(&key)
            && *then == stamp
        {
            return Ok(Arc::clone(own));
        }
        let (bytes, stamp) = file::read(path).map_err(|Trouble { text, .. }| io::Error::other(text))?;
        let own = Arc::new(FileRules::parse(path, &String::from_utf8_lossy(&bytes), syntax));
        self.0.insert(key, (stamp, Arc::clone(&own)));
        Ok(own)
    }
}

impl FileRules {
    fn parse(path: &Path, text: &str, syntax: IgnoreSyntax) -> Self {
        let mut bad = Vec::new();
        let lines = (1..).zip(text.split('\n')).map(|(number, line)| (number, without_comment(line)));
        let lines = lines.filter(|(_, line)| !line.is_empty());
        let patterns = match syntax {
            IgnoreSyntax::Regexp => Patterns::Regexp(regexps(lines, &mut bad)),
            IgnoreSyntax::Glob => globs(path, lines, &mut bad),
        };
        Self { path: path.to_owned(), patterns, bad }
    }
}

/// The line without its comment and the blanks before it, as both versions of Airflow cut it.
fn without_comment(line: &str) -> &str {
    let line = line.strip_suffix('\r').unwrap_or(line);
    line.split_once('#').map_or(line, |(before, _)| before.trim_end())
}

fn regexps<'a>(lines: impl Iterator<Item = (u32, &'a str)>, bad: &mut Vec<(u32, String)>) -> Vec<(u32, Regex)> {
    let mut patterns = Vec::new();
    for (number, line) in lines {
        match regex::bytes::RegexBuilder::new(line).size_limit(MAX_PATTERN_BYTES).build() {
            Ok(pattern) => patterns.push((number, pattern)),
            Err(_) => {
                bad.push((number, "is no regular expression that can be read here and is passed over".to_owned()))
            }
        }
    }
    patterns
}

fn globs<'a>(path: &Path, lines: impl Iterator<Item = (u32, &'a str)>, bad: &mut Vec<(u32, String)>) -> Patterns {
    let directory = path.parent().unwrap_or(path);
    let mut builder = GitignoreBuilder::new(directory);
    let mut numbers = HashMap::new();
    for (number, line) in lines {
        // To git a lone slash matches nothing.
        if line.trim() == "/" || builder.add_line(None, line).is_err() {
            bad.push((number, "is no pattern as in .gitignore and is passed over".to_owned()));
        } else {
            numbers.insert(line.to_owned(), number);
        }
    }
    match builder.build() {
        Ok(patterns) => Patterns::Glob(patterns, numbers),
        Err(error) => {
            bad.push((1, format!("cannot be used as a whole ({error})")));
            Patterns::Glob(Gitignore::empty(), HashMap::new())
        }
    }
}
