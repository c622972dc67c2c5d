//! Effects: the writes to the outside world of all runs.

use std::borrow::Cow;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::LOCATION;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolwright_agents::Agents;
use toolwright_catalog::{Session, Unavailable};
use toolwright_runs::{EffectId, EffectOutcome, EffectQuery, EffectRecord, RunKind, Runs};
use toolwright_types::Timestamp;

use super::undo::UndoView;
use crate::call_filter::CallFilterParams;
use crate::extract::{Caller, JsonBody, PathName, QueryParams};
use crate::list_params;
use crate::problem::Problem;
use crate::run_views::AcceptedView;
use crate::state::AppState;
use crate::views::PageView;

const TAG: &str = "effects";

/// The maximum length of the note of a resolution, in bytes.
const MAX_NOTE_BYTES: usize = 10_000;

/// A write to the outside world.
#[derive(Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct EffectView {
    /// The id of the effect.
    pub id: String,
    /// The run that made the call.
    pub run_id: String,
    /// The call.
    pub call_id: String,
    /// The agent that made the call. Absent if a principal called the tool directly.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_ref: Option<String>,
    /// The name of the tool.
    pub tool_ref: String,
    /// The version of the tool.
    pub version: String,
    /// The arguments of the call, without secrets.
    pub input: Value,
    /// `done`, `failed`, `unknown`, `undone` or `captured`.
    pub outcome: Cow<'static, str>,
    /// The message of the error, if the call failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The principal that the run acts as.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub principal: Option<String>,
    /// The principal that approved the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approved_by: Option<String>,
    /// When the write started.
    #[schema(value_type = String, format = DateTime)]
    pub started_at: Timestamp,
    /// When the outcome was determined.
    #[schema(value_type = String, format = DateTime)]
    pub ended_at: Timestamp,
    /// Whether the effect can be undone: the write took effect, and its tool has a `compensateToolRef`.
    pub reversible: bool,
    /// The tool that undoes the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compensate_tool_ref: Option<String>,
    /// How the outcome became known, if it was unknown and a principal set it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolution: Option<EffectResolutionView>,
    /// How the effect was undone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undone: Option<EffectUndoneView>,
}

/// The resolution of an unknown outcome.
#[derive(Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct EffectResolutionView {
    /// The principal that set the outcome.
    pub resolved_by: String,
    /// When the outcome was set.
    #[schema(value_type = String, format = DateTime)]
    pub resolved_at: Timestamp,
    /// The remark of the principal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// How an effect was undone.
#[derive(Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct EffectUndoneView {
    /// The run that undid the effect.
    pub run_id: String,
    /// When the effect was undone.
    #[schema(value_type = String, format = DateTime)]
    pub undone_at: Timestamp,
}

impl EffectView {
    async fn new(agents: &Agents, session: &Session, record: EffectRecord) -> Result<Self, Unavailable> {
        let EffectRecord { run, kind, subject, principal, effect, resolution, undone, .. } = record;
        let executed = effect.implementation.as_deref().unwrap_or(&effect.tool);
        let compensate_tool_ref = agents.compensating_tool(session, executed, &effect.version).await?;
        let unreadable = |error| Unavailable::new("the input of an effect cannot be read", error);
        Ok(Self {
            id: EffectId { run, call_id: effect.call_id.clone() }.to_string(),
            run_id: run.to_string(),
            call_id: effect.call_id.to_string(),
            agent_ref: (kind == RunKind::Agent).then_some(subject),
            tool_ref: effect.tool,
            version: effect.version,
            input: serde_json::from_str(&effect.input).map_err(unreadable)?,
            outcome: effect.outcome.as_str().into(),
            error: effect.error,
            principal,
            approved_by: effect.approved_by,
            started_at: effect.started_at,
            ended_at: effect.ended_at,
            reversible: effect.outcome == EffectOutcome::Done && resolution.is_none() && compensate_tool_ref.is_some(),
            compensate_tool_ref,
            resolution: resolution.map(|resolution| EffectResolutionView {
                resolved_by: resolution.by,
                resolved_at: resolution.at,
                note: resolution.note,
            }),
            undone: undone.map(|(run, at)| EffectUndoneView { run_id: run.to_string(), undone_at: at }),
        })
    }
}

/// The parameters of a list of effects.
#[derive(Deserialize, utoipa::IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct EffectListParams {
    /// One outcome, or several separated by commas.
    outcome: Option<String>,
    /// The tool.
    tool_ref: Option<String>,
    /// The agent that made the call.
    agent_ref: Option<String>,
    /// The run that made the call.
    run_id: Option<String>,
    /// The principal that the run acts as.
    principal: Option<String>,
    /// The earliest time at which the outcome was determined.
    since: Option<String>,
    /// The time before which the outcome was determined.
    before: Option<String>,
    /// The page size, from 1 to 100. Default: 20.
    limit: Option<u32>,
    /// `nextCursor` of the previous page.
    cursor: Option<String>,
}

/// Lists effects, newest first: those of the caller's own runs, or of all runs if the caller may read them.
#[utoipa::path(get, path = "/api/v1/ai/effects", tag = TAG, operation_id = "listEffects", params(EffectListParams),
    responses((status = 200, body = PageView<EffectView>)))]
pub(crate) async fn list(
    State(engine): State<AppState>,
    Caller(session): Caller,
    QueryParams(params): QueryParams<EffectListParams>,
) -> Result<Json<PageView<EffectView>>, Problem> {
    let outcomes = params.outcome.as_deref().unwrap_or_default().split(',').filter(|text| !text.is_empty());
    let outcomes: Result<Vec<EffectOutcome>, _> = outcomes.map(|text| text.trim().parse()).collect();
    let filter = CallFilterParams {
        tool_ref: params.tool_ref,
        agent_ref: params.agent_ref,
        run_id: params.run_id,
        principal: params.principal,
        since: params.since,
        before: params.before,
    };
    let query = EffectQuery {
        outcomes: outcomes.map_err(|error| Problem::invalid("outcome", error.to_string()))?,
        filter: filter.filter()?,
        limit: list_params::limit(params.limit)?,
        cursor: list_params::cursor(params.cursor.as_deref())?,
    };
    let page = engine.runs.effects(&session, query).await?;
    let mut items = Vec::with_capacity(page.items.len());
    for record in page.items {
        items.push(EffectView::new(&engine.agents, &session, record).await?);
    }
    Ok(Json(PageView { items, next_cursor: page.next.map(|cursor| cursor.to_string()) }))
}

/// Returns an effect.
#[utoipa::path(get, path = "/api/v1/ai/effects/{id}", tag = TAG, operation_id = "getEffect", params(("id" = String, Path)),
    responses((status = 200, body = EffectView)))]
pub(crate) async fn get(
    State(engine): State<AppState>,
    Caller(session): Caller,
    PathName(id): PathName,
) -> Result<Json<EffectView>, Problem> {
    let record = engine.runs.effect(&session, &id.parse()?).await?;
    Ok(Json(EffectView::new(&engine.agents, &session, record).await?))
}

/// The resolution of an unknown outcome.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ResolveBody {
    /// `done` or `failed`.
    outcome: String,
    /// A remark.
    #[serde(default)]
    note: Option<String>,
}

/// Sets the outcome of a write whose outcome is unknown. The journal of the run does not change.
#[utoipa::path(post, path = "/api/v1/ai/effects/{id}/resolve", tag = TAG, operation_id = "resolveEffect", request_body = ResolveBody,
    params(("id" = String, Path)),
    responses((status = 200, body = EffectView)))]
pub(crate) async fn resolve(
    State(engine): State<AppState>,
    Caller(session): Caller,
    PathName(id): PathName,
    JsonBody(body): JsonBody<ResolveBody>,
) -> Result<Json<EffectView>, Problem> {
    let outcome = match body.outcome.as_str() {
        "done" => EffectOutcome::Done,
        "failed" => EffectOutcome::Failed,
        other => return Err(Problem::invalid("/outcome", format!("must be `done` or `failed`, got `{other}`"))),
    };
    if let Some(length) = body.note.as_ref().map(String::len).filter(|length| *length > MAX_NOTE_BYTES) {
        return Err(Problem::invalid("/note", format!("must have at most {MAX_NOTE_BYTES} bytes, got {length}")));
    }
    let record = engine.runs.resolve_effect(&session, &id.parse()?, outcome, body.note).await?;
    Ok(Json(EffectView::new(&engine.agents, &session, record).await?))
}

/// The options of an undo.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct EffectUndoBody {
    /// `true`: returns the plan and undoes nothing.
    #[serde(default, deserialize_with = "toolwright_types::null_as_default")]
    dry_run: bool,
}

/// Undoes one effect of a run that has ended: a new durable run calls the tool that `compensateToolRef` names.
#[utoipa::path(post, path = "/api/v1/ai/effects/{id}/undo", tag = TAG, operation_id = "undoEffect", request_body = EffectUndoBody,
    params(("id" = String, Path)),
    responses((status = 202, body = AcceptedView, headers(("Location" = String, description = "the path of the run that undoes it"))),
        (status = 200, body = UndoView, description = "with `dryRun`: the plan")))]
pub(crate) async fn undo(
    State(agents): State<Agents>,
    State(runs): State<Runs>,
    Caller(session): Caller,
    PathName(id): PathName,
    JsonBody(body): JsonBody<EffectUndoBody>,
) -> Result<Response, Problem> {
    let id: EffectId = id.parse()?;
    runs.effect(&session, &id).await?;
    if body.dry_run {
        let undo = agents.preview_undo_call(&session, id.run, &id.call_id).await?;
        return Ok(Json(UndoView::from(undo)).into_response());
    }
    let run = agents.undo_call(&session, id.run, &id.call_id).await?;
    let location = [(LOCATION, format!("/api/v1/ai/runs/{run}"))];
    Ok((StatusCode::ACCEPTED, location, Json(AcceptedView::running(run))).into_response())
}
