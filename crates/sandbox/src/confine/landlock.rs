//! No files but those that are named, no TCP, and no signals to others.

use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, LandlockStatus, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetError,
    RulesetStatus, Scope, path_beneath_rules,
};

/// Rules that this version knows. A kernel that knows fewer enforces what it can.
const KNOWN: ABI = ABI::V6;

/// Where dynamic loaders are, by architecture and C library. Those that are not there are passed over.
const LOADERS: [&str; 4] = [
    "/lib64/ld-linux-x86-64.so.2",
    "/lib/ld-linux-aarch64.so.1",
    "/lib/ld-musl-x86_64.so.1",
    "/lib/ld-musl-aarch64.so.1",
];

/// Lays the rules on this thread. Gives the version of Landlock; 0 if the kernel has none.
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
        // To the kernel they are programs too.
        programs.extend(LOADERS.iter().map(Path::new));
    }
    let everything: BitFlags<AccessFs> = AccessFs::from_all(KNOWN) & !BitFlags::from(AccessFs::Execute);
    let status = Ruleset::default()
        .handle_access(AccessFs::from_all(KNOWN))?
        .handle_access(AccessNet::from_all(KNOWN))?
        .scope(Scope::from_all(KNOWN))?
        .create()?
        .add_rules(path_beneath_rules(readable, read))?
        .add_rules(path_beneath_rules(programs, execute))?
        .add_rules(path_beneath_rules(scratch, everything))?
        .restrict_self()?;
    Ok(match (status.ruleset, status.landlock) {
        (RulesetStatus::NotEnforced, _) => 0,
        (_, LandlockStatus::Available { effective_abi, .. }) => effective_abi as u32,
        _ => 0,
    })
}
