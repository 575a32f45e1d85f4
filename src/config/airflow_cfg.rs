//! Airflow's own `airflow.cfg`, read as Python's `ConfigParser` reads it.
//!
//! Full-line comments (`#`, `;`), `=` or `:` between name and value, values that go on over indented lines, `[DEFAULT]`,
//! `%%` and `%(name)s`. A crate is no help: those that read INI files know neither the interpolation nor the indentation.
//!
//! Source: CPython 3.11, `configparser`; Airflow keeps the case of names and refuses duplicates.

use std::collections::BTreeMap;

use thiserror::Error;

/// The file's sections.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct AirflowCfg {
    sections: BTreeMap<String, BTreeMap<String, String>>,
}

/// Why the text is not such a file; Airflow does not start with it either.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(super) enum CfgError {
    /// A line before the first `[section]`.
    #[error("line {0} stands before the first [section]")]
    NoSection(usize),
    /// Neither a section nor `name = value`.
    #[error("line {0} is neither a [section], nor `name = value`, nor a comment")]
    NoOption(usize),
    /// A name or section twice.
    #[error("line {0} repeats a section or a name")]
    Duplicate(usize),
}

/// A value's `%` is not well-formed, or names something that is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("its value has a lone % or a %(name)s that cannot be resolved; a plain % is written %%")]
pub(super) struct InterpolationError;

const DEFAULT_SECTION: &str = "DEFAULT";

impl AirflowCfg {
    /// Reads the text of a file.
    ///
    /// # Errors
    /// The first line that Python would refuse.
    pub(super) fn parse(text: &str) -> Result<Self, CfgError> {
        let mut cfg = Self::default();
        let mut section: Option<String> = None;
        let mut option: Option<(String, usize)> = None;
        for (index, line) in text.lines().enumerate() {
            let number = index + 1;
            let trimmed = line.trim();
            if trimmed.starts_with(['#', ';']) {
                continue;
            }
            let indent = line.len() - line.trim_start().len();
            if trimmed.is_empty() {
                // An empty line may stand within a value; its end is trimmed when it is read.
                cfg.append(section.as_deref(), option.as_ref(), "");
                continue;
            }
            if option.as_ref().is_some_and(|(_, at)| indent > *at) {
                cfg.append(section.as_deref(), option.as_ref(), trimmed);
                continue;
            }
            if let Some(name) = section_name(trimmed) {
                if cfg.sections.contains_key(name) && name != DEFAULT_SECTION {
                    return Err(CfgError::Duplicate(number));
                }
                cfg.sections.entry(name.to_owned()).or_default();
                section = Some(name.to_owned());
                option = None;
                continue;
            }
            let Some(current) = &section else {
                return Err(CfgError::NoSection(number));
            };
            let (name, value) = trimmed
                .split_once(['=', ':'])
                .map(|(name, value)| (name.trim(), value.trim()))
                .filter(|(name, _)| !name.is_empty())
                .ok_or(CfgError::NoOption(number))?;
            let options = cfg.sections.entry(current.clone()).or_default();
            if options.insert(name.to_owned(), value.to_owned()).is_some() {
                return Err(CfgError::Duplicate(number));
            }
            option = Some((name.to_owned(), indent));
        }
        Ok(cfg)
    }

    fn append(&mut self, section: Option<&str>, option: Option<&(String, usize)>, line: &str) {
        let value = section.zip(option).and_then(|(section, (name, _))| self.sections.get_mut(section)?.get_mut(name));
        if let Some(value) = value {
            value.push('\n');
            value.push_str(line);
        }
    }

    /// A value, interpolated; `None` where the file does not set it.
    ///
    /// # Errors
    /// Its interpolation fails.
    pub(super) fn get(&self, section: &str, name: &str) -> Result<Option<String>, InterpolationError> {
        if !self.sections.contains_key(section) {
            return Ok(None);
        }
        match self.raw(section, name) {
            None => Ok(None),
            Some(raw) => self.interpolate(section, raw, 10, &mut 1000).map(Some),
        }
    }

    fn raw(&self, section: &str, name: &str) -> Option<&str> {
        let of = |section: &str| self.sections.get(section)?.get(name);
        of(section).or_else(|| of(DEFAULT_SECTION)).map(|v| v.trim_end())
    }

    /// `depth` bounds references to references, as in Python; `fuel` bounds how many there are in all, so that a file of
    /// references cannot grow without end.
    fn interpolate(&self, section: &str, raw: &str, depth: u8, fuel: &mut u32) -> Result<String, InterpolationError> {
        let mut out = String::new();
        let mut rest = raw;
        while let Some((before, after)) = rest.split_once('%') {
            out.push_str(before);
            if let Some(after) = after.strip_prefix('%') {
                out.push('%');
                rest = after;
                continue;
            }
            let (name, after) = after.strip_prefix('(').and_then(|a| a.split_once(")s")).ok_or(InterpolationError)?;
            let value = self.raw(section, name).ok_or(InterpolationError)?;
            let depth = depth.checked_sub(1).ok_or(InterpolationError)?;
            *fuel = fuel.checked_sub(1).ok_or(InterpolationError)?;
            out.push_str(&self.interpolate(section, value, depth, fuel)?);
            rest = after;
        }
        out.push_str(rest);
        Ok(out)
    }
}

/// `[name]`: up to the line's last bracket, as Python's pattern has it.
fn section_name(line: &str) -> Option<&str> {
    let inside = line.strip_prefix('[')?;
    let end = inside.rfind(']')?;
    (end > 0).then(|| &inside[..end])
}

#[cfg(test)]
#[path = "airflow_cfg/tests.rs"]
mod tests;
