//! Client certificates, tested with a TLS server that accepts only client certificates of one certificate authority.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use toolwright_testkit::tls::{CertificateAuthority, ClientCertificates, accept};
use toolwright_tools::http::{HttpOptions, RootCertificate};

use crate::world::{FakeDns, World, failure};

fn roots(authority: &CertificateAuthority) -> Vec<RootCertificate> {
    RootCertificate::from_pem(authority.pem().as_bytes()).unwrap()
}

/// A TLS server that responds with a redirect to `location`, or with the number of certificates that the client sent.
struct Server {
    port: u16,
    admitted: Arc<AtomicU32>,
    _tasks: JoinSet<()>,
}

impl Server {
    async fn start(authority: &CertificateAuthority, clients: ClientCertificates, location: Option<String>) -> Self {
        let acceptor = authority.acceptor("secure.internal", clients, &[]).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (port, admitted) = (listener.local_addr().unwrap().port(), Arc::new(AtomicU32::new(0)));
        let (mut tasks, counter) = (JoinSet::new(), Arc::clone(&admitted));
        tasks.spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                if let Some(stream) = accept(&acceptor, stream).await {
                    counter.fetch_add(1, Ordering::SeqCst);
                    answer(stream, location.as_deref()).await;
                }
            }
        });
        Self { port, admitted, _tasks: tasks }
    }
}

async fn answer(mut stream: tokio_rustls::server::TlsStream<tokio::net::TcpStream>, location: Option<&str>) {
    let mut request = [0; 4096];
    let _ = stream.read(&mut request).await;
    let body =
        json!({ "clientCertificates": stream.get_ref().1.peer_certificates().map_or(0, <[_]>::len) }).to_string();
    let head = match location {
        Some(url) => format!("HTTP/1.1 302 Found\r\nlocation: {url}\r\n"),
        None => "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n".to_owned(),
    };
    let _ = stream
        .write_all(format!("{head}connection: close\r\ncontent-length: {}\r\n\r\n{body}", body.len()).as_bytes())
        .await;
    let _ = stream.shutdown().await;
}

async fn world_trusting(roots: Vec<RootCertificate>) -> World {
    let dns = FakeDns::default().answering("secure.internal", &[&["127.0.0.1"]]);
    World::with_http(HttpOptions { resolver: Arc::new(dns), roots, ..HttpOptions::default() }).await
}

fn add_tool_at(world: &World, server: &Server) {
    let auth = json!({ "authType": "mtls", "certRef": "certificate" });
    world.provider(
        json!({ "refName": "secure", "baseUrl": format!("https://secure.internal:{}", server.port), "auth": auth }),
    );
    world.get("t", "/", json!({ "providerRef": "secure" }));
}

#[tokio::test]
async fn client_with_a_trusted_certificate_is_accepted() {
    let authority = CertificateAuthority::new().unwrap();
    let server = Server::start(&authority, ClientCertificates::Required, None).await;
    let world = world_trusting(roots(&authority)).await;
    add_tool_at(&world, &server);
    world.secret("certificate", &authority.client().unwrap());
    assert_eq!(world.output("t", json!({})).await, json!({ "clientCertificates": 1 }));
}

#[tokio::test]
async fn mtls_uses_the_secret_ref_as_client_certificate_if_cert_ref_is_absent() {
    let authority = CertificateAuthority::new().unwrap();
    let server = Server::start(&authority, ClientCertificates::Required, None).await;
    let world = world_trusting(roots(&authority)).await;
    let auth = json!({ "authType": "mtls", "secretRef": "certificate" });
    let base = format!("https://secure.internal:{}", server.port);
    world.provider(json!({ "refName": "secure", "baseUrl": base, "auth": auth }));
    world.get("t", "/", json!({ "providerRef": "secure" }));
    world.secret("certificate", &authority.client().unwrap());
    assert_eq!(world.output("t", json!({})).await, json!({ "clientCertificates": 1 }));
}

#[tokio::test]
async fn client_without_a_trusted_certificate_is_rejected() {
    let authority = CertificateAuthority::new().unwrap();
    let server = Server::start(&authority, ClientCertificates::Required, None).await;
    let world = world_trusting(roots(&authority)).await;
    add_tool_at(&world, &server);
    assert!(failure(&world.call("t", json!({})).await).starts_with("AUTH_REQUIRED missing_secret"));
    world.secret("certificate", &CertificateAuthority::new().unwrap().client().unwrap());
    let message = failure(&world.call("t", json!({})).await);
    assert!(
        message.starts_with("AUTH_REQUIRED client_certificate: the server rejected the client certificate"),
        "{message}"
    );
    world.secret("certificate", "-----BEGIN NOTHING-----");
    assert!(failure(&world.call("t", json!({})).await).starts_with("AUTH_REQUIRED client_certificate"));
    assert_eq!(server.admitted.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn server_certificate_of_an_unknown_authority_is_rejected() {
    let authority = CertificateAuthority::new().unwrap();
    let server = Server::start(&authority, ClientCertificates::Optional, None).await;
    let world = world_trusting(Vec::new()).await;
    add_tool_at(&world, &server);
    world.secret("certificate", &authority.client().unwrap());
    let envelope = world.call("t", json!({})).await;
    assert!(failure(&envelope).starts_with("NETWORK_ERROR certificate: "), "{}", failure(&envelope));
    assert_eq!(server.admitted.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn new_certificate_is_used_for_the_next_call() {
    let authority = CertificateAuthority::new().unwrap();
    let server = Server::start(&authority, ClientCertificates::Required, None).await;
    let world = world_trusting(roots(&authority)).await;
    add_tool_at(&world, &server);
    world.secret("certificate", &CertificateAuthority::new().unwrap().client().unwrap());
    assert!(!world.call("t", json!({})).await.is_success());
    world.secret("certificate", &authority.client().unwrap());
    assert!(world.call("t", json!({})).await.is_success());
}

#[tokio::test]
async fn certificate_is_not_sent_to_the_target_of_a_redirect() {
    let authority = CertificateAuthority::new().unwrap();
    let second = Server::start(&authority, ClientCertificates::Optional, None).await;
    let first = Server::start(
        &authority,
        ClientCertificates::Required,
        Some(format!("https://secure.internal:{}/", second.port)),
    )
    .await;
    let world = world_trusting(roots(&authority)).await;
    add_tool_at(&world, &first);
    world.secret("certificate", &authority.client().unwrap());
    assert_eq!(world.output("t", json!({})).await, json!({ "clientCertificates": 0 }));
}

#[test]
fn invalid_root_certificates_are_rejected() {
    assert!(RootCertificate::from_pem(b"not a certificate").is_err());
    assert!(RootCertificate::from_pem(b"-----BEGIN CERTIFICATE-----\n!!\n-----END CERTIFICATE-----").is_err());
}
