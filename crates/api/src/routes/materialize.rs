//! Makes workflows from recorded runs.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::LOCATION;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolwright_catalog::Session;
use toolwright_catalog::registry::RegistryError;
use toolwright_runs::{CommandError, RunSnapshot};
use toolwright_types::{CallId, DefinitionSource, RefName, ToolDefinition, WorkflowDefinition};
use toolwright_workflow::materialize::{
    AgentStep, CallStep, LeftOutCall, LiftedInput, Link, MaterializeError, Materialized, NotReproduced, Report,
    Selection, SourceRun, Verification, materialize,
};

use super::runs::run_id;
use super::workflows::WorkflowCheckView;
use crate::collection;
use crate::extract::{Caller, OptionalJsonBody, PathName};
use crate::problem::{Code, Problem};
use crate::state::AppState;

const TAG: &str = "runs";

/// The calls to materialize, and what becomes of the workflow. Without `calls` and `pin`, all successful calls are
/// materialized.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct MaterializeBody {
    /// The ids of the calls.
    #[serde(default)]
    calls: Option<Vec<String>>,
    /// The name of a pin of the run, in place of `calls`.
    #[serde(default)]
    pin: Option<String>,
    /// The refName of the workflow. Default: a name made from the run.
    #[serde(default)]
    name: Option<String>,
    /// Whether to create the workflow.
    #[serde(default, deserialize_with = "toolwright_types::null_as_default")]
    save: bool,
}

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

/// Makes a workflow from the calls of a run that has ended, with their exact inputs and versions. Values that earlier calls
/// returned become references, and all other values become inputs with the recorded value as their default. Requires the
/// permission to write the workflow.
#[utoipa::path(post, path = "/api/v1/ai/runs/{id}/materialize", tag = TAG, operation_id = "materializeRun",
    request_body = Option<MaterializeBody>, params(("id" = String, Path)),
    responses((status = 200, body = MaterializedView),
        (status = 201, body = MaterializedView, description = "with `save`: the workflow was created",
            headers(("Location" = String, description = "the path of the workflow")))))]
pub(crate) async fn materialize_run(
    State(engine): State<AppState>,
    Caller(session): Caller,
    PathName(id): PathName,
    OptionalJsonBody(body): OptionalJsonBody<MaterializeBody>,
) -> Result<Response, Problem> {
    let run = run_id(&id)?;
    let name = body.name.as_deref().map(str::parse::<RefName>).transpose();
    let name = name.map_err(|error| Problem::invalid("/name", error.to_string()))?;
    let record = engine.runs.get(&session, run).await?;
    if record.snapshot.run.ending().is_none() {
        return Err(CommandError::NotEnded(run.to_string()).into());
    }
    let selection = selection(&engine, &session, &record.snapshot, body.calls, body.pin).await?;
    let (_, entries) = engine.runs.journal_of(&session, run).await?;
    let made = offload(move || -> Result<Materialized, Problem> {
        let invalid = |error: &dyn std::fmt::Display| {
            Problem::new(Code::CannotMaterialize, format!("the journal cannot be replayed by this release: {error}"))
        };
        let source = SourceRun::from_entries(entries).map_err(|error| invalid(&error))?;
        Ok(materialize(&source, &selection, name)?)
    });
    let Materialized { definition, report, verification } = made.await??;
    let definition = to_json(&definition)?;
    let issues = engine.registry.check_workflow(&session, definition.clone()).await?;
    let providers = providers(&engine, &session, &report.steps).await?;
    let saved = match body.save {
        true => {
            let origin = DefinitionSource::default();
            Some(engine.registry.create::<WorkflowDefinition>(&session, definition.clone(), origin).await?)
        }
        false => None,
    };
    let view = MaterializedView {
        yaml: collection::print_yaml(&definition)?,
        definition,
        check: WorkflowCheckView::new(issues, Vec::new()),
        report: report_view(report, &providers),
        verification: verification.into(),
        saved: saved.is_some(),
    };
    Ok(match saved {
        Some(saved) => {
            let location = format!("/api/v1/ai/workflows/{}", saved.document.meta.id);
            (StatusCode::CREATED, [(LOCATION, location)], Json(view)).into_response()
        }
        None => Json(view).into_response(),
    })
}

/// Returns the calls that a request selects.
async fn selection(
    engine: &AppState,
    session: &Session,
    snapshot: &RunSnapshot,
    calls: Option<Vec<String>>,
    pin: Option<String>,
) -> Result<Selection, Problem> {
    let (calls, pin) = match (calls, pin) {
        (None, None) => return Ok(Selection::All),
        (Some(_), Some(_)) => return Err(Problem::invalid("/pin", "must be absent if `calls` is present")),
        (calls, pin) => (calls, pin),
    };
    if let Some(calls) = calls {
        if calls.is_empty() {
            return Err(Problem::invalid("/calls", "must have at least one call; omit it to materialize all calls"));
        }
        let known = snapshot.run.outputs().tools_by_id;
        let find = |(at, id): (usize, String)| {
            let unknown = || Problem::invalid(&format!("/calls/{at}"), format!("the run has no call `{id}`"));
            let call_id: CallId = serde_json::from_value(Value::String(id.clone())).map_err(|_| unknown())?;
            known.contains_key(&call_id).then_some(call_id).ok_or_else(unknown)
        };
        return Ok(Selection::Calls(calls.into_iter().enumerate().map(find).collect::<Result<_, _>>()?));
    }
    let pin = pin.unwrap_or_default();
    let pins = engine.agents.pins(session, snapshot).await?;
    let pins = pins.map_err(|error| Problem::new(Code::CannotMaterialize, error.to_string()))?;
    let Some(value) = pins.get(&pin) else {
        let names: Vec<String> = pins.keys().map(|name| format!("`{name}`")).collect();
        let known =
            if names.is_empty() { "it has none".to_owned() } else { format!("its pins are {}", names.join(", ")) };
        return Err(Problem::invalid("/pin", format!("the run has no pin `{pin}`; {known}")));
    };
    let cannot = |why: &str| Problem::new(Code::CannotMaterialize, format!("pin `{pin}` {why}"));
    let call_id = &value.as_ref().ok_or_else(|| cannot("has no value in this run"))?.call_id;
    match snapshot.run.outputs().tools_by_id.contains_key(call_id) {
        true => Ok(Selection::Calls(vec![call_id.clone()])),
        false => Err(cannot("has the output of an earlier run; materialize that run")),
    }
}

/// The providers of the tools, by tool and version. A tool that is built in or does not exist any more has none.
async fn providers(
    engine: &AppState,
    session: &Session,
    steps: &[CallStep],
) -> Result<BTreeMap<(String, String), String>, Problem> {
    let mut providers = BTreeMap::new();
    let tools: std::collections::BTreeSet<(&str, &str)> =
        steps.iter().map(|step| (step.tool.as_str(), step.version.as_str())).collect();
    for (tool, version) in tools {
        let requirement = format!("={version}");
        match engine.registry.get::<ToolDefinition>(session, tool, Some(&requirement)).await {
            Ok(found) => {
                let provider = found.body.provider_ref;
                providers.extend(provider.map(|provider| ((tool.to_owned(), version.to_owned()), provider)));
            }
            Err(RegistryError::Unavailable(error)) => return Err(error.into()),
            Err(_) => {}
        }
    }
    Ok(providers)
}

fn to_json(definition: &WorkflowDefinition) -> Result<Value, Problem> {
    let invalid = |error| Problem::new(Code::Internal, format!("the workflow cannot be written as JSON: {error}"));
    serde_json::to_value(definition).map_err(invalid)
}

async fn offload<R: Send + 'static>(work: impl FnOnce() -> R + Send + 'static) -> Result<R, Problem> {
    let stopped = |error: toolwright_budget::Stopped| Problem::new(Code::Unavailable, error.to_string());
    toolwright_budget::offload(work).await.map_err(stopped)
}

impl From<MaterializeError> for Problem {
    fn from(error: MaterializeError) -> Self {
        let text = error.to_string();
        match error {
            MaterializeError::UnknownCall { .. } => Problem::invalid("/calls", text),
            MaterializeError::Name(_) => Problem::invalid("/name", text),
            MaterializeError::NoCalls(_)
            | MaterializeError::OnlyFailedCalls(_)
            | MaterializeError::NoTool(_)
            | MaterializeError::TooManyCalls(_) => Problem::new(Code::CannotMaterialize, text),
        }
    }
}

fn report_view(report: Report, providers: &BTreeMap<(String, String), String>) -> MaterializeReportView {
    let Report { steps, links, inputs, agent_steps, left_out, truncated, warnings } = report;
    let step = |CallStep { step, call_id, tool, version, side_effects, secret_scope }| {
        let key = (tool, version);
        let provider_ref = providers.get(&key).cloned();
        let (tool, version) = key;
        let side_effects = match side_effects {
            toolwright_types::SideEffects::None => "none",
            toolwright_types::SideEffects::Reads => "reads",
            toolwright_types::SideEffects::Writes => "writes",
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
    MaterializeReportView {
        steps: steps.into_iter().map(step).collect(),
        links: links.into_iter().map(link).collect(),
        inputs: inputs.into_iter().map(input).collect(),
        agent_steps: agent_steps.into_iter().map(agent_step).collect(),
        left_out: left_out.into_iter().map(left_out_call).collect(),
        truncated,
        warnings,
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
