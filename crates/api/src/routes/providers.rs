//! Providers: whether they can be reached, and what their systems call things. Their definitions are a collection like any other.

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use toolwright_engine::references::{ReferenceItem, SyncState, Synced};
use toolwright_tools::Outcome;
use toolwright_types::{ErrorCode, Timestamp, ToolError, ToolProviderConfig};

use crate::collection::Kind;
use crate::extract::{App, Caller, Named, Parameters};
use crate::problem::Problem;

const TAG: &str = "tool-providers";

impl Kind for ToolProviderConfig {
    const PATH: &'static str = "/api/v1/ai/tool-providers";
    const TAG: &'static str = TAG;
    const ONE: &'static str = "ToolProvider";
}

/// Whether a provider can be reached with its credentials.
#[derive(Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReachView {
    /// Whether it answered and took the credentials.
    ok: bool,
    /// The status it answered with.
    http_status: Option<u16>,
    /// How long that took.
    duration_ms: u64,
    /// Why not.
    error: Option<ToolError>,
}

/// What a fetch of reference data came to.
#[derive(Serialize, utoipa::ToSchema)]
pub struct SyncsView {
    /// One for each type.
    results: Vec<SyncView>,
}

/// What a fetch of one type came to.
#[derive(Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SyncView {
    /// The type.
    data_type: String,
    /// Items that the tool returned.
    items_found: usize,
    /// Items that are new.
    created: usize,
    /// Items that changed.
    updated: usize,
    /// Items that are gone.
    deleted: usize,
    /// Items that could not be read.
    failed: usize,
    /// What went wrong; when nothing could be fetched, what was there stays.
    errors: Vec<String>,
}

impl From<Synced> for SyncView {
    fn from(synced: Synced) -> Self {
        let Synced { data_type, items_found, created, updated, deleted, failed, errors } = synced;
        Self { data_type, items_found, created, updated, deleted, failed, errors }
    }
}

/// Which type to fetch.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SyncParameters {
    #[serde(default)]
    data_type: Option<String>,
}

/// Fetches the reference data of a provider: of one type, or of all.
#[utoipa::path(post, path = "/api/v1/ai/tool-providers/{ref}/sync", tag = TAG, operation_id = "syncReferenceData",
    params(("ref" = String, Path), ("dataType" = Option<String>, Query, description = "only this type")),
    responses((status = 200, body = SyncsView), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub async fn sync(
    State(engine): State<App>,
    Caller(session): Caller,
    Named(name): Named,
    Parameters(parameters): Parameters<SyncParameters>,
) -> Result<Json<SyncsView>, Problem> {
    let synced = engine.references.sync(&session, &name, parameters.data_type.as_deref()).await?;
    Ok(Json(SyncsView { results: synced.into_iter().map(SyncView::from).collect() }))
}

/// Reference data of a provider.
#[derive(Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReferenceDataView {
    /// Items, by type and id; those that are gone too.
    items: Vec<ReferenceItemView>,
    /// How the last fetch of each type went.
    syncs: Vec<SyncStateView>,
    /// Where the next page begins.
    next_cursor: Option<String>,
}

/// A thing of a provider's system.
#[derive(Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReferenceItemView {
    /// What it is.
    data_type: String,
    /// Its id there, a text or a number.
    #[schema(value_type = Object)]
    id: Value,
    /// What it is called.
    name: String,
    /// What else is kept of it.
    #[schema(value_type = Object)]
    metadata: Map<String, Value>,
    /// `active`, or `deleted` when the system no longer has it.
    status: &'static str,
    /// When it was seen last.
    #[schema(value_type = String, format = DateTime)]
    synced_at: Timestamp,
}

/// How the last fetch of a type went.
#[derive(Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SyncStateView {
    /// The type.
    data_type: String,
    /// When it was tried last.
    #[schema(value_type = String, format = DateTime)]
    tried_at: Timestamp,
    /// When it went well last.
    #[schema(value_type = Option<String>, format = DateTime)]
    synced_at: Option<Timestamp>,
    /// Why the last try failed; the items are those of `syncedAt` then.
    error: Option<String>,
    /// When it is tried again.
    #[schema(value_type = Option<String>, format = DateTime)]
    next_at: Option<Timestamp>,
}

/// Which items.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ReferenceParameters {
    #[serde(default)]
    data_type: Option<String>,
    #[serde(default)]
    limit: Option<u32>,
    #[serde(default)]
    cursor: Option<String>,
}

/// Shows the reference data of a provider.
#[utoipa::path(get, path = "/api/v1/ai/tool-providers/{ref}/reference-data", tag = TAG, operation_id = "listReferenceData",
    params(("ref" = String, Path), ("dataType" = Option<String>, Query), ("limit" = Option<u32>, Query), ("cursor" = Option<String>, Query)),
    responses((status = 200, body = ReferenceDataView), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub async fn reference_data(
    State(engine): State<App>,
    Caller(session): Caller,
    Named(name): Named,
    Parameters(parameters): Parameters<ReferenceParameters>,
) -> Result<Json<ReferenceDataView>, Problem> {
    let limit = parameters.limit.unwrap_or(20);
    if !(1..=100).contains(&limit) {
        return Err(Problem::invalid("limit", "is between 1 and 100"));
    }
    let after = match parameters.cursor.as_deref() {
        Some(cursor) => Some(cursor.split_once('/').ok_or_else(|| Problem::invalid("cursor", "is none of this list"))?),
        None => None,
    };
    let kept = engine.references.page(&session, &name, parameters.data_type.as_deref(), after, limit).await?;
    let last = kept.items.last().filter(|_| kept.more);
    Ok(Json(ReferenceDataView {
        next_cursor: last.map(|item| format!("{}/{}", item.data_type, item.external_id)),
        items: kept.items.into_iter().map(ReferenceItemView::from).collect(),
        syncs: kept.syncs.into_iter().map(SyncStateView::from).collect(),
    }))
}

impl From<ReferenceItem> for ReferenceItemView {
    fn from(item: ReferenceItem) -> Self {
        let status = if item.active { "active" } else { "deleted" };
        let ReferenceItem { data_type, id, name, metadata, synced_at, .. } = item;
        Self { data_type, id, name, metadata, status, synced_at }
    }
}

impl From<SyncState> for SyncStateView {
    fn from(state: SyncState) -> Self {
        let SyncState { data_type, tried_at, synced_at, error, next_at } = state;
        Self { data_type, tried_at, synced_at, error, next_at }
    }
}

/// Asks a provider for its base URL.
#[utoipa::path(post, path = "/api/v1/ai/tool-providers/{ref}/test", tag = TAG, operation_id = "testToolProvider", params(("ref" = String, Path)),
    responses((status = 200, body = ReachView), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub async fn test(
    State(engine): State<App>,
    Caller(session): Caller,
    Named(name): Named,
) -> Result<Json<ReachView>, Problem> {
    let provider = engine.registry.get::<ToolProviderConfig>(&session, &name, None).await?;
    let Outcome::Done(envelope) = engine.calls.probe(&session, &provider).await? else {
        return Err(Problem::new(crate::Code::Internal, "a probe has no client's part"));
    };
    let http_status = envelope.metadata.http_status;
    // Any answer but a refusal of the credentials or a failure of the system shows that it is there: few have a root.
    let answered = http_status.is_some_and(|status| status < 500);
    let error = envelope.error.filter(|error| !(answered && error.code == ErrorCode::ProviderError));
    Ok(Json(ReachView {
        ok: error.is_none(),
        http_status,
        duration_ms: envelope.t_end.millis_since(envelope.t_start),
        error,
    }))
}
