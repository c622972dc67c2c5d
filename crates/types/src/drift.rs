//! Differences between what a system returns and what its tool says it returns.

use serde::{Deserialize, Serialize};

/// One difference.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Difference {
    /// Where, as a JSON pointer in which `*` stands for any item of a list.
    pub path: String,
    /// What kind.
    pub change: Change,
    /// What was promised.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected: Option<String>,
    /// What is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub found: Option<String>,
}

/// A kind of difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Change {
    /// A field that must be there is not.
    Missing,
    /// A field that nobody spoke of.
    Added,
    /// Another type.
    Type,
    /// The right type, and still not what was promised.
    Value,
}

impl Difference {
    /// A difference at a place.
    pub fn new(path: String, change: Change, expected: Option<&str>, found: Option<&str>) -> Self {
        Self { path, change, expected: expected.map(str::to_owned), found: found.map(str::to_owned) }
    }
}
