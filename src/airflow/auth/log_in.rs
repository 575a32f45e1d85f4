//! Getting a credential, each kind its own way.
//!
//! Serves [`Auth`]. Must not decide when to log in, only how; the pace is kept here because every login passes here.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use reqwest::header::{self, HeaderName, HeaderValue};
use tokio::time::Instant;
use tracing::debug;

use super::password::FormLogin;
use super::{Auth, Held, Kind, Pass, jwt, password, secret_files};
use crate::airflow::error::Blocked;
use crate::airflow::http::Http;
use crate::config::airflow::{Credentials, PasswordSource};
use crate::domain::outcome::Dialect;
use crate::telemetry::events;

/// How long user and password go with every call after the login form had too many logins. 2.11 counts over 40 s.
const FORM_AGAIN: Duration = Duration::from_secs(45);

/// A token that says it lives shorter is used for so long all the same, or every call would log in.
const SHORTEST_LIFE: Duration = Duration::from_secs(5);

impl Auth {
    /// Logs in, within the pace. The caller holds the turn.
    pub(super) async fn log_in(&self, http: &Http, dialect: Dialect) -> Result<Pass, Blocked> {
        if let Some(wait) = self.pace.borrow().wait(Instant::now())
            && let Some(failed) = &*self.failed.borrow()
        {
            return Err(match failed.clone() {
                Blocked::Access(reason) => Blocked::Access(reason),
                Blocked::NotNow { reason, .. } => Blocked::NotNow { reason, retry_after: Some(wait) },
            });
        }
        let result = self.log_in_now(http, dialect).await;
        match &result {
            Ok(pass) => {
                self.failed.replace(None);
                debug!(
                    event = events::AIRFLOW_LOGGED_IN,
                    airflow.url = http.base(),
                    credential = ?pass.kind,
                    "have a credential for Airflow"
                );
            }
            Err(blocked) => {
                self.failed.replace(Some(blocked.clone()));
                // Trouble of the network is paced by whoever retries; a refusal is paced here.
                if matches!(blocked, Blocked::Access(_)) {
                    self.pace.borrow_mut().spent(Instant::now());
                }
            }
        }
        result
    }

    async fn log_in_now(&self, http: &Http, dialect: Dialect) -> Result<Pass, Blocked> {
        match &self.credentials {
            Credentials::Missing => Err(Blocked::Access(
                "no Airflow credentials are configured; set airflow.username and airflow.password, airflow.token_file \
                 or airflow.token_command"
                    .to_owned(),
            )),
            Credentials::TokenFile(path) => {
                let token = secret_files::token(&self.readings, path).await?;
                self.bearer(dialect, &token, None)
            }
            Credentials::TokenCommand(command) => {
                let token = secret_files::token_of_command(command, secret_files::COMMAND_TIMEOUT).await?;
                self.bearer(dialect, &token, jwt::renew_after(&token, Timestamp::now()))
            }
            Credentials::Password { username, password } => {
                self.log_in_with_password(http, dialect, username, password).await
            }
        }
    }

    async fn log_in_with_password(
        &self,
        http: &Http,
        dialect: Dialect,
        username: &str,
        source: &PasswordSource,
    ) -> Result<Pass, Blocked> {
        let password = secret_files::password(&self.readings, source).await?;
        match dialect {
            Dialect::V2 => {
                let token = password::fetch_token(http, username, password.expose()).await?;
                self.bearer(dialect, &token, jwt::renew_after(&token, Timestamp::now()))
            }
            Dialect::V1 if self.basic.get() => {
                let pass = self.basic_pass(dialect, username, source).await?;
                Ok(self.hold(pass, None))
            }
            Dialect::V1 => match password::log_in(http, username, password.expose()).await? {
                FormLogin::Session(cookies) => {
                    let pass = self.make(Kind::Session, dialect, header::COOKIE, &cookies)?;
                    Ok(self.hold(pass, None))
                }
                FormLogin::NoForm(reason) => {
                    debug!(
                        event = events::AIRFLOW_LOGGED_IN,
                        reason, "no login form, user and password go with every call"
                    );
                    let pass = self.basic_pass(dialect, username, source).await?;
                    Ok(self.hold(pass, None))
                }
                FormLogin::TooMany(retry_after) => {
                    let wait = retry_after.unwrap_or(FORM_AGAIN);
                    debug!(
                        event = events::AIRFLOW_LOGGED_IN,
                        wait_s = wait.as_secs(),
                        "too many logins at Airflow's form, user and password go with every call for a while"
                    );
                    let pass = self.basic_pass(dialect, username, source).await?;
                    Ok(self.hold(pass, Some(Instant::now() + wait)))
                }
            },
        }
    }

    pub(super) async fn basic_pass(
        &self,
        dialect: Dialect,
        username: &str,
        source: &PasswordSource,
    ) -> Result<Pass, Blocked> {
        let password = secret_files::password(&self.readings, source).await?;
        let value = format!("Basic {}", STANDARD.encode(format!("{username}:{}", password.expose())));
        self.make(Kind::Basic, dialect, header::AUTHORIZATION, &value)
    }

    fn bearer(&self, dialect: Dialect, token: &str, life: Option<Duration>) -> Result<Pass, Blocked> {
        let pass = self.make(Kind::Bearer, dialect, header::AUTHORIZATION, &format!("Bearer {token}"))?;
        let life = life.map(|life| life.max(SHORTEST_LIFE));
        Ok(self.hold(pass, life.map(|life| Instant::now() + life)))
    }

    fn make(&self, kind: Kind, dialect: Dialect, name: HeaderName, value: &str) -> Result<Pass, Blocked> {
        let mut value = HeaderValue::from_str(value).map_err(|_| {
            Blocked::Access("the credential for Airflow holds characters that no HTTP header can carry".to_owned())
        })?;
        value.set_sensitive(true);
        self.serials.set(self.serials.get() + 1);
        Ok(Pass { kind, dialect, is_trial: false, serial: self.serials.get(), name, value })
    }

    pub(super) fn hold(&self, pass: Pass, renew_at: Option<Instant>) -> Pass {
        self.held.replace(Some(Held { pass: pass.clone(), renew_at, accepted: false }));
        pass
    }
}
