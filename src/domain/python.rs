//! The few rules of Python's own functions on text that Airflow's and the seed's reading of values rests on.
//!
//! Source: CPython 3.11, `str.strip`, `int()`, `float()`.

/// White space by Python's reckoning: Unicode's, and the four ASCII separators U+001C to U+001F.
fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c)
}

/// `str.strip()`.
pub fn strip(text: &str) -> &str {
    text.trim_matches(is_space)
}

/// Text for `int()`: white space around it, one sign, and single underscores between digits are allowed.
pub fn parse_int(text: &str) -> Option<i64> {
    let text = strip(text);
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let well_formed =
        digits.split('_').all(|group| !group.is_empty() && group.bytes().all(|byte| byte.is_ascii_digit()));
    if !well_formed {
        return None;
    }
    text.replace('_', "").parse().ok()
}

/// Text for `float()`: as [`parse_int`], with a fraction, an exponent, `inf` and `nan`.
pub fn parse_float(text: &str) -> Option<f64> {
    let text = strip(text);
    let bytes = text.as_bytes();
    for (at, _) in text.match_indices('_') {
        let before = at.checked_sub(1).and_then(|i| bytes.get(i));
        let digits_around = before.is_some_and(u8::is_ascii_digit) && bytes.get(at + 1).is_some_and(u8::is_ascii_digit);
        if !digits_around {
            return None;
        }
    }
    text.replace('_', "").parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parse_int_reads_what_python_reads() {
        for (text, expected) in [
            ("60", Some(60)),
            (" +6_0\n", Some(60)),
            ("-5", Some(-5)),
            ("007", Some(7)),
            ("", None),
            ("+", None),
            ("6__0", None),
            ("_60", None),
            ("60_", None),
            ("60.0", None),
            ("0x10", None),
            ("inf", None),
            ("99999999999999999999", None),
        ] {
            assert_eq!(parse_int(text), expected, "{text:?}");
        }
    }

    #[test]
    fn parse_float_reads_what_python_reads() {
        for (text, expected) in [
            ("30", Some(30.0)),
            (" 1_5.5 ", Some(15.5)),
            ("1e1", Some(10.0)),
            ("inf", Some(f64::INFINITY)),
            ("_1", None),
            ("1_", None),
            ("1__0", None),
            ("1_.5", None),
            ("", None),
            ("thirty", None),
        ] {
            assert_eq!(parse_float(text), expected, "{text:?}");
        }
        assert!(parse_float("NaN").is_some_and(f64::is_nan));
    }

    #[test]
    fn strip_takes_the_ascii_separators_too() {
        assert_eq!(strip("\u{1f}\u{a0} x \u{2003}"), "x");
    }
}
