//! A worker for the tests of this crate. It runs CPython. For other languages it runs a test interpreter, whose
//! programs are one-word commands. Some commands misbehave.
//!
//! In production, the `toolwright` binary is the worker program.

use std::io::Write;
use std::process::{Command, ExitCode};
use std::time::Duration;

use serde_json::{Value, json};
use toolwright_sandbox::{Host, Interpreter, Job, JobError, JobOutput, Limit, worker_main};

/// Uses the same allocator as the `toolwright` binary, because tests depend on how much memory the allocator reserves.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let config = std::env::args().next_back().unwrap_or_default();
    worker_main(&config, |_| Some(Box::new(CommandInterpreter { served: 0 })))
}

/// An interpreter whose programs are single words.
struct CommandInterpreter {
    served: u32,
}

impl Interpreter for CommandInterpreter {
    fn run(&mut self, job: &Job, host: &mut dyn Host) -> Result<JobOutput, JobError> {
        self.served += 1;
        let output = |result: Value| Ok(JobOutput { result, stdout: String::new() });
        match job.code.as_str() {
            "echo" => output(job.inputs.clone()),
            "process" => output(json!(std::process::id())),
            "served" => output(json!(self.served)),
            "call" => match host.call("lookup", job.inputs.clone()) {
                Ok(answer) => output(answer),
                Err(message) => Err(JobError::Exception { message, line: Some(1), stdout: "called".to_owned() }),
            },
            "spin" => loop {
                std::hint::spin_loop();
            },
            "burn" => {
                for _ in 0..4 {
                    std::thread::spawn(|| {
                        loop {
                            std::hint::spin_loop();
                        }
                    });
                }
                output(host.call("lookup", Value::Null).unwrap_or_default())
            }
            // Uses processor time for a number of milliseconds.
            "work" => {
                let (started, wanted) =
                    (std::time::Instant::now(), Duration::from_millis(job.inputs.as_u64().unwrap_or(0)));
                while started.elapsed() < wanted {
                    std::hint::spin_loop();
                }
                output(Value::Null)
            }
            "limit" => Err(JobError::Limit { limit: Limit::Depth }),
            "allocate" => output(json!(allocate(job.inputs.as_u64()))),
            "crash" => std::process::abort(),
            "stderr" => {
                let _ = std::io::stderr().write_all(&vec![b'x'; 1 << 20]);
                output(Value::Null)
            }
            "malformed" => {
                let _ = std::io::stdout().write_all(b"\0\0\0\x04oops");
                output(Value::Null)
            }
            "nest" => output((0..200).fold(Value::Null, |inner, _| json!([inner]))),
            "large" => output(json!("x".repeat(1 << 20))),
            "read" => output(json!(describe(std::fs::read("/etc/passwd")))),
            "connect" => output(json!(describe(std::net::TcpStream::connect("127.0.0.1:9")))),
            "spawn" => output(json!(describe(Command::new("/bin/true").status()))),
            #[cfg(target_os = "linux")]
            "set_name" => output(json!(nix::sys::prctl::set_name(c"anything").is_ok())),
            "thread" => output(json!(std::thread::spawn(|| 7).join().ok())),
            other => Err(JobError::Code { message: format!("unknown program `{other}`"), line: Some(1) }),
        }
    }
}

fn describe<T>(outcome: std::io::Result<T>) -> String {
    outcome.map_or_else(|error| error.kind().to_string(), |_| "done".to_owned())
}

fn allocate(megabytes: Option<u64>) -> usize {
    let blocks: Vec<Vec<u8>> = (0..megabytes.unwrap_or(4 << 10)).map(|_| vec![1; 1 << 20]).collect();
    blocks.len()
}
