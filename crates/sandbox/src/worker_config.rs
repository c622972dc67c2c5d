//! The configuration that a worker process receives when it starts.

use serde::{Deserialize, Serialize};

use crate::{Language, PythonInstallation};

/// The configuration of one worker, passed as JSON in the last argument of its command line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WorkerConfig {
    /// The language that the worker runs.
    pub language: Language,
    /// The maximum memory that a job of this worker may use, in bytes.
    pub memory: u64,
    /// The Python installation, required for [`Language::CPython`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub python: Option<PythonInstallation>,
    /// The mechanisms that the worker does not use, as if the kernel lacked them. For tests.
    #[serde(default, rename = "without", skip_serializing_if = "Vec::is_empty")]
    pub disabled_mechanisms: Vec<Mechanism>,
}

/// A kernel mechanism that isolates code from the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Mechanism {
    /// Separate user, network, mount, IPC and UTS namespaces.
    Namespaces,
    /// Rules on file access that a process applies to itself.
    Landlock,
    /// A filter on system calls.
    Seccomp,
}
