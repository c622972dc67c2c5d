//! Confines a worker process before it reads its first frame. Afterwards, the process can access only its pipes to the
//! server. A CPython process can also read the files of its installation and write to a directory in memory.
//!
//! Each mechanism is an independent layer, and each may be missing. [`Isolation`] records which mechanisms the kernel
//! provided, and [`Isolation::unmet_requirement`] decides whether they are sufficient. This module does not use
//! cgroups, because versions 1 and 2 differ and both need a delegated subtree. Resource limits are enough for a single
//! process that cannot fork.

mod landlock;
mod limits;
mod namespaces;
mod seccomp;
mod syscalls;

use serde::{Deserialize, Serialize};

pub(crate) use limits::{MemoryBaseline, set_cpu_limit, set_memory_limit};

use crate::{Language, Mechanism, WorkerConfig};

/// The isolation that a worker has achieved.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Isolation {
    /// The worker is `nobody` in its own user namespace.
    pub user: bool,
    /// The worker has its own network namespace, without a network.
    pub network: bool,
    /// The worker's root directory contains only the files that it needs.
    pub root: bool,
    /// The version of Landlock that the kernel enforces, or 0 if it has none.
    pub landlock: u32,
    /// The worker's system calls are filtered.
    pub seccomp: bool,
}

impl Isolation {
    /// Returns which mechanism is missing for this language and how to fix it, or `None` if the isolation is
    /// sufficient.
    ///
    /// The embedded interpreters give code no access to the system, so one mechanism around them is enough. CPython
    /// gives code full access, so both files and network must be blocked.
    pub fn unmet_requirement(&self, language: Language) -> Option<&'static str> {
        let (files, network) = (self.landlock > 0, self.network || self.seccomp);
        match language {
            Language::CPython if !files => Some(
                "CPython is not available on this machine: its kernel cannot restrict file access; it needs Landlock (Linux 5.13 or \
                 newer, with `landlock` among the security modules of the kernel's command line)",
            ),
            Language::CPython if !network => Some(
                "CPython is not available on this machine: its kernel cannot restrict network access; it needs seccomp filters, or \
                 network namespaces for unprivileged users",
            ),
            Language::CPython => None,
            _ if self.seccomp || files => None,
            _ => Some(
                "code cannot run on this machine: its kernel offers neither seccomp filters nor Landlock to confine a process; both \
                 come with Linux 5.13",
            ),
        }
    }
}

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
