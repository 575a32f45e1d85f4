//! `Retry-After` in both its forms. Source: RFC 9110, 10.2.3.

use std::time::Duration;

use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimeParser;

/// More than this is not waited for: the pause of a hold has its own, lower bound, and a mistyped date must not stop us.
const LONGEST: Duration = Duration::from_secs(3600);

/// How long to wait. A date is compared with the answer's own `Date`, so that a clock that is off between the two machines
/// does not count; without one, with `now`. A date in the past means no wait. `None`: neither form.
pub(super) fn parse(value: &str, date: Option<&str>, now: Timestamp) -> Option<Duration> {
    let value = value.trim();
    if !value.is_empty() && value.bytes().all(|b| b.is_ascii_digit()) {
        // More digits than fit mean: very long.
        let seconds = value.parse::<u64>().unwrap_or(u64::MAX);
        return Some(Duration::from_secs(seconds).min(LONGEST));
    }
    let until = http_date(value)?;
    let from = date.and_then(http_date).unwrap_or(now);
    let wait = until.duration_since(from);
    Some(Duration::try_from(wait).unwrap_or(Duration::ZERO).min(LONGEST))
}

fn http_date(text: &str) -> Option<Timestamp> {
    static PARSER: DateTimeParser = DateTimeParser::new();
    PARSER.parse_timestamp(text).ok()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]
mod tests {
    use super::*;

    fn now() -> Timestamp {
        "2026-11-30T16:00:00Z".parse().unwrap()
    }

    #[test]
    fn seconds_are_read() {
        assert_eq!(parse("7", None, now()), Some(Duration::from_secs(7)));
        assert_eq!(parse(" 0 ", None, now()), Some(Duration::ZERO));
        assert_eq!(parse("99999999999999999999", None, now()), Some(LONGEST));
    }

    #[test]
    fn a_date_counts_from_the_answers_own_date() {
        let value = "Mon, 30 Nov 2026 16:00:30 GMT";
        assert_eq!(parse(value, None, now()), Some(Duration::from_secs(30)));
        let date = Some("Mon, 30 Nov 2026 16:00:10 GMT");
        assert_eq!(parse(value, date, now()), Some(Duration::from_secs(20)));
        let later = Some("Mon, 30 Nov 2026 17:00:10 GMT");
        assert_eq!(parse(value, later, now()), Some(Duration::ZERO));
        assert_eq!(parse("Tue, 30 Nov 2027 16:00:30 GMT", None, now()), Some(LONGEST));
    }

    #[test]
    fn other_text_means_nothing() {
        for value in ["", "soon", "-1", "1.5", "30 Nov"] {
            assert_eq!(parse(value, None, now()), None, "{value}");
        }
    }
}
