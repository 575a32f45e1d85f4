//! A stand-in for Airflow's REST API in both dialects, with runs in memory and faults on demand.
//!
//! It answers as real instances do (the replies in `tests/fixtures/airflow_replies` are theirs) for: login, version,
//! health, DAGs, triggering and looking up runs, a 409 for a second run of one id. Faults are scripted per kind of request;
//! each request is counted whether it was answered or not. DAGs must be added before they can be triggered.

mod dialect;
mod state;
mod wire;

use std::io::BufReader;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use state::State;
pub use state::{Seen, StubDag, StubRun};
pub use wire::{Reply, Request};

use super::ports;
use super::wait::{eventually, pause};

/// Which REST dialect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// `/api/v1`, as Airflow 2.11.
    V1,
    /// `/api/v2`, as Airflow 3.3.
    V2,
}

impl Dialect {
    /// Both.
    pub const ALL: [Self; 2] = [Self::V1, Self::V2];
}

/// What a request asks for; `Any` in a script stands for every request that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// A token or a form login.
    Login,
    /// `POST …/dagRuns`.
    Trigger,
    /// A look-up of runs.
    Run,
    /// A look-up of DAGs.
    Dag,
    /// Version, health, everything else.
    Other,
    /// All of them.
    Any,
    /// A connection that was just accepted, before anything is read; only for [`Fault::Drop`].
    Connect,
}

impl What {
    fn is_for(self, asked: What) -> bool {
        self == asked || (self == Self::Any && asked != Self::Connect)
    }
}

/// What goes wrong with a request.
#[derive(Clone, Debug)]
pub enum Fault {
    /// This answer, and nothing is done.
    Answer(Reply),
    /// Nothing is done, and the connection closes without an answer.
    Drop,
    /// It is done, and the connection closes without an answer.
    DropAfterDone,
    /// It is done, and half of the answer is sent.
    HalfAnswer,
    /// It is done, and answered after this time.
    Late(Duration),
    /// Nothing is done, and no answer comes until the client gives up.
    Silent,
}

impl Fault {
    /// An answer with a status and a plain text.
    pub fn status(status: u16) -> Self {
        Self::Answer(Reply::new(status, "text/plain", format!("scripted {status}")))
    }

    /// A web page that asks to log in, as a proxy in front of Airflow gives it: 200, HTML.
    pub fn login_page() -> Self {
        let page = "<!DOCTYPE html><html><title>Sign in</title><form action=\"/sso\"></form></html>";
        Self::Answer(Reply::new(200, "text/html; charset=utf-8", page))
    }

    /// A redirect to a login page.
    pub fn redirect_to_login() -> Self {
        let reply = Reply::new(302, "text/html", "");
        Self::Answer(reply.header("Location", "/login/?next=%2F"))
    }

    /// A 409 that does not stand for a run of this id: a clash of logical dates, say.
    pub fn conflict(dialect: Dialect) -> Self {
        Self::Answer(dialect::duplicate(dialect, "some_dag", "some_run"))
    }

    /// 429 with `Retry-After` in seconds.
    pub fn too_many(seconds: u64) -> Self {
        let reply = Reply::new(429, "text/plain", "scripted 429");
        Self::Answer(reply.header("Retry-After", &seconds.to_string()))
    }
}

/// The stand-in; it ends when dropped.
pub struct StubAirflow {
    address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
}

impl StubAirflow {
    /// Starts on a free port, with one user (see [`StubAirflow::user`]) and no DAGs.
    pub fn start(dialect: Dialect) -> Self {
        let listener = ports::listen();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared { state: Mutex::new(State::new(dialect)) });
        serve(listener, &shared);
        Self { address, shared }
    }

    /// Starts with one DAG that can be triggered.
    pub fn with_dag(dialect: Dialect, dag: &str) -> Self {
        let stub = Self::start(dialect);
        stub.set_dag(dag, StubDag::default());
        stub
    }

    /// The base URL.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Where it listens, for a proxy.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The user it knows.
    pub fn user(&self) -> String {
        self.state().user.clone()
    }

    /// That user's password.
    pub fn password(&self) -> String {
        self.state().password.clone()
    }

    /// Adds or changes a DAG.
    pub fn set_dag(&self, dag: &str, facts: StubDag) {
        self.state().dags.insert(dag.to_owned(), facts);
    }

    /// Removes a DAG, as if it had never been imported.
    pub fn remove_dag(&self, dag: &str) {
        self.state().dags.remove(dag);
    }

    /// Sets a Variable.
    pub fn set_variable(&self, key: &str, value: &str) {
        self.state().variables.insert(key.to_owned(), value.to_owned());
    }

    /// Adds a run that somebody else created.
    pub fn add_run(&self, dag: &str, run_id: &str, conf: serde_json::Value) {
        self.state().add_run(StubRun {
            dag: dag.to_owned(),
            run_id: run_id.to_owned(),
            conf,
            state: "queued".to_owned(),
        });
    }

    /// Changes the state of a run.
    pub fn set_run_state(&self, run_id: &str, to: &str) {
        for run in &mut self.state().runs {
            if run.run_id == run_id {
                to.clone_into(&mut run.state);
            }
        }
    }

    /// Changes the password; sessions and tokens that were given out stay good.
    pub fn set_password(&self, password: &str) {
        password.clone_into(&mut self.state().password);
    }

    /// Ends every session and token; version 3 says then that the token has expired.
    pub fn expire_logins(&self) {
        let mut state = self.state();
        let old = std::mem::take(&mut state.sessions);
        state.expired.extend(old);
    }

    /// What the health page says of the scheduler.
    pub fn set_scheduler_healthy(&self, healthy: bool) {
        self.state().scheduler_healthy = healthy;
    }

    // --- faults -----------------------------------------------------------------------------------------------------------

    /// The next request of this kind meets this fault, once. Several are used up in the order they were given.
    pub fn next(&self, what: What, fault: Fault) {
        self.state().once.push((what, fault));
    }

    /// Every request of this kind meets this fault until [`StubAirflow::heal`]; those given by [`StubAirflow::next`] come first.
    pub fn always(&self, what: What, fault: Fault) {
        self.state().always.push((what, fault));
    }

    /// No more faults.
    pub fn heal(&self) {
        let mut state = self.state();
        state.once.clear();
        state.always.clear();
        state.heals += 1;
    }

    /// How many faults given by [`StubAirflow::next`] have not been met yet.
    pub fn faults_left(&self) -> usize {
        self.state().once.len()
    }

    /// Stops listening: connections are refused, and those there are close at their next request.
    pub fn go_down(&self) {
        self.state().down = true;
        self.wake_listener();
        eventually(Duration::from_secs(10), "the stand-in is down", || TcpStream::connect(self.address).is_err());
    }

    /// Listens again on the same port.
    pub fn come_up(&self) {
        let listener = TcpListener::bind(self.address).expect("its old port");
        self.state().down = false;
        serve(listener, &self.shared);
    }

    // --- what happened ----------------------------------------------------------------------------------------------------

    /// The runs of a DAG, oldest first.
    pub fn runs(&self, dag: &str) -> Vec<StubRun> {
        let state = self.state();
        let runs = state.runs.iter().filter(|run| run.dag == dag);
        runs.cloned().collect()
    }

    /// How many runs a DAG has.
    pub fn count_runs(&self, dag: &str) -> usize {
        self.state().runs.iter().filter(|run| run.dag == dag).count()
    }

    /// When each run of a DAG was asked for, by run id, oldest first; a run asked for twice is there twice.
    pub fn asked(&self, dag: &str) -> Vec<(String, Instant)> {
        let state = self.state();
        let path = format!("/dags/{dag}/dagRuns");
        let asked = state.seen.iter().filter(|seen| seen.what == What::Trigger && seen.path.ends_with(&path));
        asked.map(|seen| (seen.run_id.clone().unwrap_or_default(), seen.at)).collect()
    }

    /// Every request that was read, oldest first.
    pub fn requests(&self) -> Vec<Seen> {
        self.state().seen.clone()
    }

    /// How many requests of this kind were read.
    pub fn count(&self, what: What) -> usize {
        let state = self.state();
        let seen = state.seen.iter().filter(|seen| what.is_for(seen.what));
        seen.count()
    }

    /// Waits until a DAG has so many runs, and returns them.
    #[track_caller]
    pub fn wait_runs(&self, dag: &str, count: usize, deadline: Duration) -> Vec<StubRun> {
        eventually(deadline, &format!("{dag} has {count} runs"), || self.count_runs(dag) >= count);
        self.runs(dag)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().unwrap()
    }

    fn wake_listener(&self) {
        drop(TcpStream::connect(self.address));
    }
}

impl Drop for StubAirflow {
    fn drop(&mut self) {
        self.state().ended = true;
        self.wake_listener();
    }
}

fn serve(listener: TcpListener, shared: &Arc<Shared>) {
    let shared = Arc::clone(shared);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut state = shared.state.lock().unwrap();
            if state.ended || state.down {
                return;
            }
            let dropped = state.fault_for(What::Connect).is_some();
            drop(state);
            let (Ok(stream), false) = (stream, dropped) else {
                continue;
            };
            let shared = Arc::clone(&shared);
            std::thread::spawn(move || talk(stream, &shared));
        }
    });
}

/// One connection, request after request.
fn talk(mut stream: TcpStream, shared: &Shared) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    while let Some(request) = Request::read(&mut reader) {
        let last = request.header("connection").is_some_and(|value| value.eq_ignore_ascii_case("close"));
        if !answer(&request, &mut stream, shared) || last {
            return;
        }
    }
}

/// Answers one request as scripted; whether the connection goes on.
fn answer(request: &Request, stream: &mut TcpStream, shared: &Shared) -> bool {
    let (at, what) = (Instant::now(), dialect::what(request));
    let mut state = shared.state.lock().unwrap();
    if state.down || state.ended {
        return false;
    }
    let fault = state.fault_for(what);
    let reply = match &fault {
        Some(Fault::Answer(reply)) => Some(reply.clone()),
        Some(Fault::Drop | Fault::Silent) => None,
        None | Some(Fault::DropAfterDone | Fault::HalfAnswer | Fault::Late(_)) => {
            Some(dialect::answer(&mut state, request))
        }
    };
    let status = match &fault {
        None | Some(Fault::Answer(_) | Fault::Late(_)) => reply.as_ref().map(|reply| reply.status),
        Some(Fault::Drop | Fault::Silent | Fault::DropAfterDone | Fault::HalfAnswer) => None,
    };
    let run_id = match what {
        What::Trigger => request.json().and_then(|body| body["dag_run_id"].as_str().map(str::to_owned)),
        What::Login | What::Run | What::Dag | What::Other | What::Any | What::Connect => None,
    };
    state.seen.push(Seen { at, what, method: request.method.clone(), path: request.path.clone(), run_id, status });
    drop(state);
    match (fault, reply) {
        (None | Some(Fault::Answer(_)), Some(reply)) => reply.write(stream),
        (Some(Fault::Late(time)), Some(reply)) => {
            pause(time);
            reply.write(stream)
        }
        (Some(Fault::HalfAnswer), Some(reply)) => {
            reply.write_half(stream);
            false
        }
        (Some(Fault::Silent), _) => {
            stay_silent(stream, shared);
            false
        }
        (Some(Fault::Drop | Fault::DropAfterDone), _) | (_, None) => false,
    }
}

/// Holds the connection open until the client closes it, the faults are healed or the stand-in ends.
fn stay_silent(stream: &TcpStream, shared: &Shared) {
    let healed = shared.state.lock().unwrap().heals;
    stream.set_nonblocking(true).unwrap();
    loop {
        let state = shared.state.lock().unwrap();
        let over = state.ended || state.down || state.heals != healed;
        drop(state);
        let gone = matches!(stream.peek(&mut [0]), Ok(0));
        if over || gone {
            return;
        }
        pause(Duration::from_millis(20));
    }
}
