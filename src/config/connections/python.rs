//! The rule of Python's own library for percent sequences that Airflow's reading of connections rests on; those for numbers
//! and white space are [`crate::domain::python`].
//!
//! Source: CPython 3.11, `urllib.parse.unquote`.

use percent_encoding::percent_decode_str;

/// `urllib.parse.unquote`: percent sequences decoded as UTF-8, what is no UTF-8 replaced by U+FFFD, broken sequences left
/// as they are; `+` stays `+`.
pub fn unquote(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}
