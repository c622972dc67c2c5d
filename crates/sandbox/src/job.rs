//! What is run, how much it may use, and what comes of it.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What the code of a job is written in, and what runs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Language {
    /// A subset of Python, in an interpreter without files, network, clock or imports of the host.
    Python,
    /// JavaScript, in an interpreter without a host.
    JavaScript,
    /// A WASI module: text, or base64 of the binary form.
    Wasm,
    /// Python with its whole standard library, in a process of its own.
    CPython,
}

/// One piece of code to run once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// The source.
    pub code: String,
    /// What it is given: an object, as the variable `inputs` and each field under its own name.
    pub inputs: Value,
    /// The functions that it may call on its host, by the name under which the code knows them.
    pub functions: Vec<String>,
    /// How much it may use.
    pub limits: Limits,
}

/// How much a job may use. What goes beyond ends it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// From its start to its end, without the time its host takes to answer.
    pub time: Duration,
    /// Bytes of memory.
    pub memory: u64,
    /// Bytes of the result as JSON, and of what is printed.
    pub output: u64,
    /// Calls within calls.
    pub depth: u32,
    /// Calls of the host's functions.
    pub host_calls: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self { time: Duration::from_secs(5), memory: 128 << 20, output: 4 << 20, depth: 500, host_calls: 100 }
    }
}

/// What a job came to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Done {
    /// The variable `result`, else the value of the last expression, else null.
    pub result: Value,
    /// What was printed.
    pub stdout: String,
}

/// Why a job has no result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "camelCase", tag = "kind")]
pub enum Failure {
    /// The code cannot be read.
    #[error("{message}")]
    Code {
        /// What is wrong with it.
        message: String,
        /// The line, from 1.
        line: Option<u32>,
    },
    /// The code failed while it ran.
    #[error("{message}")]
    Exception {
        /// The exception, as its language shows it.
        message: String,
        /// The line, from 1.
        line: Option<u32>,
        /// What had been printed by then.
        stdout: String,
    },
    /// The code used more than it may.
    #[error("the code went beyond its limit on {limit}")]
    Limit {
        /// Which limit.
        limit: Limit,
    },
    /// This machine cannot run it safely.
    #[error("{reason}")]
    Unavailable {
        /// What is missing, and what would help.
        reason: String,
    },
}

/// A limit of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Limit {
    /// [`Limits::time`].
    Time,
    /// [`Limits::memory`].
    Memory,
    /// [`Limits::output`].
    Output,
    /// [`Limits::depth`].
    Depth,
    /// [`Limits::host_calls`].
    HostCalls,
}

impl std::fmt::Display for Limit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Limit::Time => "time",
            Limit::Memory => "memory",
            Limit::Output => "output",
            Limit::Depth => "recursion",
            Limit::HostCalls => "calls of tools",
        })
    }
}
