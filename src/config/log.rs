//! How the watcher writes its log.

/// Settings of the section `[log]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogSettings {
    /// The least level that is written; default `info`.
    pub level: LogLevel,
    /// Default `text`: Airflow's own line shape.
    pub format: LogFormat,
}

/// Levels, most severe first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the usual names")]
pub enum LogLevel {
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

impl LogLevel {
    /// Every level.
    pub const ALL: [Self; 5] = [Self::Error, Self::Warn, Self::Info, Self::Debug, Self::Trace];

    /// Its name in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warn => "warn",
            Self::Info => "info",
            Self::Debug => "debug",
            Self::Trace => "trace",
        }
    }
}

/// Line shapes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// `[2026-11-30T16:00:00.000+0000] {rmq-watcher} INFO - message key=value`
    Text,
    /// One JSON object a line.
    Json,
}

impl LogFormat {
    /// Every format.
    pub const ALL: [Self; 2] = [Self::Text, Self::Json];

    /// Its name in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Json => "json",
        }
    }
}
