//! Confines a process with the mechanisms of Linux.

mod landlock;
mod limits;
mod namespaces;
mod seccomp;
mod syscalls;

pub(crate) use limits::{MemoryBaseline, set_cpu_limit, set_memory_limit};

use super::Isolation;
use crate::{Language, Mechanism, WorkerConfig};

/// Applies every mechanism that the kernel offers, in the only thread of the process. An error means that a mechanism
/// was applied partially, so no code may run.
pub(crate) fn confine(config: &WorkerConfig, baseline: MemoryBaseline) -> Result<Isolation, String> {
    let is_enabled = |mechanism| !config.disabled_mechanisms.contains(&mechanism);
    let mut isolation = Isolation::default();
    let python = config.python.as_ref().filter(|_| config.language == Language::CPython);
    let readable = python.map_or(&[][..], |python| python.readable());

    nix::sys::prctl::set_no_new_privs().map_err(|error| format!("could not set `no_new_privs`: {error}"))?;
    limits::close_inherited_fds().map_err(|error| format!("could not close inherited file descriptors: {error}"))?;
    if is_enabled(Mechanism::Namespaces) {
        let entered = namespaces::enter(readable, python.is_some());
        (isolation.user, isolation.network, isolation.root) = (entered.user, entered.network, entered.root);
    }
    limits::apply(config, baseline, isolation.user)
        .map_err(|error| format!("could not set resource limits: {error}"))?;
    if is_enabled(Mechanism::Landlock) {
        let scratch = (isolation.root && python.is_some()).then_some(namespaces::SCRATCH_DIR);
        let executable = python.map(|python| python.executable());
        isolation.landlock = landlock::restrict(readable, executable, scratch)
            .map_err(|error| format!("could not apply Landlock rules: {error}"))?;
    }
    namespaces::drop_capabilities().map_err(|error| format!("could not drop capabilities: {error}"))?;
    if is_enabled(Mechanism::Seccomp) {
        isolation.seccomp = seccomp::filter(config.language)
            .map_err(|error| format!("could not install the seccomp filter: {error}"))?;
    }
    Ok(isolation)
}
