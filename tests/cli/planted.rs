//! Secrets planted wherever one can stand are never printed, in any spelling, by `check` or by `run` at its most talkative,
//! whatever goes wrong; nor do they reach the state file.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::bench::{Bench, Checked, LATER, SOON, assert_readable};
use crate::state::{attempts, wait_status};
use crate::support::stub_airflow::Reply;
use crate::support::{BrokerVersion, Dialect, Fault, Message, Setup, What, eventually};

/// Every planted secret begins so; what follows says where it was planted.
const PLANT: &str = "S3CRET-PLANT";

/// The spellings in which a secret could slip out: plain, percent-encoded, and the parts of it that stand in base64 whatever
/// stands before it.
fn spellings() -> Vec<String> {
    let percent: String = PLANT.bytes().map(|byte| format!("%{byte:02X}")).collect();
    let mut all = vec![PLANT.to_owned(), PLANT.replace('-', "%2D"), PLANT.replace('-', "%2d"), percent];
    for shift in 0..3 {
        let encoded = STANDARD.encode([&"\0\0"[..shift], PLANT].concat());
        // The first letters hold the bytes before, the last ones the bytes after.
        let (from, to) = ([0, 2, 3][shift], encoded.trim_end_matches('=').len() - 2);
        all.push(encoded[from..to].to_owned());
    }
    all
}

#[track_caller]
fn assert_nothing_planted(what: &str, text: &str) {
    for spelling in spellings() {
        let at = text.lines().find(|line| line.contains(&spelling));
        assert!(at.is_none(), "{what} shows {spelling}: {}", at.unwrap_or_default());
    }
}

#[test]
fn spellings_find_a_secret_in_basic_credentials_and_addresses() {
    for user in ["u", "us", "use", "user"] {
        let basic = STANDARD.encode(format!("{user}:{PLANT}-x"));
        assert!(spellings().iter().any(|spelling| basic.contains(spelling)), "{basic}");
    }
    let found = std::panic::catch_unwind(|| assert_nothing_planted("it", "amqp://u:S3CRET%2DPLANT@h/"));
    assert!(found.is_err());
}

/// `check`, then `run` until `seen`, and everything either wrote.
#[track_caller]
fn says_nothing(bench: &Bench, setup: &Setup, what: &str, status: &[&str]) {
    let checked = Checked::of(setup);
    assert_nothing_planted(&format!("check, {what}"), &checked.out);
    let talkative = setup.clone().env("RMQ_WATCHER__LOG__LEVEL", "trace").env("RMQ_WATCHER_TEST_RETRY_SCALE", "0.01");
    let mut watcher = talkative.start();
    watcher.announce("");
    bench.broker.publish(&[Message::to_queue("orders", "x")]);
    wait_status(&setup.state_dir(), "orders", status);
    let before = attempts(&setup.state_dir());
    let said = crate::state::sql(&setup.state_dir(), "SELECT last_error FROM subscription_status");
    let waits_for_airflow = said.contains("Airflow has not said yet");
    if status[0].starts_with("error") && bench.stub.count(What::Trigger) == 0 && !waits_for_airflow {
        // Several attempts, so that what is said of the second and third is heard too.
        let done = || attempts(&setup.state_dir()) > before + 2 || !watcher_is_attaching(&setup.state_dir());
        eventually(LATER, "more attempts", done);
    }
    assert!(watcher.stop(SOON).success());
    let lines = watcher.lines();
    assert!(lines.len() > 2, "{lines:?}");
    assert_nothing_planted(&format!("run, {what}"), &lines.join("\n"));
    assert_readable(lines.iter().map(String::as_str).filter(|line| !is_of_a_library(line)));
    assert_state_is_clean(&setup.state_dir(), what);
}

/// Whether the trouble is the broker's; what Airflow refuses is held without another attempt to attach.
fn watcher_is_attaching(state_dir: &Path) -> bool {
    crate::state::sql(state_dir, "SELECT consumer_tag FROM subscription_status").is_empty()
}

/// Debug lines of libraries are written for their authors.
fn is_of_a_library(line: &str) -> bool {
    line.contains("} DEBUG - ") || line.contains("} TRACE - ")
}

fn assert_state_is_clean(state_dir: &Path, what: &str) {
    for entry in std::fs::read_dir(state_dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            let text = String::from_utf8_lossy(&std::fs::read(&path).unwrap()).into_owned();
            assert_nothing_planted(&format!("{}, {what}", path.display()), &text);
        }
    }
}

fn bench() -> Bench {
    Bench::new(BrokerVersion::V3, Dialect::V2)
}

fn planted(place: &str) -> String {
    format!("{PLANT}-{place}/?#é")
}

#[test]
fn real_amqp_passwords_are_not_shown() {
    let bench = bench();
    let [host, port] = [0, 1].map(|n| bench.broker.address().to_string().split(':').nth(n).unwrap().to_owned());
    let vhost = bench.broker.vhost().to_owned();
    let uri = bench.broker.url_as("guest", &planted("uri"));
    says_nothing(&bench, &bench.setup_with(&uri), "URI", &["error: ", "refused"]);
    let with_extra = format!("{uri}?client_secret={PLANT}-query&heartbeat={PLANT}-beat&keyfile={PLANT}-file");
    says_nothing(&bench, &bench.setup_with(&with_extra), "URI with a query", &["error: "]);
    let secret = planted("json");
    let json = serde_json::json!({"conn_type": "amqp", "host": host, "port": port.parse::<u16>().unwrap(), "login": "guest",
        "password": secret, "schema": vhost, "extra": {"token": secret, "ssl_options": {"password": secret}}});
    says_nothing(&bench, &bench.setup_with(&json.to_string()), "JSON", &["error: "]);
    let broken_json = json.to_string().replace("\"port\":", "\"port\": nonsense");
    says_nothing(&bench, &bench.setup_with(&broken_json), "broken JSON", &["error: "]);
    let broken_uri = format!("amqp://guest:{PLANT}@[::1:{PLANT}/x");
    says_nothing(&bench, &bench.setup_with(&broken_uri), "broken URI", &["error: "]);
    says_nothing(&bench, &bench.setup_with(&format!("{PLANT} is not a URI")), "no URI", &["error: "]);
}

#[test]
fn real_amqp_passwords_in_files_and_from_airflow_are_not_shown() {
    let bench = bench();
    let [host, port] = [0, 1].map(|n| bench.broker.address().to_string().split(':').nth(n).unwrap().to_owned());
    let section = |password: &str| {
        format!(
            "[connections.rmq_default]\nhost = \"{host}\"\nport = {port}\nlogin = \"guest\"\n{password}\nschema = \"{}\"",
            bench.broker.vhost()
        )
    };
    let clean = bench.setup().without("AIRFLOW_CONN_RMQ_DEFAULT");
    let in_file = clean.clone().config(&section(&format!("password = \"{PLANT}-toml\"")));
    says_nothing(&bench, &in_file, "password in the file", &["error: ", "refused"]);
    let file = bench.folder.path().join("rabbit-password");
    std::fs::write(&file, format!("{PLANT}-file\n")).unwrap();
    let by_file = clean.clone().config(&section(&format!("password_file = \"{}\"", file.display())));
    says_nothing(&bench, &by_file, "password file", &["error: ", "refused"]);
    let programs = bench.folder.path().join("bin");
    std::fs::create_dir(&programs).unwrap();
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
    let asked = clean.env("PATH", &path);
    let uri = bench.broker.url_as("guest", &format!("{PLANT}-cli"));
    let listed = serde_json::json!([{"conn_id": "rmq_default", "conn_type": "amqp", "get_uri": uri, "host": host, "port": port,
        "login": "guest", "password": format!("{PLANT}-cli"), "schema": bench.broker.vhost(), "extra_dejson": {"secret": PLANT}}]);
    for (name, script) in [
        ("airflow answers", format!("cat <<'E'\n{listed}\nE")),
        ("airflow answers nonsense", format!("echo '{PLANT} {{'; echo '{PLANT}' >&2")),
        ("airflow fails", format!("echo 'Traceback: password={PLANT}' >&2; exit 1")),
    ] {
        program(&programs.join("airflow"), &script);
        says_nothing(&bench, &asked, name, &["error: "]);
    }
}

#[test]
fn real_airflow_credentials_are_not_shown() {
    let bench = bench();
    let folder = bench.folder.path();
    let file = folder.join("secret");
    std::fs::write(&file, format!("{PLANT}-file\n")).unwrap();
    let prints = folder.join("prints");
    program(&prints, &format!("echo {PLANT}-command"));
    let fails = folder.join("fails");
    program(&fails, &format!("echo {PLANT}-out; echo {PLANT}-error >&2; exit 3"));
    let none = bench.setup().without("RMQ_WATCHER__AIRFLOW__USERNAME").without("RMQ_WATCHER__AIRFLOW__PASSWORD");
    let with = |key: &str, value: &str| none.clone().env(&format!("RMQ_WATCHER__AIRFLOW__{key}"), value);
    let shown = file.display().to_string();
    let shell = format!("[\"sh\", \"-c\", \"echo {PLANT}-argument\"]");
    let ways = [
        ("password", with("PASSWORD", &planted("password")).env("RMQ_WATCHER__AIRFLOW__USERNAME", "u")),
        ("password file", with("PASSWORD_FILE", &shown).env("RMQ_WATCHER__AIRFLOW__USERNAME", "u")),
        ("token file", with("TOKEN_FILE", &shown)),
        ("token command", with("TOKEN_COMMAND", &prints.display().to_string())),
        ("token command that fails", with("TOKEN_COMMAND", &fails.display().to_string())),
        ("token command with arguments", with("TOKEN_COMMAND", &shell)),
    ];
    let moods = [
        None,
        Some(Fault::login_page()),
        Some(Fault::status(401)),
        Some(Fault::status(503)),
        Some(Fault::redirect_to_login()),
        Some(Fault::HalfAnswer),
    ];
    for ((what, setup), mood) in ways.iter().zip(moods) {
        if let Some(fault) = mood {
            bench.stub.always(What::Login, fault.clone());
            bench.stub.always(What::Trigger, fault);
        }
        says_nothing(&bench, setup, what, &["error: "]);
        bench.stub.heal();
    }
}

/// A gateway may explain its refusal with what it was given.
#[test]
fn real_credentials_that_a_refusal_repeats_are_not_shown() {
    let refusal = |secret: &str| {
        let detail = format!("the credential {secret} is not good here");
        Fault::Answer(Reply::json(403, &serde_json::json!({"detail": detail, "title": "Forbidden"})))
    };
    let says_nothing_of = |bench: &Bench, setup: &Setup, what: &str, secret: &str, moments: &[&[What]]| {
        for moment in moments {
            moment.iter().for_each(|asked| bench.stub.always(*asked, refusal(secret)));
            says_nothing(bench, setup, what, &["error: ", "the credential *** is not good here"]);
            bench.stub.heal();
        }
    };
    let by_token = bench();
    let file = by_token.folder.path().join("token");
    let token = format!("{PLANT}-token");
    std::fs::write(&file, format!("{token}\n")).unwrap();
    let none = by_token.setup().without("RMQ_WATCHER__AIRFLOW__USERNAME").without("RMQ_WATCHER__AIRFLOW__PASSWORD");
    let setup = none.env("RMQ_WATCHER__AIRFLOW__TOKEN_FILE", &file.display().to_string());
    says_nothing_of(&by_token, &setup, "an echoed token", &token, &[&[What::Dag]]);

    let by_password = Bench::new(BrokerVersion::V3, Dialect::V1);
    by_password.stub.set_password(&planted("basic"));
    let setup = by_password.setup().airflow(&by_password.stub.url(), &by_password.stub.user(), &planted("basic"));
    // Refused before anything is consumed, and when a run is asked for.
    let moments = [&[What::Dag][..], &[What::Trigger, What::Run]];
    says_nothing_of(&by_password, &setup, "an echoed password", &planted("basic"), &moments);
}

#[test]
fn wrong_settings_are_told_without_their_secrets() {
    let folder = tempfile::tempdir().unwrap();
    let setup = || Setup::in_folder(folder.path());
    let ways = [
        ("unclosed text", setup().config(&format!("[airflow]\nusername = \"u\"\npassword = \"{PLANT}"))),
        ("a wrong type", setup().config(&format!("[airflow]\npassword = [\"{PLANT}\"]"))),
        ("an unknown key", setup().config(&format!("[airflow]\npasswrod = \"{PLANT}\""))),
        ("an unknown section", setup().config(&format!("[airflo]\npassword = \"{PLANT}\""))),
        ("an unknown variable", setup().env("RMQ_WATCHER__AIRFLOW__PASSWROD", PLANT)),
        ("a password in an address", setup().env("RMQ_WATCHER__AIRFLOW__URL", &format!("http://u:{PLANT}@h/"))),
        ("a token in an address", setup().env("RMQ_WATCHER__AIRFLOW__URL", &format!("http://h/?token={PLANT}"))),
        ("two ways at once", setup().airflow("http://h", "u", PLANT).env("RMQ_WATCHER__AIRFLOW__TOKEN_FILE", "/t")),
        ("a password without a user", setup().env("RMQ_WATCHER__AIRFLOW__PASSWORD", PLANT)),
        ("a broken command", setup().env("RMQ_WATCHER__AIRFLOW__TOKEN_COMMAND", &format!("[\"echo\", \"{PLANT}\""))),
        ("a connection's wrong type", setup().config(&format!("[connections.x]\npassword = [\"{PLANT}\"]"))),
        ("a connection's unknown key", setup().config(&format!("[connections.x]\npasswort = \"{PLANT}\""))),
        (
            "a connection twice",
            setup().config(&format!("[connections.x]\npassword = \"{PLANT}\"\npassword = \"{PLANT}\"")),
        ),
    ];
    for (what, setup) in ways {
        let checked = Checked::of(&setup);
        assert_eq!(checked.code, Some(1), "{what}: {}", checked.out);
        assert!(checked.out.ends_with("nothing was tried\n"), "{what}: {}", checked.out);
        assert_nothing_planted(&format!("check, {what}"), &checked.out);
        let mut watcher = setup.start();
        watcher.announce("RMQ Watcher");
        assert_eq!(watcher.wait_end(SOON).code(), Some(1), "{what}");
        watcher.wait_event("config.invalid", SOON);
        assert_nothing_planted(&format!("run, {what}"), &watcher.lines().join("\n"));
    }
}

fn program(path: &Path, script: &str) {
    // Renamed into place: a program that is open for writing somewhere cannot be started.
    let new = path.with_extension("new");
    std::fs::write(&new, format!("#!/bin/sh\n{script}\n")).unwrap();
    std::fs::set_permissions(&new, std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::rename(new, path).unwrap();
}
