//! From sources to settings, or to everything that is wrong with them. Pure.

use std::time::Duration;

use super::access;
use super::airflow::AirflowSettings;
use super::airflow_own::AirflowOwn;
use super::connections;
use super::dags;
use super::keys::{self, CONNECTIONS, ENVIRONMENT_PREFIX, KEYS};
use super::log::{LogFormat, LogLevel, LogSettings};
use super::problem::{Origin, Problem, Problems};
use super::reader::{Raw, Reader, show_path};
use super::settings::{ConsumeSettings, ReconcileSettings, Settings};
use super::sources::Sources;
use crate::domain::content::{BodyLimits, LargeBody};
use crate::domain::cycle_settings::{self, Configured, CycleSettings, DAY_SECS, Variable};
use crate::domain::nearest::nearest;
use crate::domain::retention::Retention;

/// Airflow's Variable for the interval, as an environment variable.
///
/// Source: airflow-provider-rmq 2.6.0, `rmq_watcher_reconcile_interval`.
pub const INTERVAL_VARIABLE: &str = "AIRFLOW_VAR_RMQ_WATCHER_RECONCILE_INTERVAL";

/// The same for the budget of a cycle, `rmq_watcher_cycle_timeout`.
pub const TIMEOUT_VARIABLE: &str = "AIRFLOW_VAR_RMQ_WATCHER_CYCLE_TIMEOUT";

impl Settings {
    /// Makes settings of the sources: flags, then our environment, then the file, then Airflow's own, then defaults.
    ///
    /// # Errors
    /// Everything that is wrong, at once; no problem shows a secret.
    pub fn load(sources: &Sources) -> Result<Self, Problems> {
        let mut problems = Vec::new();
        let file = parse_file(sources, &mut problems);
        if let Some((path, _)) = &sources.file {
            connections::file::read(&file, path, &mut problems);
        }
        let airflow_own = AirflowOwn::new(sources, &mut problems);
        refuse_unknown(sources, &file, &mut problems);
        let mut warnings = Vec::new();
        let mut reader = Reader::new(sources, file, problems);

        let airflow_home = sources.environment.airflow_home();
        let state_dir = read_state_dir(&mut reader, &airflow_home);
        let airflow: AirflowSettings = access::read(&mut reader, &airflow_own, &mut warnings);
        let log = read_log(&mut reader);
        let consume = read_consume(&mut reader);
        let reconcile = read_reconcile(&mut reader, &mut warnings);
        let history = read_history(&mut reader);
        let dags = dags::read(&mut reader, &airflow_own, &airflow_home, &mut warnings);

        if !reader.problems.is_empty() {
            return Err(Problems(reader.problems));
        }
        Ok(Self {
            state_dir,
            airflow_home,
            dags,
            airflow,
            log,
            consume,
            reconcile,
            history,
            file: sources.file.as_ref().map(|(path, _)| path.clone()),
            hostname: sources.hostname.clone(),
            warnings,
            effective: reader.into_effective(),
        })
    }
}

pub(super) fn parse_file(sources: &Sources, problems: &mut Vec<Problem>) -> toml::Table {
    let Some((path, text)) = &sources.file else {
        return toml::Table::new();
    };
    parse_toml(&text.0).unwrap_or_else(|sentence| {
        problems.push(Problem::said("configuration file", &Origin::File(path.clone()), sentence));
        toml::Table::new()
    })
}

/// Parses a configuration file's text. The parser's own message quotes the line, which may hold a secret, so only the
/// place is told.
pub(super) fn parse_toml(text: &str) -> Result<toml::Table, String> {
    text.parse::<toml::Table>().map_err(|error| {
        let before = text.get(..error.span().unwrap_or_default().start).unwrap_or_default();
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        format!(
            "line {line}, column {column} is not TOML; texts stand in quotes, each name may stand only once in its section"
        )
    })
}

/// Unknown names are errors: a mistyped key would silently mean its default.
pub(super) fn refuse_unknown(sources: &Sources, file: &toml::Table, problems: &mut Vec<Problem>) {
    for path in sources.flags.keys().filter(|path| KEYS.iter().all(|key| key.path() != **path)) {
        problems.push(unknown(path, &Origin::Flag, nearest_key(path)));
    }
    let names: Vec<String> = KEYS.iter().map(|key| key.environment_name()).collect();
    for name in sources.environment.names() {
        let is_ours = name.to_ascii_uppercase().starts_with(ENVIRONMENT_PREFIX);
        if is_ours && !names.iter().any(|known| known == name) {
            let origin = Origin::Environment(name.to_owned());
            problems.push(unknown_variable(name, &origin, &names));
        }
    }
    let origin = Origin::File(sources.file.as_ref().map(|(path, _)| path.clone()).unwrap_or_default());
    for (section, value) in file {
        if section == CONNECTIONS {
            continue;
        }
        let sections: Vec<&str> = KEYS.iter().map(|key| key.section).chain([CONNECTIONS]).collect();
        if !sections.contains(&section.as_str()) {
            let meant = nearest(section, sections).map(|meant| format!("[{meant}]"));
            problems.push(unknown(&format!("[{section}]"), &origin, meant));
            continue;
        }
        let Some(table) = value.as_table() else {
            problems.push(Problem::said(section, &origin, format!("expected a section, [{section}]")));
            continue;
        };
        for name in table.keys() {
            let path = format!("{section}.{name}");
            if KEYS.iter().all(|key| key.path() != path) {
                problems.push(unknown(&path, &origin, nearest_key(&path)));
            }
        }
    }
}

fn nearest_key(path: &str) -> Option<String> {
    let paths: Vec<String> = KEYS.iter().map(|key| key.path()).collect();
    nearest(path, paths.iter().map(String::as_str)).map(str::to_owned)
}

fn unknown(name: &str, origin: &Origin, meant: Option<String>) -> Problem {
    let sentence = match meant {
        Some(meant) => format!("there is no such key; did you mean {meant}?"),
        None => "there is no such key; docs/configuration.md lists them all".to_owned(),
    };
    Problem::said(name, origin, sentence)
}

fn unknown_variable(name: &str, origin: &Origin, names: &[String]) -> Problem {
    if name.starts_with(&format!("{ENVIRONMENT_PREFIX}CONNECTIONS__")) {
        let sentence = "connections are not given this way; use AIRFLOW_CONN_<ID>, or [connections.<id>] in the file";
        return Problem::said(name, origin, sentence);
    }
    let meant = nearest(name, names.iter().map(String::as_str)).map(str::to_owned);
    unknown(name, origin, meant)
}

pub(super) fn read_state_dir(reader: &mut Reader<'_>, airflow_home: &std::path::Path) -> std::path::PathBuf {
    let environment = reader.environment();
    let given = reader.optional(&keys::STATE_DIR, |raw| raw.path(environment), |p| show_path(p));
    given.map_or_else(
        || {
            let path = airflow_home.join("rmq-watcher");
            let origin = Origin::Default("in Airflow's home".to_owned());
            reader.record(&keys::STATE_DIR, show_path(&path), &origin);
            path
        },
        |(path, _)| path,
    )
}

fn read_log(reader: &mut Reader<'_>) -> LogSettings {
    LogSettings {
        level: reader.required(&keys::LOG_LEVEL, log_level, |level| level.name().to_owned()),
        format: reader.required(&keys::LOG_FORMAT, log_format, |format| format.name().to_owned()),
    }
}

fn log_level(raw: &Raw) -> Option<LogLevel> {
    let text = raw.text()?.trim().to_ascii_lowercase();
    LogLevel::ALL.into_iter().find(|level| level.name() == text)
}

fn log_format(raw: &Raw) -> Option<LogFormat> {
    let text = raw.text()?.trim().to_ascii_lowercase();
    LogFormat::ALL.into_iter().find(|format| format.name() == text)
}

/// Whole seconds within a day.
fn secs(raw: &Raw) -> Option<Duration> {
    seconds_up_to(raw, i64::from(DAY_SECS))
}

pub(super) fn seconds_up_to(raw: &Raw, most: i64) -> Option<Duration> {
    let secs = u64::try_from(raw.integer(1..=most)?).ok()?;
    Some(Duration::from_secs(secs))
}

pub(super) fn show_secs(duration: &Duration) -> String {
    duration.as_secs().to_string()
}

fn read_consume(reader: &mut Reader<'_>) -> ConsumeSettings {
    let prefetch = |raw: &Raw| u16::try_from(raw.integer(1..=65_535)?).ok();
    ConsumeSettings {
        prefetch: reader.required(&keys::CONSUME_PREFETCH, prefetch, u16::to_string),
        ack_deadline: reader.required(&keys::CONSUME_ACK_DEADLINE_SECS, secs, show_secs),
        body: BodyLimits {
            max_bytes: reader.required(&keys::CONSUME_MAX_BODY_BYTES, body_bytes, usize::to_string),
            large: reader.required(&keys::CONSUME_LARGE_BODY, large_body, |large| large.name().to_owned()),
        },
        body_files_kept_for: reader.required(&keys::CONSUME_BODY_FILE_DAYS, days, show_days),
    }
}

fn read_history(reader: &mut Reader<'_>) -> Retention {
    let (rows, mib) = (|raw: &Raw| raw.integer(1_000..=10_000_000), |raw: &Raw| raw.integer(1..=1_048_576));
    let kept_for = reader.required(&keys::HISTORY_KEEP_DAYS, days, show_days);
    Retention {
        keep_ms: i64::try_from(kept_for.as_millis()).unwrap_or(i64::MAX),
        keep_rows: reader.required(&keys::HISTORY_KEEP_ROWS, rows, i64::to_string),
        keep_bytes: reader.required(&keys::HISTORY_KEEP_REFUSED_MIB, mib, i64::to_string) * 1024 * 1024,
    }
}

fn show_days(kept: &Duration) -> String {
    (kept.as_secs() / u64::from(DAY_SECS)).to_string()
}

fn body_bytes(raw: &Raw) -> Option<usize> {
    usize::try_from(raw.integer(1024..=16_777_216)?).ok()
}

fn large_body(raw: &Raw) -> Option<LargeBody> {
    let text = raw.text()?.trim().to_ascii_lowercase();
    LargeBody::ALL.into_iter().find(|large| large.name() == text)
}

fn days(raw: &Raw) -> Option<Duration> {
    let days = u64::try_from(raw.integer(1..=3650)?).ok()?;
    Some(Duration::from_secs(days * u64::from(DAY_SECS)))
}

/// Our keys first, then Airflow's Variables with the seed's rules: what cannot be used is set aside with a warning.
fn read_reconcile(reader: &mut Reader<'_>, warnings: &mut Vec<String>) -> ReconcileSettings {
    let (interval_key, timeout_key) = (&keys::RECONCILE_INTERVAL_SECS, &keys::RECONCILE_CYCLE_TIMEOUT_SECS);
    let interval = reader.required(interval_key, secs, show_secs);
    let configured = Configured {
        interval: reader.find(interval_key).map(|_| interval),
        timeout: reader.optional(timeout_key, secs, show_secs).map(|(timeout, _)| timeout),
    };
    // What cannot be used, or is no UTF-8, is kept as a text without words: it may be a secret that went astray.
    let variable = |name, is_usable: fn(&str) -> bool| match reader.environment().get(name) {
        Ok(text) => text.map(|text| if is_usable(text) { text.to_owned() } else { String::new() }),
        Err(_) => Some(String::new()),
    };
    let interval_variable = variable(INTERVAL_VARIABLE, |text| cycle_settings::read_interval(text).is_some());
    let timeout_variable = variable(TIMEOUT_VARIABLE, |text| cycle_settings::read_timeout(text).is_some());
    let of = |text: &Option<String>| text.clone().map_or(Variable::Unset, Variable::Set);
    let (settings, set_aside) =
        CycleSettings::default().next(configured, &of(&interval_variable), &of(&timeout_variable));
    let from = |name: &str| Origin::AirflowEnvironment(name.to_owned());
    let uses = |text: &Option<String>, word: &str| text.is_some() && !set_aside.iter().any(|w| w.contains(word));
    if configured.interval.is_none() && uses(&interval_variable, cycle_settings::INTERVAL_VARIABLE) {
        reader.record(interval_key, show_secs(&settings.interval), &from(INTERVAL_VARIABLE));
    }
    if configured.timeout.is_none() {
        let origin = if uses(&timeout_variable, cycle_settings::TIMEOUT_VARIABLE) {
            from(TIMEOUT_VARIABLE)
        } else {
            Origin::Default("three times the interval, at least 300".to_owned())
        };
        reader.record(timeout_key, settings.budget.as_secs_f64().to_string(), &origin);
    }
    warnings.extend(set_aside);
    ReconcileSettings { interval: settings.interval, configured, interval_variable, timeout_variable }
}
