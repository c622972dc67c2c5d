//! Confines a worker process before it reads its first frame. Afterwards, the process can access only its pipes to the
//! server. A CPython process can also read the files of its installation and write to a directory in memory.
//!
//! Each mechanism is an independent layer, and each may be missing. [`Isolation`] records which mechanisms the kernel
//! provided, and [`Isolation::unmet_requirement`] decides whether they are sufficient. Only Linux has these mechanisms;
//! on other systems a worker refuses every job. This module does not use cgroups, because versions 1 and 2 differ and
//! both need a delegated subtree. Resource limits are enough for a single process that cannot fork.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(not(target_os = "linux"))]
mod unsupported;

use serde::{Deserialize, Serialize};

#[cfg(target_os = "linux")]
pub(crate) use linux::{MemoryBaseline, confine, set_cpu_limit, set_memory_limit};
#[cfg(not(target_os = "linux"))]
pub(crate) use unsupported::{MemoryBaseline, confine, set_cpu_limit, set_memory_limit};

use crate::Language;

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
    /// The embedded interpreters give code no access to the system, so either seccomp or Landlock is enough. CPython
    /// gives code full access, so both files and network must be blocked.
    pub fn unmet_requirement(&self, language: Language) -> Option<&'static str> {
        let (files, network) = (self.landlock > 0, self.network || self.seccomp);
        match language {
            _ if !cfg!(target_os = "linux") => Some(
                "code cannot run on this operating system, because it cannot confine a process; run the server on Linux, for \
                 example in a container",
            ),
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
