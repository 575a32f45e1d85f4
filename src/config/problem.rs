//! What is wrong with the configuration, all of it at once.
//!
//! Invariant: no problem shows a secret. Values of secret keys and of keys we do not know are never shown at all, others
//! only as far as they look harmless (`shown`). Held by the planted-secret test in `tests/config`.

use std::fmt;
use std::path::PathBuf;

/// Where a value was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A flag of the command line.
    Flag,
    /// An environment variable of ours.
    Environment(String),
    /// The configuration file.
    File(PathBuf),
    /// An environment variable of Airflow's.
    AirflowEnvironment(String),
    /// Airflow's own configuration file, the section and key there.
    AirflowFile(PathBuf, String),
    /// Nobody said anything, or what was said means the default; the text says why this one.
    Default(String),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag => f.write_str("flag"),
            Self::Environment(name) | Self::AirflowEnvironment(name) => {
                write!(f, "environment variable {name}")
            }
            Self::File(path) => write!(f, "file {}", path.display()),
            Self::AirflowFile(path, key) => write!(f, "{key} in {}", path.display()),
            Self::Default(why) if why.is_empty() => f.write_str("default"),
            Self::Default(why) => write!(f, "default: {why}"),
        }
    }
}

/// One thing to change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The key, such as `consume.prefetch`, or the name of the thing that cannot be read.
    pub key: String,
    /// Where it was found.
    pub origin: Origin,
    /// The value where it may be shown.
    pub shown: Option<String>,
    /// What would be right, or what is wrong: the rest of the sentence.
    pub sentence: String,
}

impl Problem {
    /// A value that is not what its key takes.
    pub(super) fn expected(key: &str, origin: &Origin, shown: Option<String>, form: &str) -> Self {
        Self { key: key.to_owned(), origin: origin.clone(), shown, sentence: format!("expected {form}") }
    }

    /// Anything else.
    pub(super) fn said(key: &str, origin: &Origin, sentence: impl Into<String>) -> Self {
        Self { key: key.to_owned(), origin: origin.clone(), shown: None, sentence: sentence.into() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // An unknown variable is its own key and place.
        if self.origin == Origin::Environment(self.key.clone()) {
            write!(f, "{}", self.origin)?;
        } else {
            write!(f, "{} ({})", self.key, self.origin)?;
        }
        if let Some(shown) = &self.shown {
            write!(f, " is {shown}")?;
        }
        let end = if self.sentence.ends_with('?') { "" } else { "." };
        write!(f, ": {}{end}", self.sentence)
    }
}

/// Everything that has to be changed before the watcher can start; at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problems(pub Vec<Problem>);

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            problem.fmt(f)?;
        }
        Ok(())
    }
}

impl std::error::Error for Problems {}

/// A value as a problem may show it: quoted, cut to a line's length, and left out where it could hold a credential (as an
/// address with a user or a query can).
pub(super) fn shown(value: &str) -> Option<String> {
    const LONGEST: usize = 60;
    if value.contains(['@', '?', '=']) {
        return None;
    }
    let mut text: String = value.chars().take(LONGEST).collect();
    if text.len() < value.len() {
        text.push('…');
    }
    Some(format!("{text:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shown_leaves_out_what_may_hold_a_credential() {
        assert_eq!(shown("http://u:p@h"), None);
        assert_eq!(shown("http://h?token=x"), None);
        assert_eq!(shown("abc").as_deref(), Some("\"abc\""));
    }
}
