//! The status of the server.

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use toolwright_engine::{LanguageStatus, PartHealth};
use toolwright_machine::Limits;

use crate::extract::Caller;
use crate::problem::Problem;
use crate::state::AppState;

/// The message about a part or a language that does not work, for callers that are not administrators.
const SEE_ADMINISTRATOR: &str = "does not work; administrators see the cause";

/// The status of the server.
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServerView {
    /// The version of the server.
    pub version: String,
    /// The optional features of this build, such as `postgres`.
    pub features: Vec<String>,
    /// The kind of the database: `sqlite` or `postgres`.
    pub database: String,
    /// Whether all parts work.
    pub healthy: bool,
    /// The parts that the server uses.
    pub parts: Vec<PartView>,
    /// The languages of the sandbox.
    pub languages: Vec<LanguageView>,
    /// The limits of requests and runs.
    pub limits: ServerLimitsView,
    /// Details for administrators; absent for others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub administration: Option<AdministrationView>,
}

/// The health of a part.
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct PartView {
    /// `database`, `blobs`, `redis`, `restate` or `disk`. Parts that the server does not use are absent.
    pub part: String,
    /// Whether the part works.
    pub ok: bool,
    /// What is wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// The availability of one language in the sandbox.
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct LanguageView {
    /// The name, as in `invocation.path`.
    pub language: String,
    /// Whether the language is available.
    pub available: bool,
    /// Why the language is not available.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// The limits of requests and runs.
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServerLimitsView {
    /// The largest request body, in bytes.
    pub max_body_bytes: u64,
    /// The largest request body of routes that take a document, in bytes.
    pub max_document_bytes: u64,
    /// The largest page of a list.
    pub max_page_size: u32,
    /// The maximum number of concurrent runs.
    pub max_running_runs: u64,
    /// The default limits, which apply if an agent does not set its own limits.
    pub run_defaults: RunLimitsView,
    /// The limits that no run may exceed.
    pub run_maximum: RunLimitsView,
}

/// The limits of a run. Null means no limit.
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunLimitsView {
    /// The maximum number of model calls.
    pub max_iterations: Option<u32>,
    /// The maximum number of tool calls.
    pub max_tool_calls: Option<u32>,
    /// The maximum active time in milliseconds.
    pub timeout_ms: Option<u64>,
    /// The maximum number of tokens.
    pub max_tokens: Option<u64>,
    /// The maximum cost in US dollars.
    pub max_cost_usd: Option<f64>,
}

impl From<Limits> for RunLimitsView {
    fn from(limits: Limits) -> Self {
        let limited = |value: u32| Some(value).filter(|value| *value < u32::MAX);
        Self {
            max_iterations: limited(limits.max_iterations),
            max_tool_calls: limited(limits.max_tool_calls),
            timeout_ms: limits.timeout_ms,
            max_tokens: limits.max_tokens,
            max_cost_usd: limits.max_cost_usd,
        }
    }
}

/// Details for administrators.
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AdministrationView {
    /// The id of the deployment, which is the same on all servers with the same seal key.
    pub deployment_id: String,
    /// The data folder.
    pub data_folder: String,
    /// The free space on the disk of the data folder, in bytes; null if it cannot be read.
    pub disk_free_bytes: Option<u64>,
    /// The size of the disk of the data folder, in bytes; null if it cannot be read.
    pub disk_total_bytes: Option<u64>,
    /// The number of runs in progress on this server.
    pub running_runs: u64,
}

/// Returns the version, the features, the limits and the health of the server. Administrators also see causes and
/// paths.
#[utoipa::path(get, path = "/api/v1/ai/server", tag = "server", operation_id = "getServer",
    responses((status = 200, body = ServerView)))]
pub(crate) async fn get(State(engine): State<AppState>, Caller(session): Caller) -> Result<Json<ServerView>, Problem> {
    engine.registry.may_enter(&session)?;
    let is_admin = engine.identity.is_administrator(&session);
    let status = &engine.status;
    let (health, languages) = tokio::join!(status.health(), status.languages());
    let parts: Vec<PartView> = health.into_iter().map(|part| part_view(part, is_admin)).collect();
    let administration = if is_admin {
        let disk = status.disk().await;
        Some(AdministrationView {
            deployment_id: engine.deployment_id(),
            data_folder: status.data_folder().display().to_string(),
            disk_free_bytes: disk.map(|disk| disk.free),
            disk_total_bytes: disk.map(|disk| disk.total),
            running_runs: status.running() as u64,
        })
    } else {
        None
    };
    let settings = engine.agents.settings();
    Ok(Json(ServerView {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        features: status.features().iter().map(|feature| (*feature).to_owned()).collect(),
        database: status.database().to_owned(),
        healthy: parts.iter().all(|part| part.ok),
        parts,
        languages: languages.iter().map(|language| language_view(language, is_admin)).collect(),
        limits: ServerLimitsView {
            max_body_bytes: crate::MAX_BODY_BYTES as u64,
            max_document_bytes: crate::MAX_DOCUMENT_BYTES as u64,
            max_page_size: crate::list_params::MAX_LIMIT,
            max_running_runs: settings.max_running as u64,
            run_defaults: settings.defaults.into(),
            run_maximum: settings.platform.into(),
        },
        administration,
    }))
}

fn part_view(health: PartHealth, is_admin: bool) -> PartView {
    let message = |problem: String| if is_admin { problem } else { SEE_ADMINISTRATOR.to_owned() };
    PartView { part: health.part.to_owned(), ok: health.problem.is_none(), message: health.problem.map(message) }
}

fn language_view(status: &LanguageStatus, is_admin: bool) -> LanguageView {
    let reason = |reason: &String| if is_admin { reason.clone() } else { SEE_ADMINISTRATOR.to_owned() };
    LanguageView {
        language: status.language.to_owned(),
        available: status.reason.is_none(),
        reason: status.reason.as_ref().map(reason),
    }
}
