//! `filter test --peek`: the message at the head of a real queue, what is said before, and that it is back afterwards.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::process::{Command, Stdio};

use nix::pty::{OpenptyResult, openpty};
use serde_json::{Value, json};

use crate::bench::{SOON, assert_readable};
use crate::support::{Broker, BrokerVersion, Message, QueueKind, Setup, eventually};

const FILTER: &str = r#"{"filter_headers": {"region": "eu", "body.n": {"$lt": 5}}}"#;

/// A folder whose connection leads to the node, with the management API or without.
struct Desk {
    broker: Broker,
    folder: tempfile::TempDir,
}

#[derive(Debug)]
struct Said {
    code: Option<i32>,
    out: String,
    errors: String,
}

impl Desk {
    fn new(version: BrokerVersion) -> Self {
        Self { broker: Broker::shared(version), folder: tempfile::tempdir().unwrap() }
    }

    fn command(&self, url: &str, peek: &[&str]) -> Command {
        let setup = Setup::in_folder(self.folder.path()).connection("other", url);
        setup.command(&[&["filter", "test", "--filter", FILTER, "--conn-id", "other", "--peek"], peek].concat())
    }

    fn with_management(&self) -> String {
        let management = self.broker.management_url().replace(':', "%3A").replace('/', "%2F");
        format!("{}?management_url={management}", self.broker.url())
    }

    #[track_caller]
    fn run(&self, url: &str, peek: &[&str]) -> Said {
        let output = self.command(url, peek).stdin(Stdio::null()).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        let said = Said { code: output.status.code(), out: text(output.stdout), errors: text(output.stderr) };
        assert!(!format!("{said:?}").contains("panicked"), "{said:?}");
        said
    }

    /// Runs it on a terminal on which a person answers.
    fn answered(&self, url: &str, peek: &[&str], answer: &str) -> Said {
        let OpenptyResult { master, slave } = openpty(None, None).unwrap();
        let mut child = self
            .command(url, peek)
            .stdin(Stdio::from(slave))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut errors = child.stderr.take().unwrap();
        let mut asked = Vec::new();
        while !asked.ends_with(b"[y/N] ") {
            let mut byte = [0];
            errors.read_exact(&mut byte).expect("it asks");
            asked.push(byte[0]);
        }
        File::from(master.try_clone().unwrap()).write_all(answer.as_bytes()).unwrap();
        let (mut out, mut rest) = (String::new(), String::new());
        child.stdout.take().unwrap().read_to_string(&mut out).unwrap();
        errors.read_to_string(&mut rest).unwrap();
        let code = child.wait().unwrap().code();
        Said { code, out, errors: String::from_utf8(asked).unwrap() + &rest }
    }

    fn publish(&self, queue: &str) {
        self.broker.publish(&[
            Message::to_queue(queue, r#"{"n": 3}"#).id("first").header("region", "eu"),
            Message::to_queue(queue, r#"{"n": 7}"#).id("second").header("region", "eu"),
        ]);
    }

    #[track_caller]
    fn has_ready(&self, queue: &str, count: u32) {
        eventually(SOON, "the messages are back", || self.broker.ready(queue) == count);
    }
}

#[test]
fn real_message_is_judged_and_back_in_its_queue() {
    for version in BrokerVersion::ALL {
        for kind in [QueueKind::Classic, QueueKind::Quorum] {
            let desk = Desk::new(version);
            desk.broker.declare("orders", kind, json!({}));
            desk.publish("orders");
            let said = desk.run(&desk.with_management(), &["orders", "--yes"]);
            assert_eq!(said.code, Some(0), "{said:?}");
            assert_eq!(
                said.out,
                "match\n\nmatch  `region`: expected \"eu\", found \"eu\"\nmatch  `body.n`: expected a number < 5, found 3\n"
            );
            assert_readable(said.errors.lines());
            assert!(said.errors.contains("2 messages are ready"), "{said:?}");
            assert!(said.errors.contains("comes back marked as redelivered"), "{said:?}");
            let costs = match (kind, version) {
                (QueueKind::Classic, _) => None,
                (QueueKind::Quorum, BrokerVersion::V3) => Some("one delivery of its budget, if the queue has"),
                (QueueKind::Quorum, BrokerVersion::V4) => Some("one delivery of its budget of 20"),
            };
            assert_eq!(said.errors.contains("quorum queue"), costs.is_some(), "{said:?}");
            assert!(costs.is_none_or(|costs| said.errors.contains(costs)), "{said:?}");
            desk.has_ready("orders", 2);
            let back = desk.broker.take("orders", 2);
            let ids: Vec<&str> =
                back.iter().map(|message| message["properties"]["message_id"].as_str().unwrap()).collect();
            assert!(ids.contains(&"first") && ids.contains(&"second"), "{back:?}");
        }
    }
}

#[test]
fn real_look_at_a_quorum_queue_costs_exactly_one_delivery() {
    for version in BrokerVersion::ALL {
        let desk = Desk::new(version);
        desk.broker.declare("orders", QueueKind::Quorum, json!({"x-delivery-limit": 2}));
        desk.broker.publish(&[Message::to_queue("orders", "{}")]);
        for _ in 0..2 {
            assert_eq!(desk.run(&desk.with_management(), &["orders", "--yes"]).code, Some(1));
            desk.has_ready("orders", 1);
        }
        // Its budget is spent, as the next look says before it ends it.
        let said = desk.run(&desk.with_management(), &["orders", "--yes"]);
        assert!(said.errors.contains("budget of 2; one that has spent it is dead-lettered, or dropped"), "{said:?}");
        desk.has_ready("orders", 0);
    }
}

#[test]
fn real_person_is_asked_on_a_terminal_and_nothing_is_taken_without_a_yes() {
    let desk = Desk::new(BrokerVersion::for_this_round()[0]);
    desk.broker.declare("orders", QueueKind::Quorum, json!({"x-delivery-limit": 0}));
    desk.broker.publish(&[Message::to_queue("orders", r#"{"n": 9}"#).header("region", "eu")]);
    for no in ["n\n", "\n", "never\n", "\u{4}"] {
        let said = desk.answered(&desk.broker.url(), &["orders"], no);
        assert_eq!((said.code, said.out.as_str()), (Some(4), ""), "{said:?}");
        assert!(said.errors.contains("1 message is ready"), "{said:?}");
        assert!(said.errors.contains("cannot be told what kind of queue it is, since"), "{said:?}");
        assert!(said.errors.ends_with("nothing was taken\n"), "{said:?}");
        desk.has_ready("orders", 1);
    }
    let said = desk.run(&desk.broker.url(), &["orders"]);
    assert_eq!((said.code, said.out.as_str()), (Some(2), ""), "{said:?}");
    assert!(said.errors.contains("no terminal to ask on, so say --yes"), "{said:?}");
    desk.has_ready("orders", 1);
    let said = desk.answered(&desk.broker.url(), &["orders", "--json"], "y\n");
    assert_eq!(said.code, Some(1), "{said:?}");
    let answer: Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!(answer["verdict"], "miss");
    // With a limit of 0 the return was its last.
    desk.has_ready("orders", 0);
}

#[test]
fn real_queue_that_gives_nothing_is_a_clear_error() {
    let desk = Desk::new(BrokerVersion::for_this_round()[0]);
    let reader = format!("{}-reader", desk.broker.vhost());
    desk.broker.add_user(&reader, "S3CRET-PLANT", ".*", ".*", "^$");
    desk.broker.declare("empty", QueueKind::Classic, json!({}));
    desk.broker.declare("full", QueueKind::Classic, json!({}));
    desk.broker.publish(&[Message::to_queue("full", "{}")]);
    let no_right = desk.broker.url_as(&reader, "S3CRET-PLANT");
    let wrong = desk.broker.url_as("guest", "S3CRET-PLANT");
    for (url, queue, says) in [
        (desk.broker.url(), "empty", "'empty' (connection 'other') has no message ready"),
        (desk.broker.url(), "nobody", "there is no such queue"),
        (no_right, "full", "may not read it"),
        (wrong, "full", "was refused"),
    ] {
        let said = desk.run(&url, &[queue, "--yes"]);
        assert_eq!((said.code, said.out.as_str()), (Some(4), ""), "{said:?}");
        assert!(said.errors.contains(says) && !said.errors.contains("S3CRET"), "{said:?}");
        assert_readable(said.errors.lines());
    }
    desk.has_ready("full", 1);
    let no_connection = Setup::in_folder(desk.folder.path())
        .command(&["filter", "test", "--filter", "{}", "--conn-id", "unheard_of", "--peek", "full", "--yes"])
        .output()
        .unwrap();
    let errors = String::from_utf8(no_connection.stderr).unwrap();
    assert_eq!(no_connection.status.code(), Some(4), "{errors}");
    assert!(errors.contains("unheard_of"), "{errors}");
}

#[test]
fn real_stream_is_not_peeked_into() {
    let desk = Desk::new(BrokerVersion::for_this_round()[0]);
    let path = format!("queues/{}/log", desk.broker.vhost());
    let body = json!({"durable": true, "arguments": {"x-queue-type": "stream"}});
    desk.broker.management("PUT", &path, Some(&body));
    let said = desk.run(&desk.with_management(), &["log", "--yes"]);
    assert_eq!(said.code, Some(4), "{said:?}");
    assert!(said.errors.contains("is a stream: no single message can be taken from it"), "{said:?}");
}

#[test]
fn message_and_queue_together_or_neither_is_wrong_usage() {
    let desk = tempfile::tempdir().unwrap();
    for more in [&[][..], &["--message", "m.json", "--peek", "q"], &["--message", "m.json", "--yes"]] {
        let verb = [&["filter", "test", "--filter", "{}"], more].concat();
        let output = Setup::in_folder(desk.path()).command(&verb).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{more:?}");
        assert!(String::from_utf8(output.stderr).unwrap().contains("--message"), "{more:?}");
    }
}
