//! Benchmarks MCP over streamable HTTP: tool calls, in comparison with a bare server that implements only the protocol,
//! and then a list of 1,000 tools. Tool calls are made in two ways: over plain sockets, so that the client uses little
//! CPU time, and with an HTTP client library, like typical MCP clients.
//!
//! The two servers run in separate processes and are measured in turn. On a shared machine the load changes over time.
//! Two consecutive measurements have nearly the same load, so their ratio is meaningful although the times are not.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::indexing_slicing,
    reason = "a benchmark stops at the first error and prints its results"
)]

mod bare;
mod http_client;
#[path = "../common/percentiles.rs"]
#[allow(dead_code, reason = "shared with the other benchmarks")]
mod percentiles;
#[path = "../common/server.rs"]
#[allow(dead_code, reason = "shared with the other benchmarks")]
mod server;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use http_client::Call;
use percentiles::Latencies;
use server::{KEY, Server, cpu_seconds, load_with, read_response, request, send_request, start, stop};

/// Duration of one measurement of one server.
const TURN: Duration = Duration::from_millis(500);
/// Number of measurements of each server.
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
        "| `tools/call`, revision | client | connections | bare p50 µs | p50 µs | bare p99 µs | p99 µs | bare calls/s | calls/s | ratio to bare, median (quartiles) | CPU µs per call |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|");
    let arguments = json!({ "name": "echo", "arguments": { "customer": "Acme Corp", "amount": 1250.5 } });
    let alone = stateless_call("tools/call", arguments.clone());
    let sockets = |_: &mut TcpStream| post(&alone);
    let started = Mutex::new(Vec::new());
    let in_session = |stream: &mut TcpStream| open_session(stream, &arguments, &started);
    for connections in [1, 16, 64] {
        compare("2026-07-28", "sockets", &bare, &ours, connections, |address, duration| {
            load_with(address, sockets, connections, duration)
        });
    }
    for connections in [1, 16, 64] {
        compare("2026-07-28", "HTTP library", &bare, &ours, connections, |address, duration| {
            http_client::load(address, async |_, _| alone.clone(), connections, duration)
        });
    }
    for connections in [1, 16, 64] {
        compare("2025-11-25", "sockets", &bare, &ours, connections, |address, duration| {
            let latencies = load_with(address, in_session, connections, duration);
            end_sessions(address, &started);
            latencies
        });
    }
    for connections in [1, 16, 64] {
        compare("2025-11-25", "HTTP library", &bare, &ours, connections, |address, duration| {
            let open = async |client: &reqwest::Client, url: &str| {
                open_session_with_client(client, url, &arguments, &started).await
            };
            let latencies = http_client::load(address, open, connections, duration);
            end_sessions(address, &started);
            latencies
        });
    }
    // This comparison shows how much of the difference is due to recording calls.
    let folder = tempfile::tempdir().unwrap();
    let recording = bare::start(Some(folder.path()));
    for connections in [1, 16, 64] {
        compare("2026-07-28, bare, recording calls", "sockets", &bare, &recording, connections, |address, duration| {
            load_with(address, sockets, connections, duration)
        });
    }
    stop(recording.child);
    stop(bare.child);

    for n in 0..TOOLS {
        let tool = json!({ "refName": format!("bench_{n}"), "description": "Returns its input, which is a customer and an amount.", "toolType": "FUNCTION",
            "invocation": { "path": "echo" }, "inputJsonSchema": { "type": "object", "properties": { "customer": { "type": "string" }, "amount": { "type": "number" } } } });
        send_request(&ours.address, &request("POST", "/api/v1/ai/tools", &tool.to_string()));
    }
    let list = post(&stateless_call("tools/list", json!({})));
    let first = Instant::now();
    let bytes = exchange(&mut connect(&ours.address), &list);
    println!("\n| `tools/list`, {TOOLS} tools, {} kB | p50 µs | p99 µs | lists/s |\n|---|---|---|---|", bytes / 1000);
    println!("| first after a change | {:.0} | | |", first.elapsed().as_secs_f64() * 1e6);
    let mut stream = connect(&ours.address);
    let started = Instant::now();
    let micros = (0..LISTS).map(|_| {
        let start = Instant::now();
        exchange(&mut stream, &list);
        start.elapsed().as_secs_f64() * 1e6
    });
    Latencies::new(micros.collect(), started.elapsed()).row("sequential");
    stop(ours.child);
}

/// Measures both servers in turn under the same load. The printed ratio is the median of the ratios of all turns.
fn compare(
    revision: &str,
    client: &str,
    bare: &Server,
    ours: &Server,
    connections: usize,
    load: impl Fn(&str, Duration) -> Latencies,
) {
    // Warm-up.
    load(&bare.address, TURN);
    load(&ours.address, TURN);
    let (mut bare_runs, mut our_runs, mut ratios, mut cpu_used) = (Vec::new(), Vec::new(), Vec::new(), 0.0);
    for _ in 0..TURNS {
        bare_runs.push(load(&bare.address, TURN));
        let before = cpu_seconds(ours.child.id());
        our_runs.push(load(&ours.address, TURN));
        cpu_used += cpu_seconds(ours.child.id()) - before;
        ratios.push(100.0 * our_runs[our_runs.len() - 1].per_second() / bare_runs[bare_runs.len() - 1].per_second());
    }
    ratios.sort_by(f64::total_cmp);
    let (bare_latencies, our_latencies) = (Latencies::merge(bare_runs), Latencies::merge(our_runs));
    println!(
        "| {revision} | {client} | {connections} | {:.0} | {:.0} | {:.0} | {:.0} | {:.0} | {:.0} | {:.0} % ({:.0}–{:.0}) | {:.0} |",
        bare_latencies.percentile(50.0),
        our_latencies.percentile(50.0),
        bare_latencies.percentile(99.0),
        our_latencies.percentile(99.0),
        bare_latencies.per_second(),
        our_latencies.per_second(),
        ratios[TURNS / 2],
        ratios[TURNS / 4],
        ratios[TURNS * 3 / 4],
        cpu_used * 1e6 / our_latencies.count() as f64
    );
}

const SESSION_REVISION: &str = "2025-11-25";

/// Returns the request that opens a session.
fn initialize_request() -> Call {
    let client = json!({ "protocolVersion": SESSION_REVISION, "capabilities": {}, "clientInfo": { "name": "bench", "version": "1" } });
    session_call(None, json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": client }))
}

/// Returns the notification that completes the handshake, and the call to measure.
fn in_session(id: &str, call: &Value) -> (Call, Call) {
    let started = session_call(Some(id), json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
    (started, session_call(Some(id), json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call })))
}

fn session_call(session: Option<&str>, body: Value) -> Call {
    let session = session.map(|id| ("mcp-session-id", id.to_owned()));
    let headers = [Some(("mcp-protocol-version", SESSION_REVISION.to_owned())), session];
    Call { headers: headers.into_iter().flatten().collect(), body: body.to_string() }
}

/// Opens a session on a connection and returns the call to measure.
fn open_session(stream: &mut TcpStream, call: &Value, sessions: &Mutex<Vec<String>>) -> Vec<u8> {
    let mut exchange = |call: &Call| {
        stream.write_all(&post(call)).unwrap();
        read_response(stream, &mut vec![0; 64 * 1024])
    };
    let started = exchange(&initialize_request()).to_ascii_lowercase();
    let id = started
        .lines()
        .find_map(|line| line.strip_prefix("mcp-session-id: "))
        .expect("the response must name a session");
    sessions.lock().unwrap().push(id.to_owned());
    let (started, call) = in_session(id, call);
    exchange(&started);
    post(&call)
}

/// Opens a session through the HTTP library and returns the call to measure.
async fn open_session_with_client(
    client: &reqwest::Client,
    url: &str,
    call: &Value,
    sessions: &Mutex<Vec<String>>,
) -> Call {
    let (id, _) = http_client::send(client, url, &initialize_request()).await;
    let id = id.expect("the response must name a session");
    let (started, call) = in_session(&id, call);
    sessions.lock().unwrap().push(id);
    http_client::send(client, url, &started).await;
    call
}

/// Ends the MCP sessions that were opened, because a server limits their number.
fn end_sessions(address: &str, sessions: &Mutex<Vec<String>>) {
    for id in std::mem::take(&mut *sessions.lock().unwrap()) {
        let head = format!(
            "DELETE /mcp HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer {KEY}\r\nmcp-protocol-version: {SESSION_REVISION}\r\n\
             mcp-session-id: {id}\r\ncontent-length: 0\r\n\r\n"
        );
        send_request(address, head.as_bytes());
    }
}

/// Returns a request of revision 2026-07-28, which needs no session.
fn stateless_call(method: &str, mut params: Value) -> Call {
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

/// Serializes a call as an HTTP request.
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

/// Sends one request and returns the length of the response body. The body is counted but not parsed.
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
            break (end + 4, length.expect("the response must have a content length"));
        }
    };
    let mut received = head.len() - end;
    while received < length {
        received += stream.read(&mut buffer).unwrap();
    }
    length
}
