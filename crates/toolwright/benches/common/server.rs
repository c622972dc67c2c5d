//! Starts, measures and stops the real binary. Requests are sent over plain sockets, so that the client uses little CPU
//! time.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::percentiles::Latencies;

pub(crate) const KEY: &str = "a-key-for-the-benchmark";

/// A running server.
pub(crate) struct Server {
    pub child: Child,
    pub address: String,
    /// The time from the start of the process until the server listened.
    pub startup_ms: f64,
}

pub(crate) fn start(folder: &tempfile::TempDir, environment: &[(&str, &str)]) -> Server {
    let started = Instant::now();
    let mut child = Command::new(env!("CARGO_BIN_EXE_toolwright"))
        .args(["serve", "--bind", "127.0.0.1:0", "--data"])
        .arg(folder.path())
        .env("TOOLWRIGHT_ADMIN_KEY", KEY)
        .envs(environment.iter().copied())
        // The server logs one line per request, which is the default. The log is discarded.
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let startup_ms = started.elapsed().as_secs_f64() * 1e3;
    let address =
        line.trim().strip_prefix("listening on http://").expect("the first line must be `listening on URL`").to_owned();
    Server { child, address, startup_ms }
}

pub(crate) fn stop(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

/// Returns the resident memory of a process in megabytes.
pub(crate) fn resident_mb(pid: u32) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS")).unwrap();
    let kilobytes: f64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    kilobytes / 1024.0
}

/// Returns the CPU seconds that a process has used, with a resolution of 1/100 s.
pub(crate) fn cpu_seconds(pid: u32) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    (fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap()) / 100.0
}

pub(crate) fn request(method: &str, path: &str, body: &str) -> Vec<u8> {
    format!("{method} {path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {KEY}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

/// Sends the same request repeatedly on several connections. Each connection waits for a response before its next
/// request.
pub(crate) fn load(address: &str, request: &[u8], connections: usize, duration: Duration) -> Latencies {
    load_with(address, |_| request.to_vec(), connections, duration)
}

/// Sends requests repeatedly on several connections. `open` prepares a connection and returns the request to repeat on
/// it.
pub(crate) fn load_with(
    address: &str,
    open: impl Fn(&mut TcpStream) -> Vec<u8> + Sync,
    connections: usize,
    duration: Duration,
) -> Latencies {
    let opened: Vec<_> = (0..connections)
        .map(|_| {
            let mut stream = TcpStream::connect(address).unwrap();
            stream.set_nodelay(true).unwrap();
            let request = open(&mut stream);
            (stream, request)
        })
        .collect();
    let started = Instant::now();
    let worker = |(mut stream, request): (TcpStream, Vec<u8>)| {
        let mut buffer = vec![0; 256 * 1024];
        let mut micros = Vec::new();
        while started.elapsed() < duration {
            let start = Instant::now();
            stream.write_all(&request).unwrap();
            read_response(&mut stream, &mut buffer);
            micros.push(start.elapsed().as_secs_f64() * 1e6);
        }
        micros
    };
    let all = std::thread::scope(|scope| {
        let workers: Vec<_> = opened.into_iter().map(|opened| scope.spawn(|| worker(opened))).collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
    });
    Latencies::new(all, started.elapsed())
}

/// Sends one request and returns the body of the response.
pub(crate) fn send_request(address: &str, request: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(request).unwrap();
    let response = read_response(&mut stream, &mut vec![0; 4 * 1024 * 1024]);
    response.split_once("\r\n\r\n").unwrap().1.to_owned()
}

/// Reads a whole response, which has a content length or ends with an empty chunk.
pub(crate) fn read_response(stream: &mut TcpStream, buffer: &mut [u8]) -> String {
    let mut filled = 0;
    loop {
        let read = stream.read(&mut buffer[filled..]).unwrap();
        assert!(read > 0, "the server closed the connection");
        filled += read;
        let text = String::from_utf8_lossy(&buffer[..filled]);
        if let Some(end) = text.find("\r\n\r\n") {
            assert!(text.starts_with("HTTP/1.1 20"), "{text}");
            let head = text[..end].to_ascii_lowercase();
            let length =
                head.lines().find_map(|line| line.strip_prefix("content-length: ")?.trim().parse::<usize>().ok());
            let complete = match length {
                Some(length) => filled >= end + 4 + length,
                None => text.ends_with("\r\n0\r\n\r\n"),
            };
            if complete {
                return text.into_owned();
            }
        }
    }
}
