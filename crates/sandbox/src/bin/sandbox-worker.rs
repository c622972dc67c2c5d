//! A worker for the tests of this crate: full Python, and an interpreter that does what it is told, good or bad.
//!
//! The product has a worker in its own binary.

use std::io::Write;
use std::process::{Command, ExitCode};

use serde_json::{Value, json};
use toolwright_sandbox::{Done, Failure, Host, Interpreter, Job, Limit, worker_main};

/// The product's, because of what it reserves.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let assignment = std::env::args().next_back().unwrap_or_default();
    worker_main(&assignment, |_| Some(Box::new(Obedient { served: 0 })))
}

/// Its language has one word per program.
struct Obedient {
    served: u32,
}

impl Interpreter for Obedient {
    fn run(&mut self, job: &Job, host: &mut dyn Host) -> Result<Done, Failure> {
        self.served += 1;
        let done = |result: Value| Ok(Done { result, stdout: String::new() });
        match job.code.as_str() {
            "echo" => done(job.inputs.clone()),
            "process" => done(json!(std::process::id())),
            "served" => done(json!(self.served)),
            "call" => match host.call("lookup", job.inputs.clone()) {
                Ok(answer) => done(answer),
                Err(message) => Err(Failure::Exception { message, line: Some(1), stdout: "called".to_owned() }),
            },
            "spin" => loop {
                std::hint::spin_loop();
            },
            "limit" => Err(Failure::Limit { limit: Limit::Depth }),
            "allocate" => done(json!(hoard(job.inputs.as_u64()))),
            "crash" => std::process::abort(),
            "complain" => {
                let _ = std::io::stderr().write_all(&vec![b'x'; 1 << 20]);
                done(Value::Null)
            }
            "babble" => {
                let _ = std::io::stdout().write_all(b"\0\0\0\x04oops");
                done(Value::Null)
            }
            "nest" => done((0..200).fold(Value::Null, |inner, _| json!([inner]))),
            "large" => done(json!("x".repeat(1 << 20))),
            "read" => done(json!(kind(std::fs::read("/etc/passwd")))),
            "connect" => done(json!(kind(std::net::TcpStream::connect("127.0.0.1:9")))),
            "start" => done(json!(kind(Command::new("/bin/true").status()))),
            "name" => done(json!(nix::sys::prctl::set_name(c"anything").is_ok())),
            "thread" => done(json!(std::thread::spawn(|| 7).join().ok())),
            other => Err(Failure::Code { message: format!("`{other}` is no program"), line: Some(1) }),
        }
    }
}

fn kind<T>(outcome: std::io::Result<T>) -> String {
    outcome.map_or_else(|error| error.kind().to_string(), |_| "done".to_owned())
}

fn hoard(megabytes: Option<u64>) -> usize {
    let hoard: Vec<Vec<u8>> = (0..megabytes.unwrap_or(4 << 10)).map(|_| vec![1; 1 << 20]).collect();
    hoard.len()
}
