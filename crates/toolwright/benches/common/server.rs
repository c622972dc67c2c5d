//! The real binary: started, measured from outside, stopped. Requests over plain sockets, so that the client costs
//! little of the machine.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::percentiles::Latencies;

pub const KEY: &str = "a-key-for-the-benchmark";

/// A server under measurement.
pub struct Server {
    pub child: Child,
    pub address: String,
    /// How long it took to start.
    pub millis: f64,
}

pub fn start(folder: &tempfile::TempDir, environment: &[(&str, &str)]) -> Server {
    let begun = Instant::now();
    let mut child = Command::new(env!("CARGO_BIN_EXE_toolwright"))
        .args(["serve", "--bind", "127.0.0.1:0", "--data"])
        .arg(folder.path())
        .env("TOOLWRIGHT_ADMIN_KEY", KEY)
        .envs(environment.iter().copied())
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

pub fn stop(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

/// Megabytes.
pub fn resident(pid: u32) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS")).unwrap();
    let kilobytes: f64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    kilobytes / 1024.0
}

/// Seconds of CPU that a process has used; the kernel counts in hundredths.
pub fn cpu(pid: u32) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    (fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap()) / 100.0
}

pub fn request(method: &str, path: &str, body: &str) -> Vec<u8> {
    format!("{method} {path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {KEY}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

/// Keeps connections busy with one request, one at a time each.
pub fn load(address: &str, request: &[u8], connections: usize, duration: Duration) -> Latencies {
    load_with(address, |_| request.to_vec(), connections, duration)
}

/// Keeps connections busy, each with the request that `open` has made for it. Plain sockets, so that the client costs
/// little of the machine.
pub fn load_with(
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
    let begun = Instant::now();
    let busy = |(mut stream, request): (TcpStream, Vec<u8>)| {
        let mut buffer = vec![0; 256 * 1024];
        let mut micros = Vec::new();
        while begun.elapsed() < duration {
            let start = Instant::now();
            stream.write_all(&request).unwrap();
            read_answer(&mut stream, &mut buffer);
            micros.push(start.elapsed().as_secs_f64() * 1e6);
        }
        micros
    };
    let all = std::thread::scope(|scope| {
        let workers: Vec<_> = opened.into_iter().map(|opened| scope.spawn(|| busy(opened))).collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
    });
    Latencies::new(all, begun.elapsed())
}

/// One request, and the body of its answer.
pub fn ask(address: &str, request: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(request).unwrap();
    let answer = read_answer(&mut stream, &mut vec![0; 4 * 1024 * 1024]);
    answer.split_once("\r\n\r\n").unwrap().1.to_owned()
}

/// Reads an answer whole: as long as it says it is, or up to the end of its chunks.
pub fn read_answer(stream: &mut TcpStream, buffer: &mut [u8]) -> String {
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
            let whole = match length {
                Some(length) => filled >= end + 4 + length,
                None => text.ends_with("\r\n0\r\n\r\n"),
            };
            if whole {
                return text.into_owned();
            }
        }
    }
}
