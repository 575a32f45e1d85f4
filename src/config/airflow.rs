//! How Airflow's REST API is reached.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use crate::domain::connection::Secret;

/// Settings of the section `[airflow]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AirflowSettings {
    /// Base URL without a trailing slash, such as `http://localhost:8080`.
    pub url: String,
    /// Which key or default gave [`AirflowSettings::url`], for people.
    pub url_source: String,
    /// Who we are there.
    pub credentials: Credentials,
    /// Bound of one request, connect and answer together; default 60 s.
    pub request_timeout: Duration,
    /// Authorities to trust instead of the system's (PEM).
    pub ca_file: Option<PathBuf>,
    /// Requests in flight at most: 8, and 1 where Airflow itself runs on SQLite, which breaks under parallel posts.
    pub max_in_flight: usize,
}

/// Who we are to Airflow. No default is ever tried.
#[derive(Clone, PartialEq, Eq)]
pub enum Credentials {
    /// None were given: nothing is attached, and the status says so.
    Missing,
    /// A user and a password.
    Password {
        /// The user.
        username: String,
        /// Where the password is.
        password: PasswordSource,
    },
    /// A file holding a bearer token; read again when it changes or is refused.
    TokenFile(PathBuf),
    /// A program (first element) and its arguments that print a bearer token; run again when the token is refused.
    TokenCommand(Vec<String>),
}

impl fmt::Debug for Credentials {
    /// Without the arguments of a token command, which may hold a secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("Missing"),
            Self::Password { username, password } => {
                f.debug_struct("Password").field("username", username).field("password", password).finish()
            }
            Self::TokenFile(path) => f.debug_tuple("TokenFile").field(path).finish(),
            Self::TokenCommand(_) => f.write_str("TokenCommand(***)"),
        }
    }
}

/// Where a password is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PasswordSource {
    /// Given in the configuration itself.
    Value(Secret),
    /// The first line of a file; read again after a refusal.
    File(PathBuf),
}
