//! User and password, each generation's way: a token from `POST /auth/token` (3.x), the login form's session (2.x).
//!
//! Serves the login. Source: Airflow 3.3.2 (201 with `access_token`; 401 `Invalid credentials`), Airflow 2.11.2 with its
//! FAB login form (302 to the start page on success, 302 back to `/login/` on a wrong password). The form's session is
//! accepted by the API whenever `session` or, since it lets visitors pass unauthenticated, `basic_auth` is among
//! `[api] auth_backends` (tried).

use std::time::Duration;

use reqwest::header::{self, HeaderValue};
use serde_json::Value;

use super::LOGIN_TIMEOUT;
use crate::airflow::error::Blocked;
use crate::airflow::http::Http;
use crate::airflow::wire;
use crate::domain::outcome::{Exchange, Reply, tidy};

/// Where 2.x has its login form; the closing slash is needed.
const LOGIN_FORM: &str = "/login/";

/// What the login form led to.
pub(super) enum FormLogin {
    /// Logged in: the value of the `Cookie` header.
    Session(String),
    /// There is no form that we can fill in (single sign-on, another page): Basic may work.
    NoForm(String),
    /// Too many logins from our address, whoever made them; when to try again. 2.11 allows 5 in 40 s by default
    /// (`AUTH_RATE_LIMIT`) and tells no time.
    TooMany(Option<Duration>),
}

/// Fetches a token from Airflow 3.
///
/// # Errors
/// The credentials are refused, or nothing useful answered.
pub(super) async fn fetch_token(http: &Http, username: &str, password: &str) -> Result<String, Blocked> {
    let body = serde_json::json!({"username": username, "password": password}).to_string();
    let mut ask = http.post("/auth/token", "application/json", body.into_bytes());
    ask.timeout = ask.timeout.min(LOGIN_TIMEOUT);
    let reply = answered(http.send(ask).await)?;
    let token = serde_json::from_slice::<Value>(&reply.body)
        .ok()
        .and_then(|json| Some(json.get("access_token")?.as_str()?.to_owned()));
    match (reply.status, token) {
        (200 | 201, Some(token)) => Ok(token),
        (401 | 403, _) => Err(wrong(username)),
        (status, _) => Err(Blocked::Access(format!(
            "Airflow gives no token for user {username}: {}/auth/token answered {status}; set airflow.token_file or \
             airflow.token_command if its auth manager needs another way",
            http.base()
        ))),
    }
}

/// Logs in through the form of Airflow 2.
///
/// # Errors
/// The credentials are refused, or nothing answered.
pub(super) async fn log_in(http: &Http, username: &str, password: &str) -> Result<FormLogin, Blocked> {
    let mut ask = http.get(LOGIN_FORM);
    ask.timeout = ask.timeout.min(LOGIN_TIMEOUT);
    let page = http.send_keeping_cookies(ask).await;
    let mut jar = Jar::default();
    jar.keep(&page.cookies);
    let form = answered(page.exchange)?;
    let Some(csrf) = csrf_token(&String::from_utf8_lossy(&form.body)).filter(|_| form.status == 200) else {
        return Ok(FormLogin::NoForm(format!("{LOGIN_FORM} answered {} without a form", form.status)));
    };
    let fields = [("csrf_token", csrf.as_str()), ("username", username), ("password", password)];
    let mut ask = http.post(LOGIN_FORM, "application/x-www-form-urlencoded", wire::form(&fields));
    ask.timeout = ask.timeout.min(LOGIN_TIMEOUT);
    if let Some(cookies) = jar.header() {
        ask.headers.insert(header::COOKIE, cookies);
    }
    // Over https the form's protection demands a Referer of the same host.
    if let Ok(referer) = HeaderValue::from_str(&format!("{}{LOGIN_FORM}", http.base())) {
        ask.headers.insert(header::REFERER, referer);
    }
    let answer = http.send_keeping_cookies(ask).await;
    jar.keep(&answer.cookies);
    if let Exchange::Replied(reply) = &answer.exchange
        && reply.status == 429
    {
        return Ok(FormLogin::TooMany(reply.retry_after));
    }
    let reply = answered(answer.exchange)?;
    let back_at_login =
        reply.location.as_deref().is_some_and(|goal| goal.split('?').next().unwrap_or_default().contains("/login"));
    match reply.status {
        302 | 303 if back_at_login => Err(wrong(username)),
        302 | 303 if !jar.is_empty() => Ok(FormLogin::Session(jar.text())),
        status => Ok(FormLogin::NoForm(format!("the login form answered {status}"))),
    }
}

fn wrong(username: &str) -> Blocked {
    Blocked::Access(format!(
        "Airflow refuses the user {username} with this password; check airflow.username and airflow.password"
    ))
}

/// The answer, unless it only says that Airflow cannot answer now.
fn answered(exchange: Exchange) -> Result<Reply, Blocked> {
    match exchange {
        Exchange::NotSent(reason) | Exchange::AnswerLost(reason) => Err(Blocked::NotNow { reason, retry_after: None }),
        Exchange::Replied(reply) if matches!(reply.status, 408 | 429 | 500..600) => Err(Blocked::NotNow {
            reason: tidy(&format!("Airflow answered {} to our login", reply.status)),
            retry_after: reply.retry_after,
        }),
        Exchange::Replied(reply) => Ok(reply),
    }
}

/// The hidden field of a Flask form.
fn csrf_token(page: &str) -> Option<String> {
    page.split('<')
        .filter(|tag| tag.starts_with("input"))
        .find(|tag| attribute(tag, "name") == Some("csrf_token"))
        .and_then(|tag| attribute(tag, "value"))
        .filter(|token| !token.is_empty())
        .map(str::to_owned)
}

fn attribute<'a>(tag: &'a str, name: &str) -> Option<&'a str> {
    let start = tag.find(&format!(" {name}=\""))? + name.len() + 3;
    tag[start..].split('"').next()
}

/// The cookies of the login, later ones in place of earlier ones. Attributes do not matter: all go to the host and path
/// they came from.
#[derive(Default)]
struct Jar(Vec<(String, String)>);

impl Jar {
    fn keep(&mut self, pairs: &[String]) {
        for (name, value) in pairs.iter().filter_map(|pair| pair.split_once('=')) {
            self.0.retain(|(kept, _)| kept != name);
            if !value.is_empty() {
                self.0.push((name.to_owned(), value.to_owned()));
            }
        }
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn text(&self) -> String {
        let pairs: Vec<_> = self.0.iter().map(|(name, value)| format!("{name}={value}")).collect();
        pairs.join("; ")
    }

    fn header(&self) -> Option<HeaderValue> {
        if self.is_empty() {
            return None;
        }
        HeaderValue::from_str(&self.text()).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_forms_token_is_found() {
        let page = r#"<form><input id="x" name="other" value="1"> <input id="csrf_token" name="csrf_token" type="hidden" value="Ij.a-b_c"></form>"#;
        assert_eq!(csrf_token(page).as_deref(), Some("Ij.a-b_c"));
        assert_eq!(csrf_token("<a href=\"/login/google\">log in</a>"), None);
        assert_eq!(csrf_token(r#"<input name="csrf_token" value="">"#), None);
    }

    #[test]
    fn later_cookies_replace_earlier_ones() {
        let mut jar = Jar::default();
        assert!(jar.header().is_none());
        jar.keep(&["session=one".to_owned(), "lb=a".to_owned(), "old=1".to_owned()]);
        jar.keep(&["session=two=2".to_owned(), "old=".to_owned()]);
        assert_eq!(jar.text(), "lb=a; session=two=2");
    }
}
