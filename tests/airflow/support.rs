//! What all of these tests share.

use std::future::Future;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use rmq_watcher::airflow::AirflowClient;
use rmq_watcher::config::airflow::{AirflowSettings, Credentials, PasswordSource};
use rmq_watcher::domain::connection::Secret;
use rmq_watcher::domain::ids::{DagId, RunId};
use rmq_watcher::domain::outcome::{AccessAnswer, Dialect};
use serde_json::{Map, Value};
use tokio::task::LocalSet;

/// The product's runtime: one thread, local tasks.
pub(crate) fn run<F: Future<Output = ()>>(test: F) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let bounded = async { tokio::time::timeout(Duration::from_secs(150), test).await };
    LocalSet::new().block_on(&runtime, bounded).expect("the test ends within 150 s");
}

pub(crate) fn password(username: &str, password: &str) -> Credentials {
    Credentials::Password { username: username.to_owned(), password: PasswordSource::Value(Secret::new(password)) }
}

pub(crate) fn settings(url: &str, credentials: Credentials) -> AirflowSettings {
    AirflowSettings {
        url: url.to_owned(),
        url_source: "test".to_owned(),
        credentials,
        request_timeout: Duration::from_secs(60),
        ca_file: None,
        max_in_flight: 8,
    }
}

pub(crate) fn client(url: &str, credentials: Credentials) -> AirflowClient {
    AirflowClient::new(settings(url, credentials)).unwrap()
}

pub(crate) fn conf(value: Value) -> Map<String, Value> {
    let Value::Object(conf) = value else { panic!("a conf is an object") };
    conf
}

pub(crate) fn dag(id: &str) -> DagId {
    DagId::new(id)
}

pub(crate) fn run_id(id: &str) -> RunId {
    RunId::new(id)
}

/// Waits until `done` says so, asking every 100 ms, at most `seconds`.
pub(crate) async fn eventually<F: Future<Output = bool>>(seconds: u64, what: &str, mut done: impl FnMut() -> F) {
    let deadline = tokio::time::Instant::now() + Duration::from_secs(seconds);
    while !done().await {
        assert!(tokio::time::Instant::now() < deadline, "not within {seconds} s: {what}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// A real Airflow that the harness has started.
pub(crate) struct Real {
    pub(crate) dialect: Dialect,
    pub(crate) url: String,
    pub(crate) dags: PathBuf,
}

/// Airflow 3 on SQLite breaks under parallel requests, and runs of one test must not slow another's: one at a time.
static TURN: Mutex<()> = Mutex::new(());

/// Runs a test against one real Airflow.
pub(crate) fn on_real(dialect: Dialect, test: impl AsyncFnOnce(Real)) {
    let name = match dialect {
        Dialect::V1 => "RMQ_TEST_AIRFLOW2",
        Dialect::V2 => "RMQ_TEST_AIRFLOW3",
    };
    let variable = |name: &str| {
        std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set: run ./tests/run, which starts Airflow"))
    };
    let real = Real {
        dialect,
        url: variable(name).trim_end_matches('/').to_owned(),
        dags: variable(&format!("{name}_DAGS")).into(),
    };
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    run(test(real));
}

/// Runs a test against both.
pub(crate) fn on_both(test: impl AsyncFn(Real)) {
    on_real(Dialect::V1, &test);
    on_real(Dialect::V2, &test);
}

/// A run id that no other test, and no earlier run of this one, has used.
#[expect(clippy::disallowed_methods, reason = "a shared Airflow keeps runs from one round to the next")]
pub(crate) fn fresh(what: &str) -> RunId {
    static COUNTER: AtomicU32 = AtomicU32::new(0);
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_millis();
    let count = COUNTER.fetch_add(1, Ordering::Relaxed);
    RunId::new(format!("rmq__{what}__{now}-{count}"))
}

/// An HTTP client beside ours. It needs some TLS set-up even for plain HTTP.
pub(crate) fn plain() -> reqwest::Client {
    // Set by an earlier test of this process is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder().no_proxy().build().unwrap()
}

/// Waits until Airflow 2's login form is good for the next four logins. 2.11 allows five in 40 s and then answers 429,
/// unless its `webserver_config.py` says `AUTH_RATE_LIMITED = False`, which makes this quick.
pub(crate) async fn form_is_free(real: &Real) {
    if real.dialect == Dialect::V2 {
        return;
    }
    let takes_logins = || async {
        // A form that is not asked leaves Basic, whose refusal does not name the password.
        let access = client(&real.url, password("admin", "wrong")).access().await;
        let AccessAnswer::AccessFault(reason) = access else { panic!("{access:?}") };
        reason.contains("airflow.password")
    };
    for _ in 0..6 {
        if !takes_logins().await {
            eventually(60, "the login form is free", takes_logins).await;
            return;
        }
    }
}
