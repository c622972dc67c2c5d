//! Drift: differences between the output schemas of tools and their actual outputs.

use std::borrow::Cow;

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolwright_engine::DriftReports;
use toolwright_engine::drift::{Drift, DriftQuery};
use toolwright_types::{DriftId, Timestamp};

use crate::extract::{Caller, PathName, QueryParams};
use crate::list_params;
use crate::problem::{Code, Problem};

const TAG: &str = "drift";

/// A drift finding.
#[derive(Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DriftView {
    /// The id of the finding.
    pub id: String,
    /// The tool, in lower case.
    pub tool_ref: String,
    /// The tool version of the last occurrence.
    pub version: String,
    /// `output` if an output did not match its schema, `import` if an imported API description differs from the tool.
    pub source: String,
    /// `open` or `accepted`.
    pub status: Cow<'static, str>,
    /// The differences: missing and additional fields, and changed types.
    #[schema(value_type = Vec<toolwright_types::SchemaDifference>)]
    pub differences: Value,
    /// The number of occurrences.
    pub count: i64,
    /// The time of the first occurrence.
    #[schema(value_type = String, format = DateTime)]
    pub first_seen: Timestamp,
    /// The time of the last occurrence.
    #[schema(value_type = String, format = DateTime)]
    pub last_seen: Timestamp,
    /// The principal that accepted the finding.
    pub accepted_by: Option<String>,
    /// When the finding was accepted.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub accepted_at: Option<Timestamp>,
}

impl From<Drift> for DriftView {
    fn from(drift: Drift) -> Self {
        let (accepted_by, accepted_at) = drift.accepted.unzip();
        Self {
            id: drift.id.to_string(),
            tool_ref: drift.tool,
            version: drift.version,
            source: drift.source,
            status: if accepted_at.is_some() { "accepted".into() } else { "open".into() },
            differences: drift.differences,
            count: drift.count,
            first_seen: drift.first_seen,
            last_seen: drift.last_seen,
            accepted_by,
            accepted_at,
        }
    }
}

/// A page of findings.
#[derive(Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DriftPage {
    /// The findings, newest first.
    items: Vec<DriftView>,
    /// The cursor of the next page; null on the last page.
    next_cursor: Option<String>,
}

/// The parameters of the list.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct DriftParams {
    #[serde(default)]
    tool_ref: Option<String>,
    #[serde(default)]
    status: Option<String>,
    #[serde(default)]
    limit: Option<u32>,
    #[serde(default)]
    cursor: Option<String>,
}

/// Lists drift findings, newest first.
#[utoipa::path(get, path = "/api/v1/ai/drift", tag = TAG, operation_id = "listDrift",
    params(("toolRef" = Option<String>, Query), ("status" = Option<String>, Query, description = "open or accepted"), ("limit" = Option<u32>, Query), ("cursor" = Option<String>, Query)),
    responses((status = 200, body = DriftPage)))]
pub(crate) async fn list(
    State(drift): State<DriftReports>,
    Caller(session): Caller,
    QueryParams(parameters): QueryParams<DriftParams>,
) -> Result<Json<DriftPage>, Problem> {
    let limit = list_params::limit(parameters.limit)?;
    let accepted = match parameters.status.as_deref() {
        None => None,
        Some("open") => Some(false),
        Some("accepted") => Some(true),
        Some(other) => {
            return Err(Problem::invalid("status", format!("must be `open` or `accepted`, got `{other}`")));
        }
    };
    let after = list_params::cursor::<DriftId>(parameters.cursor.as_deref())?;
    let query = DriftQuery { tool: parameters.tool_ref, accepted, after, limit: limit + 1 };
    let mut found = drift.list(&session, &query).await?;
    let more = found.len() > limit as usize;
    found.truncate(limit as usize);
    let next_cursor = found.last().filter(|_| more).map(|last| last.id.to_string());
    Ok(Json(DriftPage { items: found.into_iter().map(DriftView::from).collect(), next_cursor }))
}

/// Accepts a finding. Further occurrences are still counted.
#[utoipa::path(post, path = "/api/v1/ai/drift/{ref}/accept", tag = TAG, operation_id = "acceptDrift", params(("ref" = String, Path)),
    responses((status = 200, body = DriftView)))]
pub(crate) async fn accept(
    State(drift): State<DriftReports>,
    Caller(session): Caller,
    PathName(id): PathName,
) -> Result<Json<DriftView>, Problem> {
    let id: DriftId = id.parse().map_err(|_| Problem::new(Code::NotFound, format!("finding `{id}` does not exist")))?;
    Ok(Json(drift.accept(&session, id).await?.into()))
}
