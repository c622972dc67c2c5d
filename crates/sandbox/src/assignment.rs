//! What a worker is told when it is started.

use serde::{Deserialize, Serialize};

use crate::{Language, Mechanism, Python};

/// What a worker is for. It is the last argument of its command line, as JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Assignment {
    /// What it runs.
    pub language: Language,
    /// The most memory that any of its jobs may use.
    pub memory: u64,
    /// The installation, for [`Language::CPython`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub python: Option<Python>,
    /// What it does without, as on a kernel that lacks it. For tests.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub without: Vec<Mechanism>,
}
