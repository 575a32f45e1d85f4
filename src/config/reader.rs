//! Reads one key after the other from the layers, collecting problems and the effective set as it goes.
//!
//! A bad value is a problem and is read as its default, so that whatever else is wrong is found in the same pass.

use std::path::{Path, PathBuf};

use toml::Value as Toml;

use super::environment::Environment;
use super::keys::{Fallback, KEYS, Key};
use super::problem::{Origin, Problem, shown};
use super::settings::EffectiveSetting;
use super::sources::Sources;

/// A value as it was written.
#[derive(Clone)]
pub(super) enum Raw {
    /// From a flag or the environment: everything is text.
    Text(String),
    /// From the file: typed.
    Typed(Toml),
}

impl Raw {
    pub(super) fn text(&self) -> Option<&str> {
        let text = match self {
            Self::Text(text) | Self::Typed(Toml::String(text)) => text.as_str(),
            Self::Typed(_) => return None,
        };
        (!text.is_empty()).then_some(text)
    }

    pub(super) fn integer(&self, range: std::ops::RangeInclusive<i64>) -> Option<i64> {
        let number = match self {
            Self::Text(text) => text.trim().parse().ok()?,
            Self::Typed(value) => value.as_integer()?,
        };
        range.contains(&number).then_some(number)
    }

    /// A list of words, the first not empty.
    pub(super) fn list(&self) -> Option<Vec<String>> {
        let list: Vec<String> = match self {
            Self::Text(text) if text.trim_start().starts_with('[') => serde_json::from_str(text).ok()?,
            Self::Text(text) if text.contains(char::is_whitespace) => return None,
            Self::Text(text) => vec![text.clone()],
            Self::Typed(value) => {
                let items = value.as_array()?.iter();
                items.map(|item| item.as_str().map(str::to_owned)).collect::<Option<_>>()?
            }
        };
        list.first().is_some_and(|program| !program.is_empty()).then_some(list)
    }

    /// An absolute path; `~/` stands for the user's home.
    pub(super) fn path(&self, environment: &Environment) -> Option<PathBuf> {
        let text = self.text()?;
        let path = match text.strip_prefix("~/") {
            Some(rest) => environment.home()?.join(rest),
            None => PathBuf::from(text),
        };
        (path.is_absolute() && !text.contains('\0')).then_some(path)
    }

    fn shown(&self) -> Option<String> {
        match self {
            Self::Text(text) | Self::Typed(Toml::String(text)) => shown(text),
            Self::Typed(Toml::Integer(number)) => Some(number.to_string()),
            Self::Typed(Toml::Float(number)) => Some(number.to_string()),
            Self::Typed(Toml::Boolean(value)) => Some(value.to_string()),
            Self::Typed(Toml::Datetime(_)) => Some("a date".to_owned()),
            Self::Typed(Toml::Array(_)) => Some("a list".to_owned()),
            Self::Typed(Toml::Table(_)) => Some("a table".to_owned()),
        }
    }
}

/// The layers above Airflow's own settings, and what was found so far.
pub(super) struct Reader<'a> {
    pub(super) sources: &'a Sources,
    file: toml::Table,
    pub(super) problems: Vec<Problem>,
    pub(super) effective: Vec<EffectiveSetting>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(sources: &'a Sources, file: toml::Table, problems: Vec<Problem>) -> Self {
        Self { sources, file, problems, effective: Vec::new() }
    }

    pub(super) fn environment(&self) -> &'a Environment {
        &self.sources.environment
    }

    /// Where a key is set, highest layer first.
    pub(super) fn find(&mut self, key: &Key) -> Option<(Raw, Origin)> {
        if let Some(text) = self.sources.flags.get(&key.path()) {
            return Some((Raw::Text(text.clone()), Origin::Flag));
        }
        let name = key.environment_name();
        match self.environment().get(&name) {
            Ok(Some(text)) => return Some((Raw::Text(text.to_owned()), Origin::Environment(name))),
            Ok(None) => {}
            Err(_) => {
                let origin = Origin::Environment(name);
                let problem = Problem::said(&key.path(), &origin, "the variable is not UTF-8 text");
                if !self.problems.contains(&problem) {
                    self.problems.push(problem);
                }
            }
        }
        let value = self.file.get(key.section)?.as_table()?.get(key.name)?;
        let path = self.sources.file.as_ref().map(|(path, _)| path.clone());
        Some((Raw::Typed(value.clone()), Origin::File(path.unwrap_or_default())))
    }

    /// Reads a key that may be unset.
    pub(super) fn optional<T>(
        &mut self,
        key: &Key,
        parse: impl Fn(&Raw) -> Option<T>,
        show: impl Fn(&T) -> String,
    ) -> Option<(T, Origin)> {
        let (raw, origin) = self.find(key)?;
        let Some(value) = parse(&raw) else {
            self.refuse(key, &raw, &origin);
            return None;
        };
        self.record(key, show(&value), &origin);
        Some((value, origin))
    }

    /// Reads a key whose default is a text of its own.
    pub(super) fn required<T>(
        &mut self,
        key: &Key,
        parse: impl Fn(&Raw) -> Option<T>,
        show: impl Fn(&T) -> String,
    ) -> T {
        if let Some((value, _)) = self.optional(key, &parse, &show) {
            return value;
        }
        let Fallback::Text(text) = key.fallback else {
            unreachable!("only keys with a default of their own are read this way");
        };
        let value = parse(&Raw::Text(text.to_owned()))
            .expect("every default is a value that its key takes (tests/config/load.rs)");
        self.record(key, show(&value), &Origin::Default(String::new()));
        value
    }

    fn refuse(&mut self, key: &Key, raw: &Raw, origin: &Origin) {
        let shown = if key.is_secret { Some("***".to_owned()) } else { raw.shown() };
        self.problems.push(Problem::expected(&key.path(), origin, shown, key.expected));
    }

    /// Notes a key's value for `rmq-watcher check`.
    pub(super) fn record(&mut self, key: &Key, value: String, origin: &Origin) {
        self.note(&key.path(), if key.is_secret { "***".to_owned() } else { value }, origin);
    }

    /// Notes a value that has no key of its own.
    pub(super) fn note(&mut self, name: &str, value: String, origin: &Origin) {
        self.effective.retain(|setting| setting.key != name);
        self.effective.push(EffectiveSetting { key: name.to_owned(), shown_value: value, source: origin.to_string() });
    }

    /// The effective set: every key in the documentation's order, also those that nobody set, then what has no key.
    pub(super) fn into_effective(mut self) -> Vec<EffectiveSetting> {
        let mut ordered = Vec::with_capacity(KEYS.len() + self.effective.len());
        for key in KEYS {
            let path = key.path();
            let found = self.effective.iter().position(|setting| setting.key == path);
            ordered.push(match found {
                Some(index) => self.effective.remove(index),
                None => EffectiveSetting { key: path, shown_value: "not set".to_owned(), source: "default".to_owned() },
            });
        }
        ordered.append(&mut self.effective);
        ordered
    }
}

/// A path for people.
pub(super) fn show_path(path: &Path) -> String {
    path.display().to_string()
}
