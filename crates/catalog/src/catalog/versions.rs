//! Selects the version of a tool, an agent or a workflow that a version requirement asks for.

use std::sync::Arc;

use semver::{Version, VersionReq};
use toolwright_tools::CompiledTool;
use toolwright_types::{AgentDefinition, Document, ToolStatus, WorkflowDefinition};

/// A definition with a version and a life cycle.
pub trait Versioned {
    /// The version.
    fn version(&self) -> &Version;

    /// The life cycle status of the version.
    fn status(&self) -> ToolStatus;
}

impl Versioned for Arc<CompiledTool> {
    fn version(&self) -> &Version {
        &self.definition.version
    }

    fn status(&self) -> ToolStatus {
        self.definition.status
    }
}

impl Versioned for Document<AgentDefinition> {
    fn version(&self) -> &Version {
        &self.body.version
    }

    fn status(&self) -> ToolStatus {
        self.body.status
    }
}

impl Versioned for Document<WorkflowDefinition> {
    fn version(&self) -> &Version {
        &self.body.version
    }

    fn status(&self) -> ToolStatus {
        self.body.status
    }
}

/// Selects a version of a definition. `versions` must be sorted, highest first. Without a requirement, every version
/// matches.
///
/// A requirement such as `=1.2.3` selects exactly that version, whatever its status; a blocked version is rejected
/// later. Any other requirement selects the highest matching active version. If no active version matches, it selects
/// the highest matching deprecated version. If no deprecated version matches either, it selects the highest matching
/// blocked version. Only a requirement with the exact version selects a draft.
pub fn select_version<'a, T: Versioned>(versions: &'a [T], requirement: Option<&VersionReq>) -> Option<&'a T> {
    let matches = |one: &&T| requirement.is_none_or(|req| req.matches(one.version()));
    if let Some(exact) = requirement.and_then(exact_version) {
        return versions.iter().find(|one| *one.version() == exact);
    }
    [ToolStatus::Active, ToolStatus::Deprecated, ToolStatus::Blocked]
        .into_iter()
        .find_map(|status| versions.iter().filter(matches).find(|one| one.status() == status))
}

/// Returns the version in a requirement such as `=1.2.3`; `None` for any other requirement.
fn exact_version(requirement: &VersionReq) -> Option<Version> {
    match requirement.comparators.as_slice() {
        [one] if one.op == semver::Op::Exact => {
            let mut version = Version::new(one.major, one.minor?, one.patch?);
            version.pre = one.pre.clone();
            Some(version)
        }
        _ => None,
    }
}
