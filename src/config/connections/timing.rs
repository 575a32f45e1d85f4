//! The timing keys of a connection's extra: `heartbeat`, `connect_timeout`, `rpc_timeout`.
//!
//! A value that is not a positive number falls back to the default with a warning; text that Python reads as a number
//! counts as that number.
//!
//! Source: airflow-provider-rmq 2.6.0, "Connection Timing".

use std::time::Duration;

use serde_json::Value;

use super::amqp::ConnectionWarning;
use crate::domain::python::parse_float;

/// Seconds; with three missed intervals allowed a dead link is noticed within about 90 s.
pub const DEFAULT_HEARTBEAT_SECS: u16 = 30;
/// One connection attempt.
pub const DEFAULT_CONNECT_TIMEOUT: Duration = Duration::from_secs(15);
/// One AMQP call.
pub const DEFAULT_RPC_TIMEOUT: Duration = Duration::from_secs(30);

/// The range of a timeout that bounds anything: 1 ms to a day.
const TIMEOUT_SECS: std::ops::RangeInclusive<f64> = 0.001..=86_400.0;

/// Seconds between heartbeats. 0 leaves it to the server and is a warning; a fraction above 1 is cut off.
pub(super) fn heartbeat(value: Option<&Value>, warnings: &mut Vec<ConnectionWarning>) -> u16 {
    let Some(number) = number("heartbeat", value, "30", warnings) else {
        return DEFAULT_HEARTBEAT_SECS;
    };
    if number == 0.0 {
        warnings.push(ConnectionWarning::new(
            "its extra `heartbeat` is 0: the server's own interval is used, and if that is off too a link that dies silently stays undetected",
        ));
        return 0;
    }
    // `as` would saturate; the text form refuses what does not fit.
    let whole = (number >= 1.0).then(|| format!("{:.0}", number.trunc()).parse().ok());
    whole.flatten().unwrap_or_else(|| {
        warnings.push(unusable("heartbeat", "30"));
        DEFAULT_HEARTBEAT_SECS
    })
}

/// A bound in seconds.
pub(super) fn timeout(
    key: &'static str,
    value: Option<&Value>,
    default: Duration,
    warnings: &mut Vec<ConnectionWarning>,
) -> Duration {
    let shown = default.as_secs().to_string();
    match number(key, value, &shown, warnings) {
        None => default,
        Some(number) if TIMEOUT_SECS.contains(&number) => Duration::from_secs_f64(number),
        Some(_) => {
            warnings.push(unusable(key, &shown));
            default
        }
    }
}

/// The value as a number; a warning where there is one that is none.
fn number(key: &str, value: Option<&Value>, default: &str, warnings: &mut Vec<ConnectionWarning>) -> Option<f64> {
    let number = match value {
        None | Some(Value::Null) => return None,
        Some(Value::Number(number)) => number.as_f64(),
        Some(Value::String(text)) => parse_float(text),
        Some(Value::Bool(_) | Value::Array(_) | Value::Object(_)) => None,
    };
    if number.is_none() {
        warnings.push(unusable(key, default));
    }
    number
}

fn unusable(key: &str, default: &str) -> ConnectionWarning {
    ConnectionWarning::new(format!(
        "its extra `{key}` is not a usable number of seconds; the default of {default} is taken"
    ))
}
