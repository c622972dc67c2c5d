//! Workflows, step registrations and condition bindings. Their definitions have the routes of a [`Collection`].

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use toolwright_catalog::registry::Registry;
use toolwright_machine::workflow::{IssueSeverity, WorkflowIssue};
use toolwright_types::{ConditionBinding, StepRegistration, WorkflowDefinition};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::collection::{self, Collection, DefinitionBody, Position};
use crate::extract::{Caller, PathName, QueryParams};
use crate::problem::Problem;
use crate::revisions;
use crate::routes::tools::split_reference;
use crate::routes::{arazzo, workflow_graph};
use crate::state::AppState;

impl Collection for WorkflowDefinition {
    const PATH: &'static str = "/api/v1/ai/workflows";
    const TAG: &'static str = "workflows";
    const SINGULAR: &'static str = "Workflow";
    const HAS_YAML: bool = true;
}

impl Collection for StepRegistration {
    const PATH: &'static str = "/api/v1/ai/step-registrations";
    const TAG: &'static str = "step-registrations";
    const SINGULAR: &'static str = "StepRegistration";
    const HAS_YAML: bool = true;
}

impl Collection for ConditionBinding {
    const PATH: &'static str = "/api/v1/ai/condition-bindings";
    const TAG: &'static str = "condition-bindings";
    const SINGULAR: &'static str = "ConditionBinding";
    const HAS_YAML: bool = true;
}

/// Returns the routes of the definitions, with their OpenAPI description.
pub(crate) fn routes() -> OpenApiRouter<AppState> {
    OpenApiRouter::new()
        .merge(collection::routes::<WorkflowDefinition>())
        .merge(revisions::routes::<WorkflowDefinition>())
        .routes(routes!(check))
        .routes(routes!(check_stored))
        .routes(routes!(workflow_graph::graph))
        .routes(routes!(workflow_graph::compare))
        .routes(routes!(arazzo::import))
        .routes(routes!(arazzo::export))
        .merge(collection::routes::<StepRegistration>())
        .merge(revisions::routes::<StepRegistration>())
        .merge(collection::routes::<ConditionBinding>())
        .merge(revisions::routes::<ConditionBinding>())
}

/// The result of the check of a workflow.
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct WorkflowCheckView {
    /// Whether the workflow can be saved: no issue is an error.
    pub valid: bool,
    /// The errors and warnings.
    pub issues: Vec<WorkflowIssueView>,
}

/// A problem of a workflow.
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct WorkflowIssueView {
    /// `error` or `warning`. An error prevents the workflow from being saved.
    pub severity: String,
    /// A stable code, such as `unknown_step`.
    pub code: String,
    /// A JSON pointer into the definition.
    pub path: String,
    /// The problem.
    pub message: String,
    /// How to correct it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// The line, from 1, if the body is YAML.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// The column in characters, from 1, if the body is YAML.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub column: Option<u32>,
}

impl WorkflowCheckView {
    pub(super) fn new(issues: Vec<WorkflowIssue>, positions: Vec<Position>) -> Self {
        let valid = !issues.iter().any(WorkflowIssue::is_error);
        let positions = positions.into_iter().chain(std::iter::repeat(Position::default()));
        let issues = issues.into_iter().zip(positions).map(|(issue, (line, column))| WorkflowIssueView {
            severity: severity(issue.severity).to_owned(),
            code: issue.code,
            path: issue.path,
            message: issue.message,
            hint: issue.hint,
            line,
            column,
        });
        Self { valid, issues: issues.collect() }
    }
}

fn severity(severity: IssueSeverity) -> &'static str {
    match severity {
        IssueSeverity::Error => "error",
        IssueSeverity::Warning => "warning",
    }
}

/// Checks a workflow as a save does, and writes nothing. Requires the permission to write the workflow.
#[utoipa::path(
    post,
    path = "/api/v1/ai/workflows/check",
    operation_id = "checkWorkflow",
    tag = "workflows",
    request_body(content((Value = "application/json"), (Value = "application/yaml"))),
    responses((status = 200, body = WorkflowCheckView))
)]
pub(crate) async fn check(
    State(registry): State<Registry>,
    Caller(session): Caller,
    body: DefinitionBody<WorkflowDefinition>,
) -> Result<Json<WorkflowCheckView>, Problem> {
    let issues = registry.check_workflow(&session, body.value).await?;
    let positions = body.written.positions(issues.iter().map(|issue| issue.path.clone()).collect()).await?;
    Ok(Json(WorkflowCheckView::new(issues, positions)))
}

/// The query parameter that selects a version of a stored workflow.
#[derive(Deserialize)]
pub(crate) struct VersionParams {
    pub(crate) version: Option<String>,
}

/// Checks a stored workflow again. Other definitions may have changed since it was saved.
#[utoipa::path(
    post,
    path = "/api/v1/ai/workflows/{ref}/check",
    operation_id = "checkStoredWorkflow",
    tag = "workflows",
    params(("ref" = String, Path), ("version" = Option<String>, Query)),
    responses((status = 200, body = WorkflowCheckView))
)]
pub(crate) async fn check_stored(
    State(registry): State<Registry>,
    Caller(session): Caller,
    PathName(reference): PathName,
    QueryParams(params): QueryParams<VersionParams>,
) -> Result<Json<WorkflowCheckView>, Problem> {
    let (name, version) = split_reference(&reference);
    let version = params.version.as_deref().or(version);
    let workflow = registry.get::<WorkflowDefinition>(&session, name, version).await?;
    let issues = registry.recheck_workflow(&session, &workflow.body).await?;
    Ok(Json(WorkflowCheckView::new(issues, Vec::new())))
}
