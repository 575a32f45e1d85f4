//! Airflow's own settings, as far as they are of use to us: environment first, then `airflow.cfg`.
//!
//! Settings that Airflow takes from a command or a secrets backend (`…_CMD`, `…_SECRET`) are not followed: loading runs no
//! program. Set our own key instead.

use std::path::PathBuf;

use super::airflow_cfg::AirflowCfg;
use super::environment::Environment;
use super::problem::{Origin, Problem};
use super::sources::Sources;

/// Airflow's configuration.
pub(super) struct AirflowOwn<'a> {
    environment: &'a Environment,
    cfg: Option<(PathBuf, AirflowCfg)>,
}

impl<'a> AirflowOwn<'a> {
    pub(super) fn new(sources: &'a Sources, problems: &mut Vec<Problem>) -> Self {
        let mut cfg = None;
        if let Some((path, text)) = &sources.airflow_cfg {
            match AirflowCfg::parse(&text.0) {
                Ok(parsed) => cfg = Some((path.clone(), parsed)),
                Err(error) => problems.push(Problem::said(
                    "airflow.cfg",
                    &Origin::File(path.clone()),
                    format!("{error}; Airflow does not start with such a file either"),
                )),
            }
        }
        Self { environment: &sources.environment, cfg }
    }

    /// A setting, expanded as Airflow expands it; empty counts as not set.
    pub(super) fn get(&self, section: &str, name: &str, problems: &mut Vec<Problem>) -> Option<(String, Origin)> {
        let variable = variable(section, name);
        match self.environment.get(&variable) {
            Ok(Some(value)) => {
                let value = self.environment.expand(value);
                return given(value).map(|v| (v, Origin::AirflowEnvironment(variable)));
            }
            Ok(None) => {}
            Err(_) => problems.push(Problem::said(
                &format!("Airflow's {section}.{name}"),
                &Origin::AirflowEnvironment(variable),
                "the variable is not UTF-8 text",
            )),
        }
        let (path, cfg) = self.cfg.as_ref()?;
        let origin = Origin::AirflowFile(path.clone(), format!("[{section}] {name}"));
        match cfg.get(section, name) {
            Ok(value) => {
                let value = self.environment.expand(&value?);
                given(value).map(|value| (value, origin))
            }
            Err(error) => {
                let key = format!("Airflow's {section}.{name}");
                problems.push(Problem::said(&key, &origin, error.to_string()));
                None
            }
        }
    }

    /// Where a setting is set to nothing at all, which [`Self::get`] takes as not set.
    pub(super) fn blank(&self, section: &str, name: &str) -> Option<Origin> {
        let variable = variable(section, name);
        let is_blank = |value: &str| self.environment.expand(value).trim().is_empty();
        match self.environment.get(&variable) {
            Ok(Some(value)) => return is_blank(value).then_some(Origin::AirflowEnvironment(variable)),
            Ok(None) => {}
            Err(_) => return None,
        }
        let (path, cfg) = self.cfg.as_ref()?;
        let value = cfg.get(section, name).ok()??;
        is_blank(&value).then(|| Origin::AirflowFile(path.clone(), format!("[{section}] {name}")))
    }

    /// Whether Airflow is told to take a setting from a command or a secrets backend.
    pub(super) fn is_indirect(&self, section: &str, name: &str) -> bool {
        ["_cmd", "_secret"].iter().any(|suffix| {
            let name = format!("{name}{suffix}");
            let in_environment = self.environment.get(&variable(section, &name)) != Ok(None);
            let cfg = self.cfg.as_ref();
            in_environment || cfg.is_some_and(|(_, cfg)| cfg.get(section, &name) != Ok(None))
        })
    }
}

fn variable(section: &str, name: &str) -> String {
    format!("AIRFLOW__{}__{name}", section.replace('.', "_")).to_ascii_uppercase()
}

fn given(value: String) -> Option<String> {
    (!value.trim().is_empty()).then_some(value)
}
