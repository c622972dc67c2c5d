//! Tests gRPC over TLS with a trusted certificate authority, with an unknown certificate authority, and with a gRPC
//! server that requires client certificates.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, also in its helpers"
)]

mod support;

use reqwest::Method;
use serde_json::{Value, json};
use support::Server;
use support::runs::{api, define};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use toolwright_testkit::grpc::Inventory;
use toolwright_testkit::tls::{CertificateAuthority, ClientCertificates, accept};
use toolwright_testkit::{Handle, LOOPBACK};

/// Starts a server that trusts only the certificate authority `authority`.
fn start_trusting_server(authority: &CertificateAuthority) -> TrustingServer {
    let bundle = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(bundle.path(), authority.pem()).unwrap();
    let path = bundle.path().to_str().unwrap().to_owned();
    TrustingServer { server: Server::start_without_demo(vec![("SSL_CERT_FILE", path)]), _bundle: bundle }
}

struct TrustingServer {
    server: Server,
    _bundle: tempfile::NamedTempFile,
}

/// The gRPC test service [`Inventory`] behind a TLS proxy.
struct TlsInventory {
    port: u16,
    _inventory: Handle<Inventory>,
    _tasks: JoinSet<()>,
}

impl TlsInventory {
    async fn start(authority: &CertificateAuthority, clients: ClientCertificates) -> Self {
        let acceptor = authority.acceptor("127.0.0.1", clients, &["h2"]).unwrap();
        let inventory = Inventory::builder().start(LOOPBACK).await.unwrap();
        let listener = TcpListener::bind(LOOPBACK).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let mut tasks = JoinSet::new();
        tasks.spawn(serve(listener, acceptor, inventory.addr()));
        Self { port, _inventory: inventory, _tasks: tasks }
    }
}

async fn serve(listener: TcpListener, acceptor: TlsAcceptor, backend: std::net::SocketAddr) {
    let mut connections = JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let acceptor = acceptor.clone();
        connections.spawn(async move {
            if let Some(mut stream) = accept(&acceptor, stream).await {
                let mut backend = TcpStream::connect(backend).await.unwrap();
                let _ = copy_bidirectional(&mut stream, &mut backend).await;
            }
        });
    }
}

async fn define_grpc_tool(server: &Server, tls_inventory: &TlsInventory, auth: Value) {
    let provider = json!({ "refName": "stock", "providerType": "GRPC", "auth": auth,
        "baseUrl": format!("https://127.0.0.1:{}", tls_inventory.port), "egressAllow": ["127.0.0.0/8"] });
    define(server, "tool-providers", provider).await;
    let tool = json!({ "refName": "item", "toolType": "GRPC", "providerRef": "stock", "sideEffects": "reads",
        "invocation": { "path": "toolwright.fixture.v1.Inventory/GetItem" } });
    define(server, "tools", tool).await;
}

async fn call(server: &Server) -> Value {
    let (status, envelope) =
        api(server, Method::POST, "tools/item/execute", Some(json!({ "input": { "id": 7 } }))).await;
    assert_eq!(status, 200, "{envelope}");
    envelope
}

fn failure(envelope: &Value) -> String {
    let error = &envelope["error"];
    format!("{} {}: {}", error["code"], error["details"]["reason"], error["message"]).replace('"', "")
}

#[tokio::test(flavor = "multi_thread")]
async fn call_to_grpc_server_with_trusted_certificate_succeeds() {
    let authority = CertificateAuthority::new().unwrap();
    let tls_inventory = TlsInventory::start(&authority, ClientCertificates::Optional).await;
    let started = start_trusting_server(&authority);
    let server = &started.server;
    define_grpc_tool(server, &tls_inventory, json!({ "authType": "none" })).await;
    let envelope = call(server).await;
    assert_eq!(envelope["output"]["name"], "item 7", "{envelope}");
}

#[tokio::test(flavor = "multi_thread")]
async fn call_to_grpc_server_with_unknown_certificate_authority_fails() {
    let tls_inventory = TlsInventory::start(&CertificateAuthority::new().unwrap(), ClientCertificates::Optional).await;
    let started = start_trusting_server(&CertificateAuthority::new().unwrap());
    let server = &started.server;
    define_grpc_tool(server, &tls_inventory, json!({ "authType": "none" })).await;
    let message = failure(&call(server).await);
    assert!(message.starts_with("NETWORK_ERROR certificate: "), "{message}");
    assert!(message.contains("SSL_CERT_FILE"), "{message}");
}

#[tokio::test(flavor = "multi_thread")]
async fn client_certificate_is_sent_to_a_grpc_server_that_requires_it() {
    let authority = CertificateAuthority::new().unwrap();
    let tls_inventory = TlsInventory::start(&authority, ClientCertificates::Required).await;
    let started = start_trusting_server(&authority);
    let server = &started.server;
    define(server, "secrets", json!({ "name": "certificate", "value": authority.client().unwrap() })).await;
    define_grpc_tool(server, &tls_inventory, json!({ "authType": "mtls", "certRef": "certificate" })).await;
    let envelope = call(server).await;
    assert_eq!(envelope["output"]["name"], "item 7", "{envelope}");
}

#[tokio::test(flavor = "multi_thread")]
async fn call_with_missing_or_untrusted_client_certificate_fails() {
    let authority = CertificateAuthority::new().unwrap();
    let tls_inventory = TlsInventory::start(&authority, ClientCertificates::Required).await;
    let started = start_trusting_server(&authority);
    let server = &started.server;
    define_grpc_tool(server, &tls_inventory, json!({ "authType": "none" })).await;
    assert_reports_missing_certificate(&failure(&call(server).await));

    let (status, provider) = api(
        server,
        Method::PATCH,
        "tool-providers/stock",
        Some(json!({ "auth": { "authType": "mtls", "certRef": "certificate" } })),
    )
    .await;
    assert_eq!(status, 200, "{provider}");
    let message = failure(&call(server).await);
    assert!(message.starts_with("AUTH_REQUIRED missing_secret: "), "{message}");
    define(
        server,
        "secrets",
        json!({ "name": "certificate", "value": CertificateAuthority::new().unwrap().client().unwrap() }),
    )
    .await;
    assert_reports_missing_certificate(&failure(&call(server).await));
}

/// Accepts two errors, because the connection may close before the server's TLS alert arrives.
fn assert_reports_missing_certificate(message: &str) {
    let kinds = ["AUTH_REQUIRED client_certificate: ", "NETWORK_ERROR connection_lost: "];
    assert!(kinds.iter().any(|kind| message.starts_with(kind)), "{message}");
    assert!(message.contains("client certificate") && message.contains("auth.certRef"), "{message}");
}
