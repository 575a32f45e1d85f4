//! Our own TLS configuration: only the authority that was given, or the system's; client certificates; or no check at all.
//!
//! Files are read at every connect, so that a renewed certificate counts at the next one. Reading happens on a thread of its
//! own, because a hung network file system must stop neither the loop nor, by one blocked thread per attempt, the process.

use std::path::Path;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::{Error as PemError, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use tokio::sync::Semaphore;

use crate::domain::connection::TlsSettings;
use crate::domain::fault::{BrokerFault, BrokerFaultKind};
use crate::domain::ids::ConnId;

use super::fault::fault;

/// How many threads may be reading certificate files at once. Ones that hang keep their place until they return.
static READERS: Semaphore = Semaphore::const_new(4);

/// Reads the files and makes the configuration.
///
/// # Errors
/// One sentence naming the file and what is wrong with it.
///
/// # Cancel safety
/// Cancel safe; a read in progress goes on to its end on its thread.
pub(super) async fn client_config(settings: &TlsSettings, conn_id: &ConnId) -> Result<Arc<ClientConfig>, BrokerFault> {
    let permit = READERS.acquire().await.expect("the semaphore is never closed");
    let settings = settings.clone();
    let reading = tokio::task::spawn_blocking(move || {
        let config = read(&settings);
        drop(permit);
        config
    });
    let config = match reading.await {
        Ok(config) => config,
        Err(panic) => Err(format!("read the certificate files: {panic}")),
    };
    config.map(Arc::new).map_err(|text| fault(BrokerFaultKind::Tls, format!("{text} (connection {conn_id:?})")))
}

fn read(settings: &TlsSettings) -> Result<ClientConfig, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|e| format!("set TLS up: {e}"))?;
    let builder = if settings.verify_none {
        builder.dangerous().with_custom_certificate_verifier(Arc::new(NoCheck(provider)))
    } else {
        builder.with_root_certificates(match &settings.ca_certs {
            Some(path) => authorities(path)?,
            None => system_authorities()?,
        })
    };
    match &settings.client {
        None => Ok(builder.with_no_client_auth()),
        Some((certificate, key)) => {
            let chain = certificates(certificate)?;
            let secret =
                PrivateKeyDer::from_pem_file(key).map_err(|e| pem_text(key, "an unencrypted private key", &e))?;
            builder.with_client_auth_cert(chain, secret).map_err(|e| {
                format!(
                    "use the client certificate {} with the key {}: {e}; check that they belong together",
                    certificate.display(),
                    key.display()
                )
            })
        }
    }
}

fn authorities(path: &Path) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path)? {
        roots.add(certificate).map_err(|e| format!("use {} as certificate authority: {e}", path.display()))?;
    }
    Ok(roots)
}

fn system_authorities() -> Result<RootCertStore, String> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    let (added, _) = roots.add_parsable_certificates(found.certs);
    if added == 0 {
        let why = found.errors.first().map_or_else(|| "none found".to_owned(), ToString::to_string);
        return Err(format!(
            "read the system's certificate authorities: {why}; install ca-certificates or give ca_certs"
        ));
    }
    Ok(roots)
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let text = |e: &PemError| pem_text(path, "a certificate", e);
    let found =
        CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>).map_err(|e| text(&e))?;
    if found.is_empty() {
        return Err(text(&PemError::NoItemsFound));
    }
    Ok(found)
}

fn pem_text(path: &Path, wanted: &str, error: &PemError) -> String {
    let path = path.display();
    if let PemError::Io(error) = error {
        return format!("read {path}: {error}; the file must be readable for this process");
    }
    if let PemError::NoItemsFound = error {
        return format!("read {path}: it does not hold {wanted} in PEM form");
    }
    format!("read {path}: it is not well-formed PEM: {error}")
}

/// `CERT_NONE`: any certificate will do. Signatures are still checked, so the peer does hold the key of what it shows.
#[derive(Debug)]
struct NoCheck(Arc<CryptoProvider>);

impl ServerCertVerifier for NoCheck {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls12_signature(message, cert, dss, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls13_signature(message, cert, dss, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
