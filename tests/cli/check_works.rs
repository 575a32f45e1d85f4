//! `check` where nothing is wrong: it says so, and changes nothing.

use serde_json::json;

use crate::bench::{Bench, Checked, SOON};
use crate::support::{Airflow, AirflowVersion, Broker, BrokerVersion, Dialect, QueueKind, Setup, What};

const SECTIONS: [&str; 5] = ["Settings", "DAG folder", "Airflow", "RabbitMQ", "DAGs"];

#[track_caller]
fn assert_all_well(checked: &Checked) {
    let out = &checked.out;
    assert!(checked.marked("FAIL").is_empty() && checked.marked("WARN").is_empty(), "{out}");
    assert_eq!(checked.code, Some(0), "{out}");
    assert!(out.ends_with("\nEverything that was tried works.\n"), "{out}");
    let titles: Vec<&str> = out.lines().filter(|line| SECTIONS.contains(line)).collect();
    assert_eq!(titles, SECTIONS, "{out}");
}

#[test]
fn real_healthy_setup_passes_and_is_left_as_it_was() {
    for version in BrokerVersion::ALL {
        for dialect in Dialect::ALL {
            let bench = Bench::new(version, dialect);
            let checked = Checked::of(&bench.setup());
            assert_all_well(&checked);
            assert!(checked.out.contains("queue 'orders' has 0 messages and 0 consumers"), "{}", checked.out);
            assert!(checked.out.contains("DAG 'orders' can be started"), "{}", checked.out);
            assert_eq!(bench.stub.count(What::Trigger), 0);
            assert!(!bench.setup().state_dir().exists(), "check made the state directory");
        }
    }
}

#[test]
fn real_management_api_is_tried_where_the_connection_names_one() {
    let bench = Bench::new(BrokerVersion::for_this_round()[0], Dialect::V2);
    let with = |address: &str| {
        let address = address.replace(':', "%3A").replace('/', "%2F");
        Checked::of(&bench.setup_with(&format!("{}?management_url={address}", bench.broker.url())))
    };
    let checked = with(bench.broker.management_url());
    assert_all_well(&checked);
    assert!(checked.out.contains("connection 'rmq_default': the management API answers"), "{}", checked.out);
    let checked = with(&bench.stub.url());
    assert_eq!((checked.code, checked.marked("FAIL").len()), (Some(0), 0), "{}", checked.out);
    let warned = checked.marked("WARN");
    assert!(warned.len() == 1 && warned[0].contains("the management API cannot be asked"), "{warned:?}");
}

#[test]
fn real_healthy_setup_passes_with_real_airflow() {
    for version in AirflowVersion::for_this_round() {
        let (airflow, broker) = (Airflow::shared(version), Broker::shared(BrokerVersion::V4));
        airflow.wait_dag("e2e_orders", SOON);
        airflow.set_paused("e2e_orders", false);
        broker.declare("orders", QueueKind::Quorum, json!({}));
        let folder = tempfile::tempdir().unwrap();
        let setup = Setup::in_folder(folder.path())
            .airflow(airflow.url(), "admin", "admin")
            .connection("rmq_default", &broker.url());
        setup.dag("e2e_orders", "orders", "rmq_default");
        let checked = Checked::of(&setup);
        assert_all_well(&checked);
        let wanted = match version {
            AirflowVersion::V2 => "Airflow 2.11",
            AirflowVersion::V3 => "Airflow 3.",
        };
        assert!(checked.out.contains(wanted), "{}", checked.out);
        let wrong = setup.airflow(airflow.url(), "admin", "S3CRET-PLANT");
        Checked::of(&wrong).expect_one_fault(&["log in to Airflow", airflow.url(), "check", "password"]);
    }
}

#[test]
fn real_paused_dag_is_a_warning() {
    let bench = Bench::new(BrokerVersion::V3, Dialect::V2);
    bench.stub.set_dag("orders", crate::support::stub_airflow::StubDag { paused: true, ..Default::default() });
    let checked = Checked::of(&bench.setup());
    assert_eq!((checked.code, checked.marked("FAIL").len()), (Some(0), 0), "{}", checked.out);
    let warned = checked.marked("WARN");
    assert_eq!(warned.len(), 1, "{}", checked.out);
    assert!(warned[0].contains("DAG 'orders' is paused") && warned[0].contains("unpause it"), "{warned:?}");
}
