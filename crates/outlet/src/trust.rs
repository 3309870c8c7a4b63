//! Which servers are believed to be who they say, and why one is not.
//!
//! All certificates are read when an outlet is opened: the thread that delivers reaches no file of
//! them any more.

use crate::error::OutletError;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{CertificateError, Error, RootCertStore};
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use ureq::tls::{Certificate, RootCerts, TlsConfig};

/// Longest file: all authorities that browsers know are a fifth of it.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Longest line of a certificate's text (RFC 7468).
const PEM_LINE_BYTES: usize = 64;

/// What is said of a server whose authority is not among those that are believed.
pub(crate) const UNKNOWN_AUTHORITY: &str = "its certificate is of an authority that is not known \
                                           here: name that one's with --outlet-ca FILE";

/// What webpki says of a server that shows the certificate of an authority, as `openssl req -x509`
/// makes it. Only its text leads out of rustls.
const CA_AS_SERVER: &str = "CaUsedAsEndEntity";

/// TLS with servers for which an authority of `file` vouches, or of the system if there is none.
pub(crate) fn config(file: Option<&Path>) -> Result<TlsConfig, OutletError> {
    let roots = roots(file)?;
    Ok(TlsConfig::builder()
        .root_certs(RootCerts::Specific(Arc::new(roots)))
        .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .build())
}

/// The same authorities as PEM, for who reads them by another library.
pub(crate) fn pem(file: Option<&Path>) -> Result<String, OutletError> {
    let mut text = String::new();
    for root in roots(file)? {
        text += "-----BEGIN CERTIFICATE-----\n";
        for line in STANDARD.encode(root.der()).as_bytes().chunks(PEM_LINE_BYTES) {
            text.extend(line.iter().copied().map(char::from));
            text.push('\n');
        }
        text += "-----END CERTIFICATE-----\n";
    }
    Ok(text)
}

fn roots(file: Option<&Path>) -> Result<Vec<Certificate<'static>>, OutletError> {
    file.map_or_else(of_system, of_file)
}

fn of_system() -> Result<Vec<Certificate<'static>>, OutletError> {
    let found = rustls_native_certs::load_native_certs();
    if found.certs.is_empty() {
        let reason = found.errors.first().map_or_else(String::new, |error| format!(": {error}"));
        return Err(OutletError::NoAuthorities { reason });
    }
    Ok(found
        .certs
        .iter()
        .map(|certificate| Certificate::from_der(certificate).to_owned())
        .collect())
}

fn of_file(path: &Path) -> Result<Vec<Certificate<'static>>, OutletError> {
    let wrong = |reason: String| OutletError::Authorities { path: path.to_owned(), reason };
    let mut text = Vec::new();
    let read =
        File::open(path).and_then(|file| file.take(FILE_BYTES_MAX + 1).read_to_end(&mut text));
    read.map_err(|source| OutletError::File { action: "reading", path: path.to_owned(), source })?;
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err(wrong(format!("longer than {FILE_BYTES_MAX} bytes")));
    }
    let (mut checked, mut roots) = (RootCertStore::empty(), Vec::new());
    for certificate in CertificateDer::pem_slice_iter(&text) {
        let certificate = certificate.map_err(|error| wrong(error.to_string()))?;
        roots.push(Certificate::from_der(&certificate).to_owned());
        checked.add(certificate).map_err(|error| wrong(error.to_string()))?;
    }
    if roots.is_empty() {
        return Err(wrong("PEM has -----BEGIN CERTIFICATE-----".to_owned()));
    }
    Ok(roots)
}

/// Why there is no answer, and what to do about it if it is by TLS.
pub(crate) fn reason(error: &ureq::Error) -> String {
    let inner = match error {
        ureq::Error::Rustls(inner) => Some(inner),
        ureq::Error::Io(source) => source.get_ref().and_then(|inner| inner.downcast_ref::<Error>()),
        _ => None,
    };
    inner.map_or_else(|| error.to_string(), of_tls)
}

fn of_tls(error: &Error) -> String {
    let Error::InvalidCertificate(wrong) = error else {
        return match error {
            Error::InvalidMessage(_) => format!("it speaks no TLS at this port ({error})"),
            _ => format!("TLS: {error}"),
        };
    };
    let fix = match wrong {
        CertificateError::UnknownIssuer => UNKNOWN_AUTHORITY,
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "its certificate has expired: renew it there"
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "its certificate is not valid yet: is this machine's clock right?"
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "its certificate is for other names: write the outlet with one of those"
        }
        CertificateError::Other(other) if format!("{other:?}").contains(CA_AS_SERVER) => {
            "its certificate is an authority's and no server's: make one with \
             basicConstraints=CA:FALSE there"
        }
        _ => "its certificate is refused",
    };
    format!("{fix} ({error})")
}

#[cfg(test)]
mod tests;
