//! The shape of one log line, as text. Used by the subscriber, by the raw lines of `process` and by the launcher, so that all
//! of them look alike in the scheduler's log: `[2026-11-30T16:00:00.000+0000] {rmq-watcher} INFO - message key=value`.
//!
//! Invariant: a line holds exactly one newline, its last byte, and at most [`MAX_LINE_BYTES`] bytes, so that one `write(2)` to
//! a pipe never mixes with a line of the scheduler (pipe(7): writes up to `PIPE_BUF`, 4096 bytes, are atomic).

use std::fmt::Write as _;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::config::log::LogLevel;

/// The longest line, newline included, in bytes.
pub const MAX_LINE_BYTES: usize = 4096;

/// The name of the watcher's lines.
pub const WATCHER: &str = "rmq-watcher";
/// The name of the launcher's lines.
pub const LAUNCHER: &str = "rmq-launcher";

/// The wall clock as time since 1970, UTC.
#[expect(clippy::disallowed_methods, reason = "a line says when it was written")]
pub fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// Airflow's own form of a time: `2026-11-30T16:00:00.000+0000`.
pub fn timestamp(since_epoch: Duration) -> String {
    let seconds = since_epoch.as_secs();
    let (year, month, day) = civil(seconds / 86_400);
    let of_day = seconds % 86_400;
    format!(
        "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}.{:03}+0000",
        of_day / 3600,
        of_day / 60 % 60,
        of_day % 60,
        since_epoch.subsec_millis()
    )
}

/// The day of the Gregorian calendar, `days` after 1970-01-01.
///
/// Source: Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms", `civil_from_days`, for days after the epoch only.
fn civil(days: u64) -> (u64, u64, u64) {
    let shifted = days + 719_468;
    let era = shifted / 146_097;
    let of_era = shifted % 146_097;
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    (year, month, day)
}

/// The word for a level, as Airflow writes it.
pub fn level_word(level: LogLevel) -> &'static str {
    match level {
        LogLevel::Error => "ERROR",
        LogLevel::Warn => "WARNING",
        LogLevel::Info => "INFO",
        LogLevel::Debug => "DEBUG",
        LogLevel::Trace => "TRACE",
    }
}

/// A whole text line with its newline, cut to [`MAX_LINE_BYTES`].
pub fn text(time: Duration, who: &str, level: LogLevel, message: &str) -> String {
    let mut line = format!("[{}] {{{who}}} {} - ", timestamp(time), level_word(level));
    escape_into(&mut line, message);
    finish(line)
}

/// Adds `text` with control characters escaped, so that nothing in it can begin a line of its own.
pub fn escape_into(line: &mut String, text: &str) {
    for character in text.chars() {
        if character.is_control() {
            let _ = write!(line, "{}", character.escape_default());
        } else {
            line.push(character);
        }
    }
}

/// Cuts a line that is too long, says by how much, and adds the newline.
pub fn finish(mut line: String) -> String {
    // Room for the note: " … [cut, N more bytes]" with N of up to 20 digits.
    const NOTE: usize = 48;
    if line.len() >= MAX_LINE_BYTES {
        let mut keep = MAX_LINE_BYTES - NOTE;
        while !line.is_char_boundary(keep) {
            keep -= 1;
        }
        let rest = line.len() - keep;
        line.truncate(keep);
        let _ = write!(line, " … [cut, {rest} more bytes]");
    }
    line.push('\n');
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamp_of_known_moments_is_airflow_s_form() {
        let cases = [
            (0, 0, "1970-01-01T00:00:00.000+0000"),
            (951_782_399, 7, "2000-02-28T23:59:59.007+0000"),
            (951_782_400, 0, "2000-02-29T00:00:00.000+0000"),
            (1_796_054_400, 120, "2026-11-30T16:00:00.120+0000"),
            (4_102_444_799, 999, "2099-12-31T23:59:59.999+0000"),
        ];
        for (seconds, millis, expected) in cases {
            assert_eq!(timestamp(Duration::from_millis(seconds * 1000 + millis)), expected);
        }
    }

    #[test]
    fn line_with_control_characters_stays_one_line() {
        let line = text(Duration::ZERO, WATCHER, LogLevel::Warn, "a\nb\u{1b}[0mc\r");
        assert_eq!(line, "[1970-01-01T00:00:00.000+0000] {rmq-watcher} WARNING - a\\nb\\u{1b}[0mc\\r\n");
    }

    #[test]
    fn line_too_long_is_cut_at_a_character_and_says_so() {
        let line = text(Duration::ZERO, WATCHER, LogLevel::Info, &"ä".repeat(5000));
        assert!(line.len() <= MAX_LINE_BYTES, "{}", line.len());
        assert!(line.ends_with(" more bytes]\n"), "{line}");
        let longest = text(Duration::ZERO, WATCHER, LogLevel::Info, &"x".repeat(4043));
        assert_eq!(longest.len(), MAX_LINE_BYTES);
        assert!(!longest.contains("[cut"));
    }
}
