//! Draws workflows as graphs, and compares two workflows.

use axum::Json;
use axum::extract::State;
use axum::http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolwright_catalog::Session;
use toolwright_catalog::registry::{Registry, RegistryError};
use toolwright_types::WorkflowDefinition;
use toolwright_workflow::{
    Edge, EdgeChange, EdgeKind, FieldChange, GraphFormat, StepChange, WorkflowDiff, diff, render,
};

use crate::extract::{Caller, JsonBody, PathName, QueryParams};
use crate::problem::{Code, Problem};
use crate::routes::tools::split_reference;

/// The query parameters of a graph.
#[derive(Deserialize)]
pub(crate) struct GraphParams {
    version: Option<String>,
    format: Option<String>,
}

/// Draws a workflow as a graph: a Mermaid flowchart, a text in the DOT language, or an SVG image.
#[utoipa::path(
    get,
    path = "/api/v1/ai/workflows/{ref}/graph",
    operation_id = "drawWorkflow",
    tag = "workflows",
    params(
        ("ref" = String, Path),
        ("version" = Option<String>, Query),
        ("format" = Option<String>, Query, description = "`mermaid`, `dot` or `svg`. Default: `mermaid`. An SVG image has at most 2,000 steps.")
    ),
    responses((status = 200, content((String = "text/plain"), (String = "text/vnd.graphviz"), (String = "image/svg+xml"))))
)]
pub(crate) async fn graph(
    State(registry): State<Registry>,
    Caller(session): Caller,
    PathName(reference): PathName,
    QueryParams(params): QueryParams<GraphParams>,
) -> Result<Response, Problem> {
    let format: GraphFormat = match params.format.as_deref() {
        None => GraphFormat::default(),
        Some(text) => text.parse().map_err(|error| invalid("format", &error))?,
    };
    let workflow = stored(&registry, &session, &reference, params.version.as_deref()).await?;
    let drawn = offload(move || render(&workflow, format)).await?.map_err(|error| invalid("format", &error))?;
    // An SVG image that a browser opens directly must not run scripts or load other resources.
    let headers = [
        (CONTENT_TYPE, format.media_type()),
        (CONTENT_SECURITY_POLICY, "default-src 'none'; style-src 'unsafe-inline'"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    Ok((headers, drawn).into_response())
}

/// The workflow that a stored workflow is compared with. Exactly one field is required.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct WorkflowDiffBody {
    /// A definition. It is not checked and not stored.
    #[schema(value_type = Option<Object>)]
    definition: Option<Value>,
    /// The refName or id of a stored workflow, optionally with a version requirement.
    r#ref: Option<String>,
}

/// The difference between two workflows. The layout and the order of steps are no differences.
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct WorkflowDiffView {
    /// Whether there is no difference.
    pub equal: bool,
    /// The changed fields of the workflow, such as its schemas and limits.
    pub fields: Vec<FieldChangeView>,
    /// The changed steps.
    pub steps: Vec<StepChangeView>,
    /// The added and removed edges between steps. Renamed steps have their new names.
    pub edges: Vec<EdgeChangeView>,
    /// The difference as a text with one change per line.
    pub text: String,
}

/// A changed field of a workflow or of a step.
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct FieldChangeView {
    /// The JSON pointer of the field.
    pub path: String,
    /// The value before the change. Absent if the field is new.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Value>)]
    pub before: Option<Value>,
    /// The value after the change. Absent if the field was removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Value>)]
    pub after: Option<Value>,
}

/// A changed step.
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct StepChangeView {
    /// `added`, `removed`, `renamed` or `changed`.
    pub change: String,
    /// The name. For a renamed step, the old name.
    pub name: String,
    /// The new name of a renamed step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// The handler of an added or removed step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handler_ref: Option<String>,
    /// The changed fields of a changed step, relative to the step.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<FieldChangeView>,
}

/// An added or removed edge.
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct EdgeChangeView {
    /// `added` or `removed`.
    pub change: String,
    /// The step that ends first.
    pub from: String,
    /// The step that runs afterwards.
    pub to: String,
    /// `dependency`, `case` or `error`.
    pub kind: String,
    /// The case of a branch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub case: Option<String>,
    /// The error codes. Empty for a fallback, which runs after every error.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub codes: Vec<String>,
}

/// Compares a stored workflow with another stored workflow or with a definition.
#[utoipa::path(
    post,
    path = "/api/v1/ai/workflows/{ref}/diff",
    operation_id = "compareWorkflow",
    tag = "workflows",
    params(("ref" = String, Path), ("version" = Option<String>, Query)),
    request_body = WorkflowDiffBody,
    responses((status = 200, body = WorkflowDiffView))
)]
pub(crate) async fn compare(
    State(registry): State<Registry>,
    Caller(session): Caller,
    PathName(reference): PathName,
    QueryParams(params): QueryParams<super::workflows::VersionParams>,
    JsonBody(body): JsonBody<WorkflowDiffBody>,
) -> Result<Json<WorkflowDiffView>, Problem> {
    let before = stored(&registry, &session, &reference, params.version.as_deref()).await?;
    let after = match (body.definition, body.r#ref) {
        (Some(definition), None) => Registry::parse_workflow(definition)
            .map_err(|issues| in_definition(RegistryError::Invalid(issues).into()))?,
        (None, Some(other)) => stored(&registry, &session, &other, None).await?,
        _ => return Err(Problem::invalid("/definition", "exactly one of `definition` and `ref` is required")),
    };
    let difference = offload(move || WorkflowDiffView::from(diff(&before, &after))).await?;
    Ok(Json(difference))
}

/// Makes the paths of a problem relative to the body.
fn in_definition(mut problem: Problem) -> Problem {
    for field in &mut problem.errors {
        field.path.insert_str(0, "/definition");
    }
    problem
}

async fn stored(
    registry: &Registry,
    session: &Session,
    reference: &str,
    version: Option<&str>,
) -> Result<WorkflowDefinition, Problem> {
    let (name, named) = split_reference(reference);
    Ok(registry.get::<WorkflowDefinition>(session, name, version.or(named)).await?.body)
}

fn invalid(parameter: &str, error: &dyn std::fmt::Display) -> Problem {
    Problem::invalid(parameter, error.to_string())
}

/// Performs work on a definition on a thread for blocking work.
pub(super) async fn offload<R: Send + 'static>(work: impl FnOnce() -> R + Send + 'static) -> Result<R, Problem> {
    let stopped = |error: toolwright_budget::Stopped| Problem::new(Code::Unavailable, error.to_string());
    toolwright_budget::offload(work).await.map_err(stopped)
}

impl From<WorkflowDiff> for WorkflowDiffView {
    fn from(difference: WorkflowDiff) -> Self {
        let (equal, text) = (difference.is_empty(), difference.to_string());
        let WorkflowDiff { fields, steps, edges } = difference;
        Self {
            equal,
            fields: field_views(fields),
            steps: steps.into_iter().map(StepChangeView::from).collect(),
            edges: edges.into_iter().map(EdgeChangeView::from).collect(),
            text,
        }
    }
}

fn field_views(fields: Vec<FieldChange>) -> Vec<FieldChangeView> {
    let view = |FieldChange { path, before, after }| FieldChangeView { path, before, after };
    fields.into_iter().map(view).collect()
}

impl From<StepChange> for StepChangeView {
    fn from(change: StepChange) -> Self {
        let view = |change: &str, name| Self {
            change: change.to_owned(),
            name,
            to: None,
            handler_ref: None,
            fields: Vec::new(),
        };
        match change {
            StepChange::Added { name, handler_ref } => Self { handler_ref: Some(handler_ref), ..view("added", name) },
            StepChange::Removed { name, handler_ref } => {
                Self { handler_ref: Some(handler_ref), ..view("removed", name) }
            }
            StepChange::Renamed { name, to } => Self { to: Some(to), ..view("renamed", name) },
            StepChange::Changed { name, fields } => Self { fields: field_views(fields), ..view("changed", name) },
        }
    }
}

impl From<EdgeChange> for EdgeChangeView {
    fn from(change: EdgeChange) -> Self {
        let (change, Edge { from, to, kind }) = match change {
            EdgeChange::Added(edge) => ("added", edge),
            EdgeChange::Removed(edge) => ("removed", edge),
        };
        let (kind, case, codes) = match kind {
            EdgeKind::Dependency => ("dependency", None, Vec::new()),
            EdgeKind::Case { case } => ("case", Some(case), Vec::new()),
            EdgeKind::Error { codes } => ("error", None, codes),
        };
        Self { change: change.to_owned(), from, to, kind: kind.to_owned(), case, codes }
    }
}
