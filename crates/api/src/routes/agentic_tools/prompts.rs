//! The system prompts of agentic tools: test, generation, and earlier versions.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use similar::TextDiff;
use toolwright_agents::PromptPreview;
use toolwright_catalog::registry::{Registry, RegistryError, SavedDefinition};
use toolwright_catalog::{Session, default_prompt};
use toolwright_tools::CompiledTool;
use toolwright_types::{Document, Timestamp, ToolDefinition};

use super::document::VIEWS;
use super::{AgenticToolView, TAG, response, unchanged};
use crate::extract::{Caller, JsonBody, PathName, PathPair, QueryParams};
use crate::list_params;
use crate::problem::{Code, Problem};
use crate::state::AppState;
use crate::views::PageView;

/// The number of revisions that are read from the store at a time to find changes of the prompt.
const REVISIONS_PER_PAGE: u32 = 100;

/// A sample call for a prompt.
#[derive(Default, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct PromptTestBody {
    /// The input of the sample call.
    #[serde(default)]
    params: Value,
    /// A prompt to test in place of the saved one.
    #[serde(default)]
    system_prompt: Option<String>,
    /// Whether to call the model once. No tool is executed.
    #[serde(default, deserialize_with = "toolwright_types::null_as_default")]
    call_model: bool,
}

/// A sample call for the prompt of an agentic tool that is not saved.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct UnsavedPromptTestBody {
    /// The agentic tool, in the format of a request that creates it.
    #[serde(default)]
    #[schema(value_type = Object, required = true)]
    tool: Value,
    /// The input of the sample call.
    #[serde(default)]
    params: Value,
    /// Whether to call the model once. No tool is executed.
    #[serde(default, deserialize_with = "toolwright_types::null_as_default")]
    call_model: bool,
}

/// The first request to the model of an agentic tool.
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PromptTestView {
    /// The system prompt with its placeholders filled in.
    pub system_prompt: String,
    /// The message with the task.
    pub user_message: String,
    /// The estimated number of input tokens.
    pub estimated_tokens: u64,
    /// Warnings about missing placeholders, about data that was cut off, and about `params` that do not match the input
    /// schema.
    pub warnings: Vec<String>,
    /// The reply of the model, if it was called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply: Option<PromptReplyView>,
}

/// The first reply of the model.
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PromptReplyView {
    /// The text of the reply.
    pub text: String,
    /// The tools that the model wants to call.
    pub tool_calls: Vec<RequestedToolView>,
    /// The run that called the model.
    pub run_id: String,
    /// The number of tokens.
    pub tokens: u64,
    /// The cost in US dollars.
    pub cost: f64,
}

/// A call that the model requests.
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RequestedToolView {
    /// The tool.
    pub action_slug: String,
    /// The input.
    pub parameters: Value,
}

impl From<PromptPreview> for PromptTestView {
    fn from(preview: PromptPreview) -> Self {
        Self {
            system_prompt: preview.system_prompt,
            user_message: preview.user_message,
            estimated_tokens: preview.estimated_tokens,
            warnings: preview.warnings,
            reply: preview.reply.map(|reply| PromptReplyView {
                text: reply.text,
                tool_calls: reply
                    .requested_calls
                    .into_iter()
                    .map(|call| RequestedToolView { action_slug: call.name, parameters: call.arguments.to_value() })
                    .collect(),
                run_id: reply.run.to_string(),
                tokens: reply.usage.total(),
                cost: reply.cost_usd,
            }),
        }
    }
}

/// Shows the first request to the model for a sample input. With `callModel`, also shows the reply.
#[utoipa::path(post, path = "/api/v1/agentic-tools/{ref}/test-prompt", tag = TAG, operation_id = "testAgenticToolPrompt",
    request_body = PromptTestBody, params(("ref" = String, Path)),
    responses((status = 200, body = PromptTestView)))]
pub(super) async fn test(
    State(engine): State<AppState>,
    Caller(session): Caller,
    PathName(reference): PathName,
    JsonBody(body): JsonBody<PromptTestBody>,
) -> Result<Json<PromptTestView>, Problem> {
    let found = VIEWS.find(&engine.registry, &session, &reference).await?;
    let mut definition = found.body;
    if let (Some(prompt), Some(config)) = (body.system_prompt, &mut definition.agentic) {
        config.system_prompt = Some(prompt);
    }
    preview(&engine, &session, definition, body.params, body.call_model).await
}

/// Shows the first request to the model of an agentic tool that is not saved.
#[utoipa::path(post, path = "/api/v1/agentic-tools/test-prompt", tag = TAG, operation_id = "testUnsavedPrompt",
    request_body = UnsavedPromptTestBody, responses((status = 200, body = PromptTestView)))]
pub(super) async fn test_unsaved(
    State(engine): State<AppState>,
    Caller(session): Caller,
    JsonBody(body): JsonBody<UnsavedPromptTestBody>,
) -> Result<Json<PromptTestView>, Problem> {
    if body.tool.is_null() {
        return Err(Problem::invalid("/tool", "is required"));
    }
    let tool = Value::Object(VIEWS.new_tool(body.tool)?);
    let definition = engine.registry.parse::<ToolDefinition>(tool).map_err(|error| VIEWS.problem(error))?;
    preview(&engine, &session, definition, body.params, body.call_model).await
}

async fn preview(
    engine: &AppState,
    session: &Session,
    definition: ToolDefinition,
    params: Value,
    call_model: bool,
) -> Result<Json<PromptTestView>, Problem> {
    let tool = compile(engine, session, definition).await?;
    let params = if params.is_null() { json!({}) } else { params };
    let (params, invalid) = match tool.validate_input(params.clone()).await {
        Ok(complete) => (complete, Vec::new()),
        Err(violations) => (params, violations),
    };
    let mut preview = engine.agents.preview_prompt(session, &tool, &params, call_model).await?;
    let invalid = invalid.iter().map(|violation| format!("`params` does not match the input schema: {violation}"));
    preview.warnings.extend(invalid);
    Ok(Json(preview.into()))
}

/// Compiles a definition that may differ from the saved one. The caller needs the permission to write it.
async fn compile(
    engine: &AppState,
    session: &Session,
    definition: ToolDefinition,
) -> Result<Arc<CompiledTool>, Problem> {
    engine.registry.validate(session, &definition).await.map_err(|error| VIEWS.problem(error))?;
    let unsaved = Document::unsaved(definition.ref_name.clone(), definition);
    let compiled = engine.registry.catalog().compile(&session.realm, unsaved).await?;
    compiled.map(Arc::new).map_err(|issues| VIEWS.problem(RegistryError::Invalid(issues)))
}

/// The options for generating a prompt.
#[derive(Default, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct RegenerateBody {
    /// Whether the model of the tool improves the generated prompt. Default: false.
    #[serde(default, deserialize_with = "toolwright_types::null_as_default")]
    use_model: bool,
    /// Whether to save the new prompt. Default: true.
    #[serde(default)]
    save: Option<bool>,
}

/// A generated prompt.
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RegeneratedPromptView {
    /// The new prompt.
    pub system_prompt: String,
    /// The previous prompt.
    pub previous_prompt: String,
    /// The changes, as a unified diff.
    pub diff: String,
    /// Whether the new prompt is saved.
    pub saved: bool,
    /// The revision of the tool.
    pub revision: i64,
}

/// Generates the system prompt again from the purpose, the mode and the tools.
#[utoipa::path(post, path = "/api/v1/agentic-tools/{ref}/regenerate-prompt", tag = TAG, operation_id = "regenerateAgenticToolPrompt",
    request_body = RegenerateBody, params(("ref" = String, Path)),
    responses((status = 200, body = RegeneratedPromptView)))]
pub(super) async fn regenerate(
    State(engine): State<AppState>,
    Caller(session): Caller,
    PathName(reference): PathName,
    JsonBody(body): JsonBody<RegenerateBody>,
) -> Result<Json<RegeneratedPromptView>, Problem> {
    let found = VIEWS.find(&engine.registry, &session, &reference).await?;
    let (previous, mut revision) = (prompt_of(&found.body), found.meta.revision);
    let tool = compile(&engine, &session, found.body).await?;
    let prompt = engine.agents.generate_prompt(&session, &tool, body.use_model).await?;
    let saved = body.save.unwrap_or(true);
    if saved {
        revision = save(&engine.registry, &session, &reference, revision, &prompt).await?.document.meta.revision;
    }
    let diff = unified_diff(&previous, &prompt);
    Ok(Json(RegeneratedPromptView { system_prompt: prompt, previous_prompt: previous, diff, saved, revision }))
}

/// A version of a system prompt.
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PromptVersionView {
    /// The revision in which the prompt was changed.
    pub revision: i64,
    /// The prompt. If the author wrote none, the generated prompt.
    pub system_prompt: String,
    /// Whether the prompt was generated from the definition.
    pub generated: bool,
    /// The changes from the previous version, as a unified diff. Absent for the first version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diff: Option<String>,
    /// The principal that changed the prompt.
    pub updated_by: String,
    /// When the prompt was changed.
    #[schema(value_type = String, format = DateTime)]
    pub updated_at: Timestamp,
}

/// The parameters of a list of prompt versions.
#[derive(Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct VersionParams {
    /// The page size, from 1 to 100. Default: 20.
    limit: Option<u32>,
    /// `nextCursor` of the previous page.
    cursor: Option<String>,
}

/// Lists the versions of the system prompt, newest first. A write that leaves the prompt unchanged makes no version.
#[utoipa::path(get, path = "/api/v1/agentic-tools/{ref}/prompt-versions", tag = TAG, operation_id = "listAgenticToolPrompts",
    params(("ref" = String, Path), VersionParams),
    responses((status = 200, body = PageView<PromptVersionView>)))]
pub(super) async fn versions(
    State(registry): State<Registry>,
    Caller(session): Caller,
    PathName(reference): PathName,
    QueryParams(params): QueryParams<VersionParams>,
) -> Result<Json<PageView<PromptVersionView>>, Problem> {
    VIEWS.find(&registry, &session, &reference).await?;
    let limit = usize::try_from(list_params::limit(params.limit)?).unwrap_or(1);
    let mut newest: Option<i64> = list_params::cursor(params.cursor.as_deref())?;
    let mut items: Vec<PromptVersionView> = Vec::new();
    // The revision that was read last. It started a version of the prompt if the next older revision has another
    // prompt.
    let mut candidate: Option<Document<ToolDefinition>> = None;
    loop {
        let (page, next) =
            registry.revisions::<ToolDefinition>(&session, &reference, newest, REVISIONS_PER_PAGE).await?;
        for older in page {
            if let Some(newer) = candidate.take()
                && prompt_of(&newer.body) != prompt_of(&older.body)
            {
                items.push(version_view(&newer, Some(&older)));
                if items.len() == limit {
                    return Ok(Json(PageView { items, next_cursor: Some(older.meta.revision.to_string()) }));
                }
            }
            candidate = Some(older);
        }
        match next {
            Some(next) => newest = Some(next),
            None => {
                items.extend(candidate.as_ref().map(|first| version_view(first, None)));
                return Ok(Json(PageView { items, next_cursor: None }));
            }
        }
    }
}

/// Makes the prompt of an earlier revision the current prompt again.
#[utoipa::path(post, path = "/api/v1/agentic-tools/{ref}/prompt-versions/{revision}/restore", tag = TAG, operation_id = "restoreAgenticToolPrompt",
    params(("ref" = String, Path), ("revision" = i64, Path)),
    responses((status = 200, body = AgenticToolView)))]
pub(super) async fn restore(
    State(registry): State<Registry>,
    Caller(session): Caller,
    PathPair(reference, revision): PathPair,
) -> Result<Response, Problem> {
    let current = VIEWS.find(&registry, &session, &reference).await?;
    let number = revision.parse().map_err(|_| Problem::invalid("revision", "must be the number of a revision"))?;
    let earlier = registry.revision::<ToolDefinition>(&session, &reference, number).await?;
    let Some(config) = &earlier.body.agentic else {
        return Err(Problem::new(Code::NotFound, format!("revision {number} is not an agentic tool")));
    };
    if current.body.agentic.as_ref().is_some_and(|now| now.system_prompt == config.system_prompt) {
        return Ok(response(&session, unchanged(current))?.into_response());
    }
    let patch = json!({ "agentic": { "systemPrompt": config.system_prompt } });
    let saved = registry.merge::<ToolDefinition>(&session, &reference, Some(current.meta.revision), patch).await;
    Ok(response(&session, saved.map_err(|error| VIEWS.problem(error))?)?.into_response())
}

async fn save(
    registry: &Registry,
    session: &Session,
    reference: &str,
    revision: i64,
    prompt: &str,
) -> Result<SavedDefinition<ToolDefinition>, Problem> {
    let patch = json!({ "agentic": { "systemPrompt": prompt } });
    let saved = registry.merge::<ToolDefinition>(session, reference, Some(revision), patch).await;
    saved.map_err(|error| VIEWS.problem(error))
}

fn prompt_of(tool: &ToolDefinition) -> String {
    let Some(config) = &tool.agentic else { return String::new() };
    config.system_prompt.clone().unwrap_or_else(|| default_prompt(tool, config))
}

fn version_view(document: &Document<ToolDefinition>, before: Option<&Document<ToolDefinition>>) -> PromptVersionView {
    let prompt = prompt_of(&document.body);
    PromptVersionView {
        revision: document.meta.revision,
        generated: document.body.agentic.as_ref().is_some_and(|config| config.system_prompt.is_none()),
        diff: before.map(|before| unified_diff(&prompt_of(&before.body), &prompt)),
        system_prompt: prompt,
        updated_by: document.meta.updated_by.clone(),
        updated_at: document.meta.updated_at,
    }
}

fn unified_diff(before: &str, after: &str) -> String {
    TextDiff::from_lines(before, after).unified_diff().context_radius(2).to_string()
}
