//! How long a bearer token lives, as far as it says so itself. Nothing is verified: the answer only chooses when to renew,
//! and a wrong one costs a refused request. A token that is no JWT lives until it is refused.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use serde_json::Value;

/// A new token is fetched this long before the old one's end, or after nine tenths of its life if that is later.
const EARLY: Duration = Duration::from_secs(300);

/// How long after its receipt a token that was just issued should be replaced. Counted from `iat` where it is given, so
/// that the clocks of the two machines need not agree; else from `now`.
pub(super) fn renew_after(token: &str, now: Timestamp) -> Option<Duration> {
    let claims = token.split('.').nth(1)?;
    let claims = URL_SAFE_NO_PAD.decode(claims.trim_end_matches('=')).ok()?;
    let claims: Value = serde_json::from_slice(&claims).ok()?;
    let seconds = |name: &str| claims.get(name).and_then(Value::as_f64);
    #[expect(clippy::cast_precision_loss, reason = "seconds since 1970 are far below 2^53")]
    let issued = seconds("iat").unwrap_or(now.as_second() as f64);
    let life = Duration::try_from_secs_f64(seconds("exp")? - issued).unwrap_or(Duration::ZERO);
    Some(life - EARLY.min(life / 10))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(claims: &str) -> String {
        format!("e30.{}.sig", URL_SAFE_NO_PAD.encode(claims))
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("in range")
    }

    #[test]
    fn a_life_is_counted_from_its_own_start() {
        let day = token(r#"{"iat":1000,"exp":87400}"#);
        assert_eq!(renew_after(&day, at(5_000_000)), Some(Duration::from_secs(86_100)));
        let short = token(r#"{"iat":1000,"exp":1060.0}"#);
        assert_eq!(renew_after(&short, at(0)), Some(Duration::from_secs(54)));
    }

    #[test]
    fn without_a_start_it_is_counted_from_now() {
        let hour = token(r#"{"exp":4600}"#);
        assert_eq!(renew_after(&hour, at(1000)), Some(Duration::from_secs(3300)));
        assert_eq!(renew_after(&hour, at(9000)), Some(Duration::ZERO));
    }

    #[test]
    fn other_tokens_say_nothing() {
        for token in ["opaque", "a.b.c", "", "e30.e30.e30", &token(r#"{"exp":"soon"}"#)] {
            assert_eq!(renew_after(token, at(0)), None, "{token}");
        }
    }
}
