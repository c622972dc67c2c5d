//! The parts that workflows share: step registrations and condition bindings.

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

use crate::RefName;
use crate::nullable::{null_as_true, skip_null_entries};

/// A tool under a name of the workflow vocabulary, with mappings of its input and output.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StepRegistration {
    /// The name that steps use as `handlerRef`.
    #[serde(alias = "refName")]
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub name: RefName,
    /// The tool, which may have a version requirement: `search_deals@^1.2`.
    pub tool_ref: String,
    /// What a step with this name does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The input of the tool, by field: a text or an expression over the input of the step. A field that the step sets
    /// itself has precedence.
    #[serde(default, deserialize_with = "skip_null_entries", skip_serializing_if = "IndexMap::is_empty")]
    #[cfg_attr(feature = "openapi", schema(value_type = std::collections::BTreeMap<String, String>))]
    pub input_mapping: IndexMap<String, String>,
    /// The output of the step, by field: a text or an expression over `output`, the output of the tool. Default: the
    /// output of the tool.
    #[serde(default, deserialize_with = "skip_null_entries", skip_serializing_if = "IndexMap::is_empty")]
    #[cfg_attr(feature = "openapi", schema(value_type = std::collections::BTreeMap<String, String>))]
    pub output_mapping: IndexMap<String, String>,
    /// Whether steps may use the registration.
    #[serde(default = "default_true", deserialize_with = "null_as_true")]
    pub enabled: bool,
}

/// A named condition that steps of several workflows use as `conditionRef`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ConditionBinding {
    /// The name of the condition.
    #[serde(alias = "refName")]
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub name: RefName,
    /// What the condition means.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// An expression over the names that a step can read: `input`, outputs of steps, `item` and `index`.
    pub condition: String,
}

fn default_true() -> bool {
    true
}
