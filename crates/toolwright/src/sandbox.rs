//! The sandbox of this server: its workers are this program, started again.

use toolwright_sandbox::{Sandbox, SandboxConfig};

use crate::config;

/// What a worker is started with, before its assignment.
const WORKER: &str = "sandbox-worker";

/// Also where the file of this program was replaced or removed since it was started.
const THIS_PROGRAM: &str = "/proc/self/exe";

/// The assignment, where this process is to be a worker.
pub fn assignment(mut arguments: impl Iterator<Item = String>) -> Option<String> {
    (arguments.nth(1)? == WORKER).then(|| arguments.next().unwrap_or_default())
}

/// Where code runs, unless it is switched off.
pub fn open(config: &config::Sandbox) -> Option<Sandbox> {
    let options = SandboxConfig {
        arguments: vec![WORKER.to_owned()],
        python: (!config.python.is_empty()).then(|| config.python.clone().into()),
        running: config.max_running,
        warm: config.warm_processes,
        ..SandboxConfig::new(THIS_PROGRAM)
    };
    config.enabled.then(|| Sandbox::new(options))
}
