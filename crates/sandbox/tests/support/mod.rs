//! What the tests of workers share.
#![allow(dead_code, reason = "each test file uses its part")]

use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use serde_json::{Value, json};
use toolwright_sandbox::{AsyncHost, Failure, Job, Limits, Sandbox, SandboxConfig};

pub fn config() -> SandboxConfig {
    SandboxConfig::new(env!("CARGO_BIN_EXE_sandbox-worker"))
}

pub fn sandbox() -> Sandbox {
    Sandbox::new(config())
}

/// The same with a Python.
pub fn with_python(config: SandboxConfig) -> Sandbox {
    Sandbox::new(SandboxConfig { python: Some("python3".into()), ..config })
}

pub fn job(code: &str) -> Job {
    let limits = Limits { time: Duration::from_secs(20), memory: 64 << 20, ..Limits::default() };
    Job { code: code.to_owned(), inputs: json!({}), functions: vec!["lookup".to_owned()], limits }
}

/// A host that answers each call with the same function.
pub struct Answers<F>(pub F);

impl<F: Fn(&str, Value) -> Result<Value, String> + Send + Sync> AsyncHost for Answers<F> {
    fn call<'a>(&'a self, function: &'a str, arguments: Value) -> BoxFuture<'a, Result<Value, String>> {
        std::future::ready((self.0)(function, arguments)).boxed()
    }
}

/// A host that nobody should call.
pub struct Nobody;

impl AsyncHost for Nobody {
    fn call<'a>(&'a self, function: &'a str, _: Value) -> BoxFuture<'a, Result<Value, String>> {
        std::future::ready(Err(format!("nobody has `{function}`"))).boxed()
    }
}

pub fn exception(failure: Failure) -> String {
    match failure {
        Failure::Exception { message, .. } => message,
        other => panic!("not an exception: {other:?}"),
    }
}

/// The processes that this one has started and not yet reaped.
pub fn children() -> Vec<u32> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let lists = tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("children")).ok());
    let text: String = lists.collect();
    text.split_ascii_whitespace().map(|pid| pid.parse().unwrap()).collect()
}
