//! Trials: comparisons of an agent with two libraries over the same inputs, and reports on live splits and shadow runs.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::LOCATION;
use axum::response::IntoResponse;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use toolwright_agents::{
    Agents, CompareError, CompareRequest, ComparisonCases, LibrarySelection, ReplaySource, TrialFilter, TrialItem,
};
use toolwright_machine::trial::Report;
use toolwright_types::{Timestamp, TrialId};

use super::runs::run_id;
use crate::errors::binding_problem;
use crate::extract::{Caller, JsonBody, PathName, QueryParams};
use crate::list_params;
use crate::problem::{Code, Problem};
use crate::views::PageView;

const TAG: &str = "trials";

/// A trial of two libraries.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct TrialBody {
    /// The agent.
    agent_ref: String,
    /// The baseline library.
    a: LibraryBody,
    /// The library to compare with the baseline.
    b: LibraryBody,
    /// The inputs of the trial.
    #[serde(default)]
    inputs: Option<Vec<InputBody>>,
    /// Runs of the agent on this server to replay, instead of inputs.
    #[serde(default)]
    runs: Option<Vec<String>>,
    /// Bundles of runs to replay, instead of inputs.
    #[serde(default)]
    bundles: Option<Vec<String>>,
    /// How many times each input runs with each library. Default: 1.
    #[serde(default)]
    repeat: Option<u32>,
    /// Whether writes are captured or sent. Default: captured.
    #[serde(default)]
    writes: WritesBody,
}

/// A library: the name of one of the agent's libraries, `default` for the agent without a library, or an inline
/// library.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(untagged)]
enum LibraryBody {
    /// The name of one of the agent's libraries, or `default`.
    Named(String),
    /// An inline library.
    Given(InlineLibraryBody),
}

/// A library that is defined in the request.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
struct InlineLibraryBody {
    /// The name in the report.
    #[serde(default)]
    name: Option<String>,
    /// The tools to call in place of the agent's tools, by the name of the agent's tool: `tool` or `tool@version`.
    tools: BTreeMap<String, String>,
}

/// An input of a trial.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct InputBody {
    /// The message of the user.
    user_message: String,
    /// The variables of the prompt.
    #[serde(default, deserialize_with = "toolwright_types::null_as_default")]
    #[schema(value_type = Object)]
    context: Map<String, Value>,
}

/// The handling of writes.
#[derive(Default, Deserialize, PartialEq, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
enum WritesBody {
    /// Writes are recorded and not sent.
    #[default]
    Capture,
    /// Writes are sent.
    Send,
}

impl LibraryBody {
    fn library(self, default_name: &str) -> LibrarySelection {
        match self {
            LibraryBody::Named(name) => LibrarySelection::Named(name),
            LibraryBody::Given(InlineLibraryBody { name, tools }) => {
                LibrarySelection::Inline { name: name.unwrap_or_else(|| default_name.to_owned()), tools }
            }
        }
    }
}

/// A started trial.
#[derive(Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TrialStartedView {
    /// The id of the trial.
    pub trial_id: String,
}

/// The state of a trial.
#[derive(Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TrialView {
    /// The id of the trial.
    pub trial_id: String,
    /// The agent.
    pub agent_ref: String,
    /// Whether the trial is still running.
    pub under_way: bool,
    /// The number of runs per library.
    pub runs: u32,
    /// The report on both libraries. It counts the runs that have ended or wait.
    #[serde(flatten)]
    pub report: Report,
}

/// The report on an agent's live runs.
#[derive(Serialize, Deserialize, utoipa::ToSchema)]
pub struct LiveReportView {
    /// One report per library of a live split. It compares the runs with this library (`b`) to the runs without a
    /// library (`a`).
    pub split: Vec<Report>,
    /// One report per library of shadow runs. It compares the shadow runs with this library (`b`) to their original
    /// runs (`a`).
    pub shadow: Vec<Report>,
}

/// The parameters of a report.
#[derive(Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct TrialReportParams {
    /// The earliest start of the runs. Default: no limit.
    since: Option<String>,
}

/// Starts a comparison of two libraries over the same inputs, and returns at once.
#[utoipa::path(post, path = "/api/v1/ai/trials", tag = TAG, operation_id = "startTrial", request_body = TrialBody,
    responses((status = 202, body = TrialStartedView, headers(("Location" = String, description = "the path of the trial")))))]
pub(crate) async fn start(
    State(agents): State<Agents>,
    Caller(session): Caller,
    JsonBody(body): JsonBody<TrialBody>,
) -> Result<impl IntoResponse, Problem> {
    let (pointer, cases) = match (body.inputs, body.runs, body.bundles) {
        (Some(inputs), None, None) => {
            let inputs = inputs.into_iter().map(|input| (input.user_message, input.context)).collect();
            ("/inputs", ComparisonCases::Messages(inputs))
        }
        (None, Some(runs), None) => {
            let runs: Result<Vec<ReplaySource>, Problem> =
                runs.iter().map(|id| run_id(id).map(ReplaySource::Run)).collect();
            ("/runs", ComparisonCases::Runs(runs?))
        }
        (None, None, Some(bundles)) => {
            ("/bundles", ComparisonCases::Runs(bundles.into_iter().map(ReplaySource::Bundle).collect()))
        }
        _ => return Err(Problem::invalid("", "exactly one of `inputs`, `runs` and `bundles` is required")),
    };
    if body.repeat == Some(0) {
        return Err(Problem::invalid("/repeat", "must be at least 1, got 0"));
    }
    let comparison = CompareRequest {
        agent: body.agent_ref,
        a: body.a.library("a"),
        b: body.b.library("b"),
        cases,
        repeat: body.repeat.unwrap_or(1),
        sends_writes: body.writes == WritesBody::Send,
    };
    let trial =
        Box::pin(agents.compare(&session, comparison)).await.map_err(|error| compare_problem(pointer, error))?;
    let location = [(LOCATION, format!("/api/v1/ai/trials/{trial}"))];
    Ok((StatusCode::ACCEPTED, location, Json(TrialStartedView { trial_id: trial.to_string() })))
}

/// Returns a trial with its current report: outcomes, errors, latency and cost side by side, with confidence intervals.
#[utoipa::path(get, path = "/api/v1/ai/trials/{id}", tag = TAG, operation_id = "getTrial", params(("id" = String, Path)),
    responses((status = 200, body = TrialView)))]
pub(crate) async fn get(
    State(agents): State<Agents>,
    Caller(session): Caller,
    PathName(id): PathName,
) -> Result<Json<TrialView>, Problem> {
    let unknown = || Problem::new(Code::NotFound, format!("trial `{id}` does not exist"));
    let trial: TrialId = id.parse().map_err(|_| unknown())?;
    let found = agents.comparison_report(&session, trial).await?.ok_or_else(unknown)?;
    Ok(Json(TrialView {
        trial_id: trial.to_string(),
        agent_ref: found.agent,
        under_way: found.under_way,
        runs: found.runs,
        report: found.report,
    }))
}

/// A trial in a list.
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TrialItemView {
    /// The id of the trial.
    pub trial_id: String,
    /// The agent.
    pub agent_ref: String,
    /// The names of the compared libraries with which a run has started.
    pub libraries: Vec<String>,
    /// `running` or `ended`.
    pub status: String,
    /// The number of started runs, of both libraries.
    pub runs: i64,
    /// When the trial started.
    #[schema(value_type = String, format = DateTime)]
    pub started_at: Timestamp,
    /// When a run of the trial last changed.
    #[schema(value_type = String, format = DateTime)]
    pub updated_at: Timestamp,
}

impl From<TrialItem> for TrialItemView {
    fn from(trial: TrialItem) -> Self {
        Self {
            trial_id: trial.id.to_string(),
            agent_ref: trial.agent,
            libraries: trial.libraries,
            status: if trial.under_way { "running" } else { "ended" }.to_owned(),
            runs: trial.runs,
            started_at: trial.started_at,
            updated_at: trial.updated_at,
        }
    }
}

/// The parameters of the list.
#[derive(Deserialize, utoipa::IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct TrialListParams {
    /// Only trials of this agent.
    agent_ref: Option<String>,
    /// `running` or `ended`.
    status: Option<String>,
    /// The page size, from 1 to 100. Default: 20.
    limit: Option<u32>,
    /// `nextCursor` of the previous page.
    cursor: Option<String>,
}

/// Lists the comparisons of libraries, newest first. A caller without the permission to read all runs gets only the
/// comparisons that the caller started.
#[utoipa::path(get, path = "/api/v1/ai/trials", tag = TAG, operation_id = "listTrials", params(TrialListParams),
    responses((status = 200, body = PageView<TrialItemView>)))]
pub(crate) async fn list(
    State(agents): State<Agents>,
    Caller(session): Caller,
    QueryParams(parameters): QueryParams<TrialListParams>,
) -> Result<Json<PageView<TrialItemView>>, Problem> {
    let under_way = match parameters.status.as_deref() {
        None => None,
        Some("running") => Some(true),
        Some("ended") => Some(false),
        Some(other) => return Err(Problem::invalid("status", format!("must be `running` or `ended`, got `{other}`"))),
    };
    let filter = TrialFilter {
        agent: parameters.agent_ref,
        under_way,
        after: list_params::cursor(parameters.cursor.as_deref())?,
        limit: list_params::limit(parameters.limit)?,
    };
    let page = agents.trials(&session, filter).await?;
    Ok(Json(PageView {
        items: page.items.into_iter().map(TrialItemView::from).collect(),
        next_cursor: page.next.map(|trial| trial.to_string()),
    }))
}

/// Reports on an agent's live split and its shadow runs: compares runs with a library to runs without one.
#[utoipa::path(get, path = "/api/v1/ai/agents/{ref}/trial-report", tag = TAG, operation_id = "reportTrials",
    params(("ref" = String, Path), TrialReportParams),
    responses((status = 200, body = LiveReportView)))]
pub(crate) async fn report(
    State(agents): State<Agents>,
    Caller(session): Caller,
    PathName(agent): PathName,
    QueryParams(TrialReportParams { since }): QueryParams<TrialReportParams>,
) -> Result<Json<LiveReportView>, Problem> {
    let since: Option<Timestamp> = since
        .map(|text| {
            let rule = "must be an RFC 3339 timestamp such as `2026-11-15T08:00:00Z`";
            text.parse().map_err(|_| Problem::invalid("since", format!("{rule}, got `{text}`")))
        })
        .transpose()?;
    let found = agents.live_report(&session, &agent, since).await?;
    Ok(Json(LiveReportView { split: found.split, shadow: found.shadow }))
}

/// Returns the problem for an invalid trial. `pointer` is the JSON pointer of the field with the inputs.
fn compare_problem(pointer: &str, error: CompareError) -> Problem {
    let text = error.to_string();
    let invalid = |at: String| Problem::new(Code::InvalidTrial, text.clone()).with_field(&at, text.clone());
    match error {
        CompareError::Start(inner) => inner.into(),
        CompareError::Unavailable(inner) => inner.into(),
        CompareError::Library { first, source } => binding_problem(if first { "/a" } else { "/b" }, source),
        CompareError::SameLibrary => invalid("/b".to_owned()),
        CompareError::RunCount(_) => invalid(pointer.to_owned()),
        CompareError::RecordedWrites => invalid("/writes".to_owned()),
        CompareError::EmptyMessage(at) | CompareError::OtherAgent { at, .. } => invalid(format!("{pointer}/{at}")),
        CompareError::Run { at, source } => Problem::from(source).with_field(&format!("{pointer}/{at}"), text),
    }
}
