//! A job: the code to run, its limits, and its output or error.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The language of a job's code, which also selects the interpreter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Language {
    /// A subset of Python, in an embedded interpreter without files, network, clock or the host's modules.
    Python,
    /// JavaScript, in an embedded interpreter without host APIs.
    JavaScript,
    /// A WASI module: WebAssembly text, or the binary format in base64.
    Wasm,
    /// Python with its whole standard library, in a separate process.
    CPython,
}

/// One piece of code to run once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// The source.
    pub code: String,
    /// The inputs. The whole value is the variable `inputs` of the code. If it is an object, each field is a variable
    /// too.
    pub inputs: Value,
    /// The host functions that the code may call, by the names that the code uses.
    pub functions: Vec<String>,
    /// The limits of this job.
    pub limits: JobLimits,
}

/// The resources that a job may use. A job that exceeds one of these limits ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobLimits {
    /// The maximum time from start to end, without the time that host functions take.
    pub time: Duration,
    /// The maximum memory, in bytes.
    pub memory: u64,
    /// The maximum size in bytes of the result as JSON. The same limit applies to the printed text.
    pub output: u64,
    /// The maximum depth of nested function calls.
    pub depth: u32,
    /// The maximum number of host function calls.
    pub host_calls: u32,
}

impl Default for JobLimits {
    fn default() -> Self {
        Self { time: Duration::from_secs(5), memory: 128 << 20, output: 4 << 20, depth: 500, host_calls: 100 }
    }
}

/// The output of a job that succeeded.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JobOutput {
    /// The value of the variable `result`. Without this variable, the value of the last expression, or null if there is
    /// none.
    pub result: Value,
    /// The text that the code printed.
    pub stdout: String,
}

/// The reason why a job has no result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "camelCase", tag = "kind")]
pub enum JobError {
    /// The code could not be parsed or compiled.
    #[error("{message}")]
    Code {
        /// The message of the parser or compiler.
        message: String,
        /// The line, counted from 1.
        line: Option<u32>,
    },
    /// The code failed while it ran.
    #[error("{message}")]
    Exception {
        /// The exception, in the usual format of the language.
        message: String,
        /// The line, counted from 1.
        line: Option<u32>,
        /// The text that the code printed before it failed.
        stdout: String,
    },
    /// The code exceeded a limit.
    #[error("the code exceeded its limit on {limit}")]
    Limit {
        /// The exceeded limit.
        limit: Limit,
    },
    /// This machine cannot run the code safely.
    #[error("{reason}")]
    Unavailable {
        /// What this machine lacks, and how to fix it.
        reason: String,
    },
}

/// A limit of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Limit {
    /// [`JobLimits::time`].
    Time,
    /// [`JobLimits::memory`].
    Memory,
    /// [`JobLimits::output`].
    Output,
    /// [`JobLimits::depth`].
    Depth,
    /// [`JobLimits::host_calls`].
    HostCalls,
}

impl std::fmt::Display for Limit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Limit::Time => "time",
            Limit::Memory => "memory",
            Limit::Output => "output",
            Limit::Depth => "recursion",
            Limit::HostCalls => "calls to tools",
        })
    }
}
