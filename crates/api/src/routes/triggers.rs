//! Triggers: their definitions, firings and the addresses of incoming webhooks.

use axum::Json;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::StatusCode;
use axum::http::header::LOCATION;
use axum::response::IntoResponse;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolwright_triggers::{Firing, FiringStatus, IncomingWebhook, TimeCursor, TriggerState, Triggers};
use toolwright_types::{FiringId, RunId, Timestamp, TriggerDefinition, TriggerKind};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::collection::{self, Collection};
use crate::extract::{Caller, OptionalJsonBody, PathName, QueryParams, read_body};
use crate::list_params;
use crate::problem::Problem;
use crate::revisions;
use crate::state::AppState;
use crate::views::{self, PageView, TriggerView};

const TAG: &str = "triggers";

/// The largest body of an incoming webhook, in bytes.
const MAX_WEBHOOK_BYTES: usize = 1 << 20;

impl Collection for TriggerDefinition {
    const PATH: &'static str = "/api/v1/ai/triggers";
    const TAG: &'static str = TAG;
    const SINGULAR: &'static str = "Trigger";
    const HAS_YAML: bool = true;
}

/// Returns the routes, with their OpenAPI description.
pub(crate) fn routes() -> OpenApiRouter<AppState> {
    OpenApiRouter::new()
        .merge(collection::routes::<TriggerDefinition>())
        .merge(revisions::routes::<TriggerDefinition>())
        .routes(routes!(state))
        .routes(routes!(firings))
        .routes(routes!(fire))
        .routes(routes!(pause))
        .routes(routes!(resume))
        .merge(OpenApiRouter::new().routes(routes!(receive)).layer(DefaultBodyLimit::max(MAX_WEBHOOK_BYTES)))
}

/// The state of a trigger.
#[derive(Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TriggerStateView {
    /// The name of the trigger.
    ref_name: String,
    /// What causes a run.
    kind: TriggerKind,
    /// Whether the trigger starts runs.
    enabled: bool,
    /// The next times of a schedule, at most five. Empty for a webhook and for a paused trigger.
    #[schema(value_type = Vec<String>)]
    next_runs: Vec<Timestamp>,
    /// The path at which a webhook is received; null for a schedule.
    hook_path: Option<String>,
    /// The last firing; null if the trigger has never fired.
    last_firing: Option<FiringView>,
}

impl From<TriggerState> for TriggerStateView {
    fn from(state: TriggerState) -> Self {
        let TriggerState { document, next_runs, last_firing } = state;
        let is_webhook = document.body.kind == TriggerKind::Webhook;
        Self {
            ref_name: document.meta.ref_name.to_string(),
            kind: document.body.kind,
            enabled: document.body.enabled,
            next_runs,
            hook_path: is_webhook.then(|| format!("/hooks/{}", document.meta.id)),
            last_firing: last_firing.map(FiringView::from),
        }
    }
}

/// A firing of a trigger.
#[derive(Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct FiringView {
    /// The id of the firing.
    id: String,
    /// What caused the firing: a scheduled time, the id of a webhook, or a test.
    cause: String,
    /// When the trigger fired.
    #[schema(value_type = String, format = DateTime)]
    fired_at: Timestamp,
    /// `PENDING`, `STARTED`, `FAILED` or `SKIPPED`.
    status: String,
    /// The run; null if none was started.
    #[schema(value_type = Option<String>)]
    run_id: Option<RunId>,
    /// The number of attempts to start the run.
    attempts: i64,
    /// Why the run was not started.
    error: Option<String>,
}

impl From<Firing> for FiringView {
    fn from(firing: Firing) -> Self {
        Self {
            id: firing.id.to_string(),
            cause: firing.cause,
            fired_at: firing.fired_at,
            status: firing.status.as_str().to_owned(),
            run_id: (firing.status == FiringStatus::Started).then_some(firing.run),
            attempts: firing.attempts,
            error: firing.error,
        }
    }
}

/// Returns the next times and the last firing of a trigger.
#[utoipa::path(get, path = "/api/v1/ai/triggers/{ref}/state", tag = TAG, operation_id = "getTriggerState",
    params(("ref" = String, Path)), responses((status = 200, body = TriggerStateView)))]
pub(crate) async fn state(
    State(triggers): State<Triggers>,
    Caller(session): Caller,
    PathName(reference): PathName,
) -> Result<Json<TriggerStateView>, Problem> {
    Ok(Json(triggers.state(&session, &reference).await?.into()))
}

/// The parameters of a list of firings or deliveries.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct HistoryParams {
    #[serde(default)]
    pub(crate) status: Option<String>,
    #[serde(default)]
    pub(crate) limit: Option<u32>,
    #[serde(default)]
    pub(crate) cursor: Option<String>,
}

/// Lists the firings of a trigger, newest first.
#[utoipa::path(get, path = "/api/v1/ai/triggers/{ref}/firings", tag = TAG, operation_id = "listTriggerFirings",
    params(("ref" = String, Path), ("status" = Option<String>, Query, description = "PENDING, STARTED, FAILED or SKIPPED"),
        ("limit" = Option<u32>, Query), ("cursor" = Option<String>, Query)),
    responses((status = 200, body = PageView<FiringView>)))]
pub(crate) async fn firings(
    State(triggers): State<Triggers>,
    Caller(session): Caller,
    PathName(reference): PathName,
    QueryParams(params): QueryParams<HistoryParams>,
) -> Result<Json<PageView<FiringView>>, Problem> {
    let limit = list_params::limit(params.limit)?;
    let status = params.status.as_deref().map(str::parse::<FiringStatus>).transpose();
    let status = status.map_err(|error| Problem::invalid("status", error.to_string()))?;
    let cursor = list_params::cursor::<TimeCursor<FiringId>>(params.cursor.as_deref())?;
    let page = triggers.firings(&session, &reference, status, cursor.as_ref(), limit).await?;
    let next_cursor = page.next.map(|cursor| cursor.to_string());
    Ok(Json(PageView { items: page.items.into_iter().map(FiringView::from).collect(), next_cursor }))
}

/// Starts a run of a trigger now, also if the trigger is paused. For a webhook, the body is what the expressions of the
/// input read as `webhook.body`. Requires the permission to write the trigger.
#[utoipa::path(post, path = "/api/v1/ai/triggers/{ref}/fire", tag = TAG, operation_id = "fireTrigger", request_body = Option<Value>,
    params(("ref" = String, Path)),
    responses((status = 202, body = FiringView, headers(("Location" = String, description = "the path of the run")))))]
pub(crate) async fn fire(
    State(triggers): State<Triggers>,
    Caller(session): Caller,
    PathName(reference): PathName,
    OptionalJsonBody(body): OptionalJsonBody<Value>,
) -> Result<impl IntoResponse, Problem> {
    let firing = triggers.fire(&session, &reference, body).await?;
    let location = [(LOCATION, format!("/api/v1/ai/runs/{}", firing.run))];
    Ok((StatusCode::ACCEPTED, location, Json(FiringView::from(firing))))
}

/// Pauses a trigger. Times that pass while it is paused are not run later.
#[utoipa::path(post, path = "/api/v1/ai/triggers/{ref}/pause", tag = TAG, operation_id = "pauseTrigger",
    params(("ref" = String, Path)), responses((status = 200, body = TriggerView)))]
pub(crate) async fn pause(
    State(triggers): State<Triggers>,
    Caller(session): Caller,
    PathName(reference): PathName,
) -> Result<impl IntoResponse, Problem> {
    Ok(views::saved(triggers.set_enabled(&session, &reference, false).await?))
}

/// Resumes a paused trigger.
#[utoipa::path(post, path = "/api/v1/ai/triggers/{ref}/resume", tag = TAG, operation_id = "resumeTrigger",
    params(("ref" = String, Path)), responses((status = 200, body = TriggerView)))]
pub(crate) async fn resume(
    State(triggers): State<Triggers>,
    Caller(session): Caller,
    PathName(reference): PathName,
) -> Result<impl IntoResponse, Problem> {
    Ok(views::saved(triggers.set_enabled(&session, &reference, true).await?))
}

/// The answer to an incoming webhook.
#[derive(Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct HookView {
    /// The id of the firing.
    firing_id: String,
    /// `STARTED` or `SKIPPED`.
    status: String,
    /// The run; null if none was started.
    #[schema(value_type = Option<String>)]
    run_id: Option<RunId>,
}

/// Receives a webhook that is signed as Standard Webhooks defines (`webhook-id`, `webhook-timestamp`,
/// `webhook-signature`), and starts the run of its trigger. The same `webhook-id` starts one run.
#[utoipa::path(post, path = "/hooks/{id}", tag = TAG, operation_id = "receiveWebhook", request_body = Option<Value>,
    params(("id" = String, Path)), security(()), responses((status = 202, body = HookView)))]
pub(crate) async fn receive(
    State(engine): State<AppState>,
    PathName(id): PathName,
    request: Request,
) -> Result<impl IntoResponse, Problem> {
    let headers = request.headers().clone();
    let body = read_body(request, &engine, MAX_WEBHOOK_BYTES).await?;
    let webhook = IncomingWebhook { headers: &headers, body: &body };
    let FiringView { id, status, run_id, .. } = engine.triggers.receive(&id, webhook).await?.into();
    Ok((StatusCode::ACCEPTED, Json(HookView { firing_id: id, status, run_id })))
}
