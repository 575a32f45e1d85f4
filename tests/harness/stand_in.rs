//! The stand-in for Airflow: both dialects, and each fault.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::http::{self, Answer, basic};
use crate::support::stub_airflow::StubDag;
use crate::support::{Dialect, Fault, StubAirflow, What};

/// A client of the stand-in that is logged in.
struct Client {
    dialect: Dialect,
    url: String,
    authorization: String,
}

impl Client {
    fn of(stub: &StubAirflow, dialect: Dialect) -> Self {
        let authorization = match dialect {
            Dialect::V1 => basic(&stub.user(), &stub.password()),
            Dialect::V2 => {
                let login = json!({"username": stub.user(), "password": stub.password()});
                let answer = post(&stub.url(), "/auth/token", None, &login).unwrap();
                assert_eq!(answer.status, 201);
                format!("Bearer {}", answer.json()["access_token"].as_str().unwrap())
            }
        };
        Self { dialect, url: stub.url(), authorization }
    }

    fn path(&self, rest: &str) -> String {
        match self.dialect {
            Dialect::V1 => format!("/api/v1/{rest}"),
            Dialect::V2 => format!("/api/v2/{rest}"),
        }
    }

    fn trigger(&self, dag: &str, run_id: &str) -> std::io::Result<Answer> {
        let mut body = json!({"dag_run_id": run_id, "conf": {"body": "b"}});
        if self.dialect == Dialect::V2 {
            body["logical_date"] = Value::Null;
        }
        let path = self.path(&format!("dags/{dag}/dagRuns"));
        post(&self.url, &path, Some(&self.authorization), &body)
    }

    fn get(&self, rest: &str) -> Answer {
        let path = self.path(rest);
        http::request("GET", &self.url, &path, Some(&self.authorization), None).unwrap()
    }
}

fn post(url: &str, path: &str, login: Option<&str>, body: &Value) -> std::io::Result<Answer> {
    http::request("POST", url, path, login, Some(body))
}

#[test]
fn trigger_of_known_dag_is_recorded_once_in_both_dialects() {
    for dialect in Dialect::ALL {
        let stub = StubAirflow::with_dag(dialect, "orders");
        let client = Client::of(&stub, dialect);
        let first = client.trigger("orders", "r1").unwrap();
        assert_eq!((first.status, first.json()["state"].as_str()), (200, Some("queued")));
        assert_eq!(client.trigger("orders", "r1").unwrap().status, 409);
        assert_eq!(client.trigger("nowhere", "r1").unwrap().status, 404);
        let found = client.get("dags/orders/dagRuns/r1");
        assert_eq!(found.json()["conf"], json!({"body": "b"}));
        assert_eq!(client.get("dags/orders/dagRuns/r2").status, 404);
        assert_eq!(stub.runs("orders").len(), 1);
        assert_eq!((stub.count(What::Trigger), stub.count(What::Run)), (3, 2));
    }
}

#[test]
fn dag_that_is_stale_is_found_and_not_triggered() {
    for dialect in Dialect::ALL {
        let stub = StubAirflow::start(dialect);
        let gone = StubDag { stale: true, ..StubDag::default() };
        stub.set_dag("orders", gone);
        let client = Client::of(&stub, dialect);
        assert_eq!(client.get("dags/orders").status, 200);
        assert_eq!(client.trigger("orders", "r1").unwrap().status, 404);
    }
}

#[test]
fn login_that_is_wrong_or_expired_is_refused_in_each_dialects_words() {
    let stub = StubAirflow::with_dag(Dialect::V2, "orders");
    let client = Client::of(&stub, Dialect::V2);
    stub.expire_logins();
    let answer = client.trigger("orders", "r1").unwrap();
    assert_eq!((answer.status, answer.text().contains("Expired")), (401, true));
    let wrong = json!({"username": "watcher", "password": "no"});
    assert_eq!(post(&stub.url(), "/auth/token", None, &wrong).unwrap().status, 401);

    let stub = StubAirflow::with_dag(Dialect::V1, "orders");
    let client = Client::of(&stub, Dialect::V1);
    stub.set_password("changed");
    assert_eq!(client.trigger("orders", "r1").unwrap().status, 403);
}

#[test]
fn form_login_gives_a_session_cookie() {
    let stub = StubAirflow::with_dag(Dialect::V1, "orders");
    let form = format!("username={}&password={}&csrf_token=a-csrf-token", stub.user(), stub.password());
    let cookie = form_login(&stub, &form).expect("a session");
    assert!(cookie.contains("stub-session"));
    assert!(form_login(&stub, &form.replace("csrf_token", "x")).is_none());
}

/// Posts a login form; the cookie of a redirect.
fn form_login(stub: &StubAirflow, form: &str) -> Option<String> {
    use std::io::{Read as _, Write as _};
    let mut stream = std::net::TcpStream::connect(stub.address()).unwrap();
    let head = format!("POST /login/ HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n{form}", form.len());
    stream.write_all(head.as_bytes()).unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let redirect = text.starts_with("HTTP/1.1 302");
    let cookie = text.lines().find(|line| line.starts_with("Set-Cookie"))?;
    redirect.then(|| cookie.to_owned())
}

#[test]
fn scripted_faults_are_met_in_order_and_once() {
    let stub = StubAirflow::with_dag(Dialect::V2, "orders");
    let client = Client::of(&stub, Dialect::V2);
    stub.next(What::Trigger, Fault::status(503));
    stub.next(What::Trigger, Fault::Drop);
    stub.next(What::Trigger, Fault::login_page());
    stub.next(What::Trigger, Fault::HalfAnswer);
    assert_eq!(client.trigger("orders", "r1").unwrap().status, 503);
    assert!(client.trigger("orders", "r1").is_err());
    let page = client.trigger("orders", "r1").unwrap();
    assert_eq!((page.status, page.header("content-type")), (200, Some("text/html; charset=utf-8")));
    assert!(stub.runs("orders").is_empty(), "none of these did anything");
    let half = client.trigger("orders", "r1").unwrap();
    let length: usize = half.header("content-length").unwrap().parse().unwrap();
    assert!(half.body.len() < length);
    assert_eq!(stub.runs("orders").len(), 1, "half an answer, a whole run");
    assert_eq!(client.trigger("orders", "r1").unwrap().status, 409);
    assert_eq!((stub.faults_left(), stub.count(What::Trigger)), (0, 5));
}

#[test]
fn answer_dropped_after_the_run_leaves_the_run() {
    let stub = StubAirflow::with_dag(Dialect::V1, "orders");
    let client = Client::of(&stub, Dialect::V1);
    stub.always(What::Trigger, Fault::DropAfterDone);
    assert!(client.trigger("orders", "r1").is_err());
    stub.heal();
    assert_eq!(client.trigger("orders", "r1").unwrap().status, 409);
}

#[test]
fn silence_lasts_until_healed() {
    let stub = StubAirflow::with_dag(Dialect::V1, "orders");
    let client = Client::of(&stub, Dialect::V1);
    stub.next(What::Trigger, Fault::Silent);
    std::thread::scope(|scope| {
        let asked = scope.spawn(|| client.trigger("orders", "r1").is_err());
        crate::support::eventually(Duration::from_secs(10), "the request was read", || stub.count(What::Trigger) == 1);
        assert!(!asked.is_finished());
        stub.heal();
        assert!(asked.join().unwrap(), "closed without an answer");
    });
    assert!(stub.runs("orders").is_empty());
}

#[test]
fn stand_in_that_is_down_refuses_and_comes_back_with_its_runs() {
    let stub = StubAirflow::with_dag(Dialect::V1, "orders");
    let client = Client::of(&stub, Dialect::V1);
    client.trigger("orders", "r1").unwrap();
    stub.go_down();
    assert!(client.trigger("orders", "r2").is_err());
    stub.come_up();
    assert_eq!(client.trigger("orders", "r1").unwrap().status, 409);
}
