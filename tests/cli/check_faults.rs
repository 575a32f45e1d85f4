//! `check` where one thing is wrong: one sentence that names what, where and what to do; the rest is tried all the same.

use crate::bench::{Bench, Checked};
use crate::support::stub_airflow::StubDag;
use crate::support::{BrokerVersion, Certificates, Dialect, Fault, What, ports};

fn bench() -> Bench {
    Bench::new(BrokerVersion::V3, Dialect::V2)
}

#[test]
fn real_wrong_broker_password_is_told() {
    let bench = bench();
    let checked = Checked::of(&bench.setup_with(&bench.broker.url_as("guest", "S3CRET-PLANT")));
    let address = bench.broker.address().to_string();
    checked.expect_one_fault(&[
        "log in",
        &address,
        "rmq_default",
        "\"guest\" was refused",
        "correct user name and password",
    ]);
    assert!(checked.out.contains("DAG 'orders' can be started"), "the rest was tried: {}", checked.out);
}

#[test]
fn real_wrong_vhost_is_told() {
    let bench = bench();
    let url = format!("amqp://guest:guest@{}/no_such_vhost", bench.broker.address());
    Checked::of(&bench.setup_with(&url)).expect_one_fault(&[
        "no_such_vhost",
        "there is no such vhost",
        "create it or correct",
    ]);
}

#[test]
fn real_missing_queue_is_told_and_the_others_are_looked_at() {
    let bench = bench();
    let setup = bench.setup();
    setup.dag("bills", "no_such_queue", "rmq_default");
    bench.stub.set_dag("bills", StubDag::default());
    let checked = Checked::of(&setup);
    checked.expect_one_fault(&["\"no_such_queue\"", "there is no such queue", "create it or correct its name"]);
    assert!(checked.out.contains("queue 'orders' has 0 messages"), "{}", checked.out);
}

#[test]
fn real_unreachable_broker_is_told() {
    let bench = bench();
    let address = format!("127.0.0.1:{}", ports::unused());
    let checked = Checked::of(&bench.setup_with(&format!("amqp://guest:guest@{address}/")));
    checked.expect_one_fault(&[&address, "rmq_default", "nothing listens there", "start the broker, or correct"]);
}

#[test]
fn real_untrusted_certificate_is_told() {
    let certificates = Certificates::make();
    let (broker, port) = certificates.node(BrokerVersion::V3, "server", false);
    let bench = Bench::on(broker, Dialect::V2);
    let url = format!("amqps://guest:guest@localhost:{port}/{}", bench.broker.vhost());
    Checked::of(&bench.setup_with(&url)).expect_one_fault(&["TLS to localhost", "certificate", "rmq_default"]);
    let ca = certificates.path("ca.pem").display().to_string().replace('/', "%2F");
    let checked = Checked::of(&bench.setup_with(&format!("{url}?ca_certs={ca}")));
    assert_eq!(checked.code, Some(0), "{}", checked.out);
}

#[test]
fn real_unknown_connection_id_is_told() {
    let bench = bench();
    let setup = bench.setup();
    setup.dag("bills", "orders", "nobody_knows");
    bench.stub.set_dag("bills", StubDag::default());
    let checked = Checked::of(&setup);
    checked.expect_one_fault(&["nobody_knows", "AIRFLOW_CONN_NOBODY_KNOWS", "set the variable"]);
}

#[test]
fn real_wrong_airflow_password_is_told() {
    for dialect in Dialect::ALL {
        let bench = Bench::new(BrokerVersion::V3, dialect);
        let setup = bench.setup().airflow(&bench.stub.url(), &bench.stub.user(), "S3CRET-PLANT");
        let checked = Checked::of(&setup);
        checked.expect_one_fault(&["log in to Airflow", &bench.stub.url(), "check "]);
        assert!(checked.out.contains("queue 'orders' has 0 messages"), "the rest was tried: {}", checked.out);
    }
}

#[test]
fn real_unreachable_airflow_is_told() {
    let bench = bench();
    let setup = bench.setup();
    bench.stub.go_down();
    let checked = Checked::of(&setup);
    checked.expect_one_fault(&["cannot be reached", &bench.stub.url(), "airflow.url", "RMQ_WATCHER__AIRFLOW__URL"]);
    assert!(checked.out.contains("queue 'orders' has 0 messages"), "the rest was tried: {}", checked.out);
    assert!(checked.out.contains("\nDAGs\nWARN  not looked up"), "{}", checked.out);
}

#[test]
fn real_something_that_is_not_airflow_is_told() {
    let bench = bench();
    for fault in [Fault::login_page(), Fault::redirect_to_login()] {
        bench.stub.always(What::Any, fault);
        Checked::of(&bench.setup()).expect_one_fault(&[&bench.stub.url(), "airflow.url"]);
        bench.stub.heal();
    }
}

#[test]
fn real_dags_that_cannot_be_started_are_told() {
    for dialect in Dialect::ALL {
        let bench = Bench::new(BrokerVersion::V3, dialect);
        let setup = bench.setup();
        bench.stub.remove_dag("orders");
        Checked::of(&setup).expect_one_fault(&["DAG 'orders'", "does not know it", "import errors"]);
        bench.stub.set_dag("orders", StubDag { import_error: true, ..StubDag::default() });
        Checked::of(&setup).expect_one_fault(&["DAG 'orders'", "fails to import", "mend"]);
        bench.stub.set_dag("orders", StubDag { stale: true, ..StubDag::default() });
        Checked::of(&setup).expect_one_fault(&["DAG 'orders'", "not find it in its DAG folder", "put its file there"]);
    }
}

#[test]
fn real_missing_credentials_are_told() {
    let bench = bench();
    let setup = bench.setup().without("RMQ_WATCHER__AIRFLOW__USERNAME").without("RMQ_WATCHER__AIRFLOW__PASSWORD");
    Checked::of(&setup).expect_one_fault(&["no Airflow credentials", "set airflow.username and airflow.password"]);
}

#[test]
fn real_refused_declarations_and_broken_files_are_told_with_their_place() {
    let bench = bench();
    let setup = bench.setup();
    let refused = "from airflow.sdk import dag\nfrom airflow_rmq_watcher import rmq_trigger\n\nQ = input()\n\n\
                   @rmq_trigger(queue=Q)\n@dag(schedule=None)\ndef computed():\n    pass\n";
    setup.dag_file("computed.py", refused);
    let checked = Checked::of(&setup);
    checked.expect_one_fault(&["computed.py:6:", "\"computed\" refused", "has to be written out"]);
    assert!(checked.out.contains("DAG 'orders' can be started"), "the other one is tried: {}", checked.out);
    setup.dag_file("computed.py", "from airflow_rmq_watcher import rmq_trigger\ndef broken(:\n");
    Checked::of(&setup).expect_one_fault(&["computed.py:2"]);
}

#[test]
fn real_unreadable_dag_folder_is_told() {
    let bench = bench();
    let checked = Checked::of(&bench.setup().env("AIRFLOW__CORE__DAGS_FOLDER", "/no/such/folder"));
    checked.expect_one_fault(&["/no/such/folder", "check that it exists"]);
}
