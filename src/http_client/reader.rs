//! Reading things of a service that takes Basic logins.

use std::time::Duration;

use reqwest::header::{self, HeaderValue};
use rustls::ClientConfig;

use super::{chain, client};
use crate::domain::connection::Secret;

/// Reads as one user.
pub(crate) struct Reader {
    client: reqwest::Client,
    login: String,
    password: Secret,
}

/// What was read.
#[derive(Debug)]
pub(crate) struct Read {
    pub(crate) status: u16,
    /// The answer says that it is JSON.
    pub(crate) is_json: bool,
    pub(crate) body: Vec<u8>,
}

impl Reader {
    /// # Errors
    /// As [`client`].
    pub(crate) fn new(
        tls: ClientConfig,
        connect_timeout: Duration,
        login: &str,
        password: &Secret,
    ) -> Result<Self, String> {
        let client = client(tls, connect_timeout, 1)?;
        Ok(Self { client, login: login.to_owned(), password: password.clone() })
    }

    /// Reads one thing: at most `limit` bytes within `timeout`.
    ///
    /// # Errors
    /// Why there is no answer, as one line that holds neither the URL nor the password.
    pub(crate) async fn get(&self, url: &str, limit: usize, timeout: Duration) -> Result<Read, String> {
        let asked = self.client.get(url).basic_auth(&self.login, Some(self.password.expose())).timeout(timeout);
        let fault = |error: reqwest::Error| chain(&error.without_url());
        let mut response = asked.send().await.map_err(fault)?;
        let kind = response.headers().get(header::CONTENT_TYPE).and_then(|kind: &HeaderValue| kind.to_str().ok());
        let is_json = kind.is_some_and(|kind| kind.trim().to_ascii_lowercase().starts_with("application/json"));
        let mut read = Read { status: response.status().as_u16(), is_json, body: Vec::new() };
        while let Some(chunk) = response.chunk().await.map_err(fault)? {
            if read.body.len() + chunk.len() > limit {
                return Err(format!("the answer is longer than {limit} bytes"));
            }
            read.body.extend_from_slice(&chunk);
        }
        Ok(read)
    }
}
