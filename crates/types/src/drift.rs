//! Drift: differences between a tool's output schema and the output that the tool returned.

use serde::{Deserialize, Serialize};

/// One difference between an output schema and an output.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "openapi", schema(as = Difference))]
pub struct SchemaDifference {
    /// The location as a JSON pointer, with `*` for any item of a list.
    pub path: String,
    /// The kind of difference.
    pub change: DifferenceKind,
    /// The expected type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected: Option<String>,
    /// The type that was found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub found: Option<String>,
}

/// The kinds of differences.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "openapi", schema(as = Change))]
pub enum DifferenceKind {
    /// A required field is missing.
    Missing,
    /// A field is not in the schema.
    Added,
    /// The type differs.
    Type,
    /// The type matches, but the value violates the schema.
    Value,
}

impl SchemaDifference {
    /// Creates a difference.
    pub fn new(path: String, change: DifferenceKind, expected: Option<&str>, found: Option<&str>) -> Self {
        Self { path, change, expected: expected.map(str::to_owned), found: found.map(str::to_owned) }
    }
}
