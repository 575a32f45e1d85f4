//! The environment as a value, and the expansions that Airflow makes in its own settings.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// A snapshot of environment variables.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Environment {
    variables: BTreeMap<OsString, OsString>,
    home: Option<PathBuf>,
}

impl std::fmt::Debug for Environment {
    /// Names only: any value may be a secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.variables.keys()).finish()
    }
}

/// An environment variable whose value is not UTF-8.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotText;

impl Environment {
    /// Takes variables, and the user's home directory for `~`.
    pub fn new<K: Into<OsString>, V: Into<OsString>>(
        variables: impl IntoIterator<Item = (K, V)>,
        home: Option<PathBuf>,
    ) -> Self {
        let variables = variables.into_iter();
        Self { variables: variables.map(|(k, v)| (k.into(), v.into())).collect(), home }
    }

    /// The process's own, now.
    pub fn of_this_process() -> Self {
        Self::new(std::env::vars_os(), std::env::home_dir())
    }

    /// A variable's value.
    ///
    /// # Errors
    /// It is set, but not to UTF-8 text.
    pub fn get(&self, name: &str) -> Result<Option<&str>, NotText> {
        match self.variables.get(OsStr::new(name)) {
            None => Ok(None),
            Some(value) => value.to_str().map(Some).ok_or(NotText),
        }
    }

    /// The names of all variables that are UTF-8; others are never ours.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.variables.keys().filter_map(|name| name.to_str())
    }

    /// The user's home directory.
    pub fn home(&self) -> Option<&Path> {
        self.home.as_deref()
    }

    /// Airflow's home: `AIRFLOW_HOME`, by default `~/airflow`.
    pub fn airflow_home(&self) -> PathBuf {
        let given = self.get("AIRFLOW_HOME").ok().flatten();
        PathBuf::from(self.expand(given.unwrap_or("~/airflow")))
    }

    /// Expands `$NAME`, `${NAME}` and a leading `~` again and again, as Airflow does with its settings. Names that are not
    /// set stay as they are; so does `~user`. Values that go round in circles are left after 16 rounds.
    ///
    /// Source: Airflow 2.11.2 and 3.3.2, `expand_env_var`.
    pub fn expand(&self, text: &str) -> String {
        const ROUNDS: usize = 16;
        const LONGEST: usize = 64 * 1024;
        let mut text = text.to_owned();
        for _ in 0..ROUNDS {
            let next = self.expand_home(&self.expand_names(&text));
            if next == text || next.len() > LONGEST {
                break;
            }
            text = next;
        }
        text
    }

    fn expand_names(&self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('$') {
            out.push_str(before);
            let (name, whole) = variable_name(after);
            match self.get(name).ok().flatten() {
                Some(value) if !name.is_empty() => out.push_str(value),
                Some(_) | None => {
                    out.push('$');
                    out.push_str(&after[..whole]);
                }
            }
            rest = &after[whole..];
        }
        out.push_str(rest);
        out
    }

    fn expand_home(&self, text: &str) -> String {
        match (text.strip_prefix('~'), self.home()) {
            (Some(rest), Some(home)) if rest.is_empty() || rest.starts_with('/') => {
                format!("{}{rest}", home.display())
            }
            _ => text.to_owned(),
        }
    }
}

/// The name after a `$`, and how many bytes it takes up with its braces.
fn variable_name(after: &str) -> (&str, usize) {
    if let Some(braced) = after.strip_prefix('{') {
        return match braced.split_once('}') {
            Some((name, _)) => (name, name.len() + 2),
            None => ("", 0),
        };
    }
    let end = after.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(after.len());
    (&after[..end], end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expand_follows_airflow() {
        let env = Environment::new([("A", "$B/x"), ("B", "~/b"), ("LOOP", "$LOOP")], Some(PathBuf::from("/home/me")));
        for (text, expected) in [
            ("$A", "~/b/x".replace('~', "/home/me").as_str()),
            ("${B}y", "/home/me/by"),
            ("$MISSING/${MISSING}", "$MISSING/${MISSING}"),
            ("~", "/home/me"),
            ("~other/x", "~other/x"),
            ("a~/b", "a~/b"),
            ("100$", "100$"),
            ("${A", "${A"),
            ("$LOOP", "$LOOP"),
        ] {
            assert_eq!(env.expand(text), expected, "{text}");
        }
    }

    #[test]
    fn expand_ends_when_a_value_grows_without_end() {
        let env = Environment::new([("G", "$G$G")], None);
        assert!(env.expand("$G").len() <= 64 * 1024);
    }
}
