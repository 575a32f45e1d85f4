//! The corpora of bodies and headers, through the built watcher to real Airflow: every message ends as a run whose conf is the
//! documented one, or is refused with a reason; none stops the queue.

use std::path::Path;
use std::time::Duration;

use rmq_watcher::domain::content::{BodyLimits, Content, content};
use rmq_watcher::domain::envelope::{Envelope, Properties, Table};
use rmq_watcher::domain::ids::{ConnId, DeliveryTag, Epoch, QueueName, SubscriptionId};
use rmq_watcher::domain::payload::{Body, immediate_conf};
use serde_json::{Value, json};

use crate::support::corpus::{self, BodyCase, HeaderCase};
use crate::support::raw::{self, Publisher, long, short};
use crate::support::{
    Airflow, AirflowVersion, Broker, BrokerVersion, Dialect, Message, QueueKind, Setup, StubAirflow, eventually,
    long_round,
};
use crate::waits::{LATER, SOON, sql};

const DAG: &str = "e2e_payload";
const QUEUE: &str = "payload";

/// Airflow 2 on SQLite takes a tenth of a second for a run; a loaded machine takes its time.
const ALL_THROUGH: Duration = Duration::from_secs(240);

#[test]
fn bodies_have_the_conf_that_is_documented() {
    let cases = corpus::bodies();
    assert!(cases.len() >= 80, "{}", cases.len());
    for case in cases {
        let properties = Properties { content_encoding: case.content_encoding.clone(), ..Properties::default() };
        let envelope = Envelope {
            conn_id: ConnId::new("rmq_default"),
            queue: QueueName::new(QUEUE),
            epoch: Epoch(1),
            tag: DeliveryTag(1),
            redelivered: false,
            exchange: String::new(),
            routing_key: QUEUE.to_owned(),
            properties,
            headers: Table::new(),
            body: case.body.clone().into(),
        };
        match (content(&envelope, BodyLimits::default()), &case.refused) {
            (Content::Inline(unpacked), None) => {
                let conf = immediate_conf(&envelope, SubscriptionId(1), Body::Inline(&unpacked));
                case.assert_conf(&Value::Object(conf));
            }
            (Content::Refused(why), Some(part)) => assert!(why.to_string().contains(part), "{}: {why}", case.name),
            (found, expected) => panic!("{}: {found:?}, not {expected:?}", case.name),
        }
    }
}

#[test]
fn real_a_body_over_the_limit_is_refused_or_in_a_file_that_is_there_before_its_run() {
    let broker = Broker::shared(BrokerVersion::for_this_round()[0]);
    let body: Vec<u8> = (0..5000_u16).flat_map(u16::to_be_bytes).collect();
    for large in ["refuse", "file"] {
        let stub = StubAirflow::with_dag(Dialect::V2, DAG);
        broker.declare(large, QueueKind::Quorum, json!({}));
        let folder = tempfile::tempdir().unwrap();
        let consume = format!("[consume]\nmax_body_bytes = 1024\nlarge_body = \"{large}\"");
        let setup =
            Setup::in_folder(folder.path()).stub(&stub).connection("rmq_default", &broker.url()).config(&consume);
        setup.dag(DAG, large, "rmq_default");
        let mut watcher = setup.start();
        watcher.announce("message.refused");
        watcher.wait_event("consumer.attached", SOON);
        broker.publish(&[
            Message::to_queue(large, body.clone()).id("large"),
            Message::to_queue(large, "small").id("small"),
        ]);
        eventually(SOON, "both are settled", || {
            sql(&setup.state_dir(), "SELECT count(*) FROM ledger WHERE state = 'settled'") == "2"
        });
        let runs = stub.runs(DAG);
        let of = |id: &str| runs.iter().find(|run| run.run_id == format!("rmq__{large}__{id}"));
        assert_eq!(of("small").unwrap().conf["body"], "small");
        if large == "refuse" {
            assert!(of("large").is_none());
            assert!(watcher.wait_event("message.refused", SOON).contains("the body has 10000 bytes"));
        } else {
            let conf = &of("large").unwrap().conf;
            let file = Path::new(conf["body_file"]["path"].as_str().unwrap());
            assert_eq!((file.parent().unwrap(), &conf["body"]), (&*setup.state_dir().join("files"), &json!("")));
            assert_eq!(std::fs::read(file).unwrap(), body);
            assert_eq!(conf["body_file"]["size"], 10_000);
        }
        assert!(watcher.stop(SOON).success());
    }
}

#[test]
fn real_both_corpora_pass_through_to_both_airflows() {
    let plain = [(AirflowVersion::V2, BrokerVersion::V3), (AirflowVersion::V3, BrokerVersion::V4)];
    let crossed = [(AirflowVersion::V2, BrokerVersion::V4), (AirflowVersion::V3, BrokerVersion::V3)];
    let also = if long_round() { &crossed[..] } else { &[] };
    for (airflow, broker) in plain.iter().chain(also) {
        pass_through(&Airflow::shared(*airflow), &Broker::shared(*broker));
    }
}

fn pass_through(airflow: &Airflow, broker: &Broker) {
    airflow.wait_dag(DAG, LATER);
    broker.declare("dead", QueueKind::Classic, json!({}));
    let dead_letter = json!({"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"});
    broker.declare(QUEUE, QueueKind::Quorum, dead_letter);
    let folder = tempfile::tempdir().unwrap();
    // One after the other, as they were published: five refused in a row would make the target failing.
    let setup = Setup::in_folder(folder.path())
        .airflow(airflow.url(), "admin", "admin")
        .env("RMQ_WATCHER__CONSUME__PREFETCH", "1")
        .connection("rmq_default", &broker.url());
    setup.dag(DAG, QUEUE, "rmq_default");
    // Its filter is asked about each of them, and takes none.
    picky_dag(&setup, "e2e_orders");
    let mut watcher = setup.start();
    watcher.announce("message.refused");
    watcher.wait_event("consumer.attached", SOON);

    let (tables, bodies) = (corpus::headers(), corpus::bodies());
    let round = format!("{}-{:x}", std::process::id(), fastrand::u32(..));
    publish(broker, &tables, &bodies, &round);
    let total = tables.len() + bodies.len();
    eventually(ALL_THROUGH, "every message is settled", || {
        sql(&setup.state_dir(), "SELECT count(*) FROM ledger WHERE state = 'settled'") == total.to_string()
    });
    // Said once for each of the two.
    assert_eq!((broker.ready(QUEUE), watcher.count_event("consumer.attached")), (0, 2));
    assert!(watcher.stop(SOON).success());

    for (n, case) in tables.iter().enumerate() {
        let conf = conf_of_run(airflow, &format!("h{n}-{round}"), &case.name);
        assert_eq!(conf["headers"], *case.json(broker.version()), "{}", case.name);
        assert_eq!(conf["body"], case.name.as_str());
    }
    let mut refused = 0;
    for (n, case) in bodies.iter().enumerate() {
        let id = format!("b{n}-{round}");
        match refusal(case, airflow.version()) {
            None => case.assert_conf(&conf_of_run(airflow, &id, &case.name)),
            Some(part) => {
                refused += 1;
                assert_refused(airflow, &setup.state_dir(), &id, part);
            }
        }
    }
    assert_eq!(broker.ready("dead"), refused, "dead-lettered");
}

/// Every header table under the ids `h0-ROUND`, `h1-ROUND`, …, and every body under `b0-ROUND`, ….
fn publish(broker: &Broker, tables: &[HeaderCase], bodies: &[BodyCase], round: &str) {
    assert!(tables.len() >= 60 && bodies.len() >= 80, "{} header tables, {} bodies", tables.len(), bodies.len());
    let mut publisher = Publisher::open(broker);
    for (n, case) in tables.iter().enumerate() {
        let properties = [long(&case.table), vec![2], short(format!("h{n}-{round}").as_bytes())].concat();
        let flags = raw::HEADERS | raw::DELIVERY_MODE | raw::MESSAGE_ID;
        publisher.publish(QUEUE, flags, &properties, case.name.as_bytes());
    }
    for (n, case) in bodies.iter().enumerate() {
        let encoding = case.content_encoding.as_deref().map(|text| short(text.as_bytes()));
        let flags = raw::DELIVERY_MODE | raw::MESSAGE_ID | encoding.as_ref().map_or(0, |_| raw::CONTENT_ENCODING);
        let id = short(format!("b{n}-{round}").as_bytes());
        publisher.publish(QUEUE, flags, &[encoding.unwrap_or_default(), vec![2], id].concat(), &case.body);
    }
}

/// Looks into everything that a message can carry, and takes one message only.
const PICKY: &str = r#"{"filter_headers": {
    "h": {"$prefix": "mine", "$regex": "^mine$", "$not": {"$lt": 5}},
    "body.mine": {"$in": [True, 1]},
    "body.list.0.x\\.y": {"$exists": True},
}}"#;

fn picky_dag(setup: &Setup, dag: &str) {
    let text = format!(
        "from airflow.sdk import dag\nfrom airflow_rmq_watcher import rmq_trigger\n\n\n\
         @rmq_trigger(queue=\"{QUEUE}\", filter_data={PICKY})\n@dag(schedule=None)\n\
         def {dag}():\n    pass\n\n\n{dag}()\n"
    );
    setup.dag_file(&format!("{dag}.py"), &text);
}

#[test]
fn real_both_corpora_stand_in_no_matchs_way() {
    for version in BrokerVersion::for_this_round() {
        for kind in [QueueKind::Quorum, QueueKind::Classic] {
            stand_in_no_way(version, kind);
        }
    }
}

fn stand_in_no_way(version: BrokerVersion, kind: QueueKind) {
    let (broker, stub) = (Broker::shared(version), StubAirflow::with_dag(Dialect::V2, "picky"));
    broker.declare(QUEUE, kind, json!({}));
    let folder = tempfile::tempdir().unwrap();
    let setup = Setup::in_folder(folder.path()).stub(&stub).connection("rmq_default", &broker.url());
    picky_dag(&setup, "picky");
    let (tables, bodies) = (corpus::headers(), corpus::bodies());
    publish(&broker, &tables, &bodies, "x");
    let body = r#"{"mine": true, "list": [{"x.y": null}]}"#;
    broker.publish(&[Message::to_queue(QUEUE, body).id("mine").header("h", "mine")]);
    let mut watcher = setup.start();
    watcher.announce("filter.missed").announce("filter.failed");
    stub.wait_runs("picky", 1, SOON);
    assert!(watcher.runs());
    assert_eq!(watcher.count_event("consumer.attached"), 1);
    assert!(watcher.stop(SOON).success());
    let left = tables.len() + bodies.len();
    eventually(SOON, "all others are in the queue", || broker.ready(QUEUE) as usize == left);
    assert_eq!(stub.runs("picky")[0].run_id, format!("rmq__{QUEUE}__mine"), "{version:?} {kind:?}");
}

fn refusal(case: &BodyCase, airflow: AirflowVersion) -> Option<&str> {
    let by_airflow = match airflow {
        AirflowVersion::V2 => case.refused_by_airflow2.as_deref(),
        AirflowVersion::V3 => None,
    };
    case.refused.as_deref().or(by_airflow)
}

#[track_caller]
fn conf_of_run(airflow: &Airflow, id: &str, name: &str) -> Value {
    let run = airflow.run(DAG, &format!("rmq__{QUEUE}__{id}"));
    let mut run = run.unwrap_or_else(|| panic!("{name}: no run"));
    run["conf"].take()
}

#[track_caller]
fn assert_refused(airflow: &Airflow, state_dir: &Path, id: &str, part: &str) {
    let reason = sql(state_dir, &format!("SELECT outcome || ': ' || reason FROM ledger WHERE key = '{id}'"));
    assert!(reason.starts_with("dlq: ") && reason.contains(part), "{id}: {reason}, not {part}");
    assert_eq!(airflow.run(DAG, &format!("rmq__{QUEUE}__{id}")), None);
}
