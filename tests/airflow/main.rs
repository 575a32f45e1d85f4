//! The Airflow client: frozen replies (L0), a scripted server (L2), and real Airflow 2.11 and 3.3 (tests named `real_…`).
//!
//! The real ones need `RMQ_TEST_AIRFLOW2` and `RMQ_TEST_AIRFLOW3` (base URLs; admin/admin and viewer/viewer) and
//! `RMQ_TEST_AIRFLOW2_DAGS`, `RMQ_TEST_AIRFLOW3_DAGS` (their DAG folders, holding `tests/fixtures/dags`).
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]
#![expect(clippy::wildcard_enum_match_arm, reason = "a test names the one answer it expects")]

mod frozen;
mod login;
mod meddler;
mod probe;
mod real;
mod real_login;
mod secrets;
mod stub;
mod support;
mod tls;
mod total;
mod transport;
