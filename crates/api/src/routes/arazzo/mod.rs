//! Imports workflows from Arazzo documents, and exports workflows as Arazzo documents.

mod operations;

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolwright_catalog::Session;
use toolwright_catalog::registry::{Registry, RegistryError, WorkflowPlan};
use toolwright_types::step_handlers::{EXECUTE_WORKFLOW, PREFIX};
use toolwright_types::{RefName, WorkflowDefinition};
use toolwright_workflow::arazzo::Problem as Conversion;
use toolwright_workflow::arazzo::export::{ArazzoVersion, export as write_document};
use toolwright_workflow::arazzo::import::{Imported, import as read_document};

use self::operations::{ImportedTools, operations_of};
use crate::collection::parse_yaml;
use crate::extract::{Caller, JsonBody, PathName, QueryParams};
use crate::problem::{Code, FieldError, Problem};
use crate::routes::imports::ImportedView;
use crate::routes::tools::split_reference;

/// The maximum number of workflows in an exported document.
const MAX_WORKFLOWS: usize = 1000;

/// An Arazzo document to import.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ArazzoImportBody {
    /// The document: an object, or a string in JSON or YAML.
    document: Value,
    /// The id of a workflow of the document, to import only this workflow and those that it executes.
    #[serde(default)]
    workflow_id: Option<String>,
    /// The provider whose tools call the operations of a source description, by the name of the source description.
    /// Default: the tools that were imported from the URL of the source description, otherwise those of the provider with
    /// the name of the source description.
    #[serde(default, deserialize_with = "toolwright_types::null_as_default")]
    providers: BTreeMap<String, String>,
    /// Whether to replace workflows that exist and differ.
    #[serde(default, deserialize_with = "toolwright_types::null_as_default")]
    update: bool,
    /// Whether to return the result without saving anything.
    #[serde(default, deserialize_with = "toolwright_types::null_as_default")]
    dry_run: bool,
}

/// The result of an import of workflows.
#[derive(Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkflowImportView {
    /// Whether the import was a dry run, which saves nothing.
    pub dry_run: bool,
    /// The new workflows.
    pub imported: Vec<ImportedView>,
    /// The replaced workflows.
    pub updated: Vec<ImportedView>,
    /// The workflows that are already up to date.
    pub unchanged: Vec<ImportedView>,
    /// The definitions of all workflows of the import, in the order of the document.
    // The type is `Value`, because a definition rejects unknown fields and a client may be older than the server.
    #[schema(value_type = Vec<WorkflowDefinition>)]
    pub workflows: Vec<Value>,
    /// Warnings about the import.
    pub warnings: Vec<String>,
}

/// Imports the workflows of an Arazzo document, all of them or none. The operations of the document must have been imported
/// as tools before.
#[utoipa::path(
    post,
    path = "/api/v1/ai/workflows/import",
    operation_id = "importArazzo",
    tag = "workflows",
    request_body = ArazzoImportBody,
    responses((status = 200, body = WorkflowImportView))
)]
pub(crate) async fn import(
    State(registry): State<Registry>,
    Caller(session): Caller,
    JsonBody(body): JsonBody<ArazzoImportBody>,
) -> Result<Json<WorkflowImportView>, Problem> {
    let ArazzoImportBody { document, workflow_id, providers, update, dry_run } = body;
    let document = match document {
        Value::String(text) => parse_yaml(text).await.map_err(in_document)?,
        document => document,
    };
    let tools = ImportedTools::load(&registry, &session, &document, &providers).await?;
    let read = move || read_document(&document, workflow_id.as_deref(), |operation| tools.find(operation));
    let Imported { workflows, warnings } = offload(read).await?.map_err(cannot_import)?;
    let definitions = workflows.iter().map(|workflow| serde_json::to_value(workflow).unwrap_or_default()).collect();
    let plan = registry.plan_workflows(&session, workflows).await?;
    if let (Some(first), false) = (plan.updated.first(), update) {
        let message = format!("workflow `{first}` exists and differs; set `update` (`--update`) to replace it");
        return Err(Problem::new(Code::Duplicate, message));
    }
    let WorkflowPlan { batch, created, updated, unchanged, warnings: of_check } = plan;
    if !dry_run && !batch.is_empty() {
        registry.write_all(&session, batch).await?;
    }
    let views = |names: Vec<RefName>| names.into_iter().map(|ref_name| ImportedView { ref_name }).collect();
    Ok(Json(WorkflowImportView {
        dry_run,
        imported: views(created),
        updated: views(updated),
        unchanged: views(unchanged),
        workflows: definitions,
        warnings: warnings.iter().map(ToString::to_string).chain(of_check).collect(),
    }))
}

/// The query parameters of an export.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ExportParams {
    version: Option<String>,
    format: Option<String>,
    arazzo_version: Option<String>,
}

/// Writes a workflow, and those that it executes, as an Arazzo document.
#[utoipa::path(
    get,
    path = "/api/v1/ai/workflows/{ref}/export",
    operation_id = "exportWorkflow",
    tag = "workflows",
    params(
        ("ref" = String, Path),
        ("version" = Option<String>, Query, description = "The version of the workflow."),
        ("format" = String, Query, description = "`arazzo`."),
        ("arazzoVersion" = Option<String>, Query, description = "`1.0`, or `1.1`, which has timeouts. Default: `1.0`.")
    ),
    responses((status = 200, body = Value))
)]
pub(crate) async fn export(
    State(registry): State<Registry>,
    Caller(session): Caller,
    PathName(reference): PathName,
    QueryParams(params): QueryParams<ExportParams>,
) -> Result<Json<Value>, Problem> {
    if params.format.as_deref() != Some("arazzo") {
        let given = params.format.map_or_else(|| "nothing".to_owned(), |format| format!("`{format}`"));
        return Err(Problem::invalid("format", format!("must be `arazzo`, got {given}")));
    }
    let version = match params.arazzo_version.as_deref() {
        None | Some("1.0") => ArazzoVersion::V1_0,
        Some("1.1") => ArazzoVersion::V1_1,
        Some(other) => return Err(Problem::invalid("arazzoVersion", format!("must be `1.0` or `1.1`, got `{other}`"))),
    };
    let (name, named) = split_reference(&reference);
    let version_of_workflow = params.version.as_deref().or(named);
    let root = registry.get::<WorkflowDefinition>(&session, name, version_of_workflow).await?.body;
    let workflows = with_executed_workflows(&registry, &session, root).await?;
    let operations = operations_of(&registry, &session, &workflows).await?;
    let names: Vec<RefName> = workflows.iter().map(|workflow| workflow.ref_name.clone()).collect();
    let write = move || {
        let all: Vec<&WorkflowDefinition> = workflows.iter().collect();
        write_document(&all, version, |handler| operations.find(handler))
    };
    offload(write).await?.map(Json).map_err(|problems| cannot_export(&names, problems))
}

/// Returns a workflow and the workflows that its steps execute, directly or indirectly.
async fn with_executed_workflows(
    registry: &Registry,
    session: &Session,
    root: WorkflowDefinition,
) -> Result<Vec<WorkflowDefinition>, Problem> {
    let mut workflows = vec![root];
    let mut next = 0;
    while let Some(workflow) = workflows.get(next) {
        let executed = workflow.steps.iter().filter(|step| step.handler_ref == EXECUTE_WORKFLOW);
        let executed: Vec<String> = executed
            .filter_map(|step| Some(step.input.as_ref()?.get("workflowRef")?.as_str()?.to_owned()))
            .filter(|name| !name.contains("${"))
            .collect();
        for name in executed {
            if workflows.iter().any(|known| known.ref_name.as_str().eq_ignore_ascii_case(&name)) {
                continue;
            }
            if workflows.len() >= MAX_WORKFLOWS {
                let message = format!("the document would have more than {MAX_WORKFLOWS} workflows");
                return Err(Problem::new(Code::CannotExport, message));
            }
            match registry.get::<WorkflowDefinition>(session, &name, None).await {
                Ok(found) => workflows.push(found.body),
                // The export reports the step.
                Err(RegistryError::NotFound { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        next += 1;
    }
    Ok(workflows)
}

fn in_document(problem: Problem) -> Problem {
    let errors = problem.errors.into_iter().map(|error| FieldError { path: "/document".to_owned(), ..error });
    let errors = errors.collect();
    Problem { errors, ..Problem::new(Code::CannotImport, format!("the document is not valid: {}", problem.detail)) }
}

fn cannot_import(problems: Vec<Conversion>) -> Problem {
    let mut problem = Problem::new(Code::CannotImport, "the document cannot be converted to workflows");
    problem
        .errors
        .extend(problems.into_iter().map(|one| FieldError::new(format!("/document{}", one.path), one.message)));
    problem
}

/// With several workflows, the path of a problem begins with the position of its workflow. The message then names the
/// workflow.
fn cannot_export(names: &[RefName], problems: Vec<Conversion>) -> Problem {
    let name = names.first().map_or("", RefName::as_str);
    let mut problem = Problem::new(Code::CannotExport, format!("workflow `{name}` cannot be written as Arazzo"));
    problem.errors.extend(problems.into_iter().map(|Conversion { path, message }| {
        let position = path.strip_prefix('/').and_then(|path| path.split('/').next()).unwrap_or_default();
        let at = position.parse::<usize>().ok().filter(|_| names.len() > 1);
        match at.and_then(|at| Some((at, names.get(at)?))) {
            None => FieldError::new(path, message),
            Some((at, name)) => {
                let rest = path.get(position.len() + 1..).unwrap_or_default().to_owned();
                FieldError::new(rest, if at == 0 { message } else { format!("workflow `{name}`: {message}") })
            }
        }
    }));
    problem
}

/// Whether a handler is not the name of a tool.
fn is_built_in(handler: &str) -> bool {
    handler.starts_with(PREFIX)
}

async fn offload<R: Send + 'static>(work: impl FnOnce() -> R + Send + 'static) -> Result<R, Problem> {
    let stopped = |error: toolwright_budget::Stopped| Problem::new(Code::Unavailable, error.to_string());
    toolwright_budget::offload(work).await.map_err(stopped)
}
