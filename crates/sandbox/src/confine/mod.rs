//! A worker gives up everything but its pipes, before it reads its first frame.
//!
//! Each mechanism is a wall of its own, and none is taken for granted: what the kernel did not give is in the [`Isolation`], and
//! [`Isolation::shortcoming`] decides whether the rest is enough. There are no cgroups here: versions 1 and 2 differ, both want a
//! tree that somebody has delegated, and one process that cannot fork is bounded by its own resource limits.

mod calls;
mod landlock;
mod limits;
mod namespaces;
mod seccomp;

use serde::{Deserialize, Serialize};

pub(crate) use limits::{Baseline, allow_memory};

use crate::{Assignment, Language};

/// A wall between code and the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Mechanism {
    /// Users, network, mounts, IPC and host name of its own.
    Namespaces,
    /// Rules on files, which a process lays on itself.
    Landlock,
    /// A filter on system calls.
    Seccomp,
}

/// What a worker has given up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Isolation {
    /// It is nobody, in a user namespace of its own.
    pub user: bool,
    /// It has a network namespace, in which there is no network.
    pub network: bool,
    /// Its root directory holds nothing but what it needs.
    pub root: bool,
    /// The version of Landlock that is enforced; 0 if none is.
    pub landlock: u32,
    /// Its system calls are filtered.
    pub seccomp: bool,
}

impl Isolation {
    /// What is missing to run this language, and what would help. The embedded interpreters have no way out by themselves, so one
    /// wall around them is enough; CPython has every way out.
    pub fn shortcoming(&self, language: Language) -> Option<&'static str> {
        let (files, network) = (self.landlock > 0, self.network || self.seccomp);
        match language {
            Language::CPython if !files => Some(
                "full Python is not run on this machine, because its kernel does not keep a process from files: it needs Landlock \
                 (Linux 5.13, and `landlock` among the security modules of the kernel's command line)",
            ),
            Language::CPython if !network => Some(
                "full Python is not run on this machine, because its kernel does not keep a process from the network: it needs \
                 seccomp filters, or network namespaces for users who are not root",
            ),
            Language::CPython => None,
            _ if self.seccomp || files => None,
            _ => Some(
                "code is not run on this machine, because its kernel offers neither seccomp filters nor Landlock to keep a process \
                 in; both come with Linux 5.13",
            ),
        }
    }
}

/// Gives up what can be given up, in the one thread there is. An error is a wall that stands half, so nothing may run behind it.
pub(crate) fn confine(assignment: &Assignment, baseline: Baseline) -> Result<Isolation, String> {
    let wants = |mechanism| !assignment.without.contains(&mechanism);
    let mut isolation = Isolation::default();
    let python = assignment.python.as_ref().filter(|_| assignment.language == Language::CPython);
    let readable = python.map_or(&[][..], |python| python.readable());

    nix::sys::prctl::set_no_new_privs().map_err(|error| format!("it cannot give up new privileges: {error}"))?;
    limits::close_inherited().map_err(|error| format!("it cannot close what it inherited: {error}"))?;
    if wants(Mechanism::Namespaces) {
        let entered = namespaces::enter(readable, python.is_some());
        (isolation.user, isolation.network, isolation.root) = (entered.user, entered.network, entered.root);
    }
    limits::apply(assignment, baseline, isolation.user).map_err(|error| format!("it cannot limit itself: {error}"))?;
    if wants(Mechanism::Landlock) {
        let scratch = (isolation.root && python.is_some()).then_some(namespaces::SCRATCH);
        let executable = python.map(|python| python.executable());
        isolation.landlock =
            landlock::restrict(readable, executable, scratch).map_err(|error| format!("Landlock failed: {error}"))?;
    }
    namespaces::drop_capabilities().map_err(|error| format!("it cannot give up its capabilities: {error}"))?;
    if wants(Mechanism::Seccomp) {
        isolation.seccomp = seccomp::filter(assignment.language)
            .map_err(|error| format!("the filter of system calls failed: {error}"))?;
    }
    Ok(isolation)
}
