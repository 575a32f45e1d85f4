//! Takes our own credentials out of an answer that repeats them, as a gateway that explains a refusal may do.
//!
//! Serves every request: what an error answer says is quoted in logs, status rows and `check`. Must not touch an answer that
//! carries data (a run's conf may hold any text), only refusals. Invariant: no credential that went out with a request comes
//! back with its refusal; held here and by `tests/cli/planted.rs`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use reqwest::header::{self, HeaderMap};

/// What is shorter could be a word of the answer itself.
const SHORTEST: usize = 8;

const STARS: &[u8] = b"***";

/// The credentials of one request, in the forms in which they may come back.
#[derive(Default)]
pub(super) struct Echo(Vec<Vec<u8>>);

impl Echo {
    /// The credentials in the headers of a request.
    pub(super) fn of(headers: &HeaderMap) -> Self {
        let text = |name| headers.get(name).and_then(|value: &header::HeaderValue| value.to_str().ok());
        let mut echo = Self::default();
        if let Some((scheme, value)) = text(header::AUTHORIZATION).and_then(|value| value.split_once(' ')) {
            echo.add(value);
            if scheme.eq_ignore_ascii_case("basic")
                && let Some(pair) = STANDARD.decode(value).ok().and_then(|bytes| String::from_utf8(bytes).ok())
                && let Some((_, password)) = pair.split_once(':')
            {
                echo.add(password);
            }
        }
        for cookie in text(header::COOKIE).unwrap_or_default().split(';') {
            echo.add(cookie.split_once('=').map_or("", |(_, value)| value));
        }
        echo
    }

    fn add(&mut self, secret: &str) {
        if secret.len() < SHORTEST {
            return;
        }
        let in_json = serde_json::Value::from(secret).to_string();
        let in_json = &in_json[1..in_json.len() - 1];
        if in_json != secret {
            self.0.push(in_json.as_bytes().to_vec());
        }
        self.0.push(secret.as_bytes().to_vec());
    }

    /// The body of a refusal without them.
    pub(super) fn silence(&self, body: Vec<u8>) -> Vec<u8> {
        self.0.iter().fold(body, |body, secret| without(&body, secret).unwrap_or(body))
    }
}

/// The bytes with each occurrence replaced; `None` where there is none.
fn without(bytes: &[u8], secret: &[u8]) -> Option<Vec<u8>> {
    let find = |from: usize| bytes[from..].windows(secret.len()).position(|window| window == secret);
    let mut next = find(0);
    next?;
    let (mut kept, mut from) = (Vec::with_capacity(bytes.len()), 0);
    while let Some(at) = next {
        kept.extend_from_slice(&bytes[from..from + at]);
        kept.extend_from_slice(STARS);
        from += at + secret.len();
        next = find(from);
    }
    kept.extend_from_slice(&bytes[from..]);
    Some(kept)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]
mod tests {
    use super::*;

    fn silenced(name: header::HeaderName, value: &str, body: &str) -> String {
        let headers = HeaderMap::from_iter([(name, value.parse().unwrap())]);
        String::from_utf8(Echo::of(&headers).silence(body.as_bytes().to_vec())).unwrap()
    }

    #[test]
    fn token_is_taken_out_wherever_it_stands() {
        let body = "abc.def.ghi is old: abc.def.ghiabc.def.ghi";
        assert_eq!(silenced(header::AUTHORIZATION, "Bearer abc.def.ghi", body), "*** is old: ******");
        assert_eq!(silenced(header::AUTHORIZATION, "Bearer other.token", body), body);
    }

    #[test]
    fn basic_password_is_taken_out_in_each_form() {
        let value = format!("Basic {}", STANDARD.encode("user:long \"secret\""));
        let body = format!("{} long \"secret\" {}", &value[6..], r#"long \"secret\""#);
        assert_eq!(silenced(header::AUTHORIZATION, &value, &body), "*** *** ***");
    }

    #[test]
    fn session_is_taken_out_and_short_values_stay() {
        let cookies = "session=eyJ0b2tlbiI; lang=en";
        assert_eq!(silenced(header::COOKIE, cookies, "en eyJ0b2tlbiI"), "en ***");
    }
}
