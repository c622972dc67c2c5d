//! Records as CSV: imported batch by batch, exported page by page.

use axum::body::Body as Answer;
use axum::extract::State;
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use futures::stream::{self, Stream, StreamExt};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use toolwright_engine::records::{Export, ExportRequest, FailedRow, Import, Progress, RecordError};
use toolwright_types::or_default;

use super::query::entered;
use crate::extract::{App, Body, Caller, Parameters, Raw};
use crate::problem::Problem;

const TAG: &str = "query";

/// What is imported, and where.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ImportParameters {
    root_type: String,
    #[serde(default)]
    realm: Option<String>,
}

/// One line of the report: what all came to so far.
#[derive(Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ImportLine {
    /// Records that are new.
    created: u64,
    /// Records that were there and were changed.
    updated: u64,
    /// Rows that were not written since the line before.
    failed: Vec<FailedLine>,
    /// How many were not written at all.
    failures: u64,
    /// Whether this is the last line.
    done: bool,
    /// Why the import ended before its end.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// A row that was not written.
#[derive(Serialize, utoipa::ToSchema)]
pub struct FailedLine {
    /// Its line in the text.
    line: u64,
    /// Why.
    message: String,
}

impl From<Progress> for ImportLine {
    fn from(progress: Progress) -> Self {
        let Progress { created, updated, failed, failures, done } = progress;
        let failed = failed.into_iter().map(|FailedRow { line, message }| FailedLine { line, message }).collect();
        Self { created, updated, failed, failures, done, error: None }
    }
}

/// Writes the rows of a CSV text as records. The first row names the fields; the report is one line of JSON per batch.
#[utoipa::path(post, path = "/api/query/import", tag = TAG, operation_id = "importRecords",
    params(("rootType" = String, Query), ("realm" = Option<String>, Query)),
    request_body(content = String, content_type = "text/csv"),
    responses((status = 200, body = ImportLine, content_type = "application/x-ndjson"),
        (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub async fn import(
    State(engine): State<App>,
    Caller(session): Caller,
    Parameters(parameters): Parameters<ImportParameters>,
    Raw(text): Raw,
) -> Result<Response, Problem> {
    let session = entered(&engine, session, parameters.realm.as_deref()).await?;
    let import = engine.records.import(&session, &parameters.root_type, text.into()).await?;
    let answer = Answer::from_stream(report(import));
    Ok(([(CONTENT_TYPE, "application/x-ndjson")], answer).into_response())
}

fn report(import: Import) -> impl Stream<Item = Result<Vec<u8>, serde_json::Error>> {
    stream::unfold(Some(import), |import| async move {
        let mut import = import?;
        let (line, rest) = match import.step().await {
            Ok(Some(progress)) => (ImportLine::from(progress), Some(import)),
            Ok(None) => return None,
            Err(error) => (broken_off(error), None),
        };
        let text = serde_json::to_vec(&line).map(|mut text| {
            text.push(b'\n');
            text
        });
        Some((text, rest))
    })
}

/// What was told before is written; the rest is not.
fn broken_off(error: RecordError) -> ImportLine {
    tracing::error!(error = &error as &dyn std::error::Error, "an import broke off");
    ImportLine { error: Some(error.to_string()), ..Progress::default().into() }
}

/// Which records are exported, and which of their fields.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ExportBody {
    /// The type.
    root_type: String,
    /// In the query language; everything when absent.
    #[serde(default)]
    query: Option<String>,
    /// `name, -created`; by id when absent.
    #[serde(default)]
    sort: Option<String>,
    /// `id, status, customer.name`; the properties of the type when absent.
    #[serde(default)]
    columns: Option<String>,
    /// The realm to look in; that of the request when absent.
    #[serde(default)]
    realm: Option<String>,
    /// Values for variables of the query.
    #[serde(default, deserialize_with = "or_default")]
    #[schema(value_type = Object)]
    variables: Map<String, Value>,
}

/// Records as CSV, by a body.
#[utoipa::path(post, path = "/api/query/export", tag = TAG, operation_id = "exportRecords", request_body = ExportBody,
    responses((status = 200, body = String, content_type = "text/csv"),
        (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub async fn export(
    State(engine): State<App>,
    Caller(session): Caller,
    Body(body): Body<ExportBody>,
) -> Result<Response, Problem> {
    let session = entered(&engine, session, body.realm.as_deref()).await?;
    let ExportBody { root_type, query, sort, columns, variables, .. } = body;
    let request = ExportRequest { query, sort, columns, variables };
    let mut export = engine.records.export(&session, &root_type, request).await?;
    // What fails at once is a problem, and not an answer that breaks off.
    let first = export.step().await?;
    let rest = first.is_some().then_some(export);
    let headers =
        [(CONTENT_TYPE, "text/csv; charset=utf-8"), (CONTENT_DISPOSITION, "attachment; filename=\"records.csv\"")];
    let text = stream::iter(first.map(Ok)).chain(rows(rest));
    Ok((headers, Answer::from_stream(text)).into_response())
}

/// The same by parameters, for a link.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ExportParameters {
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

/// Records as CSV, by parameters.
#[utoipa::path(get, path = "/api/query/export", tag = TAG, operation_id = "exportRecordsByLink",
    params(("rootType" = String, Query), ("query" = Option<String>, Query), ("sort" = Option<String>, Query),
        ("columns" = Option<String>, Query), ("realm" = Option<String>, Query)),
    responses((status = 200, body = String, content_type = "text/csv"),
        (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub async fn export_by_link(
    state: State<App>,
    caller: Caller,
    Parameters(parameters): Parameters<ExportParameters>,
) -> Result<Response, Problem> {
    let ExportParameters { root_type, query, sort, columns, realm } = parameters;
    export(state, caller, Body(ExportBody { root_type, query, sort, columns, realm, variables: Map::new() })).await
}

/// A text that breaks off is no text: the connection ends without its end, so that nobody takes a part for the whole.
fn rows(export: Option<Export>) -> impl Stream<Item = Result<Vec<u8>, std::io::Error>> {
    stream::unfold(export, |export| async move {
        let mut export = export?;
        match export.step().await {
            Ok(Some(text)) => Some((Ok(text), Some(export))),
            Ok(None) => None,
            Err(error) => {
                tracing::error!(error = &error as &dyn std::error::Error, "an export broke off");
                Some((Err(std::io::Error::other(error.to_string())), None))
            }
        }
    })
}
