//! Tests the limits of HTTP connections.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, also in its helpers"
)]

mod support;

use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::json;
use support::{ADMIN_KEY, Server};
use toolwright_testkit::{Faults, LOOPBACK};

const HEALTH: &[u8] = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n";
/// The preface of HTTP/2 and an empty `SETTINGS` frame.
const HTTP2_PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

fn server(settings: &[(&'static str, &str)]) -> Server {
    Server::start_without_demo(settings.iter().map(|(name, value)| (*name, (*value).to_owned())).collect())
}

fn connect(server: &Server) -> TcpStream {
    TcpStream::connect(server.url.strip_prefix("http://").unwrap()).unwrap()
}

/// Reads until the server closes the connection.
fn read_until_closed(mut stream: TcpStream) -> Vec<u8> {
    let mut data = Vec::new();
    // A connection with unread data is reset instead of closed. Both are accepted here.
    let _ = stream.read_to_end(&mut data);
    data
}

/// Sends a request for `/healthz` and reads the whole response. The connection stays open.
fn check_health(stream: &mut TcpStream) {
    stream.write_all(HEALTH).unwrap();
    let (mut received, mut byte) = (Vec::new(), [0; 1]);
    while !received.ends_with(b"\r\n\r\nok") {
        stream.read_exact(&mut byte).unwrap();
        received.extend(byte);
    }
    assert!(received.starts_with(b"HTTP/1.1 200 OK"));
}

#[test]
fn connections_without_a_request_are_closed() {
    let server = server(&[("TOOLWRIGHT_HTTP__FIRST_REQUEST_SECONDS", "1")]);
    let starts: [&[u8]; 4] = [b"", b"GET /healthz HTT", b"PRI * HTTP/2.0\r\n", HTTP2_PREFACE];
    let connections = starts.map(|start| {
        let mut stream = connect(&server);
        stream.write_all(start).unwrap();
        stream
    });
    for (start, connection) in starts.iter().zip(connections) {
        let received = read_until_closed(connection);
        assert!(!received.starts_with(b"HTTP/1.1 200"), "{start:?}");
    }
}

#[test]
fn idle_connection_is_closed_after_its_last_response() {
    let server = server(&[("TOOLWRIGHT_HTTP__IDLE_SECONDS", "1")]);
    let mut stream = connect(&server);
    stream.write_all(HEALTH).unwrap();
    assert!(read_until_closed(stream).starts_with(b"HTTP/1.1 200 OK"));
}

#[tokio::test(flavor = "multi_thread")]
async fn call_that_takes_longer_than_the_idle_limit_is_answered() {
    let faults = Faults::builder().start(LOOPBACK).await.unwrap();
    let server = server(&[("TOOLWRIGHT_HTTP__FIRST_REQUEST_SECONDS", "1"), ("TOOLWRIGHT_HTTP__IDLE_SECONDS", "1")]);
    let tool =
        json!({ "refName": "slow", "toolType": "EXTERNAL_REST", "invocation": { "path": faults.url("/slow/2500") } });
    server.run_with_stdin(&["tools", "apply", "-f", "-"], &tool.to_string()).expect_exit(0);
    let mut stream = connect(&server);
    let request = format!(
        "POST /api/v1/ai/tools/slow/execute HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {ADMIN_KEY}\r\n\
         content-type: application/json\r\ncontent-length: 2\r\n\r\n{{}}"
    );
    stream.write_all(request.as_bytes()).unwrap();
    let received = tokio::task::spawn_blocking(move || read_until_closed(stream)).await.unwrap();
    assert!(received.starts_with(b"HTTP/1.1 200 OK"), "{}", String::from_utf8_lossy(&received));
    faults.shutdown().await;
}

#[test]
fn connections_over_the_limit_wait_until_an_open_connection_is_closed() {
    let server = server(&[("TOOLWRIGHT_HTTP__MAX_CONNECTIONS", "2")]);
    let mut open: Vec<TcpStream> = (0..2).map(|_| connect(&server)).collect();
    open.iter_mut().for_each(check_health);
    while !server.log().contains("`http.max_connections` connections are open") {
        std::thread::yield_now();
    }
    let mut waiting = connect(&server);
    drop(open.pop());
    check_health(&mut waiting);
}
