//! Landlock rules: a worker can access only listed files. It cannot use TCP, and it cannot reach other processes by
//! signals or abstract sockets.

use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, LandlockStatus, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetError,
    RulesetStatus, Scope, path_beneath_rules,
};

/// The Landlock version whose rules are requested. An older kernel enforces the rules that it knows.
const REQUESTED_ABI: ABI = ABI::V6;

/// The dynamic loaders, by architecture and C library. Missing files are skipped.
const LOADERS: [&str; 4] = [
    "/lib64/ld-linux-x86-64.so.2",
    "/lib/ld-linux-aarch64.so.1",
    "/lib/ld-musl-x86_64.so.1",
    "/lib/ld-musl-aarch64.so.1",
];

/// Applies the rules to this thread. Returns the enforced version of Landlock, or 0 if the kernel has none.
pub(super) fn restrict(
    readable: &[PathBuf],
    executable: Option<&Path>,
    scratch: Option<&str>,
) -> Result<u32, RulesetError> {
    let read = AccessFs::ReadFile | AccessFs::ReadDir;
    let execute = read | AccessFs::Execute;
    let mut programs = Vec::new();
    if let Some(executable) = executable {
        programs.push(executable);
        // The kernel requires execute permission for the loader, too.
        programs.extend(LOADERS.iter().map(Path::new));
    }
    let all_but_execute: BitFlags<AccessFs> = AccessFs::from_all(REQUESTED_ABI) & !BitFlags::from(AccessFs::Execute);
    let status = Ruleset::default()
        .handle_access(AccessFs::from_all(REQUESTED_ABI))?
        .handle_access(AccessNet::from_all(REQUESTED_ABI))?
        .scope(Scope::from_all(REQUESTED_ABI))?
        .create()?
        .add_rules(path_beneath_rules(readable, read))?
        .add_rules(path_beneath_rules(programs, execute))?
        .add_rules(path_beneath_rules(scratch, all_but_execute))?
        .restrict_self()?;
    Ok(match (status.ruleset, status.landlock) {
        (RulesetStatus::NotEnforced, _) => 0,
        (_, LandlockStatus::Available { effective_abi, .. }) => effective_abi as u32,
        _ => 0,
    })
}
