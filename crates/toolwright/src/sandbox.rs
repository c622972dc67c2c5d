//! Creates the sandbox of this server. Its worker processes run the same binary as the server.

use std::path::PathBuf;

use toolwright_sandbox::{Sandbox, SandboxConfig};

use crate::config;

/// The first argument of a worker process. The second argument is the worker's configuration.
const WORKER_COMMAND: &str = "sandbox-worker";

/// Returns the path of the running binary. On Linux it is valid even if the file has been replaced or removed since the
/// start.
fn current_exe() -> PathBuf {
    let link = PathBuf::from("/proc/self/exe");
    if cfg!(target_os = "linux") { link } else { std::env::current_exe().unwrap_or(link) }
}

/// Returns the worker configuration if this process was started as a worker.
pub(crate) fn worker_config(mut arguments: impl Iterator<Item = String>) -> Option<String> {
    (arguments.nth(1)? == WORKER_COMMAND).then(|| arguments.next().unwrap_or_default())
}

/// Creates the sandbox, unless it is disabled.
pub(crate) fn open(config: &config::SandboxSection) -> Option<Sandbox> {
    let options = SandboxConfig {
        arguments: vec![WORKER_COMMAND.to_owned()],
        python: (!config.python.is_empty()).then(|| config.python.clone().into()),
        max_running: config.max_running,
        warm_processes: config.warm_processes,
        ..SandboxConfig::new(current_exe())
    };
    config.enabled.then(|| Sandbox::new(options))
}
