//! What MCP costs: calls over streamable HTTP beside a server that does nothing but speak the protocol, and a long list.
//!
//! Both servers are processes of their own and are measured one after the other in one run, so that ratios mean something
//! where times do not.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, clippy::indexing_slicing)]

mod bare;
#[path = "../common/percentiles.rs"]
#[allow(dead_code, reason = "shared with the other benchmarks")]
mod percentiles;
#[path = "../common/server.rs"]
#[allow(dead_code, reason = "shared with the other benchmarks")]
mod server;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use percentiles::Latencies;
use server::{KEY, Server, ask, cpu, load_with, read_answer, request, start, stop};

const DURATION: Duration = Duration::from_secs(5);
const TOOLS: usize = 1_000;
const LISTS: usize = 200;

fn main() {
    let mut arguments = std::env::args().skip_while(|arg| arg != bare::FLAG);
    if arguments.next().is_some() {
        return bare::serve(arguments.next().map(Into::into));
    }
    let folder = tempfile::tempdir().unwrap();
    let ours = start(&folder, &[]);
    let bare = bare::start(None);
    println!("# Toolwright: the cost of MCP\n");
    println!(
        "| `tools/call`, revision | connections | bare p50 µs | p50 µs | bare p99 µs | p99 µs | bare calls/s | calls/s | of bare | CPU µs a call |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|");
    let arguments = json!({ "name": "echo", "arguments": { "customer": "Acme Corp", "amount": 1250.5 } });
    let alone = message("tools/call", arguments.clone());
    let alone = |_: &mut TcpStream| alone.clone();
    let in_session = |stream: &mut TcpStream| session(stream, &arguments);
    for connections in [1, 16, 64] {
        compare("2026-07-28", &bare, &ours, alone, connections);
    }
    for connections in [1, 16, 64] {
        compare("2025-11-25", &bare, &ours, in_session, connections);
    }
    // How much of the difference is that calls are written down at all.
    let folder = tempfile::tempdir().unwrap();
    let writing = bare::start(Some(folder.path()));
    for connections in [1, 16, 64] {
        compare("2026-07-28, bare that writes a row a call", &bare, &writing, alone, connections);
    }
    stop(writing.child);
    stop(bare.child);

    for n in 0..TOOLS {
        let tool = json!({ "refName": format!("bench_{n}"), "description": "Returns its input, which is a customer and an amount.", "toolType": "FUNCTION",
            "invocation": { "path": "echo" }, "inputJsonSchema": { "type": "object", "properties": { "customer": { "type": "string" }, "amount": { "type": "number" } } } });
        ask(&ours.address, &request("POST", "/api/v1/ai/tools", &tool.to_string()));
    }
    let list = message("tools/list", json!({}));
    let first = Instant::now();
    let bytes = exchange(&mut connect(&ours.address), &list);
    println!("\n| `tools/list`, {TOOLS} tools, {} kB | p50 µs | p99 µs | lists/s |\n|---|---|---|---|", bytes / 1000);
    println!("| the first after a change | {:.0} | | |", first.elapsed().as_secs_f64() * 1e6);
    let mut stream = connect(&ours.address);
    let begun = Instant::now();
    let micros = (0..LISTS).map(|_| {
        let start = Instant::now();
        exchange(&mut stream, &list);
        start.elapsed().as_secs_f64() * 1e6
    });
    Latencies::new(micros.collect(), begun.elapsed()).row("one after the other");
    stop(ours.child);
}

/// Both under the same load, one after the other.
fn compare(
    revision: &str,
    bare: &Server,
    ours: &Server,
    open: impl Fn(&mut TcpStream) -> Vec<u8> + Sync,
    connections: usize,
) {
    // Once before, so that neither is measured cold.
    load_with(&bare.address, &open, connections, DURATION / 5);
    load_with(&ours.address, &open, connections, DURATION / 5);
    let one = load_with(&bare.address, &open, connections, DURATION);
    let before = cpu(ours.child.id());
    let other = load_with(&ours.address, &open, connections, DURATION);
    let micros = (cpu(ours.child.id()) - before) * 1e6 / other.count() as f64;
    println!(
        "| {revision} | {connections} | {:.0} | {:.0} | {:.0} | {:.0} | {:.0} | {:.0} | {:.0} % | {micros:.0} |",
        one.percentile(50.0),
        other.percentile(50.0),
        one.percentile(99.0),
        other.percentile(99.0),
        one.per_second(),
        other.per_second(),
        100.0 * other.per_second() / one.per_second()
    );
}

/// Begins a session of 2025-11-25 on a connection, and gives the call to make in it.
fn session(stream: &mut TcpStream, call: &Value) -> Vec<u8> {
    let mut exchange = |session: &str, body: Value| {
        stream.write_all(&post("2025-11-25", session, &body)).unwrap();
        read_answer(stream, &mut vec![0; 64 * 1024])
    };
    let client = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "bench", "version": "1" } });
    let begun = exchange("", json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": client }))
        .to_ascii_lowercase();
    let id = begun.lines().find_map(|line| line.strip_prefix("mcp-session-id: ")).expect("a session");
    let session = format!("mcp-session-id: {id}\r\n");
    exchange(&session, json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
    post("2025-11-25", &session, &json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call }))
}

/// A request of 2026-07-28, which needs no session.
fn message(method: &str, mut params: Value) -> Vec<u8> {
    let name = params["name"].as_str().map(|name| format!("mcp-name: {name}\r\n")).unwrap_or_default();
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": { "name": "bench", "version": "1" },
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
    post("2026-07-28", &format!("mcp-method: {method}\r\n{name}"), &body)
}

fn post(revision: &str, headers: &str, body: &Value) -> Vec<u8> {
    let body = body.to_string();
    let head = format!(
        "POST /mcp HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer {KEY}\r\ncontent-type: application/json\r\n\
         accept: application/json, text/event-stream\r\nmcp-protocol-version: {revision}\r\n{headers}content-length: {}\r\n\r\n",
        body.len()
    );
    (head + &body).into_bytes()
}

fn connect(address: &str) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_nodelay(true).unwrap();
    stream
}

/// One request on a connection; the length of its answer's body. Large answers are not looked at, only counted.
fn exchange(stream: &mut TcpStream, request: &[u8]) -> usize {
    stream.write_all(request).unwrap();
    let mut head = Vec::new();
    let mut buffer = vec![0; 256 * 1024];
    let (end, length) = loop {
        let read = stream.read(&mut buffer).unwrap();
        assert!(read > 0, "the server closed the connection");
        head.extend_from_slice(&buffer[..read]);
        if let Some(end) = head.windows(4).position(|four| four == b"\r\n\r\n") {
            let text = String::from_utf8_lossy(&head[..end]).to_ascii_lowercase();
            assert!(text.starts_with("http/1.1 200"), "{text}");
            let length = text.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse::<usize>().ok());
            break (end + 4, length.expect("a length"));
        }
    };
    let mut seen = head.len() - end;
    while seen < length {
        seen += stream.read(&mut buffer).unwrap();
    }
    length
}
