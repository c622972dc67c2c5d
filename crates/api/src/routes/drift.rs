//! Drift: where systems differ from what their tools say.

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolwright_engine::drift::{Drift, DriftQuery};
use toolwright_types::{DriftId, Timestamp};

use crate::extract::{App, Caller, Named, Parameters};
use crate::problem::{Code, Problem};

const TAG: &str = "drift";

/// A finding.
#[derive(Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DriftView {
    /// Its id.
    id: String,
    /// The tool, in lower case.
    tool_ref: String,
    /// The version that was seen last.
    version: String,
    /// `output` when an output did not fit its schema, `import` when a new description of the API says something else.
    source: String,
    /// `open`, or `accepted` when somebody said that it is known.
    status: &'static str,
    /// What differs: fields that are missing or added, and types that changed.
    #[schema(value_type = Vec<toolwright_types::Difference>)]
    differences: Value,
    /// How often it was seen.
    count: i64,
    /// When it was seen first.
    #[schema(value_type = String, format = DateTime)]
    first_seen: Timestamp,
    /// When it was seen last.
    #[schema(value_type = String, format = DateTime)]
    last_seen: Timestamp,
    /// Who accepted it.
    accepted_by: Option<String>,
    /// When.
    #[schema(value_type = Option<String>, format = DateTime)]
    accepted_at: Option<Timestamp>,
}

impl From<Drift> for DriftView {
    fn from(drift: Drift) -> Self {
        let (accepted_by, accepted_at) = drift.accepted.unzip();
        Self {
            id: drift.id.to_string(),
            tool_ref: drift.tool,
            version: drift.version,
            source: drift.source,
            status: if accepted_at.is_some() { "accepted" } else { "open" },
            differences: drift.differences,
            count: drift.count,
            first_seen: drift.first_seen,
            last_seen: drift.last_seen,
            accepted_by,
            accepted_at,
        }
    }
}

/// A part of the findings.
#[derive(Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DriftPage {
    /// The findings, the newest first.
    items: Vec<DriftView>,
    /// Where the next page begins.
    next_cursor: Option<String>,
}

/// Which findings.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DriftParameters {
    #[serde(default)]
    tool_ref: Option<String>,
    #[serde(default)]
    status: Option<String>,
    #[serde(default)]
    limit: Option<u32>,
    #[serde(default)]
    cursor: Option<String>,
}

/// Lists drift, the newest first.
#[utoipa::path(get, path = "/api/v1/ai/drift", tag = TAG, operation_id = "listDrift",
    params(("toolRef" = Option<String>, Query), ("status" = Option<String>, Query, description = "open or accepted"), ("limit" = Option<u32>, Query), ("cursor" = Option<String>, Query)),
    responses((status = 200, body = DriftPage), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub async fn list(
    State(engine): State<App>,
    Caller(session): Caller,
    Parameters(parameters): Parameters<DriftParameters>,
) -> Result<Json<DriftPage>, Problem> {
    let limit = parameters.limit.unwrap_or(20);
    if !(1..=100).contains(&limit) {
        return Err(Problem::invalid("limit", "is between 1 and 100"));
    }
    let accepted = match parameters.status.as_deref() {
        None => None,
        Some("open") => Some(false),
        Some("accepted") => Some(true),
        Some(_) => return Err(Problem::invalid("status", "is `open` or `accepted`")),
    };
    let after = parameters.cursor.as_deref().map(str::parse::<DriftId>).transpose();
    let after = after.map_err(|_| Problem::invalid("cursor", "is none of this list"))?;
    let query = DriftQuery { tool: parameters.tool_ref, accepted, after, limit: limit + 1 };
    let mut found = engine.drift.list(&session, &query).await?;
    let more = found.len() > limit as usize;
    found.truncate(limit as usize);
    let next_cursor = found.last().filter(|_| more).map(|last| last.id.to_string());
    Ok(Json(DriftPage { items: found.into_iter().map(DriftView::from).collect(), next_cursor }))
}

/// Says that a finding is known. It is still counted.
#[utoipa::path(post, path = "/api/v1/ai/drift/{ref}/accept", tag = TAG, operation_id = "acceptDrift", params(("ref" = String, Path)),
    responses((status = 200, body = DriftView), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub async fn accept(
    State(engine): State<App>,
    Caller(session): Caller,
    Named(id): Named,
) -> Result<Json<DriftView>, Problem> {
    let id: DriftId = id.parse().map_err(|_| Problem::new(Code::NotFound, format!("there is no finding `{id}`")))?;
    Ok(Json(engine.drift.accept(&session, id).await?.into()))
}
