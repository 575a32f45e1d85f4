//! TLS errors in the words of whoever set the connection up.

use rustls::{AlertDescription, CertificateError, InvalidMessage};

/// What a TLS error means to the person who set the connection up.
pub(super) fn of(error: &rustls::Error) -> String {
    if let rustls::Error::InvalidCertificate(reason) = error {
        return certificate_text(reason);
    }
    if let rustls::Error::AlertReceived(alert) = error {
        return alert_text(*alert);
    }
    if let rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType) = error {
        return "the port does not speak TLS; turn TLS off (amqp) or use the TLS port".to_owned();
    }
    error.to_string()
}

fn certificate_text(reason: &CertificateError) -> String {
    match reason {
        CertificateError::UnknownIssuer => {
            "the broker's certificate is not signed by a trusted authority; give that authority's certificate as ca_certs".to_owned()
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => format!(
            "the broker's certificate is for another host name; connect by a name it carries, or renew it ({reason})"
        ),
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            format!("the broker's certificate has expired; renew it ({reason})")
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            format!("the broker's certificate is not valid yet; check the clocks ({reason})")
        }
        _ => format!("the broker's certificate cannot be accepted: {reason}"),
    }
}

fn alert_text(alert: AlertDescription) -> String {
    match alert {
        AlertDescription::CertificateRequired => {
            "the broker asks for a client certificate; give certfile and keyfile".to_owned()
        }
        AlertDescription::UnknownCA
        | AlertDescription::BadCertificate
        | AlertDescription::CertificateUnknown
        | AlertDescription::CertificateExpired
        | AlertDescription::CertificateRevoked => {
            format!(
                "the broker does not accept our client certificate (alert {alert:?}); use one that its authority signed"
            )
        }
        AlertDescription::HandshakeFailure => {
            "the broker refused the TLS handshake: it may ask for a client certificate, or share no cipher with us"
                .to_owned()
        }
        _ => format!("the broker broke the TLS handshake off (alert {alert:?})"),
    }
}
