//! Helpers for tests that start workers.
#![allow(dead_code, reason = "each test file uses some of the helpers")]

use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use serde_json::{Value, json};
use toolwright_sandbox::{AsyncHost, Job, JobError, JobLimits, Sandbox, SandboxConfig};

pub(crate) fn config() -> SandboxConfig {
    SandboxConfig::new(env!("CARGO_BIN_EXE_sandbox-worker"))
}

pub(crate) fn sandbox() -> Sandbox {
    Sandbox::new(config())
}

/// A sandbox that can run CPython.
pub(crate) fn with_python(config: SandboxConfig) -> Sandbox {
    Sandbox::new(SandboxConfig { python: Some("python3".into()), ..config })
}

pub(crate) fn job(code: &str) -> Job {
    let limits = JobLimits { time: Duration::from_secs(20), memory: 64 << 20, ..JobLimits::default() };
    Job { code: code.to_owned(), inputs: json!({}), functions: vec!["lookup".to_owned()], limits }
}

/// A host that answers each call with a closure.
pub(crate) struct FnHost<F>(pub F);

impl<F: Fn(&str, Value) -> Result<Value, String> + Send + Sync> AsyncHost for FnHost<F> {
    fn call<'a>(&'a self, function: &'a str, arguments: Value) -> BoxFuture<'a, Result<Value, String>> {
        std::future::ready((self.0)(function, arguments)).boxed()
    }
}

/// A host without functions.
pub(crate) struct NoHost;

impl AsyncHost for NoHost {
    fn call<'a>(&'a self, function: &'a str, _: Value) -> BoxFuture<'a, Result<Value, String>> {
        std::future::ready(Err(format!("function `{function}` does not exist"))).boxed()
    }
}

pub(crate) fn exception(failure: JobError) -> String {
    match failure {
        JobError::Exception { message, .. } => message,
        other => panic!("not an exception: {other:?}"),
    }
}

/// The child processes of this process that are not reaped yet.
pub(crate) fn children() -> Vec<u32> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let lists = tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("children")).ok());
    let text: String = lists.collect();
    text.split_ascii_whitespace().map(|pid| pid.parse().unwrap()).collect()
}
