//! Makes workflows from recorded runs.

mod views;

use std::collections::{BTreeMap, BTreeSet};

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::LOCATION;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::Value;
use toolwright_catalog::Session;
use toolwright_catalog::registry::RegistryError;
use toolwright_runs::{CommandError, RunSnapshot};
use toolwright_types::{CallId, DefinitionSource, RefName, ToolDefinition, WorkflowDefinition};
use toolwright_workflow::materialize::{CallStep, MaterializeError, Materialized, Selection, SourceRun, materialize};

pub use views::{
    AgentStepView, CallStepView, LeftOutCallView, LiftedInputView, MaterializeReportView, MaterializeVerificationView,
    MaterializedView, NotReproducedView, ValueLinkView,
};

use super::runs::run_id;
use super::workflow_graph::offload;
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
        report: MaterializeReportView::new(report, &providers),
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
    let tools: BTreeSet<(&str, &str)> = steps.iter().map(|step| (step.tool.as_str(), step.version.as_str())).collect();
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
