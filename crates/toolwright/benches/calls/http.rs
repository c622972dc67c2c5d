//! The real binary over real sockets: start-up, memory, requests per second.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::percentiles::Latencies;

const KEY: &str = "a-key-for-the-benchmark";
const CONNECTIONS: usize = 32;
const DURATION: Duration = Duration::from_secs(5);

pub fn measure() {
    let folder = tempfile::tempdir().unwrap();
    let first = start(&folder);
    stop(first.child);
    let mut starts: Vec<f64> = Vec::new();
    for _ in 0..9 {
        let server = start(&folder);
        starts.push(server.millis);
        stop(server.child);
    }
    starts.sort_by(f64::total_cmp);
    let server = start(&folder);
    let idle = resident(server.child.id());
    println!("| the server | |\n|---|---|");
    println!("| first start, with an empty folder | {:.0} ms |", first.millis);
    println!("| start, median of 9 | {:.0} ms |", starts[starts.len() / 2]);
    println!("| resident memory, idle | {idle:.1} MB |");

    let execute = request("POST", "/api/v1/ai/tools/calculator/execute", r#"{"input":{"expression":"1 + 2 * 3"}}"#);
    let health = request("GET", "/healthz", "");
    let baseline = load(&server.address, &health);
    let calls = load(&server.address, &execute);
    let busy = resident(server.child.id());
    println!("| resident memory, after {} calls | {busy:.1} MB |", calls.count());
    println!("\n| over HTTP, {CONNECTIONS} connections | p50 µs | p99 µs | requests/s |\n|---|---|---|---|");
    baseline.row("`GET /healthz`, the baseline");
    calls.row("`POST …/calculator/execute`");
    println!(
        "\nA call reaches {:.0} % of the baseline's rate. Client and server share the machine.",
        100.0 * calls.per_second() / baseline.per_second()
    );
    stop(server.child);
}

struct Server {
    child: Child,
    address: String,
    millis: f64,
}

fn start(folder: &tempfile::TempDir) -> Server {
    let begun = Instant::now();
    let mut child = Command::new(env!("CARGO_BIN_EXE_toolwright"))
        .args(["serve", "--bind", "127.0.0.1:0", "--data"])
        .arg(folder.path())
        .env("TOOLWRIGHT_ADMIN_KEY", KEY)
        // Logging as it is by default, one line a request; where the lines go is not the server's cost.
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let millis = begun.elapsed().as_secs_f64() * 1e3;
    let address = line.trim().strip_prefix("listening on http://").expect("the ready line").to_owned();
    Server { child, address, millis }
}

fn stop(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

fn resident(pid: u32) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS")).unwrap();
    let kilobytes: f64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    kilobytes / 1024.0
}

fn request(method: &str, path: &str, body: &str) -> Vec<u8> {
    format!("{method} {path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {KEY}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

/// Keeps connections busy, one request at a time each. Plain sockets, so that the client costs little of the machine.
fn load(address: &str, request: &[u8]) -> Latencies {
    let begun = Instant::now();
    let workers: Vec<_> = (0..CONNECTIONS)
        .map(|_| {
            let (address, request) = (address.to_owned(), request.to_vec());
            std::thread::spawn(move || {
                let mut stream = TcpStream::connect(address).unwrap();
                stream.set_nodelay(true).unwrap();
                let mut buffer = vec![0; 64 * 1024];
                let mut micros = Vec::new();
                while begun.elapsed() < DURATION {
                    let start = Instant::now();
                    stream.write_all(&request).unwrap();
                    read_answer(&mut stream, &mut buffer);
                    micros.push(start.elapsed().as_secs_f64() * 1e6);
                }
                micros
            })
        })
        .collect();
    let all = workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect();
    Latencies::new(all, begun.elapsed())
}

fn read_answer(stream: &mut TcpStream, buffer: &mut [u8]) {
    let mut filled = 0;
    loop {
        let read = stream.read(&mut buffer[filled..]).unwrap();
        assert!(read > 0, "the server closed the connection");
        filled += read;
        let text = String::from_utf8_lossy(&buffer[..filled]);
        if let Some(end) = text.find("\r\n\r\n") {
            assert!(text.starts_with("HTTP/1.1 200"), "{text}");
            let length = text[..end]
                .lines()
                .find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse::<usize>().ok());
            if filled >= end + 4 + length.unwrap() {
                return;
            }
        }
    }
}
