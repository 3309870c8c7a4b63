//! The certificate and the key by which the service is known over TLS, out of their files, and
//! again when they were renewed.

use anyhow::{Context, bail, ensure};
use ringside_core::Shown;
use rustix::fs::OFlags;
use rustls::ServerConfig;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::fs::OpenOptions;
use std::io::Read;
use std::net::IpAddr;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{SystemTime, UNIX_EPOCH};
use x509_parser::prelude::{ASN1Time, FromDer, GeneralName, X509Certificate};

/// Longest file: a chain of some hundred certificates.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// Bits of a key's mode that let others in: the group may read it, as Debian's `ssl-cert` does.
const OPEN_MODE: u32 = 0o027;

/// A certificate with its key, in two files of PEM.
#[derive(Debug)]
pub struct Tls {
    certificate: PathBuf,
    key: PathBuf,
    current: RwLock<Arc<Identity>>,
}

/// What the files held.
#[derive(Debug)]
pub(crate) struct Identity {
    /// For the handshakes to come.
    pub config: Arc<ServerConfig>,
    /// Whom the certificate names.
    pub names: Names,
    valid_from: ASN1Time,
    valid_until: ASN1Time,
}

/// The hosts of a certificate.
#[derive(Debug, Default)]
pub(crate) struct Names {
    /// In small letters; the first part may be `*`.
    dns: Vec<String>,
    addresses: Vec<IpAddr>,
}

impl Tls {
    /// Reads a chain of certificates, the service's own first, and its key.
    ///
    /// # Errors
    /// A file cannot be read or holds something else, others may read the key, or the two do not
    /// belong together.
    pub fn load(certificate: &Path, key: &Path) -> anyhow::Result<Tls> {
        let (certificate, key) = (certificate.to_owned(), key.to_owned());
        let current = RwLock::new(Arc::new(Identity::load(&certificate, &key)?));
        Ok(Tls { certificate, key, current })
    }

    /// Reads the files again, for the connections to come.
    ///
    /// # Errors
    /// As [`load`](Tls::load); everything stays as it was then.
    pub fn renew(&self) -> anyhow::Result<()> {
        let renewed = Arc::new(Identity::load(&self.certificate, &self.key)?);
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = renewed;
        Ok(())
    }

    /// What clients will not accept.
    pub fn warnings(&self, now: SystemTime) -> Vec<String> {
        let warnings = self.identity().warnings(now);
        let path = self.certificate.shown();
        warnings.into_iter().map(|text| format!("certificate {path} {text}")).collect()
    }

    pub(crate) fn identity(&self) -> Arc<Identity> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Identity {
    fn load(certificate: &Path, key: &Path) -> anyhow::Result<Identity> {
        let chain = chain(certificate)
            .with_context(|| format!("certificate {} (--tls-cert)", certificate.shown()))?;
        let secret = secret(key).with_context(|| format!("key {} (--tls-key)", key.shown()))?;
        Identity::of(chain, secret)
            .with_context(|| format!("certificate {} and key {}", certificate.shown(), key.shown()))
    }

    fn of(
        chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
    ) -> anyhow::Result<Identity> {
        let first = chain.first().context("it holds no certificate")?;
        let (_, own) = X509Certificate::from_der(first).context("the certificate is damaged")?;
        let (valid_from, valid_until) = (own.validity().not_before, own.validity().not_after);
        let names = Names::of(&own);
        let builder = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth();
        let mut config = builder.with_single_cert(chain, key).map_err(|error| match error {
            rustls::Error::InconsistentKeys(_) => anyhow::anyhow!(
                "they do not belong together: the key must be that of the first certificate"
            ),
            error => anyhow::Error::new(error).context("this pair cannot be used"),
        })?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Identity { config: Arc::new(config), names, valid_from, valid_until })
    }

    fn warnings(&self, now: SystemTime) -> Vec<String> {
        let now = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let now = i64::try_from(now).unwrap_or(i64::MAX);
        let mut warnings = Vec::new();
        if now > self.valid_until.timestamp() {
            warnings.push(format!("expired on {}: clients refuse it", self.valid_until));
        }
        if now < self.valid_from.timestamp() {
            let from = self.valid_from;
            warnings.push(format!("is valid from {from} on: clients refuse it until then"));
        }
        if self.names.dns.is_empty() && self.names.addresses.is_empty() {
            let text = "names no host (subjectAltName): clients refuse it, and only --host adds \
                        names that requests may have";
            warnings.push(text.to_owned());
        }
        warnings
    }
}

impl Names {
    fn of(certificate: &X509Certificate<'_>) -> Names {
        let mut names = Names::default();
        let Ok(Some(extension)) = certificate.subject_alternative_name() else { return names };
        for name in &extension.value.general_names {
            match name {
                GeneralName::DNSName(name) => names.dns.push(name.to_ascii_lowercase()),
                GeneralName::IPAddress(bytes) => names.addresses.extend(address(bytes)),
                _ => {}
            }
        }
        names
    }

    /// True if `host`, in small letters and without a port, is one of them. A `*` stands for one
    /// part of a name (RFC 6125, section 6.4.3).
    pub fn hold(&self, host: &str) -> bool {
        let is_it = |name: &String| match (name.strip_prefix("*."), host.split_once('.')) {
            (Some(rest), Some((_, host_rest))) => rest == host_rest,
            (Some(_), None) => false,
            (None, _) => name == host,
        };
        match host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>() {
            Ok(address) => self.addresses.contains(&address.to_canonical()),
            Err(_) => self.dns.iter().any(is_it),
        }
    }
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    let v4 = <[u8; 4]>::try_from(bytes).ok().map(IpAddr::from);
    v4.or_else(|| Some(IpAddr::from(<[u8; 16]>::try_from(bytes).ok()?).to_canonical()))
}

fn chain(path: &Path) -> anyhow::Result<Vec<CertificateDer<'static>>> {
    let (text, _) = read(path)?;
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    let chain = chain.context("it is no PEM file")?;
    ensure!(!chain.is_empty(), "it holds no certificate: PEM has -----BEGIN CERTIFICATE-----");
    Ok(chain)
}

fn secret(path: &Path) -> anyhow::Result<PrivateKeyDer<'static>> {
    let (text, mode) = read(path)?;
    ensure!(mode & OPEN_MODE == 0, "others can read it, or change it: chmod 600 (or 640)");
    let is_encrypted = text.windows(9).any(|part| part == b"ENCRYPTED");
    match PrivateKeyDer::from_pem_slice(&text) {
        Ok(key) => Ok(key),
        Err(_) if is_encrypted => {
            bail!("it wants a passphrase, which no service has: `openssl pkey` takes it off")
        }
        Err(_) => bail!("it holds no key: PEM has -----BEGIN PRIVATE KEY-----"),
    }
}

/// A file's bytes and mode. A pipe of that name is not waited for.
fn read(path: &Path) -> anyhow::Result<(Vec<u8>, u32)> {
    let flags = i32::try_from(OFlags::NONBLOCK.bits())?;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    let metadata = file.metadata()?;
    ensure!(metadata.is_file(), "it is no file");
    let mut text = Vec::new();
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut text)?;
    ensure!(text.len() as u64 <= FILE_BYTES_MAX, "longer than {FILE_BYTES_MAX} bytes");
    ensure!(!text.is_empty(), "it is empty");
    Ok((text, metadata.mode()))
}

#[cfg(test)]
mod tests;
