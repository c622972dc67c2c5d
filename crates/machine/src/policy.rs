//! The policy of an agent: which tools it may call, and under which constraints. `agent/decide.rs` applies the policy
//! to a call.

use std::collections::BTreeSet;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use toolwright_types::{GuardrailConfig, SideEffects, UnknownOutcome};

use crate::filter::ContentFilter;
use crate::is_default;
use crate::limits::Limits;

/// The policy of an agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Policy {
    /// The names of the tools that the agent may call.
    pub enabled_tools: BTreeSet<String>,
    /// The strongest side effects that a tool of this agent may have. With `reads`, the agent is read-only.
    pub side_effects: SideEffects,
    /// Whether every write needs approval.
    #[serde(default, skip_serializing_if = "is_default")]
    pub requires_approval: bool,
    /// Whether the request that started the run confirmed its calls. If so, a tool's `requiresConfirmation` requires no
    /// further approval.
    #[serde(default, skip_serializing_if = "is_default")]
    pub confirmed: bool,
    /// What happens with a call whose outcome is unknown: it is reported to the model, or a person decides whether to
    /// repeat it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub unknown_outcome: UnknownOutcome,
    /// Whether the run captures calls. A capturing run does not execute calls that write, run on the client, or need
    /// approval.
    #[serde(default, skip_serializing_if = "is_default")]
    pub capture_writes: bool,
    /// The realm that the agent acts in.
    pub realm: String,
    /// Further constraints; all of them apply.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub guardrails: Vec<Guardrail>,
}

impl Policy {
    /// Creates a policy that allows these tools in a realm, without other constraints.
    pub fn allowing<T: Into<String>>(realm: &str, tools: impl IntoIterator<Item = T>) -> Self {
        Self {
            enabled_tools: tools.into_iter().map(Into::into).collect(),
            side_effects: SideEffects::Writes,
            requires_approval: false,
            confirmed: false,
            unknown_outcome: UnknownOutcome::Model,
            capture_writes: false,
            realm: realm.to_owned(),
            guardrails: Vec::new(),
        }
    }

    /// Whether the agent may call this tool. Names are compared case-insensitively.
    pub fn allows(&self, tool: &str) -> bool {
        contains_ignoring_case(&self.enabled_tools, tool)
    }

    /// Returns `limits`, tightened by the guardrails.
    pub(crate) fn tighten_limits(&self, limits: Limits) -> Limits {
        self.guardrails.iter().fold(limits, |limits, guardrail| match guardrail {
            Guardrail::MaxCost { max_cost_usd } => {
                limits.tightest(Limits { max_cost_usd: Some(*max_cost_usd), ..limits })
            }
            _ => limits,
        })
    }
}

/// A safety constraint, serialized as `{"type", "parameters"}`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "GuardrailConfig", into = "GuardrailConfig")]
pub enum Guardrail {
    /// Limits the cost of the run.
    MaxCost {
        /// The maximum cost in US dollars.
        max_cost_usd: f64,
    },
    /// Forbids deletions.
    NoDelete,
    /// Requires confirmation for calls to the listed tools, and for calls with at least these side effects. If neither
    /// is given, every call requires confirmation.
    RequireConfirmation {
        /// The tools that need confirmation.
        tools: BTreeSet<String>,
        /// Every tool with at least these side effects needs confirmation.
        side_effects: Option<SideEffects>,
    },
    /// Blocks words and patterns in inputs and outputs.
    ContentFilter(ContentFilter),
    /// Restricts calls to the realm of the run and the listed realms.
    RealmBoundary {
        /// The allowed realms in addition to the realm of the run.
        realms: BTreeSet<String>,
    },
}

impl Guardrail {
    /// Whether this guardrail requires confirmation for a call to this tool.
    pub fn requires_confirmation_for(&self, tool: &str, effects: SideEffects) -> bool {
        let Guardrail::RequireConfirmation { tools, side_effects } = self else {
            return false;
        };
        let every = tools.is_empty() && side_effects.is_none();
        every || contains_ignoring_case(tools, tool) || side_effects.is_some_and(|from| effects >= from)
    }
}

/// A setting that requires approval for a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalTrigger {
    /// The tool's `requiresConfirmation`.
    Tool,
    /// The agent's `requiresApproval`.
    Agent,
    /// A `require_confirmation` guardrail.
    Guardrail,
    /// The agent's `onUnknownOutcome`. The call may already have been executed.
    UnknownOutcome,
}

impl ApprovalTrigger {
    /// The name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            ApprovalTrigger::Tool => "tool",
            ApprovalTrigger::Agent => "agent",
            ApprovalTrigger::Guardrail => "guardrail",
            ApprovalTrigger::UnknownOutcome => "unknown_outcome",
        }
    }
}

/// The reason why a guardrail is invalid.
#[derive(Debug, thiserror::Error)]
pub enum InvalidGuardrail {
    /// The guardrail type does not exist.
    #[error(
        "guardrail `{0}` does not exist; use max_cost, no_delete, require_confirmation, content_filter or realm_boundary"
    )]
    Unknown(String),
    /// The parameters are invalid.
    #[error("guardrail `{kind}` has invalid parameters: {problem}")]
    Parameters {
        /// The guardrail type.
        kind: String,
        /// The problem with the parameters.
        problem: String,
    },
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct MaxCostParameters {
    max_cost_usd: f64,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
struct ConfirmationParameters {
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    tools: BTreeSet<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    side_effects: Option<SideEffects>,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
struct RealmParameters {
    realms: BTreeSet<String>,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct NoParameters {}

impl TryFrom<GuardrailConfig> for Guardrail {
    type Error = InvalidGuardrail;

    fn try_from(config: GuardrailConfig) -> Result<Self, InvalidGuardrail> {
        match config.kind.as_str() {
            "max_cost" => parse_parameters(config).and_then(max_cost),
            "no_delete" => parse_parameters(config).map(|NoParameters {}| Guardrail::NoDelete),
            "require_confirmation" => parse_parameters(config).map(|ConfirmationParameters { tools, side_effects }| {
                Guardrail::RequireConfirmation { tools, side_effects }
            }),
            "content_filter" => parse_parameters(config).map(Guardrail::ContentFilter),
            "realm_boundary" => {
                parse_parameters(config).map(|RealmParameters { realms }| Guardrail::RealmBoundary { realms })
            }
            _ => Err(InvalidGuardrail::Unknown(config.kind)),
        }
    }
}

fn max_cost(MaxCostParameters { max_cost_usd }: MaxCostParameters) -> Result<Guardrail, InvalidGuardrail> {
    if max_cost_usd.is_finite() && max_cost_usd > 0.0 {
        return Ok(Guardrail::MaxCost { max_cost_usd });
    }
    Err(InvalidGuardrail::Parameters { kind: "max_cost".into(), problem: "`maxCostUsd` must be greater than 0".into() })
}

fn parse_parameters<T: DeserializeOwned>(config: GuardrailConfig) -> Result<T, InvalidGuardrail> {
    serde_json::from_value(Value::Object(config.parameters))
        .map_err(|error| InvalidGuardrail::Parameters { kind: config.kind, problem: error.to_string() })
}

impl From<Guardrail> for GuardrailConfig {
    fn from(guardrail: Guardrail) -> Self {
        match guardrail {
            Guardrail::MaxCost { max_cost_usd } => to_config("max_cost", MaxCostParameters { max_cost_usd }),
            Guardrail::NoDelete => to_config("no_delete", NoParameters {}),
            Guardrail::RequireConfirmation { tools, side_effects } => {
                to_config("require_confirmation", ConfirmationParameters { tools, side_effects })
            }
            Guardrail::ContentFilter(filter) => to_config("content_filter", filter),
            Guardrail::RealmBoundary { realms } => to_config("realm_boundary", RealmParameters { realms }),
        }
    }
}

fn to_config(kind: &str, parameters: impl Serialize) -> GuardrailConfig {
    let parameters = match serde_json::to_value(parameters) {
        Ok(Value::Object(fields)) => fields,
        _ => Map::new(),
    };
    GuardrailConfig { kind: kind.to_owned(), parameters }
}

/// Whether a tool is assumed to delete data: its HTTP method is DELETE, or its name contains `delete`.
pub fn is_delete_tool(tool: &str, method: Option<&str>) -> bool {
    method.is_some_and(|method| method.eq_ignore_ascii_case("DELETE")) || tool.to_ascii_lowercase().contains("delete")
}

fn contains_ignoring_case(names: &BTreeSet<String>, name: &str) -> bool {
    names.contains(name) || names.iter().any(|known| known.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_guardrail_serializes_to_type_and_parameters_and_back() {
        for written in [
            json!({ "type": "max_cost", "parameters": { "maxCostUsd": 0.5 } }),
            json!({ "type": "no_delete" }),
            json!({ "type": "require_confirmation" }),
            json!({ "type": "require_confirmation", "parameters": { "tools": ["a"], "sideEffects": "writes" } }),
            json!({ "type": "content_filter", "parameters": { "words": ["x"], "patterns": [], "appliesTo": "both" } }),
            json!({ "type": "realm_boundary", "parameters": { "realms": ["a", "b"] } }),
        ] {
            let guardrail: Guardrail = serde_json::from_value(written.clone()).unwrap();
            assert_eq!(serde_json::to_value(guardrail).unwrap(), written);
        }
    }

    #[test]
    fn invalid_guardrail_is_rejected_with_an_explanation() {
        for (bad, because) in [
            (json!({ "type": "max_costs" }), "guardrail `max_costs` does not exist"),
            (json!({ "type": "max_cost" }), "maxCostUsd"),
            (json!({ "type": "no_delete", "parameters": { "x": 1 } }), "unknown field `x`"),
            (json!({ "type": "content_filter", "parameters": { "patterns": ["("] } }), "does not compile"),
            (json!({ "type": "require_confirmation", "parameters": { "tool": "a" } }), "unknown field `tool`"),
        ] {
            let error = serde_json::from_value::<Guardrail>(bad.clone()).unwrap_err().to_string();
            assert!(error.contains(because), "{bad}: {error}");
        }
    }

    #[test]
    fn tool_deletes_if_its_http_method_is_delete_or_its_name_contains_delete() {
        assert!(is_delete_tool("orders", Some("delete")) && is_delete_tool("crm/Delete-deal", None));
        assert!(!is_delete_tool("orders", Some("POST")) && !is_delete_tool("list", None));
    }
}
