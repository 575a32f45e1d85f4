//! Passwords and tokens from files and programs (L2), with a scripted server.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt as _;
use std::sync::{Arc, Mutex};

use rmq_watcher::config::airflow::{Credentials, PasswordSource};
use rmq_watcher::domain::outcome::TriggerAnswer;

use crate::login::{TOKEN, V1, V2, created, fault, forbidden, trigger};
use crate::stub::{Act, Stub};
use crate::support::{client, eventually, password, run};

#[test]
fn a_password_file_is_read_again_at_the_next_login() {
    run(async {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("password");
        fs::write(&path, "old \r\nsecond line\n").unwrap();
        let stub = Stub::start().await;
        stub.airflow3().on(V2, created()).on(V2, Act::json(401, "{}")).on(V2, created());
        let credentials =
            Credentials::Password { username: "u".to_owned(), password: PasswordSource::File(path.clone()) };
        let client = client(&stub.url, credentials);
        assert_eq!(trigger(&client).await, TriggerAnswer::Created);
        fs::write(&path, "new\n").unwrap();
        assert_eq!(trigger(&client).await, TriggerAnswer::Created);
        let sent: Vec<_> = stub.seen_of(TOKEN).into_iter().map(|sent| sent.body).collect();
        assert!(sent[0].contains(r#""old ""#) && sent[1].contains(r#""new""#), "{sent:?}");
        fs::remove_file(&path).unwrap();
        let missing = Credentials::Password { username: "u".to_owned(), password: PasswordSource::File(path) };
        let client = crate::support::client(&stub.url, missing);
        assert!(fault(trigger(&client).await).contains("airflow.password_file"));
    });
}

#[test]
fn a_changed_password_reaches_basic_too() {
    run(async {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("password");
        fs::write(&path, "p\n").unwrap();
        let stub = Stub::start().await;
        stub.airflow2()
            .now("GET /login/", Act::html(404, "<html>"))
            .on(V1, created())
            .on(V1, forbidden())
            .on(V1, created());
        let credentials =
            Credentials::Password { username: "u".to_owned(), password: PasswordSource::File(path.clone()) };
        let client = client(&stub.url, credentials);
        assert_eq!(trigger(&client).await, TriggerAnswer::Created);
        fs::write(&path, "q\n").unwrap();
        assert_eq!(trigger(&client).await, TriggerAnswer::Created);
        let sent: Vec<_> = stub.seen_of(V1).iter().map(|sent| sent.header("authorization").to_owned()).collect();
        assert_eq!(sent, ["Basic dTpw", "Basic dTpw", "Basic dTpx"]);
    });
}

#[test]
fn a_token_file_is_read_again_when_it_changes_or_is_refused() {
    run(async {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        fs::write(&path, "one\n").unwrap();
        let stub = Stub::start().await;
        stub.airflow3().on(V2, created());
        let client = client(&stub.url, Credentials::TokenFile(path.clone()));
        assert_eq!(trigger(&client).await, TriggerAnswer::Created);
        // A gateway may want the token even for the version.
        assert_eq!(stub.seen_of("GET /api/v2/version")[0].header("authorization"), "Bearer one");
        fs::write(&path, "second\n").unwrap();
        let last = || stub.seen_of(V2).last().unwrap().header("authorization").to_owned();
        eventually(5, "the change is seen", || async {
            trigger(&client).await;
            last() == "Bearer second"
        })
        .await;
        // Refused, and the file holds the same: said, not sent again.
        stub.now(V2, Act::json(401, r#"{"detail":"Token Expired"}"#));
        let before = stub.seen_of(V2).len();
        assert!(fault(trigger(&client).await).contains("Token Expired"));
        assert_eq!(stub.seen_of(V2).len(), before + 1);
        assert!(stub.seen_of(TOKEN).is_empty());
    });
}

#[test]
fn a_token_command_is_run_again_after_a_refusal() {
    run(async {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("token");
        let script = "#!/bin/sh\necho x >>\"$0.runs\"\necho \"token-$(wc -l <\"$0.runs\" | tr -d ' ')\"\necho noise\n";
        fs::write(&program, script).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let stub = Stub::start().await;
        stub.airflow3().on(V2, created()).on(V2, Act::json(401, r#"{"detail":"Token Expired"}"#)).on(V2, created());
        let command = Credentials::TokenCommand(vec![program.to_str().unwrap().to_owned()]);
        let client = client(&stub.url, command);
        assert_eq!(trigger(&client).await, TriggerAnswer::Created);
        assert_eq!(trigger(&client).await, TriggerAnswer::Created);
        let tokens: Vec<_> = stub.seen_of(V2).iter().map(|sent| sent.header("authorization").to_owned()).collect();
        assert_eq!(tokens, ["Bearer token-1", "Bearer token-1", "Bearer token-2"]);
    });
}

#[test]
fn a_failing_token_command_is_said_without_its_words() {
    run(async {
        let stub = Stub::start().await;
        stub.airflow3();
        for command in ["echo s3cret; exit 3", "true", "printf '\\377'"] {
            let command = ["/bin/sh", "-c", command].map(str::to_owned).to_vec();
            let client = client(&stub.url, Credentials::TokenCommand(command));
            let reason = fault(trigger(&client).await);
            assert!(reason.contains("/bin/sh") && reason.contains("airflow.token_command"), "{reason}");
            assert!(!reason.contains("s3cret"), "{reason}");
        }
        let client = client(&stub.url, Credentials::TokenCommand(vec!["/no/such/program".to_owned()]));
        assert!(fault(trigger(&client).await).contains("/no/such/program"));
    });
}

#[test]
fn a_token_command_that_gives_the_refused_token_again_is_not_run_for_every_request() {
    run(async {
        let folder = tempfile::tempdir().unwrap();
        let runs = folder.path().join("runs");
        let script = format!("echo x >>'{}'; echo same", runs.display());
        let command = ["/bin/sh", "-c", &script].map(str::to_owned).to_vec();
        let stub = Stub::start().await;
        stub.airflow3().on(V2, Act::json(401, r#"{"detail":"Token Expired"}"#));
        let client = client(&stub.url, Credentials::TokenCommand(command));
        for _ in 0..20 {
            assert!(fault(trigger(&client).await).contains("Token Expired"));
        }
        assert_eq!(stub.seen_of(V2).len(), 20);
        assert_eq!(fs::read_to_string(&runs).unwrap(), "x\nx\n");
    });
}

#[test]
fn without_credentials_nothing_is_tried() {
    run(async {
        let stub = Stub::start().await;
        stub.airflow3();
        let client = client(&stub.url, Credentials::Missing);
        assert!(fault(trigger(&client).await).contains("airflow.username"));
        assert!(stub.seen_of(V2).is_empty() && stub.seen_of(TOKEN).is_empty());
    });
}

/// Everything that is logged, kept in memory.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn no_secret_reaches_the_log_or_an_answer() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber =
        tracing_subscriber::fmt().with_max_level(tracing::Level::TRACE).with_writer(move || writer.clone()).finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    run(async {
        let planted = Act::json(201, r#"{"access_token":"pl4nted.token"}"#);
        let three = Stub::start().await;
        three.airflow3().now(TOKEN, planted).on(V2, Act::json(401, r#"{"detail":"Token Expired"}"#));
        let two = Stub::start().await;
        two.airflow2().on(V1, forbidden()).on(V1, created());
        let refusing = Stub::start().await;
        refusing.airflow3().now(TOKEN, Act::json(401, r#"{"detail":"Invalid credentials"}"#));
        let mut said = String::new();
        for stub in [&three, &two, &refusing] {
            let client = client(&stub.url, password("u", "pl4nted-password"));
            for _ in 0..2 {
                said.push_str(&format!("{:?}", trigger(&client).await));
            }
        }
        let logged = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
        assert!(logged.contains("airflow.version_found") && logged.contains("airflow.basic_chosen"), "{logged}");
        // The password as it is, and within Basic ("u:pl4nted-password").
        for secret in ["pl4nted", "dTpwbDRudGVk", "session=s1"] {
            assert!(!logged.contains(secret) && !said.contains(secret), "{secret}: {logged} {said}");
        }
    });
}
