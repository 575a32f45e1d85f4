//! Names of this adapter's log events.

/// INFO: Airflow's version was found, or found changed.
pub const VERSION_FOUND: &str = "airflow.version-found";
/// DEBUG: a login gave us a new token or session.
pub const LOGGED_IN: &str = "airflow.logged-in";
/// INFO: the session cookie is not accepted and Basic is; every call then costs Airflow a password hash.
pub const BASIC_CHOSEN: &str = "airflow.basic-chosen";
