//! The facts of a prepared call, as the driver reports them: what the machine decides on.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use toolwright_types::{ExecutionSite, ResolvedInput, SideEffects, ToolEnvelope};

/// How much of an output a model sees when its tool says nothing about it.
pub const MODEL_OUTPUT_BYTES: u64 = 32_000;

/// What became of the first half of a call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Prepared {
    /// It can be made.
    Ready(Box<Facts>),
    /// It cannot, and this receipt says why. Its `call_id` and `input` are the machine's to set.
    Refused(Box<ToolEnvelope>),
}

/// What is known about a call that can be made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Facts {
    /// The tool's own name.
    pub name: String,
    /// The version that would run.
    pub version: String,
    /// The hash of exactly this definition.
    pub definition_hash: String,
    /// What the tool does to the world.
    pub effects: SideEffects,
    /// Whether doing it twice is doing it once.
    #[serde(default)]
    pub idempotent: bool,
    /// Whether somebody can be asked if it was done.
    #[serde(default, skip_serializing_if = "is_false")]
    pub verifiable: bool,
    /// Whether it deletes something.
    #[serde(default)]
    pub deletes: bool,
    /// Whether the tool itself asks for a confirmation.
    #[serde(default)]
    pub requires_confirmation: bool,
    /// Who performs the final step.
    pub execution_site: ExecutionSite,
    /// The realms whose data the call would touch.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub realms: BTreeSet<String>,
    /// Calls of one reply that share a key run one after the other, in the order they were asked for.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub order_keys: BTreeSet<String>,
    /// How much of the output the model sees.
    #[serde(default = "model_output_bytes")]
    pub model_output_bytes: u64,
    /// The principal on whose authority it would run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub principal: Option<String>,
    /// The policy that permits it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy_id: Option<String>,
    /// Names in the input for which the tool gets ids, by field. What was looked up once is not looked up again.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub resolved_inputs: BTreeMap<String, ResolvedInput>,
}

impl Facts {
    /// Facts of a tool that runs on this server and of which nothing special is known.
    pub fn new(name: &str, version: &str, definition_hash: &str, effects: SideEffects) -> Self {
        Self {
            name: name.to_owned(),
            version: version.to_owned(),
            definition_hash: definition_hash.to_owned(),
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
        }
    }
}

impl Prepared {
    /// The tool's name and version; the version is empty when the tool is not known.
    pub(super) fn tool(&self) -> (&str, &str) {
        match self {
            Prepared::Ready(facts) => (&facts.name, &facts.version),
            Prepared::Refused(envelope) => (&envelope.name, &envelope.version),
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
fn is_false(answer: &bool) -> bool {
    !answer
}

fn model_output_bytes() -> u64 {
    MODEL_OUTPUT_BYTES
}
