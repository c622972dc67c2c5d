//! gRPC over TLS: a server whose authority the operator trusts, one whom nobody knows, and one that wants to know who comes.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod support;

use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa, KeyPair};
use reqwest::Method;
use rustls::RootCertStore;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use serde_json::{Value, json};
use support::Server;
use support::scene::{api, define};
use tokio::io::{AsyncReadExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use toolwright_testkit::grpc::Inventory;
use toolwright_testkit::{Handle, LOOPBACK};

/// An authority that signs for one test.
struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    fn sign(&self, name: &str, purpose: ExtendedKeyUsagePurpose) -> (CertificateDer<'static>, KeyPair, String) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        params.extended_key_usages = vec![purpose];
        let certificate = params.signed_by(&key, &self.0).unwrap();
        let pem = format!("{}{}", certificate.pem(), key.serialize_pem());
        (certificate.der().clone(), key, pem)
    }

    /// A client's certificate and key, as a secret holds them.
    fn client(&self) -> String {
        self.sign("client", ExtendedKeyUsagePurpose::ClientAuth).2
    }

    /// A server that trusts this authority, and nobody else.
    fn trusted_by_a_server(&self) -> Trusting {
        let bundle = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(bundle.path(), self.0.pem()).unwrap();
        let path = bundle.path().to_str().unwrap().to_owned();
        Trusting { server: Server::start_bare_with(vec![("SSL_CERT_FILE", path)]), _bundle: bundle }
    }
}

struct Trusting {
    server: Server,
    _bundle: tempfile::NamedTempFile,
}

/// The fixture behind TLS.
struct Secure {
    port: u16,
    _inventory: Handle<Inventory>,
    _tasks: JoinSet<()>,
}

impl Secure {
    async fn start(authority: &Authority, wants_certificate: bool) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let inventory = Inventory::builder().start(LOOPBACK).await.unwrap();
        let (certificate, key, _) = authority.sign("127.0.0.1", ExtendedKeyUsagePurpose::ServerAuth);
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(authority.0.der().clone()).unwrap();
        let verifier = WebPkiClientVerifier::builder(Arc::new(roots));
        let verifier =
            if wants_certificate { verifier.build() } else { verifier.allow_unauthenticated().build() }.unwrap();
        let config = rustls::ServerConfig::builder().with_client_cert_verifier(verifier);
        let mut config = config.with_single_cert(vec![certificate], key).unwrap();
        config.alpn_protocols = vec![b"h2".to_vec()];
        let listener = TcpListener::bind(LOOPBACK).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let mut tasks = JoinSet::new();
        tasks.spawn(serve(listener, TlsAcceptor::from(Arc::new(config)), inventory.addr()));
        Self { port, _inventory: inventory, _tasks: tasks }
    }
}

async fn serve(listener: TcpListener, acceptor: TlsAcceptor, behind: std::net::SocketAddr) {
    let mut connections = JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let acceptor = acceptor.clone();
        connections.spawn(async move {
            match acceptor.accept(stream).into_fallible().await {
                Ok(mut stream) => {
                    let mut behind = TcpStream::connect(behind).await.unwrap();
                    let _ = copy_bidirectional(&mut stream, &mut behind).await;
                }
                // Whoever is refused reads why before the connection ends.
                Err((_, mut stream)) => {
                    let _ = stream.read_to_end(&mut Vec::new()).await;
                }
            }
        });
    }
}

async fn aim(server: &Server, secure: &Secure, auth: Value) {
    let provider = json!({ "refName": "stock", "providerType": "GRPC", "auth": auth,
        "baseUrl": format!("https://127.0.0.1:{}", secure.port), "egressAllow": ["127.0.0.0/8"] });
    define(server, "tool-providers", provider).await;
    let tool = json!({ "refName": "item", "toolType": "GRPC", "providerRef": "stock", "sideEffects": "reads",
        "invocation": { "path": "toolwright.fixture.v1.Inventory/GetItem" } });
    define(server, "tools", tool).await;
}

async fn call(server: &Server) -> Value {
    let (status, receipt) =
        api(server, Method::POST, "tools/item/execute", Some(json!({ "input": { "id": 7 } }))).await;
    assert_eq!(status, 200, "{receipt}");
    receipt
}

fn failure(receipt: &Value) -> String {
    let error = &receipt["error"];
    format!("{} {}: {}", error["code"], error["details"]["reason"], error["message"]).replace('"', "")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_of_an_authority_that_is_trusted_answers() {
    let authority = Authority::new();
    let secure = Secure::start(&authority, false).await;
    let trusting = authority.trusted_by_a_server();
    let server = &trusting.server;
    aim(server, &secure, json!({ "authType": "none" })).await;
    let receipt = call(server).await;
    assert_eq!(receipt["output"]["name"], "item 7", "{receipt}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_of_an_authority_that_nobody_knows_is_not_trusted() {
    let secure = Secure::start(&Authority::new(), false).await;
    let trusting = Authority::new().trusted_by_a_server();
    let server = &trusting.server;
    aim(server, &secure, json!({ "authType": "none" })).await;
    let told = failure(&call(server).await);
    assert!(told.starts_with("NETWORK_ERROR certificate: "), "{told}");
    assert!(told.contains("SSL_CERT_FILE"), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_wants_a_certificate_is_shown_the_right_one() {
    let authority = Authority::new();
    let secure = Secure::start(&authority, true).await;
    let trusting = authority.trusted_by_a_server();
    let server = &trusting.server;
    define(server, "secrets", json!({ "name": "certificate", "value": authority.client() })).await;
    aim(server, &secure, json!({ "authType": "mtls", "certRef": "certificate" })).await;
    let receipt = call(server).await;
    assert_eq!(receipt["output"]["name"], "item 7", "{receipt}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_wants_a_certificate_and_gets_none_or_anothers_says_so() {
    let authority = Authority::new();
    let secure = Secure::start(&authority, true).await;
    let trusting = authority.trusted_by_a_server();
    let server = &trusting.server;
    aim(server, &secure, json!({ "authType": "none" })).await;
    assert_wants_certificate(&failure(&call(server).await));

    let (status, provider) = api(
        server,
        Method::PATCH,
        "tool-providers/stock",
        Some(json!({ "auth": { "authType": "mtls", "certRef": "certificate" } })),
    )
    .await;
    assert_eq!(status, 200, "{provider}");
    let told = failure(&call(server).await);
    assert!(told.starts_with("AUTH_REQUIRED missing_secret: "), "{told}");
    define(server, "secrets", json!({ "name": "certificate", "value": Authority::new().client() })).await;
    assert_wants_certificate(&failure(&call(server).await));
}

/// Whether the words of the server arrive before the end of the connection is up to chance.
fn assert_wants_certificate(told: &str) {
    let kinds = ["AUTH_REQUIRED client_certificate: ", "NETWORK_ERROR connection_lost: "];
    assert!(kinds.iter().any(|kind| told.starts_with(kind)), "{told}");
    assert!(told.contains("client certificate") && told.contains("auth.certRef"), "{told}");
}
