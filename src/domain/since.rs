//! A moment as people write it: how long ago, or when.

use jiff::Timestamp;

/// Reads `90s`, `30m`, `2h`, `7d`, `1d12h`, or a time of RFC 3339 such as `2026-11-30T22:00:00Z`. Returns UTC milliseconds.
///
/// # Errors
/// A sentence that says what can be written.
pub fn parse(text: &str, now_ms: i64) -> Result<i64, String> {
    let text = text.trim();
    if let Some(ago_ms) = duration_ms(text) {
        return Ok(now_ms.saturating_sub(ago_ms));
    }
    let time: Result<Timestamp, _> = text.parse();
    time.map(Timestamp::as_millisecond).map_err(|_| {
        format!(
            "{text:?} is no moment: write how long ago, such as 90s, 30m, 2h, 7d or 1d12h, or a time with its zone, such as \
             2026-11-30T22:00:00Z"
        )
    })
}

/// Whole numbers, each with its unit.
fn duration_ms(text: &str) -> Option<i64> {
    let (mut total, mut digits) = (0_i64, String::new());
    for c in text.chars() {
        if c.is_ascii_digit() {
            digits.push(c);
            continue;
        }
        let unit = match c {
            's' => 1_000,
            'm' => 60_000,
            'h' => 3_600_000,
            'd' => 86_400_000,
            _ => return None,
        };
        total = total.checked_add(digits.parse::<i64>().ok()?.checked_mul(unit)?)?;
        digits.clear();
    }
    (digits.is_empty() && !text.is_empty()).then_some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_800_000_000_000;

    #[test]
    fn durations_and_times_are_read() {
        for (text, ago_ms) in [
            ("90s", 90_000),
            ("30m", 1_800_000),
            ("2h", 7_200_000),
            ("7d", 604_800_000),
            ("1d12h", 129_600_000),
            (" 0s ", 0),
        ] {
            assert_eq!(parse(text, NOW), Ok(NOW - ago_ms), "{text}");
        }
        assert_eq!(parse("1970-01-01T00:00:01Z", NOW), Ok(1_000));
        assert_eq!(parse("1970-01-01T01:00:01.5+01:00", NOW), Ok(1_500));
    }

    #[test]
    fn anything_else_is_refused_with_what_can_be_written() {
        for text in
            ["", "h", "5", "5x", "-5m", "1.5h", "2026-11-30", "2026-11-30T22:00:00", "yesterday", "99999999999999999d"]
        {
            let error = parse(text, NOW).expect_err(text);
            assert!(error.contains("such as 90s"), "{error}");
        }
    }
}
