//! The repository's files as texts.

use std::path::{Path, PathBuf};

/// A text file.
#[derive(Clone, Debug)]
pub(crate) struct Text {
    /// Path from the top, with `/`.
    pub(crate) path: String,
    /// What it holds.
    pub(crate) text: String,
}

impl Text {
    /// A sample, for tests of the rules themselves.
    pub(crate) fn new(path: &str, text: &str) -> Self {
        Self { path: path.to_owned(), text: text.to_owned() }
    }

    /// Its lines with their numbers, from 1.
    pub(crate) fn numbered(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text.lines().enumerate().map(|(n, line)| (n + 1, line))
    }

    /// Its lines of code with their numbers: without comments, and with nothing between double quotes.
    pub(crate) fn code(&self) -> impl Iterator<Item = (usize, String)> {
        self.numbered().map(|(n, line)| (n, without_strings(line)))
    }

    /// [`Text::code`] up to the unit tests at the file's end.
    pub(crate) fn product(&self) -> impl Iterator<Item = (usize, String)> {
        let tests = self.text.find("#[cfg(test)]\nmod tests {");
        let end = tests.map_or(usize::MAX, |at| self.text[..at].lines().count());
        self.code().take_while(move |(line, _)| *line <= end)
    }

    /// The files of modules that are declared for tests only: `#[cfg(test)]` over `mod name;`.
    fn test_modules(&self) -> Vec<String> {
        let folder = self.path.trim_end_matches("mod.rs").trim_end_matches(".rs");
        let folder = folder.trim_end_matches('/');
        let declared = self.text.split("#[cfg(test)]\nmod ").skip(1);
        let ends_in_name = |rest: &str| {
            let name = rest.split_once(';')?.0;
            let plain = name.chars().all(|c| c.is_alphanumeric() || c == '_');
            plain.then(|| format!("{folder}/{name}"))
        };
        declared.filter_map(ends_in_name).collect()
    }

    /// Where a breach is.
    pub(crate) fn at(&self, line: usize, what: &str) -> String {
        format!("{}:{line}: {what}", self.path)
    }
}

/// The repository's top folder.
pub(crate) fn top() -> PathBuf {
    std::env::var_os("CARGO_MANIFEST_DIR").expect("run by cargo").into()
}

/// Every text file of the repository that `wanted` takes by its path, in order. Build folders and what is not UTF-8 are left out.
pub(crate) fn files(wanted: impl Fn(&str) -> bool) -> Vec<Text> {
    let top = top();
    let mut found = Vec::new();
    let mut folders = vec![top.clone()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_symlink() || foreign(&path) {
                continue;
            }
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let name = path.strip_prefix(&top).unwrap().to_str().unwrap().to_owned();
            if wanted(&name)
                && let Ok(text) = std::fs::read_to_string(&path)
            {
                found.push(Text { path: name, text });
            }
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    assert!(!found.is_empty(), "no files were looked at");
    found
}

/// What is not the repository's own.
fn foreign(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    ["target", ".git", "__pycache__", "node_modules", ".pytest_cache", ".venv"].contains(&&*name)
        || name.ends_with(".egg-info")
        || path.join("CACHEDIR.TAG").exists()
}

/// The Rust files of the product, without modules that are only tests.
pub(crate) fn sources() -> Vec<Text> {
    let all = files(|path| path.starts_with("src/") && path.ends_with(".rs"));
    let tests: Vec<_> = all.iter().flat_map(Text::test_modules).collect();
    let is_test = |path: &str| {
        tests.iter().any(|test| {
            let inner = path.strip_prefix(test.as_str());
            inner.is_some_and(|inner| inner == ".rs" || inner.starts_with('/'))
        })
    };
    all.into_iter().filter(|file| !is_test(&file.path)).collect()
}

/// A line up to `//`, with nothing left between its double quotes. Good enough for code that rustfmt has laid out.
fn without_strings(line: &str) -> String {
    let (mut kept, mut inside, mut escaped) = (String::new(), false, false);
    for (at, c) in line.char_indices() {
        if !inside && line[at..].starts_with("//") {
            break;
        }
        if c == '"' && !escaped && !line[..at].ends_with('\'') {
            inside = !inside;
            kept.push(c);
        } else if !inside {
            kept.push(c);
        }
        escaped = inside && c == '\\' && !escaped;
    }
    kept
}

#[test]
fn comments_and_strings_are_no_code() {
    let cases = [
        ("let x = y; // use z", "let x = y; "),
        (r#"f("a::b \" // c", d)"#, r#"f("", d)"#),
        (r#"if c == '"' { a::b }"#, r#"if c == '"' { a::b }"#),
    ];
    for (line, code) in cases {
        assert_eq!(without_strings(line), code);
    }
}

#[test]
fn unit_tests_are_told_from_the_product() {
    let text = "#[cfg(test)]\nmod model;\nfn f() {}\n#[cfg(test)]\nmod tests {\n    use x;\n}\n";
    let file = Text::new("src/a/b.rs", text);
    assert_eq!(file.test_modules(), ["src/a/b/model"]);
    assert_eq!(file.product().count(), 3);
    let file = Text::new("src/a/mod.rs", text);
    assert_eq!(file.test_modules(), ["src/a/model"]);
}
