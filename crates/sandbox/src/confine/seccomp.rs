//! Which system calls are left.
//!
//! Both lists name what is allowed, so what a later kernel adds is refused. In an embedded interpreter anything else is the work of
//! somebody who got out of it, and ends the process at once; only what libraries ask for in passing, such as files, is answered
//! with an error. CPython's standard library probes freely, and code is meant to see why something failed, so there the answer is
//! always `EPERM`, which Python shows as a `PermissionError` with its line.

use std::collections::BTreeMap;

use nix::libc;
use seccompiler::{
    BackendError, Error, SeccompAction, SeccompCmpArgLen as Width, SeccompCmpOp as Is, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, apply_filter,
};

use super::calls;
use crate::Language;

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// Lays the filters on this thread and on those it starts. False if the kernel filters nothing.
pub(super) fn filter(language: Language) -> Result<bool, Error> {
    let Ok(machine) = TargetArch::try_from(std::env::consts::ARCH) else { return Ok(false) };
    let (rules, otherwise) = match language {
        Language::CPython => (for_python()?, SeccompAction::Errno(libc::EPERM as u32)),
        _ => (for_interpreters(language)?, SeccompAction::KillProcess),
    };
    // A kernel without filters says so at the first.
    if let Err(Error::Prctl(_) | Error::Seccomp(_)) =
        install(anyway(calls::MISSING), SeccompAction::Allow, SeccompAction::Errno(libc::ENOSYS as u32), machine)
    {
        return Ok(false);
    }
    install(rules, otherwise, SeccompAction::Allow, machine)?;
    if language != Language::CPython {
        let refused = SeccompAction::Errno(libc::EPERM as u32);
        install(anyway(calls::ASKED_IN_PASSING), SeccompAction::Allow, refused, machine)?;
    }
    Ok(true)
}

fn install(rules: Rules, otherwise: SeccompAction, matched: SeccompAction, machine: TargetArch) -> Result<(), Error> {
    let filter = SeccompFilter::new(rules, otherwise, matched, machine)?;
    let program: seccompiler::BpfProgram = filter.try_into()?;
    apply_filter(&program)
}

fn for_interpreters(language: Language) -> Result<Rules, BackendError> {
    let mut rules = own_business()?;
    rules.extend(anyway(calls::BASE));
    // Allowed here, to be answered by the other filters.
    rules.extend(anyway(calls::MISSING));
    rules.extend(anyway(calls::ASKED_IN_PASSING));
    for call in [libc::SYS_mmap, libc::SYS_mprotect] {
        let rule = match language {
            // Compiles to machine code.
            Language::Wasm => vec![],
            _ => vec![when(&[(2, Is::MaskedEq(libc::PROT_EXEC as u64), 0)])?],
        };
        rules.insert(call, rule);
    }
    Ok(rules)
}

fn for_python() -> Result<Rules, BackendError> {
    let mut rules = own_business()?;
    rules.extend(anyway(calls::BASE));
    rules.extend(anyway(calls::MISSING));
    rules.extend(anyway(calls::PYTHON));
    rules.extend(anyway(&[libc::SYS_mmap, libc::SYS_mprotect]));
    // What `asyncio` wakes itself with. A stream, because a datagram could be sent to somebody else.
    let stream = when(&[(0, Is::Eq, libc::AF_UNIX as u64), (1, Is::MaskedEq(SOCKET_KIND), libc::SOCK_STREAM as u64)])?;
    rules.insert(libc::SYS_socketpair, vec![stream]);
    let requests = calls::REQUESTS.into_iter().map(|request| when(&[(1, Is::Eq, request as u32 as u64)]));
    rules.insert(libc::SYS_ioctl, requests.collect::<Result<_, _>>()?);
    Ok(rules)
}

/// The bits of a socket's type that are not flags.
const SOCKET_KIND: u64 = 0xf;

/// Threads but no processes, signals and limits for nobody but itself, and a name.
fn own_business() -> Result<Rules, BackendError> {
    let own = u64::from(std::process::id());
    let thread = libc::CLONE_THREAD as u64;
    Ok(BTreeMap::from([
        (libc::SYS_clone, vec![when(&[(0, Is::MaskedEq(thread), thread)])?]),
        // Killed without a word is who took too much memory, and nobody else.
        (libc::SYS_kill, vec![when(&[(0, Is::Eq, own), (1, Is::Ne, libc::SIGKILL as u64)])?]),
        (libc::SYS_tgkill, vec![when(&[(0, Is::Eq, own), (2, Is::Ne, libc::SIGKILL as u64)])?]),
        (libc::SYS_prlimit64, vec![when(&[(0, Is::Eq, 0)])?]),
        (libc::SYS_prctl, calls::NAMING.iter().map(|option| when(&[(0, Is::Eq, *option)])).collect::<Result<_, _>>()?),
    ]))
}

fn anyway(calls: &[i64]) -> Rules {
    calls.iter().map(|call| (*call, vec![])).collect()
}

/// All of these arguments, compared by their lower half: none is a pointer, and the kernel ignores the upper.
fn when(arguments: &[(u8, Is, u64)]) -> Result<SeccompRule, BackendError> {
    let conditions = arguments
        .iter()
        .map(|(index, is, value)| SeccompCondition::new(*index, Width::Dword, is.clone(), *value))
        .collect::<Result<_, _>>()?;
    SeccompRule::new(conditions)
}
