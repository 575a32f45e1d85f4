//! Who we are to Airflow: the credential of the next request, and a new one when it was refused.
//!
//! Serves every call. One login at a time for all callers (`Auth::turn`); who waited takes over its result. Must not judge
//! answers: whether one asks for a login is [`crate::domain::outcome::asks_for_login`]. No secret is ever part of an error
//! or a log line. Invariants, held by `tests/airflow/login.rs`: no more logins than [`pace`] allows; a credential is
//! replaced early by its own word, and at most once per refused request.

mod jwt;
mod log_in;
mod pace;
mod password;
mod secret_files;

use std::cell::{Cell, RefCell};
use std::path::Path;
use std::time::Duration;

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use tokio::sync::Mutex;
use tokio::time::Instant;
use tracing::info;

use self::pace::Pace;
use super::error::Blocked;
use super::http::Http;
use super::readings::Readings;
use crate::config::airflow::Credentials;
use crate::config::files::Stamp;
use crate::domain::outcome::Dialect;
use crate::telemetry::events;

/// Bound of one request of a login, if the general bound is not less.
const LOGIN_TIMEOUT: Duration = Duration::from_secs(30);

/// A token file is looked at no more often than this.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// The same, while its file system hangs: every look then costs the call that makes it the whole bound of a reading.
const LOOK_AGAIN_HUNG: Duration = Duration::from_secs(60);

/// Basic in place of a refused session is tried no more often than this.
const BASIC_AGAIN: Duration = Duration::from_secs(60);

/// How a credential travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Bearer,
    Session,
    Basic,
}

/// A credential, ready to be sent.
#[derive(Clone, Debug)]
pub(super) struct Pass {
    kind: Kind,
    dialect: Dialect,
    /// Basic, tried once in place of a session.
    is_trial: bool,
    /// Rises with every credential: tells "mine was refused" from "somebody has renewed it since".
    serial: u64,
    name: HeaderName,
    /// Marked sensitive: its `Debug` shows nothing.
    value: HeaderValue,
}

impl Pass {
    /// The header to send.
    pub(super) fn header(&self) -> (HeaderName, HeaderValue) {
        (self.name.clone(), self.value.clone())
    }
}

/// A credential in use.
struct Held {
    pass: Pass,
    /// When its own word says that it should be replaced.
    renew_at: Option<Instant>,
    /// Whether Airflow has let a request with it in.
    accepted: bool,
}

/// The state of the token file at its last look.
#[derive(Clone, Copy)]
struct Looked {
    again_at: Instant,
    stamp: Option<Stamp>,
}

/// The login.
pub(super) struct Auth {
    credentials: Credentials,
    readings: Readings,
    held: RefCell<Option<Held>>,
    looked: Cell<Option<Looked>>,
    pace: RefCell<Pace>,
    /// Why the last login failed, told again until the next is allowed.
    failed: RefCell<Option<Blocked>>,
    /// 2.x: the session is of no use here, Basic is.
    basic: Cell<bool>,
    basic_tried: Cell<Option<Instant>>,
    serials: Cell<u64>,
    turn: Mutex<()>,
}

impl Auth {
    pub(super) fn new(credentials: Credentials) -> Self {
        Self {
            credentials,
            readings: Readings::default(),
            held: RefCell::new(None),
            looked: Cell::new(None),
            pace: RefCell::new(Pace::default()),
            failed: RefCell::new(None),
            basic: Cell::new(false),
            basic_tried: Cell::new(None),
            serials: Cell::new(0),
            turn: Mutex::new(()),
        }
    }

    /// The credential headers of a request that any generation understands before it is known which one answers: a bearer
    /// token from file or program, for gateways that want one everywhere. Empty with a password, which needs a login.
    pub(super) async fn early_headers(&self, http: &Http) -> HeaderMap {
        let mut headers = HeaderMap::new();
        match &self.credentials {
            Credentials::Missing | Credentials::Password { .. } => {}
            Credentials::TokenFile(_) | Credentials::TokenCommand(_) => {
                // Where there is no token, the call that follows says so.
                if let Ok(pass) = self.pass(http, Dialect::V2).await {
                    let (name, value) = pass.header();
                    headers.insert(name, value);
                }
            }
        }
        headers
    }

    /// The credential for the next request; logs in if there is none or its end is near.
    ///
    /// # Errors
    /// There are no credentials, they are refused, or Airflow cannot be asked now.
    ///
    /// # Cancel safety
    /// Cancel safe: a login given up leaves the old credential in place.
    pub(super) async fn pass(&self, http: &Http, dialect: Dialect) -> Result<Pass, Blocked> {
        if let Some(pass) = self.current(dialect).await {
            return Ok(pass);
        }
        let _turn = self.turn.lock().await;
        if let Some(pass) = self.current(dialect).await {
            return Ok(pass);
        }
        let result = self.log_in(http, dialect).await;
        // Renewal comes early, so the old credential is still good while Airflow cannot give another.
        if let Err(Blocked::NotNow { .. }) = &result
            && let Some(held) = &*self.held.borrow()
            && held.pass.dialect == dialect
        {
            return Ok(held.pass.clone());
        }
        result
    }

    /// The held credential, if it may still be used.
    async fn current(&self, dialect: Dialect) -> Option<Pass> {
        if let Credentials::TokenFile(path) = &self.credentials {
            self.look_at(path).await;
        }
        let held = self.held.borrow();
        let held = held.as_ref()?;
        let due = held.renew_at.is_some_and(|at| at <= Instant::now());
        let fits = held.pass.kind == Kind::Bearer && !self.has_password() || held.pass.dialect == dialect;
        (fits && !due).then(|| held.pass.clone())
    }

    /// Forgets the held token if its file has changed. A file system that hangs tells nothing, so the token stays.
    async fn look_at(&self, path: &Path) {
        if self.looked.get().is_some_and(|looked| Instant::now() < looked.again_at) {
            return;
        }
        let seen = secret_files::stamp(&self.readings, path).await;
        let before = self.looked.get();
        let (stamp, pause) = match seen {
            Ok(stamp) => (stamp, LOOK_AGAIN),
            Err(_) => (before.and_then(|looked| looked.stamp), LOOK_AGAIN_HUNG),
        };
        if before.is_some_and(|looked| looked.stamp != stamp) {
            self.held.replace(None);
        }
        self.looked.set(Some(Looked { again_at: Instant::now() + pause, stamp }));
    }

    /// Another credential in place of a refused one, or `None` when there is none to try (now).
    ///
    /// # Cancel safety
    /// As [`Auth::pass`].
    pub(super) async fn renew(&self, http: &Http, dialect: Dialect, refused: &Pass) -> Option<Pass> {
        let _turn = self.turn.lock().await;
        let (newer, was_accepted) = match &*self.held.borrow() {
            Some(held) if held.pass.serial > refused.serial => (Some(held.pass.clone()), true),
            Some(held) => (None, held.accepted),
            None => (None, true),
        };
        if newer.is_some() {
            return newer;
        }
        if refused.is_trial {
            return None;
        }
        if refused.kind == Kind::Session && !was_accepted {
            return self.basic_in_place(dialect).await;
        }
        if self.pace.borrow().wait(Instant::now()).is_some() {
            return None;
        }
        let pass = self.log_in(http, dialect).await.ok()?;
        self.pace.borrow_mut().spent(Instant::now());
        // A file or program that gives the same again has renewed nothing.
        (pass.value != refused.value).then_some(pass)
    }

    /// 2.x: Basic for one request, in place of a session that was never accepted.
    async fn basic_in_place(&self, dialect: Dialect) -> Option<Pass> {
        let now = Instant::now();
        let recent = |tried: Instant| now.duration_since(tried) < BASIC_AGAIN;
        if self.basic_tried.get().is_some_and(recent) {
            return None;
        }
        self.basic_tried.set(Some(now));
        let Credentials::Password { username, password } = &self.credentials else {
            return None;
        };
        let pass = self.basic_pass(dialect, username, password).await.ok()?;
        Some(Pass { is_trial: true, ..pass })
    }

    /// Takes note that Airflow let a request with this credential in.
    pub(super) fn accepted(&self, http: &Http, pass: &Pass) {
        self.pace.borrow_mut().accepted();
        if pass.is_trial && !self.basic.replace(true) {
            info!(
                event = events::AIRFLOW_BASIC_CHOSEN,
                airflow.url = http.base(),
                "Airflow at {} does not accept the login's session, so every call sends user and password",
                http.base(),
            );
            let pass = Pass { is_trial: false, ..pass.clone() };
            self.hold(pass, None);
        }
        if let Some(held) = &mut *self.held.borrow_mut() {
            held.accepted |= held.pass.serial == pass.serial;
        }
    }

    fn has_password(&self) -> bool {
        matches!(self.credentials, Credentials::Password { .. })
    }
}
