//! What MCP costs: calls over streamable HTTP beside a server that does nothing but speak the protocol, and a long list. Calls are
//! made over plain sockets, so that the client takes little of the machine, and through an HTTP library, as programs do.
//!
//! Both servers are processes of their own and are measured in turns, so that ratios mean something where times do not: on a
//! machine that others share, one second is not like the next, but two that follow each other are alike.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, clippy::indexing_slicing)]

mod bare;
#[path = "../common/percentiles.rs"]
#[allow(dead_code, reason = "shared with the other benchmarks")]
mod percentiles;
mod program;
#[path = "../common/server.rs"]
#[allow(dead_code, reason = "shared with the other benchmarks")]
mod server;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use percentiles::Latencies;
use program::Call;
use server::{KEY, Server, ask, cpu, load_with, read_answer, request, start, stop};

/// How long each server is measured at a time, and how often.
const TURN: Duration = Duration::from_millis(500);
const TURNS: usize = 15;
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
        "| `tools/call`, revision | client | connections | bare p50 µs | p50 µs | bare p99 µs | p99 µs | bare calls/s | calls/s | of bare, median of turns (quartiles) | CPU µs a call |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|");
    let arguments = json!({ "name": "echo", "arguments": { "customer": "Acme Corp", "amount": 1250.5 } });
    let alone = message("tools/call", arguments.clone());
    let sockets = |_: &mut TcpStream| post(&alone);
    let begun = Mutex::new(Vec::new());
    let in_session = |stream: &mut TcpStream| session(stream, &arguments, &begun);
    for connections in [1, 16, 64] {
        compare("2026-07-28", "sockets", &bare, &ours, connections, |address, duration| {
            load_with(address, sockets, connections, duration)
        });
    }
    for connections in [1, 16, 64] {
        compare("2026-07-28", "HTTP library", &bare, &ours, connections, |address, duration| {
            program::load(address, async |_, _| alone.clone(), connections, duration)
        });
    }
    for connections in [1, 16, 64] {
        compare("2025-11-25", "sockets", &bare, &ours, connections, |address, duration| {
            let seen = load_with(address, in_session, connections, duration);
            end_sessions(address, &begun);
            seen
        });
    }
    for connections in [1, 16, 64] {
        compare("2025-11-25", "HTTP library", &bare, &ours, connections, |address, duration| {
            let open =
                async |client: &reqwest::Client, url: &str| program_session(client, url, &arguments, &begun).await;
            let seen = program::load(address, open, connections, duration);
            end_sessions(address, &begun);
            seen
        });
    }
    // How much of the difference is that calls are written down at all.
    let folder = tempfile::tempdir().unwrap();
    let writing = bare::start(Some(folder.path()));
    for connections in [1, 16, 64] {
        compare(
            "2026-07-28, bare that writes a row a call",
            "sockets",
            &bare,
            &writing,
            connections,
            |address, duration| load_with(address, sockets, connections, duration),
        );
    }
    stop(writing.child);
    stop(bare.child);

    for n in 0..TOOLS {
        let tool = json!({ "refName": format!("bench_{n}"), "description": "Returns its input, which is a customer and an amount.", "toolType": "FUNCTION",
            "invocation": { "path": "echo" }, "inputJsonSchema": { "type": "object", "properties": { "customer": { "type": "string" }, "amount": { "type": "number" } } } });
        ask(&ours.address, &request("POST", "/api/v1/ai/tools", &tool.to_string()));
    }
    let list = post(&message("tools/list", json!({})));
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

/// Both under the same load, in turns. Their ratio is the median of those of all turns.
fn compare(
    revision: &str,
    client: &str,
    bare: &Server,
    ours: &Server,
    connections: usize,
    load: impl Fn(&str, Duration) -> Latencies,
) {
    // Once before, so that neither is measured cold.
    load(&bare.address, TURN);
    load(&ours.address, TURN);
    let (mut one, mut other, mut shares, mut busy) = (Vec::new(), Vec::new(), Vec::new(), 0.0);
    for _ in 0..TURNS {
        one.push(load(&bare.address, TURN));
        let before = cpu(ours.child.id());
        other.push(load(&ours.address, TURN));
        busy += cpu(ours.child.id()) - before;
        shares.push(100.0 * other[other.len() - 1].per_second() / one[one.len() - 1].per_second());
    }
    shares.sort_by(f64::total_cmp);
    let (one, other) = (Latencies::joined(one), Latencies::joined(other));
    println!(
        "| {revision} | {client} | {connections} | {:.0} | {:.0} | {:.0} | {:.0} | {:.0} | {:.0} | {:.0} % ({:.0}–{:.0}) | {:.0} |",
        one.percentile(50.0),
        other.percentile(50.0),
        one.percentile(99.0),
        other.percentile(99.0),
        one.per_second(),
        other.per_second(),
        shares[TURNS / 2],
        shares[TURNS / 4],
        shares[TURNS * 3 / 4],
        busy * 1e6 / other.count() as f64
    );
}

const OLDER: &str = "2025-11-25";

/// The request that begins a session.
fn hello() -> Call {
    let client =
        json!({ "protocolVersion": OLDER, "capabilities": {}, "clientInfo": { "name": "bench", "version": "1" } });
    older(None, json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": client }))
}

/// What follows: that it has begun, and the call to make in it.
fn in_session(id: &str, call: &Value) -> (Call, Call) {
    let begun = older(Some(id), json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
    (begun, older(Some(id), json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call })))
}

fn older(session: Option<&str>, body: Value) -> Call {
    let session = session.map(|id| ("mcp-session-id", id.to_owned()));
    let headers = [Some(("mcp-protocol-version", OLDER.to_owned())), session];
    Call { headers: headers.into_iter().flatten().collect(), body: body.to_string() }
}

/// Begins a session on a connection, and gives the call to make in it.
fn session(stream: &mut TcpStream, call: &Value, sessions: &Mutex<Vec<String>>) -> Vec<u8> {
    let mut exchange = |call: &Call| {
        stream.write_all(&post(call)).unwrap();
        read_answer(stream, &mut vec![0; 64 * 1024])
    };
    let begun = exchange(&hello()).to_ascii_lowercase();
    let id = begun.lines().find_map(|line| line.strip_prefix("mcp-session-id: ")).expect("a session");
    sessions.lock().unwrap().push(id.to_owned());
    let (begun, call) = in_session(id, call);
    exchange(&begun);
    post(&call)
}

/// The same through an HTTP library.
async fn program_session(client: &reqwest::Client, url: &str, call: &Value, sessions: &Mutex<Vec<String>>) -> Call {
    let (id, _) = program::send(client, url, &hello()).await;
    let id = id.expect("a session");
    let (begun, call) = in_session(&id, call);
    sessions.lock().unwrap().push(id);
    program::send(client, url, &begun).await;
    call
}

/// Ends the sessions that were begun: a server keeps only so many.
fn end_sessions(address: &str, sessions: &Mutex<Vec<String>>) {
    for id in std::mem::take(&mut *sessions.lock().unwrap()) {
        let head = format!(
            "DELETE /mcp HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer {KEY}\r\nmcp-protocol-version: {OLDER}\r\n\
             mcp-session-id: {id}\r\ncontent-length: 0\r\n\r\n"
        );
        ask(address, head.as_bytes());
    }
}

/// A request of 2026-07-28, which needs no session.
fn message(method: &str, mut params: Value) -> Call {
    let name = params["name"].as_str().map(|name| ("mcp-name", name.to_owned()));
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": { "name": "bench", "version": "1" },
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
    let headers = [("mcp-protocol-version", "2026-07-28".to_owned()), ("mcp-method", method.to_owned())];
    Call { headers: headers.into_iter().chain(name).collect(), body: body.to_string() }
}

/// A request as it goes over a socket.
fn post(call: &Call) -> Vec<u8> {
    let headers: String = call.headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let body = &call.body;
    let head = format!(
        "POST /mcp HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer {KEY}\r\ncontent-type: application/json\r\n\
         accept: application/json, text/event-stream\r\n{headers}content-length: {}\r\n\r\n",
        body.len()
    );
    (head + body).into_bytes()
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
