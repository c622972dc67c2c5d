//! What an agent may do, as data. The decision itself is in `agent/decide.rs`.

use std::collections::BTreeSet;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use toolwright_types::{GuardrailConfig, SideEffects, UnknownOutcome};

use crate::filter::ContentFilter;
use crate::limits::Limits;

/// What an agent may do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Policy {
    /// The only tools it may call, by name.
    pub enabled_tools: BTreeSet<String>,
    /// The strongest effects a tool of it may have; `reads` makes a read-only agent.
    pub side_effects: SideEffects,
    /// Whether a person must agree before anything is changed.
    pub requires_approval: bool,
    /// Whether whoever asked for the run has agreed to its calls by that.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub confirmed: bool,
    /// Who hears of a call of which nobody knows whether it was made.
    #[serde(default, skip_serializing_if = "is_default")]
    pub unknown_outcome: UnknownOutcome,
    /// Whether nothing may be changed, nobody asked and nothing handed out: such calls end without being made.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub captures: bool,
    /// The realm it acts in.
    pub realm: String,
    /// Further constraints; all of them hold.
    pub guardrails: Vec<Guardrail>,
}

fn is_default(who: &UnknownOutcome) -> bool {
    *who == UnknownOutcome::default()
}

impl Policy {
    /// An agent of this realm that may call these tools and is not constrained otherwise.
    pub fn allowing<T: Into<String>>(realm: &str, tools: impl IntoIterator<Item = T>) -> Self {
        Self {
            enabled_tools: tools.into_iter().map(Into::into).collect(),
            side_effects: SideEffects::Writes,
            requires_approval: false,
            confirmed: false,
            unknown_outcome: UnknownOutcome::Model,
            captures: false,
            realm: realm.to_owned(),
            guardrails: Vec::new(),
        }
    }

    /// Whether this tool is on the list; case does not distinguish names.
    pub fn enables(&self, tool: &str) -> bool {
        contains(&self.enabled_tools, tool)
    }

    /// `limits`, or less where a guardrail says so.
    pub(crate) fn tighten(&self, limits: Limits) -> Limits {
        self.guardrails.iter().fold(limits, |limits, guardrail| match guardrail {
            Guardrail::MaxCost { max_cost_usd } => {
                limits.tightest(Limits { max_cost_usd: Some(*max_cost_usd), ..limits })
            }
            _ => limits,
        })
    }
}

/// A safety constraint, written as `{"type", "parameters"}`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "GuardrailConfig", into = "GuardrailConfig")]
pub enum Guardrail {
    /// The run may not cost more.
    MaxCost {
        /// The most it may cost.
        max_cost_usd: f64,
    },
    /// Nothing may be deleted.
    NoDelete,
    /// A person must agree; to every call when neither tools nor effects are named.
    RequireConfirmation {
        /// Tools this holds for.
        tools: BTreeSet<String>,
        /// Effects from which on it holds for any tool.
        side_effects: Option<SideEffects>,
    },
    /// Some words and patterns may neither go in nor come out.
    ContentFilter(ContentFilter),
    /// A call may only touch the run's own realm and these.
    RealmBoundary {
        /// Realms beside the run's own.
        realms: BTreeSet<String>,
    },
}

impl Guardrail {
    /// Whether a person must agree to a call of this tool because of this guardrail.
    pub fn wants_confirmation(&self, tool: &str, effects: SideEffects) -> bool {
        let Guardrail::RequireConfirmation { tools, side_effects } = self else {
            return false;
        };
        let every = tools.is_empty() && side_effects.is_none();
        every || contains(tools, tool) || side_effects.is_some_and(|from| effects >= from)
    }
}

/// Which of the knobs asks for a confirmation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Knob {
    /// The tool's `requiresConfirmation`.
    Tool,
    /// The agent's `requiresApproval`.
    Agent,
    /// A guardrail `require_confirmation`.
    Guardrail,
    /// The agent's `onUnknownOutcome`: the call may have been made before.
    UnknownOutcome,
}

impl Knob {
    /// The knob's word on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Knob::Tool => "tool",
            Knob::Agent => "agent",
            Knob::Guardrail => "guardrail",
            Knob::UnknownOutcome => "unknown_outcome",
        }
    }
}

/// Why a guardrail cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum InvalidGuardrail {
    /// No such type.
    #[error(
        "no guardrail `{0}`; there are max_cost, no_delete, require_confirmation, content_filter and realm_boundary"
    )]
    Unknown(String),
    /// Its parameters do not fit.
    #[error("parameters of guardrail `{kind}`: {problem}")]
    Parameters {
        /// The guardrail's type.
        kind: String,
        /// What does not fit.
        problem: String,
    },
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct MaxCost {
    max_cost_usd: f64,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
struct Confirmation {
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    tools: BTreeSet<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    side_effects: Option<SideEffects>,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
struct Realms {
    realms: BTreeSet<String>,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Nothing {}

impl TryFrom<GuardrailConfig> for Guardrail {
    type Error = InvalidGuardrail;

    fn try_from(config: GuardrailConfig) -> Result<Self, InvalidGuardrail> {
        match config.kind.as_str() {
            "max_cost" => read(config).and_then(max_cost),
            "no_delete" => read(config).map(|Nothing {}| Guardrail::NoDelete),
            "require_confirmation" => read(config)
                .map(|Confirmation { tools, side_effects }| Guardrail::RequireConfirmation { tools, side_effects }),
            "content_filter" => read(config).map(Guardrail::ContentFilter),
            "realm_boundary" => read(config).map(|Realms { realms }| Guardrail::RealmBoundary { realms }),
            _ => Err(InvalidGuardrail::Unknown(config.kind)),
        }
    }
}

fn max_cost(MaxCost { max_cost_usd }: MaxCost) -> Result<Guardrail, InvalidGuardrail> {
    if max_cost_usd.is_finite() && max_cost_usd > 0.0 {
        return Ok(Guardrail::MaxCost { max_cost_usd });
    }
    Err(InvalidGuardrail::Parameters { kind: "max_cost".into(), problem: "maxCostUsd must be more than 0".into() })
}

fn read<T: DeserializeOwned>(config: GuardrailConfig) -> Result<T, InvalidGuardrail> {
    serde_json::from_value(Value::Object(config.parameters))
        .map_err(|error| InvalidGuardrail::Parameters { kind: config.kind, problem: error.to_string() })
}

impl From<Guardrail> for GuardrailConfig {
    fn from(guardrail: Guardrail) -> Self {
        match guardrail {
            Guardrail::MaxCost { max_cost_usd } => write("max_cost", MaxCost { max_cost_usd }),
            Guardrail::NoDelete => write("no_delete", Nothing {}),
            Guardrail::RequireConfirmation { tools, side_effects } => {
                write("require_confirmation", Confirmation { tools, side_effects })
            }
            Guardrail::ContentFilter(filter) => write("content_filter", filter),
            Guardrail::RealmBoundary { realms } => write("realm_boundary", Realms { realms }),
        }
    }
}

fn write(kind: &str, parameters: impl Serialize) -> GuardrailConfig {
    let parameters = match serde_json::to_value(parameters) {
        Ok(Value::Object(fields)) => fields,
        _ => Map::new(),
    };
    GuardrailConfig { kind: kind.to_owned(), parameters }
}

/// Whether a tool deletes: by its HTTP method, or because its name says so.
pub fn means_delete(tool: &str, method: Option<&str>) -> bool {
    method.is_some_and(|method| method.eq_ignore_ascii_case("DELETE")) || tool.to_ascii_lowercase().contains("delete")
}

fn contains(names: &BTreeSet<String>, name: &str) -> bool {
    names.contains(name) || names.iter().any(|known| known.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_guardrail_reads_and_writes_as_type_and_parameters() {
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
    fn a_guardrail_that_cannot_work_is_refused_by_name() {
        for (bad, because) in [
            (json!({ "type": "max_costs" }), "no guardrail `max_costs`"),
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
    fn deletion_is_known_by_method_or_name() {
        assert!(means_delete("orders", Some("delete")) && means_delete("crm/Delete-deal", None));
        assert!(!means_delete("orders", Some("POST")) && !means_delete("list", None));
    }
}
