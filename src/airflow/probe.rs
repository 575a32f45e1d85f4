//! Which generation of the API lives under the configured URL.
//!
//! Serves every call. Asked once, lazily, by one caller for all; asked again after several answers in a row that no Airflow
//! of the known generation gives (an upgrade under a running watcher). Must not guess: without a clear answer nothing is sent.

use std::cell::{Cell, RefCell};

use reqwest::header::HeaderMap;
use tokio::sync::Mutex;
use tracing::info;

use super::error::Blocked;
use super::http::Http;
use crate::domain::outcome::{Dialect, VersionAnswer, classify_version};
use crate::telemetry::events;

/// So many strange answers in a row make us ask again.
const STRANGERS: u32 = 3;

/// What is known about the Airflow behind the URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Version {
    pub(super) dialect: Dialect,
    /// As Airflow writes it, such as `3.3.2`.
    pub(super) text: String,
}

/// The found version and the doubts about it.
#[derive(Default)]
pub(super) struct Probe {
    known: RefCell<Option<Version>>,
    /// The last version that was told to people.
    told: RefCell<Option<Version>>,
    strangers: Cell<u32>,
    /// One probe at a time; who waits takes over its result.
    asking: Mutex<()>,
}

impl Probe {
    /// The generation to speak, found now if need be. `headers` go with the question, for gateways that want a token even
    /// for the version.
    ///
    /// # Errors
    /// No API of Airflow was found, or nothing answered.
    ///
    /// # Cancel safety
    /// Cancel safe: nothing is remembered but whole answers.
    pub(super) async fn dialect(&self, http: &Http, headers: &HeaderMap) -> Result<Dialect, Blocked> {
        if let Some(version) = &*self.known.borrow() {
            return Ok(version.dialect);
        }
        let _turn = self.asking.lock().await;
        if let Some(version) = &*self.known.borrow() {
            return Ok(version.dialect);
        }
        let version = ask(http, headers).await?;
        self.remember(http, version.clone());
        Ok(version.dialect)
    }

    /// Asks now, whatever is known.
    ///
    /// # Errors
    /// As [`Probe::dialect`].
    pub(super) async fn ask_anew(&self, http: &Http, headers: &HeaderMap) -> Result<Version, Blocked> {
        let version = ask(http, headers).await?;
        self.remember(http, version.clone());
        Ok(version)
    }

    fn remember(&self, http: &Http, version: Version) {
        self.strangers.set(0);
        if self.told.borrow().as_ref() != Some(&version) {
            info!(
                event = events::AIRFLOW_VERSION_FOUND,
                airflow.url = http.base(),
                airflow.version = version.text,
                airflow.api = version.dialect.prefix(),
                "Airflow {} answers at {}",
                version.text,
                http.base(),
            );
            self.told.replace(Some(version.clone()));
        }
        self.known.replace(Some(version));
    }

    /// Takes note of whether an answer was one that the known generation gives.
    pub(super) fn note(&self, strange: bool) {
        if !strange {
            self.strangers.set(0);
        } else if self.strangers.get() + 1 >= STRANGERS {
            self.strangers.set(0);
            self.known.replace(None);
        } else {
            self.strangers.set(self.strangers.get() + 1);
        }
    }
}

async fn ask(http: &Http, headers: &HeaderMap) -> Result<Version, Blocked> {
    let mut nowhere = String::new();
    for dialect in [Dialect::V2, Dialect::V1] {
        let mut question = http.get(format!("{}/version", dialect.prefix()));
        question.headers.extend(headers.clone());
        match classify_version(&http.send(question).await) {
            VersionAnswer::Is(text) => return Ok(Version { dialect, text }),
            VersionAnswer::NotHere(reason) => nowhere = reason,
            VersionAnswer::AccessFault(reason) => return Err(Blocked::Access(at(http, &reason))),
            VersionAnswer::Unavailable { reason, retry_after } => {
                return Err(Blocked::NotNow { reason, retry_after });
            }
        }
    }
    Err(Blocked::Access(at(http, &format!("no REST API of Airflow was found ({nowhere})"))))
}

fn at(http: &Http, reason: &str) -> String {
    format!("{reason}; asked {}, check airflow.url", http.base())
}
