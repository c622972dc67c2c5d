//! gRPC over TLS: a server whose authority the operator trusts, one whom nobody knows, and one that wants to know who comes.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod support;

use reqwest::Method;
use serde_json::{Value, json};
use support::Server;
use support::scene::{api, define};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use toolwright_testkit::grpc::Inventory;
use toolwright_testkit::tls::{Authority, Clients, accept};
use toolwright_testkit::{Handle, LOOPBACK};

/// A server that trusts this authority, and nobody else.
fn trusting(authority: &Authority) -> Trusting {
    let bundle = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(bundle.path(), authority.pem()).unwrap();
    let path = bundle.path().to_str().unwrap().to_owned();
    Trusting { server: Server::start_bare_with(vec![("SSL_CERT_FILE", path)]), _bundle: bundle }
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
    async fn start(authority: &Authority, clients: Clients) -> Self {
        let acceptor = authority.acceptor("127.0.0.1", clients, &["h2"]).unwrap();
        let inventory = Inventory::builder().start(LOOPBACK).await.unwrap();
        let listener = TcpListener::bind(LOOPBACK).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let mut tasks = JoinSet::new();
        tasks.spawn(serve(listener, acceptor, inventory.addr()));
        Self { port, _inventory: inventory, _tasks: tasks }
    }
}

async fn serve(listener: TcpListener, acceptor: TlsAcceptor, behind: std::net::SocketAddr) {
    let mut connections = JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let acceptor = acceptor.clone();
        connections.spawn(async move {
            if let Some(mut stream) = accept(&acceptor, stream).await {
                let mut behind = TcpStream::connect(behind).await.unwrap();
                let _ = copy_bidirectional(&mut stream, &mut behind).await;
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
    let authority = Authority::new().unwrap();
    let secure = Secure::start(&authority, Clients::Anybody).await;
    let started = trusting(&authority);
    let server = &started.server;
    aim(server, &secure, json!({ "authType": "none" })).await;
    let receipt = call(server).await;
    assert_eq!(receipt["output"]["name"], "item 7", "{receipt}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_of_an_authority_that_nobody_knows_is_not_trusted() {
    let secure = Secure::start(&Authority::new().unwrap(), Clients::Anybody).await;
    let started = trusting(&Authority::new().unwrap());
    let server = &started.server;
    aim(server, &secure, json!({ "authType": "none" })).await;
    let told = failure(&call(server).await);
    assert!(told.starts_with("NETWORK_ERROR certificate: "), "{told}");
    assert!(told.contains("SSL_CERT_FILE"), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_wants_a_certificate_is_shown_the_right_one() {
    let authority = Authority::new().unwrap();
    let secure = Secure::start(&authority, Clients::Certified).await;
    let started = trusting(&authority);
    let server = &started.server;
    define(server, "secrets", json!({ "name": "certificate", "value": authority.client().unwrap() })).await;
    aim(server, &secure, json!({ "authType": "mtls", "certRef": "certificate" })).await;
    let receipt = call(server).await;
    assert_eq!(receipt["output"]["name"], "item 7", "{receipt}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_wants_a_certificate_and_gets_none_or_anothers_says_so() {
    let authority = Authority::new().unwrap();
    let secure = Secure::start(&authority, Clients::Certified).await;
    let started = trusting(&authority);
    let server = &started.server;
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
    define(server, "secrets", json!({ "name": "certificate", "value": Authority::new().unwrap().client().unwrap() }))
        .await;
    assert_wants_certificate(&failure(&call(server).await));
}

/// Whether the words of the server arrive before the end of the connection is up to chance.
fn assert_wants_certificate(told: &str) {
    let kinds = ["AUTH_REQUIRED client_certificate: ", "NETWORK_ERROR connection_lost: "];
    assert!(kinds.iter().any(|kind| told.starts_with(kind)), "{told}");
    assert!(told.contains("client certificate") && told.contains("auth.certRef"), "{told}");
}
