//! How this program asks others over HTTP: what holds for every client, whatever it asks.
//!
//! Serves `airflow` and `broker`. No redirect is followed, no proxy of the environment is used (those we ask are neighbours; what
//! a proxy answers would be taken for their words), no request is repeated, an idle client holds no timer. Decides nothing and
//! knows nobody's API. Held by `tests/airflow/transport.rs` and `tests/broker/management.rs`.

mod reader;

use std::error::Error as _;
use std::sync::Arc;
use std::time::Duration;

use rustls::{ClientConfig, RootCertStore};

pub(crate) use reader::{Read, Reader};

/// How long an unused connection is kept. Airflow's own servers keep one for 5 s.
const KEEP_IDLE: Duration = Duration::from_secs(4);

/// Sets a client up. `tls` is used for `https:` only; `idle` connections are kept at most.
///
/// # Errors
/// What stands in the way, as one line.
pub(crate) fn client(tls: ClientConfig, connect_timeout: Duration, idle: usize) -> Result<reqwest::Client, String> {
    reqwest::Client::builder()
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .retry(reqwest::retry::never())
        .referer(false)
        .http1_only()
        .user_agent(concat!("rmq-watcher/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(connect_timeout)
        .pool_idle_timeout(KEEP_IDLE)
        .pool_max_idle_per_host(idle.max(1))
        .tls_backend_preconfigured(tls)
        .build()
        .map_err(|error| chain(&error))
}

/// A TLS configuration that trusts nobody, for a client that speaks plain HTTP only: it costs no set of authorities.
///
/// # Errors
/// The library was built without what it needs.
pub(crate) fn trusts_nobody() -> Result<ClientConfig, rustls::Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    Ok(ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(RootCertStore::empty())
        .with_no_client_auth())
}

/// An error and what caused it, as one line. Causes that repeat their own cause are not repeated.
pub(crate) fn chain(error: &reqwest::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        let said = next.to_string();
        if !text.contains(&said) {
            text.push_str(": ");
            text.push_str(&said);
        }
        cause = next.source();
    }
    text
}
