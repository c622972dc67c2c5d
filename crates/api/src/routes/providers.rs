//! Providers: connection tests and reference data. [`Collection`] has the routes for their definitions.

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use toolwright_engine::ReferenceData;
use toolwright_engine::references::{ReferenceItem, SyncReport, SyncState};
use toolwright_types::{Timestamp, ToolError, ToolProviderConfig};

use crate::collection::Collection;
use crate::extract::{Caller, PathName, QueryParams};
use crate::list_params;
use crate::problem::Problem;
use crate::state::AppState;

const TAG: &str = "tool-providers";

impl Collection for ToolProviderConfig {
    const PATH: &'static str = "/api/v1/ai/tool-providers";
    const TAG: &'static str = TAG;
    const SINGULAR: &'static str = "ToolProvider";
}

/// The result of a connection test.
#[derive(Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProviderTestView {
    /// Whether the provider answered and accepted the credentials.
    pub ok: bool,
    /// The HTTP status of the response.
    pub http_status: Option<u16>,
    /// The number of tools that an MCP server lists.
    pub tool_count: Option<u64>,
    /// The duration in milliseconds.
    pub duration_ms: u64,
    /// The error, if the test failed.
    pub error: Option<ToolError>,
}

/// The result of a sync of reference data.
#[derive(Serialize, utoipa::ToSchema)]
pub(crate) struct SyncReportView {
    /// One result per data type.
    results: Vec<SyncView>,
}

/// The result of a sync of one data type.
#[derive(Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SyncView {
    /// The data type.
    data_type: String,
    /// The number of items that the tool returned.
    items_found: usize,
    /// The number of new items.
    created: usize,
    /// The number of changed items.
    updated: usize,
    /// The number of removed items.
    deleted: usize,
    /// The number of invalid items.
    failed: usize,
    /// The errors. If nothing could be fetched, the existing items are kept.
    errors: Vec<String>,
}

impl From<SyncReport> for SyncView {
    fn from(synced: SyncReport) -> Self {
        let SyncReport { data_type, items_found, created, updated, deleted, failed, errors } = synced;
        Self { data_type, items_found, created, updated, deleted, failed, errors }
    }
}

/// The parameters of a sync.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct SyncParams {
    #[serde(default)]
    data_type: Option<String>,
}

/// Syncs the reference data of a provider: one data type, or all.
#[utoipa::path(post, path = "/api/v1/ai/tool-providers/{ref}/sync", tag = TAG, operation_id = "syncReferenceData",
    params(("ref" = String, Path), ("dataType" = Option<String>, Query, description = "the only data type to sync")),
    responses((status = 200, body = SyncReportView)))]
pub(crate) async fn sync(
    State(references): State<ReferenceData>,
    Caller(session): Caller,
    PathName(name): PathName,
    QueryParams(parameters): QueryParams<SyncParams>,
) -> Result<Json<SyncReportView>, Problem> {
    let synced = references.sync(&session, &name, parameters.data_type.as_deref()).await?;
    Ok(Json(SyncReportView { results: synced.into_iter().map(SyncView::from).collect() }))
}

/// A page of reference data.
#[derive(Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ReferenceDataView {
    /// The items, sorted by data type and id. Deleted items are included.
    items: Vec<ReferenceItemView>,
    /// The state of the last sync of each data type.
    syncs: Vec<SyncStateView>,
    /// The cursor of the next page; null on the last page.
    next_cursor: Option<String>,
}

/// An item of a provider's reference data.
#[derive(Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ReferenceItemView {
    /// The data type.
    data_type: String,
    /// The id in the provider's system, a string or a number.
    id: Value,
    /// The name.
    name: String,
    /// Additional fields.
    #[schema(value_type = Object)]
    metadata: Map<String, Value>,
    /// `active`, or `deleted` if the provider no longer returns the item.
    status: &'static str,
    /// When a sync last returned the item.
    #[schema(value_type = String, format = DateTime)]
    synced_at: Timestamp,
}

/// The state of the last sync of a data type.
#[derive(Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SyncStateView {
    /// The data type.
    data_type: String,
    /// The time of the last attempt.
    #[schema(value_type = String, format = DateTime)]
    attempted_at: Timestamp,
    /// The time of the last successful sync.
    #[schema(value_type = Option<String>, format = DateTime)]
    synced_at: Option<Timestamp>,
    /// The error of the last attempt. If it is set, the items are still those that the sync at `syncedAt` returned.
    error: Option<String>,
    /// The time of the next attempt.
    #[schema(value_type = Option<String>, format = DateTime)]
    next_sync_at: Option<Timestamp>,
}

/// The parameters of the list.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ReferenceParams {
    #[serde(default)]
    data_type: Option<String>,
    #[serde(default)]
    limit: Option<u32>,
    #[serde(default)]
    cursor: Option<String>,
}

/// Lists the reference data of a provider.
#[utoipa::path(get, path = "/api/v1/ai/tool-providers/{ref}/reference-data", tag = TAG, operation_id = "listReferenceData",
    params(("ref" = String, Path), ("dataType" = Option<String>, Query), ("limit" = Option<u32>, Query), ("cursor" = Option<String>, Query)),
    responses((status = 200, body = ReferenceDataView)))]
pub(crate) async fn reference_data(
    State(references): State<ReferenceData>,
    Caller(session): Caller,
    PathName(name): PathName,
    QueryParams(parameters): QueryParams<ReferenceParams>,
) -> Result<Json<ReferenceDataView>, Problem> {
    let limit = list_params::limit(parameters.limit)?;
    let after = match parameters.cursor.as_deref() {
        Some(cursor) => Some(cursor.split_once('/').ok_or_else(list_params::invalid_cursor)?),
        None => None,
    };
    let page = references.page(&session, &name, parameters.data_type.as_deref(), after, limit).await?;
    let last = page.items.last().filter(|_| page.more);
    Ok(Json(ReferenceDataView {
        next_cursor: last.map(|item| format!("{}/{}", item.data_type, item.external_id)),
        items: page.items.into_iter().map(ReferenceItemView::from).collect(),
        syncs: page.syncs.into_iter().map(SyncStateView::from).collect(),
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
        let SyncState { data_type, attempted_at, synced_at, error, next_sync_at } = state;
        Self { data_type, attempted_at, synced_at, error, next_sync_at }
    }
}

/// Tests the connection to a provider in its own protocol: lists the tools of an MCP server, asks a gRPC server for its
/// services, or sends a GET request to the base URL. A provider of type QUANTUM_INTERNAL is this server and needs no
/// connection.
#[utoipa::path(post, path = "/api/v1/ai/tool-providers/{ref}/test", tag = TAG, operation_id = "testToolProvider", params(("ref" = String, Path)),
    responses((status = 200, body = ProviderTestView)))]
pub(crate) async fn test(
    State(engine): State<AppState>,
    Caller(session): Caller,
    PathName(name): PathName,
) -> Result<Json<ProviderTestView>, Problem> {
    let provider = engine.registry.get::<ToolProviderConfig>(&session, &name, None).await?;
    let test = engine.calls.test_provider(&session, &provider).await?;
    Ok(Json(ProviderTestView {
        ok: test.as_ref().is_none_or(|test| test.error.is_none()),
        http_status: test.as_ref().and_then(|test| test.http_status),
        tool_count: test.as_ref().and_then(|test| test.tools.as_ref()).map(|tools| tools.len() as u64),
        duration_ms: test.as_ref().map_or(0, |test| test.duration_ms),
        error: test.and_then(|test| test.error),
    }))
}
