//! Imports records from CSV in batches, and exports records as CSV page by page.

use axum::body;
use axum::extract::State;
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use futures::stream::{self, Stream, StreamExt};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use toolwright_catalog::identity::Identity;
use toolwright_records::{Export, ExportRequest, FailedRow, Import, ImportProgress, RecordError, Records};
use toolwright_types::null_as_default;

use super::query::enter_realm;
use crate::extract::{Caller, JsonBody, QueryParams, RawBody};
use crate::problem::Problem;

const TAG: &str = "query";

/// The parameters of an import.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ImportParams {
    root_type: String,
    #[serde(default)]
    realm: Option<String>,
}

/// A line of the import report, with the totals so far.
#[derive(Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ImportLine {
    /// The number of created records.
    pub created: u64,
    /// The number of updated records.
    pub updated: u64,
    /// The rows that failed since the previous line.
    pub failed: Vec<FailedLine>,
    /// The number of failed rows.
    pub failures: u64,
    /// Whether this is the last line.
    pub done: bool,
    /// The error that ended the import early.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// A failed row.
#[derive(Serialize, Deserialize, utoipa::ToSchema)]
pub struct FailedLine {
    /// The line number of the row in the CSV text.
    pub line: u64,
    /// The reason.
    pub message: String,
}

impl From<ImportProgress> for ImportLine {
    fn from(progress: ImportProgress) -> Self {
        let ImportProgress { created, updated, failed, failures, done } = progress;
        let failed = failed.into_iter().map(|FailedRow { line, message }| FailedLine { line, message }).collect();
        Self { created, updated, failed, failures, done, error: None }
    }
}

/// Imports the rows of a CSV text as records. The first row names the fields. The report has one line of JSON per
/// batch.
#[utoipa::path(post, path = "/api/query/import", tag = TAG, operation_id = "importRecords",
    params(("rootType" = String, Query), ("realm" = Option<String>, Query)),
    request_body(content = String, content_type = "text/csv"),
    responses((status = 200, body = ImportLine, content_type = "application/x-ndjson")))]
pub(crate) async fn import(
    State(records): State<Records>,
    State(identity): State<Identity>,
    Caller(session): Caller,
    QueryParams(parameters): QueryParams<ImportParams>,
    RawBody(text): RawBody,
) -> Result<Response, Problem> {
    let session = enter_realm(&identity, session, parameters.realm.as_deref()).await?;
    let import = records.import(&session, &parameters.root_type, text.into()).await?;
    let body = body::Body::from_stream(report(import));
    Ok(([(CONTENT_TYPE, "application/x-ndjson")], body).into_response())
}

fn report(import: Import) -> impl Stream<Item = Result<Vec<u8>, serde_json::Error>> {
    stream::unfold(Some(import), |import| async move {
        let mut import = import?;
        let (line, rest) = match import.next_batch().await {
            Ok(Some(progress)) => (ImportLine::from(progress), Some(import)),
            Ok(None) => return None,
            Err(error) => (failed_line(error), None),
        };
        let text = serde_json::to_vec(&line).map(|mut text| {
            text.push(b'\n');
            text
        });
        Some((text, rest))
    })
}

/// Returns the last line of the report on an import that failed. Its totals are 0, although the batches that earlier
/// lines reported are saved.
fn failed_line(error: RecordError) -> ImportLine {
    tracing::error!(error = &error as &dyn std::error::Error, "import failed");
    ImportLine { error: Some(error.to_string()), ..ImportProgress::default().into() }
}

/// The records and fields to export.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ExportBody {
    /// The entity type.
    root_type: String,
    /// The query, in the query language. Default: all records.
    #[serde(default)]
    query: Option<String>,
    /// The order, such as `name, -created`. Default: by id.
    #[serde(default)]
    sort: Option<String>,
    /// The columns, such as `id, status, customer.name`. Default: the properties of the type.
    #[serde(default)]
    columns: Option<String>,
    /// The realm to query. Default: the realm of the request.
    #[serde(default)]
    realm: Option<String>,
    /// The variables of the query.
    #[serde(default, deserialize_with = "null_as_default")]
    #[schema(value_type = Object)]
    variables: Map<String, Value>,
}

/// Exports records as CSV.
#[utoipa::path(post, path = "/api/query/export", tag = TAG, operation_id = "exportRecords", request_body = ExportBody,
    responses((status = 200, body = String, content_type = "text/csv")))]
pub(crate) async fn export(
    State(records): State<Records>,
    State(identity): State<Identity>,
    Caller(session): Caller,
    JsonBody(body): JsonBody<ExportBody>,
) -> Result<Response, Problem> {
    let session = enter_realm(&identity, session, body.realm.as_deref()).await?;
    let ExportBody { root_type, query, sort, columns, variables, .. } = body;
    let request = ExportRequest { query, sort, columns, variables };
    let mut export = records.export(&session, &root_type, request).await?;
    // The first page is read before the response starts. If it fails, the client gets a problem document instead of a
    // truncated response.
    let first = export.next_chunk().await?;
    let rest = first.is_some().then_some(export);
    let headers =
        [(CONTENT_TYPE, "text/csv; charset=utf-8"), (CONTENT_DISPOSITION, "attachment; filename=\"records.csv\"")];
    let text = stream::iter(first.map(Ok)).chain(rows(rest));
    Ok((headers, body::Body::from_stream(text)).into_response())
}

/// The parameters of an export by link.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ExportParams {
    root_type: String,
    #[serde(default)]
    query: Option<String>,
    #[serde(default)]
    sort: Option<String>,
    #[serde(default)]
    columns: Option<String>,
    #[serde(default)]
    realm: Option<String>,
}

/// Exports records as CSV. Takes only query parameters, so that a link can start the export.
#[utoipa::path(get, path = "/api/query/export", tag = TAG, operation_id = "exportRecordsByLink",
    params(("rootType" = String, Query), ("query" = Option<String>, Query), ("sort" = Option<String>, Query),
        ("columns" = Option<String>, Query), ("realm" = Option<String>, Query)),
    responses((status = 200, body = String, content_type = "text/csv")))]
pub(crate) async fn export_by_link(
    records: State<Records>,
    identity: State<Identity>,
    caller: Caller,
    QueryParams(parameters): QueryParams<ExportParams>,
) -> Result<Response, Problem> {
    let ExportParams { root_type, query, sort, columns, realm } = parameters;
    export(
        records,
        identity,
        caller,
        JsonBody(ExportBody { root_type, query, sort, columns, realm, variables: Map::new() }),
    )
    .await
}

/// Returns the remaining pages. After a failure the server aborts the connection, so that the client does not mistake a
/// partial export for a complete one.
fn rows(export: Option<Export>) -> impl Stream<Item = Result<Vec<u8>, std::io::Error>> {
    stream::unfold(export, |export| async move {
        let mut export = export?;
        match export.next_chunk().await {
            Ok(Some(text)) => Some((Ok(text), Some(export))),
            Ok(None) => None,
            Err(error) => {
                tracing::error!(error = &error as &dyn std::error::Error, "export failed");
                Some((Err(std::io::Error::other(error.to_string())), None))
            }
        }
    })
}
