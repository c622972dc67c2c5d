//! The seccomp filters on system calls.
//!
//! The rules are allow-lists, so calls that later kernels add are denied. In an embedded interpreter, a call that is
//! not allowed means that code escaped from the interpreter, so the process is killed. Calls that libraries make but do
//! not depend on, such as opening files, fail with an error instead. In CPython, a call that is not allowed fails with
//! `EPERM`, which Python raises as a `PermissionError` with a line number. The process is not killed, because the
//! standard library probes for many features, and authors of code should see why an operation failed.

use std::collections::BTreeMap;

use nix::libc;
use seccompiler::{
    BackendError, Error, SeccompAction, SeccompCmpArgLen as CmpArgLen, SeccompCmpOp as CmpOp, SeccompCondition,
    SeccompFilter, SeccompRule, TargetArch, apply_filter,
};

use super::syscalls;
use crate::Language;

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// Installs the filters on this thread and the threads that it starts. Returns false if the kernel does not support
/// filters.
pub(super) fn filter(language: Language) -> Result<bool, Error> {
    let Ok(arch) = TargetArch::try_from(std::env::consts::ARCH) else { return Ok(false) };
    let (rules, default_action) = match language {
        Language::CPython => (cpython_rules()?, SeccompAction::Errno(libc::EPERM as u32)),
        _ => (interpreter_rules(language)?, SeccompAction::KillProcess),
    };
    // On a kernel without seccomp, installing the first filter fails.
    if let Err(Error::Prctl(_) | Error::Seccomp(_)) = install(
        unconditional(syscalls::DENIED_WITH_ENOSYS),
        SeccompAction::Allow,
        SeccompAction::Errno(libc::ENOSYS as u32),
        arch,
    ) {
        return Ok(false);
    }
    install(rules, default_action, SeccompAction::Allow, arch)?;
    if language != Language::CPython {
        let denied = SeccompAction::Errno(libc::EPERM as u32);
        install(unconditional(syscalls::DENIED_WITH_EPERM), SeccompAction::Allow, denied, arch)?;
    }
    Ok(true)
}

fn install(
    rules: Rules,
    default_action: SeccompAction,
    match_action: SeccompAction,
    arch: TargetArch,
) -> Result<(), Error> {
    let filter = SeccompFilter::new(rules, default_action, match_action, arch)?;
    let program: seccompiler::BpfProgram = filter.try_into()?;
    apply_filter(&program)
}

fn interpreter_rules(language: Language) -> Result<Rules, BackendError> {
    let mut rules = restricted_calls()?;
    rules.extend(unconditional(syscalls::BASE));
    // This filter allows these calls, so that they do not kill the process. The other filters deny them with an error.
    rules.extend(unconditional(syscalls::DENIED_WITH_ENOSYS));
    rules.extend(unconditional(syscalls::DENIED_WITH_EPERM));
    for syscall in [libc::SYS_mmap, libc::SYS_mprotect] {
        let rule = match language {
            // The WASM runtime compiles to machine code, so it needs executable memory.
            Language::Wasm => vec![],
            _ => vec![matching(&[(2, CmpOp::MaskedEq(libc::PROT_EXEC as u64), 0)])?],
        };
        rules.insert(syscall, rule);
    }
    Ok(rules)
}

fn cpython_rules() -> Result<Rules, BackendError> {
    let mut rules = restricted_calls()?;
    rules.extend(unconditional(syscalls::BASE));
    rules.extend(unconditional(syscalls::DENIED_WITH_ENOSYS));
    rules.extend(unconditional(syscalls::PYTHON));
    rules.extend(unconditional(&[libc::SYS_mmap, libc::SYS_mprotect]));
    // `asyncio` wakes its event loop with a socket pair. Only stream sockets are allowed, because a datagram socket
    // could send to other addresses.
    let stream = matching(&[
        (0, CmpOp::Eq, libc::AF_UNIX as u64),
        (1, CmpOp::MaskedEq(SOCKET_TYPE_MASK), libc::SOCK_STREAM as u64),
    ])?;
    rules.insert(libc::SYS_socketpair, vec![stream]);
    let requests =
        syscalls::IOCTL_REQUESTS.into_iter().map(|request| matching(&[(1, CmpOp::Eq, request as u32 as u64)]));
    rules.insert(libc::SYS_ioctl, requests.collect::<Result<_, _>>()?);
    Ok(rules)
}

/// The bits of a socket's type without its flags.
const SOCKET_TYPE_MASK: u64 = 0xf;

/// Calls that are allowed only with certain arguments. A process may create threads but no processes. A process may
/// send signals only to itself, and set limits only for itself. It may set the names of threads and memory mappings.
fn restricted_calls() -> Result<Rules, BackendError> {
    let own = u64::from(std::process::id());
    let thread = libc::CLONE_THREAD as u64;
    Ok(BTreeMap::from([
        (libc::SYS_clone, vec![matching(&[(0, CmpOp::MaskedEq(thread), thread)])?]),
        // `SIGKILL` is not allowed, because the server would conclude that the kernel killed the process for exceeding
        // its memory limit.
        (libc::SYS_kill, vec![matching(&[(0, CmpOp::Eq, own), (1, CmpOp::Ne, libc::SIGKILL as u64)])?]),
        (libc::SYS_tgkill, vec![matching(&[(0, CmpOp::Eq, own), (2, CmpOp::Ne, libc::SIGKILL as u64)])?]),
        (libc::SYS_prlimit64, vec![matching(&[(0, CmpOp::Eq, 0)])?]),
        (
            libc::SYS_prctl,
            syscalls::PRCTL_OPTIONS
                .iter()
                .map(|option| matching(&[(0, CmpOp::Eq, *option)]))
                .collect::<Result<_, _>>()?,
        ),
    ]))
}

fn unconditional(syscalls: &[i64]) -> Rules {
    syscalls.iter().map(|syscall| (*syscall, vec![])).collect()
}

/// Returns a rule that matches if all arguments match. It compares their lower 32 bits: no argument is a pointer, and
/// the kernel ignores the upper bits.
fn matching(arguments: &[(u8, CmpOp, u64)]) -> Result<SeccompRule, BackendError> {
    let conditions = arguments
        .iter()
        .map(|(index, operator, value)| SeccompCondition::new(*index, CmpArgLen::Dword, operator.clone(), *value))
        .collect::<Result<_, _>>()?;
    SeccompRule::new(conditions)
}
