//! One HTTP request, one [`Exchange`].
//!
//! Serves every call of the adapter, over a client as [`crate::http_client`] makes it. Invariants, held by
//! `tests/airflow/transport.rs`:
//! - [`Exchange::NotSent`] only when no byte of the request left us: name, connect and TLS faults;
//! - every wait is bounded by the request's timeout, every body by its limit, and a body over its limit is
//!   [`Exchange::AnswerLost`], never cut;
//! - an idle client holds no timer: a pooled connection is dropped after 4 s, and with the last one the pool's timer ends.

use std::cell::RefCell;
use std::time::Duration;

use bytes::Bytes;
use jiff::Timestamp;
use reqwest::header::{self, HeaderMap, HeaderValue};
use reqwest::{Method, Url};

use super::echo::Echo;
use super::error::AirflowError;
use super::{retry_after, tls};
use crate::config::airflow::AirflowSettings;
use crate::domain::conf::MAX_BYTES;
use crate::domain::outcome::{Exchange, Reply, tidy};
use crate::http_client;

/// Bound of an answer's body.
pub(super) const SMALL_BODY: usize = 256 * 1024;

/// Bound of an answer that carries a run's conf: Airflow 2 writes every other than ASCII character as `\uXXXX`, which at
/// most triples what we sent.
pub(super) const CONF_BODY: usize = 3 * MAX_BYTES + SMALL_BODY;

/// Bound of a page of the list of DAGs: a hundred descriptions, each with whatever text and tags its author gave it.
pub(super) const DAGS_BODY: usize = 16 * 1024 * 1024;

/// Bound of name look-up, TCP and TLS together; half of the request's timeout if that is less.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// A request. No `Debug`: its body may be a login.
#[derive(Clone)]
pub(super) struct Ask {
    pub(super) method: Method,
    /// Appended to the base URL, already percent-encoded.
    pub(super) path: String,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
    /// Bound of the answer's body, in bytes.
    pub(super) limit: usize,
    /// Bound of the whole exchange.
    pub(super) timeout: Duration,
}

/// An answer with its cookies, for the login form.
pub(super) struct Answer {
    pub(super) exchange: Exchange,
    /// `name=value` of every `Set-Cookie`.
    pub(super) cookies: Vec<String>,
}

/// The HTTP side of the client.
pub(super) struct Http {
    client: reqwest::Client,
    /// Without a trailing slash, user or query.
    base: String,
    /// The path that was asked for last, and its URL: most requests go where the one before went, and a URL is not cheap to read.
    last: RefCell<Option<(String, Url)>>,
    /// Bound of one exchange, as configured.
    pub(super) timeout: Duration,
}

impl Http {
    /// Reads the authorities and sets the client up. Opens no connection.
    ///
    /// # Errors
    /// The URL or the file of authorities cannot be used.
    pub(super) fn new(settings: &AirflowSettings) -> Result<Self, AirflowError> {
        let base = base_url(&settings.url)?;
        // A private client configuration, so that plain HTTP costs no set of system authorities.
        let is_tls = base.starts_with("https:");
        let tls = if is_tls { tls::config(settings.ca_file.as_deref())? } else { http_client::trusts_nobody()? };
        let connect_timeout = CONNECT_TIMEOUT.min(settings.request_timeout / 2);
        let client = http_client::client(tls, connect_timeout, settings.max_in_flight).map_err(AirflowError::Client)?;
        Ok(Self { client, base, last: RefCell::default(), timeout: settings.request_timeout })
    }

    /// A request without a body.
    pub(super) fn get(&self, path: impl Into<String>) -> Ask {
        Ask {
            method: Method::GET,
            path: path.into(),
            headers: HeaderMap::new(),
            body: Bytes::new(),
            limit: SMALL_BODY,
            timeout: self.timeout,
        }
    }

    /// A request with a body.
    pub(super) fn post(&self, path: impl Into<String>, kind: &'static str, body: Vec<u8>) -> Ask {
        let mut ask = self.get(path);
        ask.method = Method::POST;
        ask.body = body.into();
        ask.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
        ask
    }

    /// Where requests go, for people and for the `Referer` of the login form.
    pub(super) fn base(&self) -> &str {
        &self.base
    }

    /// Sends a request.
    ///
    /// # Cancel safety
    /// Dropping the future leaves open whether the request was carried out.
    pub(super) async fn send(&self, ask: Ask) -> Exchange {
        self.send_keeping_cookies(ask).await.exchange
    }

    /// Sends a request and keeps the answer's cookies.
    ///
    /// # Cancel safety
    /// As [`Http::send`].
    pub(super) async fn send_keeping_cookies(&self, ask: Ask) -> Answer {
        let echo = Echo::of(&ask.headers);
        let to = match self.url(ask.path) {
            Ok(url) => self.client.request(ask.method, url),
            // Refused by the client in its own words.
            Err(text) => self.client.request(ask.method, text),
        };
        let request = to.headers(ask.headers).timeout(ask.timeout).body(ask.body);
        let mut response = match request.send().await {
            Ok(response) => response,
            Err(error) => {
                return Answer { exchange: self.fault(error), cookies: Vec::new() };
            }
        };
        let cookies = cookies(response.headers());
        let mut reply = head(&response);
        let exchange = loop {
            match response.chunk().await {
                Ok(Some(chunk)) if reply.body.len() + chunk.len() > ask.limit => {
                    break Exchange::AnswerLost(format!(
                        "the answer {} from {} is longer than {} bytes",
                        reply.status, self.base, ask.limit
                    ));
                }
                Ok(Some(chunk)) => reply.body.extend_from_slice(&chunk),
                Ok(None) => {
                    if reply.status >= 400 {
                        reply.body = echo.silence(reply.body);
                    }
                    break Exchange::Replied(reply);
                }
                Err(error) => break self.fault(error),
            }
        };
        Answer { exchange, cookies }
    }

    /// The URL of a path, or the text that is none.
    fn url(&self, path: String) -> Result<Url, String> {
        let mut last = self.last.borrow_mut();
        if let Some((_, url)) = last.as_ref().filter(|(last, _)| *last == path) {
            return Ok(url.clone());
        }
        let text = format!("{}{path}", self.base);
        let url = Url::parse(&text).map_err(|_| text)?;
        *last = Some((path, url.clone()));
        Ok(url)
    }

    /// Only an error of the connecting phase proves that nothing was sent.
    fn fault(&self, error: reqwest::Error) -> Exchange {
        let never_sent = error.is_connect() || error.is_builder();
        let text = tidy(&format!("{}: {}", self.base, http_client::chain(&error.without_url())));
        if never_sent {
            Exchange::NotSent(format!("Airflow cannot be reached at {text}"))
        } else {
            Exchange::AnswerLost(format!("no answer came from Airflow at {text}"))
        }
    }
}

/// The base URL in the form that paths are appended to.
fn base_url(text: &str) -> Result<String, AirflowError> {
    let shown = |reason| AirflowError::Url { url: redact(text), reason };
    let url = Url::parse(text).map_err(|_| shown("it is not a URL"))?;
    if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
        return Err(shown("only http:// and https:// with a host are spoken"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(shown("user and password belong into airflow.username and airflow.password"));
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(shown("it must end with the path"));
    }
    Ok(url.as_str().trim_end_matches('/').to_owned())
}

/// A URL as far as it may be shown: what stands before an `@` and after a `?` may be secret.
fn redact(text: &str) -> String {
    let text = text.split(['?', '#']).next().unwrap_or_default();
    match (text.find("://"), text.rfind('@')) {
        (Some(scheme), Some(at)) if scheme < at => {
            format!("{}***{}", &text[..scheme + 3], &text[at..])
        }
        (Some(_) | None, Some(at)) => format!("***{}", &text[at..]),
        (Some(_) | None, None) => text.to_owned(),
    }
}

fn head(response: &reqwest::Response) -> Reply {
    let text = |name| response.headers().get(name).and_then(|value: &HeaderValue| value.to_str().ok());
    Reply {
        status: response.status().as_u16(),
        content_type: text(header::CONTENT_TYPE).map(|kind| {
            let kind = kind.split(';').next().unwrap_or_default();
            kind.trim().to_ascii_lowercase()
        }),
        location: text(header::LOCATION).map(str::to_owned),
        retry_after: text(header::RETRY_AFTER)
            .and_then(|value| retry_after::parse(value, text(header::DATE), Timestamp::now())),
        body: Vec::new(),
    }
}

fn cookies(headers: &HeaderMap) -> Vec<String> {
    headers
        .get_all(header::SET_COOKIE)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .filter_map(|cookie| cookie.split(';').next())
        .map(|pair| pair.trim().to_owned())
        .filter(|pair| pair.contains('='))
        .collect()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]
mod tests {
    use super::*;

    #[test]
    fn a_base_url_keeps_its_path_and_loses_its_slash() {
        assert_eq!(base_url("http://localhost:8080").unwrap(), "http://localhost:8080");
        assert_eq!(base_url("https://h/team/airflow//").unwrap(), "https://h/team/airflow");
        assert_eq!(base_url("http://[::1]:1/x").unwrap(), "http://[::1]:1/x");
    }

    #[test]
    fn an_unusable_url_is_refused_without_its_secrets() {
        for url in
            ["localhost:8080", "ftp://h/", "http://", "", "http://u:s3cret@h/", "http://h/?token=s3cret", "u:s3cret@h"]
        {
            let error = base_url(url).unwrap_err().to_string();
            assert!(!error.contains("s3cret"), "{error}");
        }
    }
}
