//! TLS for tests: an authority of their own, the certificates it signs, and servers that want to see one.

use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa, KeyPair};
use rustls::RootCertStore;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{VerifierBuilderError, WebPkiClientVerifier};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// An authority that signs for one test.
pub struct Authority(CertifiedIssuer<'static, KeyPair>);

/// Whether a server wants to know who comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clients {
    /// Anybody may come.
    Anybody,
    /// Those with a certificate of the server's own authority.
    Certified,
}

/// Why there is no certificate, or no server that shows it.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A certificate cannot be made.
    #[error("make a certificate")]
    Certificate(#[from] rcgen::Error),
    /// The server does not take it.
    #[error("set up TLS")]
    Server(#[from] rustls::Error),
    /// Certificates of clients cannot be verified.
    #[error("verify certificates of clients")]
    Verifier(#[from] VerifierBuilderError),
    /// The key is none.
    #[error("read a key: {0}")]
    Key(&'static str),
}

impl Authority {
    /// A new one, whom nobody trusts.
    pub fn new() -> Result<Self, TlsError> {
        let mut params = CertificateParams::new(Vec::new())?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Ok(Self(CertifiedIssuer::self_signed(params, KeyPair::generate()?)?))
    }

    /// Its own certificate, for whoever is to trust it.
    pub fn pem(&self) -> String {
        self.0.pem()
    }

    /// A client's certificate and key, as a secret holds them.
    pub fn client(&self) -> Result<String, TlsError> {
        let (certificate, key) = self.sign("client", ExtendedKeyUsagePurpose::ClientAuth)?;
        Ok(format!("{}{}", certificate.pem(), key.serialize_pem()))
    }

    /// What makes connections to a server of this name secure, for clients that speak one of these protocols.
    pub fn acceptor(&self, name: &str, clients: Clients, protocols: &[&str]) -> Result<TlsAcceptor, TlsError> {
        // Whoever was first has set it.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let (certificate, key) = self.sign(name, ExtendedKeyUsagePurpose::ServerAuth)?;
        let key = PrivateKeyDer::try_from(key.serialize_der()).map_err(TlsError::Key)?;
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::clone(self.0.der()))?;
        let verifier = WebPkiClientVerifier::builder(Arc::new(roots));
        let verifier = match clients {
            Clients::Certified => verifier.build()?,
            Clients::Anybody => verifier.allow_unauthenticated().build()?,
        };
        let config = rustls::ServerConfig::builder().with_client_cert_verifier(verifier);
        let mut config = config.with_single_cert(vec![certificate.der().clone()], key)?;
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
        Ok(TlsAcceptor::from(Arc::new(config)))
    }

    fn sign(&self, name: &str, purpose: ExtendedKeyUsagePurpose) -> Result<(rcgen::Certificate, KeyPair), TlsError> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::new(vec![name.to_owned()])?;
        params.extended_key_usages = vec![purpose];
        Ok((params.signed_by(&key, &self.0)?, key))
    }
}

/// A connection that is secure, unless the client is refused; it reads why before the connection ends.
pub async fn accept(acceptor: &TlsAcceptor, stream: TcpStream) -> Option<TlsStream<TcpStream>> {
    match acceptor.accept(stream).into_fallible().await {
        Ok(stream) => Some(stream),
        Err((_, mut stream)) => {
            let _ = stream.read_to_end(&mut Vec::new()).await;
            None
        }
    }
}
