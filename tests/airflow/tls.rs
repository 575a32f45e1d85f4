//! Whom the client trusts over https (L2): the authorities of `ca_file` and no others.
//!
//! The server is a thread with rustls; its certificate (`tests/fixtures/airflow_tls`, valid for a century, its authority's
//! key thrown away) names `localhost` and `127.0.0.1`.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use rmq_watcher::airflow::{AirflowClient, AirflowError, Blocked};
use rmq_watcher::domain::outcome::Dialect;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use crate::support::{password, run, settings};

fn fixture(name: &str) -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/airflow_tls")).join(name)
}

/// Serves one connection: answers the version. Ends with the connection or the refused handshake.
fn serve_once() -> (u16, thread::JoinHandle<()>) {
    let chain = vec![CertificateDer::from_pem_file(fixture("server.pem")).unwrap()];
    let key = PrivateKeyDer::from_pem_file(fixture("server.key")).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        let mut stream = StreamOwned::new(ServerConnection::new(Arc::new(config)).unwrap(), stream);
        let mut request = [0; 4096];
        // A client that does not trust us ends the handshake here.
        if stream.read(&mut request).is_err() {
            return;
        }
        let body = r#"{"version":"3.3.2"}"#;
        let answer = format!(
            "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(answer.as_bytes()).unwrap();
        stream.conn.send_close_notify();
        stream.flush().unwrap();
    });
    (port, server)
}

fn client(url: &str, ca_file: Option<PathBuf>) -> Result<AirflowClient, AirflowError> {
    let mut settings = settings(url, password("u", "p"));
    settings.ca_file = ca_file;
    AirflowClient::new(settings)
}

#[test]
fn a_server_of_the_given_authority_is_trusted() {
    for host in ["localhost", "127.0.0.1"] {
        let (port, server) = serve_once();
        run(async move {
            let client = client(&format!("https://{host}:{port}"), Some(fixture("ca.pem"))).unwrap();
            assert_eq!(client.version().await.unwrap(), (Dialect::V2, "3.3.2".to_owned()));
        });
        server.join().unwrap();
    }
}

#[test]
fn a_server_of_another_authority_or_name_is_not() {
    for (host, ca_file) in [("localhost", None), ("127.0.0.2", Some(fixture("ca.pem")))] {
        let listens_on = if host == "localhost" { "localhost" } else { "127.0.0.1" };
        let (port, server) = serve_once();
        run(async move {
            // 127.0.0.2 is another name for the same machine, and none that the certificate names.
            let url = format!("https://{host}:{port}");
            let blocked = match client(&url, ca_file) {
                Ok(client) => client.version().await.unwrap_err(),
                // A machine without any authority says so when the client is made.
                Err(error) => {
                    assert!(matches!(error, AirflowError::NoSystemRoots), "{error}");
                    let _ = std::net::TcpStream::connect((listens_on, port));
                    return;
                }
            };
            let Blocked::NotNow { reason, .. } = &blocked else { panic!("{blocked:?}") };
            assert!(reason.contains("cannot be reached"), "{reason}");
            let _ = std::net::TcpStream::connect((listens_on, port));
        });
        server.join().unwrap();
    }
}

#[test]
fn an_unusable_file_of_authorities_is_said_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let empty = folder.path().join("empty.pem");
    std::fs::write(&empty, "no certificate\n").unwrap();
    for path in [folder.path().join("missing.pem"), empty, fixture("server.key")] {
        let error = client("https://localhost:1", Some(path.clone())).err().unwrap().to_string();
        assert!(error.contains(path.to_str().unwrap()), "{error}");
    }
}
