//! Sources and connections made up for a test.

use std::collections::BTreeMap;
use std::path::PathBuf;

use rmq_watcher::config::connections::amqp::{self, AmqpError};
use rmq_watcher::config::connections::{AirflowDialect, parse};
use rmq_watcher::config::environment::Environment;
use rmq_watcher::config::sources::{SourceText, Sources};
use rmq_watcher::config::{Problems, Settings};
use rmq_watcher::domain::connection::AmqpSettings;
use rmq_watcher::domain::ids::ConnId;

pub(crate) const FILE: &str = "/etc/test/rmq-watcher.toml";
pub(crate) const CFG: &str = "/opt/airflow/airflow.cfg";

/// Sources with nothing but a home directory.
pub(crate) fn nothing() -> Sources {
    given(&[], None, None)
}

/// Sources with an environment, a configuration file and an `airflow.cfg`.
pub(crate) fn given(environment: &[(&str, &str)], file: Option<&str>, cfg: Option<&str>) -> Sources {
    let text = |path: &str, text: &str| (PathBuf::from(path), SourceText(text.to_owned()));
    Sources {
        flags: BTreeMap::new(),
        environment: Environment::new(environment.iter().copied(), Some(PathBuf::from("/home/me"))),
        file: file.map(|t| text(FILE, t)),
        airflow_cfg: cfg.map(|t| text(CFG, t)),
        hostname: "host-1".to_owned(),
    }
}

pub(crate) fn load(sources: &Sources) -> Settings {
    Settings::load(sources).unwrap_or_else(|problems| panic!("{problems}"))
}

pub(crate) fn problems(sources: &Sources) -> Problems {
    Settings::load(sources).expect_err("these sources are wrong")
}

/// The one value of the effective set.
pub(crate) fn shown(settings: &Settings, key: &str) -> (String, String) {
    let found = settings.effective().iter().find(|s| s.key == key);
    let found = found.unwrap_or_else(|| panic!("{key} is not in the effective set"));
    (found.shown_value.clone(), found.source.clone())
}

/// A value of `AIRFLOW_CONN_*` all the way to settings, in Airflow 3's dialect.
pub(crate) fn settings_of(value: &str) -> Result<(AmqpSettings, Vec<String>), AmqpError> {
    let connection = parse(value, AirflowDialect::V3).unwrap_or_else(|e| panic!("{value:?}: {e}"));
    let (settings, warnings) = amqp::settings(&ConnId::new("c"), &connection)?;
    Ok((settings, warnings.iter().map(ToString::to_string).collect()))
}
