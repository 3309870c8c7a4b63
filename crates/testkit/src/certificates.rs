//! Certificates of tests, made when they are needed: an authority, and servers that it vouches for.

use rcgen::{
    BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    date_time_ymd,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, StreamOwned};
use std::net::TcpStream;
use std::sync::Arc;

/// Who signs certificates.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    own: Certified,
}

/// A certificate with its key, both as PEM.
#[derive(Clone, Debug)]
pub struct Certified {
    /// The certificate.
    pub certificate: String,
    /// Its key.
    pub key: String,
}

impl Authority {
    /// A new one, which is trusted by what is given its [`pem`](Authority::pem).
    ///
    /// # Panics
    /// The library makes no key.
    pub fn new(name: &str) -> Authority {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let key = KeyPair::generate().expect("a key");
        let certificate = params.self_signed(&key).expect("a certificate").pem();
        let own = Certified { certificate, key: key.serialize_pem() };
        Authority { issuer: Issuer::new(params, key), own }
    }

    /// Its own certificate.
    pub fn pem(&self) -> &str {
        &self.own.certificate
    }

    /// The same with its key, for a server that shows what is not meant for one.
    pub fn own(&self) -> &Certified {
        &self.own
    }

    /// A certificate of a server with these names and addresses.
    ///
    /// # Panics
    /// One of the names is none.
    pub fn certify(&self, names: &[&str]) -> Certified {
        self.sign(params(names))
    }

    /// One that was valid until some years ago.
    ///
    /// # Panics
    /// One of the names is none.
    pub fn certify_expired(&self, names: &[&str]) -> Certified {
        let mut params = params(names);
        params.not_before = date_time_ymd(2001, 1, 1);
        params.not_after = date_time_ymd(2002, 1, 1);
        self.sign(params)
    }

    fn sign(&self, params: CertificateParams) -> Certified {
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate").pem();
        Certified { certificate, key: key.serialize_pem() }
    }

    /// A client that trusts it alone; the handshake is made with the first bytes.
    ///
    /// # Panics
    /// `name` is none.
    pub fn client(&self, tcp: TcpStream, name: &str) -> StreamOwned<ClientConnection, TcpStream> {
        let mut roots = RootCertStore::empty();
        roots.add(first(self.pem())).expect("an authority");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_root_certificates(roots)
            .with_no_client_auth();
        let name = ServerName::try_from(name.to_owned()).expect("a name");
        StreamOwned::new(ClientConnection::new(Arc::new(config), name).expect("a client"), tcp)
    }
}

impl Certified {
    /// A server that shows it.
    ///
    /// # Panics
    /// It is no certificate.
    pub fn server(&self) -> Arc<ServerConfig> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let key = PrivateKeyDer::from_pem_slice(self.key.as_bytes()).expect("a key");
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_no_client_auth()
            .with_single_cert(vec![first(&self.certificate)], key)
            .expect("a certificate and its key");
        Arc::new(config)
    }
}

fn params(names: &[&str]) -> CertificateParams {
    let names: Vec<_> = names.iter().map(|&name| name.to_owned()).collect();
    CertificateParams::new(names).expect("names")
}

fn first(pem: &str) -> CertificateDer<'static> {
    CertificateDer::from_pem_slice(pem.as_bytes()).expect("a certificate")
}
