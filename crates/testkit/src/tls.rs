//! TLS for tests: a certificate authority, the certificates that it signs, and acceptors that may require a client
//! certificate.

use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa, KeyPair};
use rustls::RootCertStore;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{VerifierBuilderError, WebPkiClientVerifier};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// A certificate authority for one test.
pub struct CertificateAuthority(CertifiedIssuer<'static, KeyPair>);

/// Whether a server requires client certificates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientCertificates {
    /// Clients may connect without a certificate.
    Optional,
    /// Clients must present a certificate that the same authority signed.
    Required,
}

/// The reason why a certificate or an acceptor could not be created.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A certificate could not be created.
    #[error("create a certificate")]
    Certificate(#[from] rcgen::Error),
    /// The TLS configuration rejected the certificate.
    #[error("set up TLS")]
    Server(#[from] rustls::Error),
    /// The verifier of client certificates could not be built.
    #[error("build the verifier of client certificates")]
    Verifier(#[from] VerifierBuilderError),
    /// The private key is invalid.
    #[error("parse a private key: {0}")]
    Key(&'static str),
}

impl CertificateAuthority {
    /// Creates a self-signed authority.
    pub fn new() -> Result<Self, TlsError> {
        let mut params = CertificateParams::new(Vec::new())?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Ok(Self(CertifiedIssuer::self_signed(params, KeyPair::generate()?)?))
    }

    /// Returns the certificate of the authority, for clients that should trust it.
    pub fn pem(&self) -> String {
        self.0.pem()
    }

    /// Creates a client certificate. Returns the certificate and its private key as one PEM text, which is the format
    /// in which secrets store them.
    pub fn client(&self) -> Result<String, TlsError> {
        let (certificate, key) = self.sign("client", ExtendedKeyUsagePurpose::ClientAuth)?;
        Ok(format!("{}{}", certificate.pem(), key.serialize_pem()))
    }

    /// Returns an acceptor for a server with this name. `protocols` are the ALPN protocols that the server offers.
    pub fn acceptor(
        &self,
        name: &str,
        clients: ClientCertificates,
        protocols: &[&str],
    ) -> Result<TlsAcceptor, TlsError> {
        // This fails if another test has already installed the provider. The error is ignored because the provider is
        // the same.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let (certificate, key) = self.sign(name, ExtendedKeyUsagePurpose::ServerAuth)?;
        let key = PrivateKeyDer::try_from(key.serialize_der()).map_err(TlsError::Key)?;
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::clone(self.0.der()))?;
        let verifier = WebPkiClientVerifier::builder(Arc::new(roots));
        let verifier = match clients {
            ClientCertificates::Required => verifier.build()?,
            ClientCertificates::Optional => verifier.allow_unauthenticated().build()?,
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

/// Performs the TLS handshake. If the handshake fails, reads until the client closes the connection, so that the client
/// receives the TLS alert.
pub async fn accept(acceptor: &TlsAcceptor, stream: TcpStream) -> Option<TlsStream<TcpStream>> {
    match acceptor.accept(stream).into_fallible().await {
        Ok(stream) => Some(stream),
        Err((_, mut stream)) => {
            let _ = stream.read_to_end(&mut Vec::new()).await;
            None
        }
    }
}
