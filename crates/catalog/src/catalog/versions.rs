//! Selects the version of a tool that a version requirement asks for.

use std::sync::Arc;

use semver::VersionReq;
use toolwright_tools::CompiledTool;
use toolwright_types::ToolStatus;

/// Selects a version of a tool. `versions` must be sorted, highest first. Without a requirement, every version matches.
///
/// A requirement such as `=1.2.3` selects exactly that version, whatever its status; the executor rejects a blocked
/// version later. Any other requirement selects the highest matching active version. If no active version matches, it
/// selects the highest matching deprecated version. If no deprecated version matches either, it selects the highest
/// matching blocked version. Only a requirement with the exact version selects a draft.
pub fn select_version<'a>(
    versions: &'a [Arc<CompiledTool>],
    requirement: Option<&VersionReq>,
) -> Option<&'a Arc<CompiledTool>> {
    let matches = |tool: &&Arc<CompiledTool>| requirement.is_none_or(|req| req.matches(&tool.definition.version));
    if let Some(exact) = requirement.and_then(exact_version) {
        return versions.iter().find(|tool| tool.definition.version == exact);
    }
    [ToolStatus::Active, ToolStatus::Deprecated, ToolStatus::Blocked]
        .into_iter()
        .find_map(|status| versions.iter().filter(matches).find(|tool| tool.definition.status == status))
}

/// Returns the version in a requirement such as `=1.2.3`; `None` for any other requirement.
fn exact_version(requirement: &VersionReq) -> Option<semver::Version> {
    match requirement.comparators.as_slice() {
        [one] if one.op == semver::Op::Exact => {
            let mut version = semver::Version::new(one.major, one.minor?, one.patch?);
            version.pre = one.pre.clone();
            Some(version)
        }
        _ => None,
    }
}
