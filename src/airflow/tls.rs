//! The TLS side of talking to Airflow: rustls with ring, the system's authorities or only those of one file.
//!
//! Read once, when the client is made; a changed file counts after a restart. Certificates are always checked.

use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};

use super::error::AirflowError;

/// Makes the configuration of every TLS connection.
///
/// # Errors
/// The file cannot be read or holds no certificate, or the machine has no authorities.
pub(super) fn config(ca_file: Option<&Path>) -> Result<ClientConfig, AirflowError> {
    let roots = match ca_file {
        Some(path) => from_file(path)?,
        None => from_system()?,
    };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    Ok(ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth())
}

fn from_file(path: &Path) -> Result<RootCertStore, AirflowError> {
    let fault = |reason: String| AirflowError::CaFile { path: path.to_owned(), reason };
    let mut roots = RootCertStore::empty();
    let certificates = CertificateDer::pem_file_iter(path).map_err(|error| fault(error.to_string()))?;
    for certificate in certificates {
        let certificate = certificate.map_err(|error| fault(error.to_string()))?;
        roots.add(certificate).map_err(|error| fault(error.to_string()))?;
    }
    if roots.is_empty() {
        return Err(fault("it holds no certificate in PEM form".to_owned()));
    }
    Ok(roots)
}

fn from_system() -> Result<RootCertStore, AirflowError> {
    let mut roots = RootCertStore::empty();
    // Single unreadable or odd certificates of the system are left out, as every TLS client does.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() { Err(AirflowError::NoSystemRoots) } else { Ok(roots) }
}
