//! Wire views of workflows that are made from runs.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolwright_types::{SideEffects, WorkflowDefinition};
use toolwright_workflow::materialize::{
    AgentStep, CallStep, LeftOutCall, LiftedInput, Link, NotReproduced, Report, Verification,
};

use crate::routes::workflows::WorkflowCheckView;

/// A workflow that was made from a run.
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct MaterializedView {
    /// The definition.
    #[schema(value_type = WorkflowDefinition)]
    pub definition: Value,
    /// The definition as YAML.
    pub yaml: String,
    /// The result of the check of the definition.
    pub check: WorkflowCheckView,
    /// What became of each call and value.
    pub report: MaterializeReportView,
    /// The comparison of the workflow with the run.
    pub verification: MaterializeVerificationView,
    /// Whether the workflow was created.
    pub saved: bool,
}

/// What became of each call and value of a run.
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct MaterializeReportView {
    /// The steps that make a recorded call.
    pub steps: Vec<CallStepView>,
    /// The references that were found by value.
    pub links: Vec<ValueLinkView>,
    /// The values that became inputs of the workflow.
    pub inputs: Vec<LiftedInputView>,
    /// The steps that call the agent to write a text.
    pub agent_steps: Vec<AgentStepView>,
    /// The failed calls, which have no step.
    pub left_out: Vec<LeftOutCallView>,
    /// The steps whose recorded output is truncated. A value of the part that was cut off cannot be found.
    pub truncated: Vec<String>,
    /// What the author should know before the workflow is used.
    pub warnings: Vec<String>,
}

/// A step that makes a recorded call.
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CallStepView {
    /// The name of the step.
    pub step: String,
    /// The recorded call.
    pub call_id: String,
    /// The tool.
    pub tool: String,
    /// The version of the tool.
    pub version: String,
    /// `none`, `reads` or `writes`. A call that starts a run counts as a write.
    pub side_effects: String,
    /// The provider whose connection and credentials the tool uses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_ref: Option<String>,
    /// The scope of the secret that the recorded call used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_scope: Option<String>,
}

/// A reference that was found by value.
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ValueLinkView {
    /// The step. Absent for the output of the workflow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// A JSON pointer into the input of the step, or into the output.
    pub path: String,
    /// The expression.
    pub expression: String,
}

/// A value that became an input of the workflow.
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct LiftedInputView {
    /// The name of the input.
    pub name: String,
    /// The step that uses it.
    pub step: String,
    /// A JSON pointer into the input of the step.
    pub path: String,
    /// Whether the recorded value was redacted. The input then has no default and is required.
    pub redacted: bool,
}

/// A step that calls the agent to write a text.
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentStepView {
    /// The name of the step.
    pub step: String,
    /// The step that uses the text.
    pub used_by: String,
    /// A JSON pointer into the input of that step.
    pub path: String,
}

/// A failed call, which has no step.
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct LeftOutCallView {
    /// The call.
    pub call_id: String,
    /// The tool.
    pub tool: String,
    /// `retried`: a later call of the same tool succeeded. `failed`: none did.
    pub reason: String,
    /// The error code of the call.
    pub code: String,
}

/// The comparison of the workflow with the run. The workflow was executed with the recorded outputs.
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct MaterializeVerificationView {
    /// The number of steps that make a recorded call.
    pub calls: u64,
    /// The number of these steps whose computed input is the recorded input.
    pub reproduced: u64,
    /// Whether the computed output is the recorded output. Absent if only some calls were selected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_reproduced: Option<bool>,
    /// The values that the workflow does not reproduce, up to 200.
    pub not_reproduced: Vec<NotReproducedView>,
}

/// A value that the workflow does not reproduce.
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct NotReproducedView {
    /// The step. Absent for the output of the workflow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// A JSON pointer into the input of the step, or into the output.
    pub path: String,
    /// The recorded value.
    pub recorded: Value,
    /// The computed value.
    pub computed: Value,
    /// `redacted`: the recorded value was redacted. `not_found`: no output of a call contains the value. `not_run`: the
    /// step did not run. `differs`: the computed value differs.
    pub reason: String,
}

impl MaterializeReportView {
    /// Creates the view of a report. `providers` has the provider of each tool, by its name and version.
    pub(super) fn new(report: Report, providers: &BTreeMap<(String, String), String>) -> Self {
        let Report { steps, links, inputs, agent_steps, left_out, truncated, warnings } = report;
        let step = |CallStep { step, call_id, tool, version, side_effects, secret_scope }| {
            let key = (tool, version);
            let provider_ref = providers.get(&key).cloned();
            let (tool, version) = key;
            let side_effects = match side_effects {
                SideEffects::None => "none",
                SideEffects::Reads => "reads",
                SideEffects::Writes => "writes",
            };
            let (call_id, side_effects) = (call_id.to_string(), side_effects.to_owned());
            CallStepView { step, call_id, tool, version, side_effects, provider_ref, secret_scope }
        };
        let link = |Link { step, path, expression }| ValueLinkView { step, path, expression };
        let input = |LiftedInput { name, step, path, redacted }| LiftedInputView { name, step, path, redacted };
        let agent_step = |AgentStep { step, used_by, path }| AgentStepView { step, used_by, path };
        let left_out_call = |LeftOutCall { call_id, tool, reason, code }| LeftOutCallView {
            call_id: call_id.to_string(),
            tool,
            reason: reason.as_str().to_owned(),
            code: code.to_string(),
        };
        Self {
            steps: steps.into_iter().map(step).collect(),
            links: links.into_iter().map(link).collect(),
            inputs: inputs.into_iter().map(input).collect(),
            agent_steps: agent_steps.into_iter().map(agent_step).collect(),
            left_out: left_out.into_iter().map(left_out_call).collect(),
            truncated,
            warnings,
        }
    }
}

impl From<Verification> for MaterializeVerificationView {
    fn from(verification: Verification) -> Self {
        let Verification { calls, reproduced, output_reproduced, not_reproduced } = verification;
        let view = |NotReproduced { step, path, recorded, computed, reason }| {
            let reason = reason.as_str().to_owned();
            NotReproducedView { step, path, recorded, computed, reason }
        };
        Self {
            calls: calls as u64,
            reproduced: reproduced as u64,
            output_reproduced,
            not_reproduced: not_reproduced.into_iter().map(view).collect(),
        }
    }
}
