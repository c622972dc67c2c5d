//! The definitions of triggers, which start runs, and of webhooks, which report events to other systems.

mod webhook;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::RefName;
use crate::nullable::{null_as_default, null_as_true};

pub use webhook::{WebhookDefinition, WebhookEvent};

/// A trigger: starts an agent, a workflow or a tool at scheduled times or when a signed webhook arrives.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TriggerDefinition {
    /// The reference name of the trigger.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub ref_name: RefName,
    /// What the trigger is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// What causes a run.
    pub kind: TriggerKind,
    /// For a schedule: the times, as a cron expression with five fields: minute, hour, day of the month, month and day
    /// of the week.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(example = "0 2 * * *"))]
    pub cron: Option<String>,
    /// For a schedule: the IANA time zone of the times. Default: `UTC`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(example = "Europe/Berlin"))]
    pub time_zone: Option<String>,
    /// For a schedule: what happens with times at which no server was running.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "MissedRuns::is_default")]
    pub missed_runs: MissedRuns,
    /// For a webhook: the name of the secret with which the sender signs its requests (Standard Webhooks, `whsec_…`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<String>,
    /// What the trigger starts.
    pub target: TriggerTarget,
    /// The input: JSON whose strings may contain `${…}` expressions over `trigger` and, for a webhook, `webhook`.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub input: Value,
    /// What happens if the run that the trigger started last has not ended.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "Overlap::is_default")]
    pub overlap: Overlap,
    /// The principal as which the runs act.
    pub principal_ref: String,
    /// Whether the trigger starts runs. A paused trigger is not enabled.
    #[serde(default = "default_true", deserialize_with = "null_as_true")]
    pub enabled: bool,
}

/// What causes a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub enum TriggerKind {
    /// A time.
    Schedule,
    /// A signed HTTP request.
    Webhook,
}

/// What a trigger starts. The name may have a version requirement: `nightly@^1.2`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub enum TriggerTarget {
    /// A durable run of a workflow.
    Workflow(String),
    /// A durable run of an agent. The input has the fields `message` and `context`.
    Agent(String),
    /// A call to a tool.
    Tool(String),
}

/// What happens with scheduled times at which no server was running.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub enum MissedRuns {
    /// One run starts for the last missed time.
    #[default]
    Once,
    /// One run starts for each missed time.
    All,
    /// No run starts.
    Skip,
}

/// What happens if a run is due and the last run of the trigger has not ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub enum Overlap {
    /// Both run at the same time.
    #[default]
    Allow,
    /// The new run does not start.
    Skip,
}

impl TriggerTarget {
    /// Returns the kind and the name.
    pub fn parts(&self) -> (&'static str, &str) {
        match self {
            TriggerTarget::Workflow(name) => ("workflow", name),
            TriggerTarget::Agent(name) => ("agent", name),
            TriggerTarget::Tool(name) => ("tool", name),
        }
    }
}

impl MissedRuns {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl Overlap {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

fn default_true() -> bool {
    true
}
