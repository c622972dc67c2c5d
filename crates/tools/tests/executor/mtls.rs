//! Client certificates, against a TLS server that insists on one signed by its own authority.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use toolwright_testkit::tls::{Authority, Clients, accept};
use toolwright_tools::http::{HttpOptions, Root};

use crate::world::{FakeDns, World, failure};

fn roots(authority: &Authority) -> Vec<Root> {
    Root::from_pem(authority.pem().as_bytes()).unwrap()
}

/// A TLS server that answers `location`, or a greeting, to anyone it can verify.
struct Server {
    port: u16,
    admitted: Arc<AtomicU32>,
    _tasks: JoinSet<()>,
}

impl Server {
    async fn start(authority: &Authority, clients: Clients, location: Option<String>) -> Self {
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

async fn world_trusting(roots: Vec<Root>) -> World {
    let dns = FakeDns::default().answering("secure.internal", &[&["127.0.0.1"]]);
    World::with_http(HttpOptions { lookup: Arc::new(dns), roots, ..HttpOptions::default() }).await
}

fn aim(world: &World, server: &Server) {
    let auth = json!({ "authType": "mtls", "certRef": "certificate" });
    world.provider(
        json!({ "refName": "secure", "baseUrl": format!("https://secure.internal:{}", server.port), "auth": auth }),
    );
    world.get("t", "/", json!({ "providerRef": "secure" }));
}

#[tokio::test]
async fn a_client_with_the_right_certificate_is_admitted() {
    let authority = Authority::new().unwrap();
    let server = Server::start(&authority, Clients::Certified, None).await;
    let world = world_trusting(roots(&authority)).await;
    aim(&world, &server);
    world.secret("certificate", &authority.client().unwrap());
    assert_eq!(world.output("t", json!({})).await, json!({ "clientCertificates": 1 }));
}

#[tokio::test]
async fn a_client_with_anothers_certificate_or_none_is_not() {
    let authority = Authority::new().unwrap();
    let server = Server::start(&authority, Clients::Certified, None).await;
    let world = world_trusting(roots(&authority)).await;
    aim(&world, &server);
    assert!(failure(&world.call("t", json!({})).await).starts_with("AUTH_REQUIRED missing_secret"));
    world.secret("certificate", &Authority::new().unwrap().client().unwrap());
    let told = failure(&world.call("t", json!({})).await);
    assert!(told.starts_with("AUTH_REQUIRED client_certificate: the server wants another"), "{told}");
    world.secret("certificate", "-----BEGIN NOTHING-----");
    assert!(failure(&world.call("t", json!({})).await).starts_with("AUTH_REQUIRED client_certificate"));
    assert_eq!(server.admitted.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn a_server_of_an_unknown_authority_is_not_trusted() {
    let authority = Authority::new().unwrap();
    let server = Server::start(&authority, Clients::Anybody, None).await;
    let world = world_trusting(Vec::new()).await;
    aim(&world, &server);
    world.secret("certificate", &authority.client().unwrap());
    let envelope = world.call("t", json!({})).await;
    assert!(failure(&envelope).starts_with("NETWORK_ERROR certificate: "), "{}", failure(&envelope));
    assert_eq!(server.admitted.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn a_new_certificate_is_used_at_once() {
    let authority = Authority::new().unwrap();
    let server = Server::start(&authority, Clients::Certified, None).await;
    let world = world_trusting(roots(&authority)).await;
    aim(&world, &server);
    world.secret("certificate", &Authority::new().unwrap().client().unwrap());
    assert!(!world.call("t", json!({})).await.is_success());
    world.secret("certificate", &authority.client().unwrap());
    assert!(world.call("t", json!({})).await.is_success());
}

#[tokio::test]
async fn the_certificate_is_not_shown_to_where_a_redirect_leads() {
    let authority = Authority::new().unwrap();
    let second = Server::start(&authority, Clients::Anybody, None).await;
    let first =
        Server::start(&authority, Clients::Certified, Some(format!("https://secure.internal:{}/", second.port))).await;
    let world = world_trusting(roots(&authority)).await;
    aim(&world, &first);
    world.secret("certificate", &authority.client().unwrap());
    assert_eq!(world.output("t", json!({})).await, json!({ "clientCertificates": 0 }));
}

#[test]
fn roots_are_certificates() {
    assert!(Root::from_pem(b"nothing of the kind").is_err());
    assert!(Root::from_pem(b"-----BEGIN CERTIFICATE-----\n!!\n-----END CERTIFICATE-----").is_err());
}
