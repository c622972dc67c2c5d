//! The result of preparing a call. The machine needs it to decide whether the call may run.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use toolwright_types::{ExecutionSite, ResolvedInput, SideEffects, ToolEnvelope};

use crate::is_default;

/// The default limit for the output that a model sees, in bytes.
pub const MODEL_OUTPUT_BYTES: u64 = 32_000;

/// The result of preparing a call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PreparedCall {
    /// The call can be executed.
    Ready(Box<CallFacts>),
    /// The call was refused. The machine replaces the `call_id` and `input` of this envelope.
    Refused(Box<ToolEnvelope>),
}

/// The facts about a call that can be executed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CallFacts {
    /// The name of the tool.
    pub name: String,
    /// The version that would run.
    pub version: String,
    /// The hash of the exact definition.
    pub definition_hash: String,
    /// The hash of all definitions that decide what the call does: of the tool, its provider, its fallbacks, its verify
    /// operation and the tools that its code may call. Absent for a tool that refers to no other definition, in
    /// journals of earlier releases, and in direct calls, which need no approval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closure_hash: Option<String>,
    /// The side effects of the tool.
    pub effects: SideEffects,
    /// Whether executing the call twice has the same effect as executing it once.
    #[serde(default, skip_serializing_if = "is_default")]
    pub idempotent: bool,
    /// Whether the tool has a verify operation.
    #[serde(default, skip_serializing_if = "is_default")]
    pub verifiable: bool,
    /// Whether the call deletes something.
    #[serde(default, skip_serializing_if = "is_default")]
    pub deletes: bool,
    /// Whether the tool definition requires confirmation.
    #[serde(default, skip_serializing_if = "is_default")]
    pub requires_confirmation: bool,
    /// Where the final part of the call runs.
    #[serde(default, skip_serializing_if = "is_default")]
    pub execution_site: ExecutionSite,
    /// The realms whose data the call would read or write.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub realms: BTreeSet<String>,
    /// The order keys of the call. Calls of one reply that have a key in common run one after the other, in call order.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub order_keys: BTreeSet<String>,
    /// The limit for the output that the model sees, in bytes.
    #[serde(default = "default_model_output_bytes", skip_serializing_if = "is_default_model_output_bytes")]
    pub model_output_bytes: u64,
    /// The principal whose permissions apply to the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub principal: Option<String>,
    /// The policy that permits the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy_id: Option<String>,
    /// The ids that replace names of reference data in the input, by field. The execution uses these ids and does not
    /// look the names up again.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub resolved_inputs: BTreeMap<String, ResolvedInput>,
    /// The price of the call in US dollars, if it is known before the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price_usd: Option<f64>,
}

impl CallFacts {
    /// Creates the facts of a call to a tool that runs on this server. All other fields have their defaults.
    pub fn new(name: &str, version: &str, definition_hash: &str, effects: SideEffects) -> Self {
        Self {
            name: name.to_owned(),
            version: version.to_owned(),
            definition_hash: definition_hash.to_owned(),
            closure_hash: None,
            effects,
            idempotent: false,
            verifiable: false,
            deletes: false,
            requires_confirmation: false,
            execution_site: ExecutionSite::Server,
            realms: BTreeSet::new(),
            order_keys: BTreeSet::new(),
            model_output_bytes: MODEL_OUTPUT_BYTES,
            principal: None,
            policy_id: None,
            resolved_inputs: BTreeMap::new(),
            price_usd: None,
        }
    }
}

impl PreparedCall {
    /// The name and version of the tool; the version is empty if the tool is unknown.
    pub(super) fn tool(&self) -> (&str, &str) {
        match self {
            PreparedCall::Ready(facts) => (&facts.name, &facts.version),
            PreparedCall::Refused(envelope) => (&envelope.name, &envelope.version),
        }
    }
}

fn default_model_output_bytes() -> u64 {
    MODEL_OUTPUT_BYTES
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_default_model_output_bytes(bytes: &u64) -> bool {
    *bytes == MODEL_OUTPUT_BYTES
}
