//! Trials: one agent with two libraries over the same inputs, and what became of live arms.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::LOCATION;
use axum::response::IntoResponse;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use toolwright_engine::agents::{CompareError, Comparison, Library, Original, Over};
use toolwright_machine::trial::Report;
use toolwright_types::{Timestamp, TrialId};

use super::runs::run_id;
use crate::errors::unbound;
use crate::extract::{App, Body, Caller, Named, Parameters};
use crate::problem::{Code, Problem};

const TAG: &str = "trials";

/// Two libraries, and what they are tried on.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TrialBody {
    /// The agent.
    agent_ref: String,
    /// What the other is held against.
    a: LibraryBody,
    /// The other.
    b: LibraryBody,
    /// What users say.
    #[serde(default)]
    inputs: Option<Vec<InputBody>>,
    /// Runs of the agent on this server instead, which are replayed.
    #[serde(default)]
    runs: Option<Vec<String>>,
    /// Such runs as bundles instead.
    #[serde(default)]
    bundles: Option<Vec<String>>,
    /// How often each is tried; once when absent.
    #[serde(default)]
    repeat: Option<u32>,
    /// Whether writes are captured, as they are when this is absent, or made.
    #[serde(default)]
    writes: WritesBody,
}

/// A library: one of the agent's own by name (`default` is none), or its tools.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(untagged)]
enum LibraryBody {
    /// One of the agent's own.
    Named(String),
    /// This one.
    Given(GivenLibraryBody),
}

/// A library that no agent has.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
struct GivenLibraryBody {
    /// What it is called in the report.
    #[serde(default)]
    name: Option<String>,
    /// Implementations by tool: `tool` or `tool@version`.
    tools: BTreeMap<String, String>,
}

/// What a user says.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct InputBody {
    /// The message.
    user_message: String,
    /// Variables for the prompt.
    #[serde(default, deserialize_with = "toolwright_types::or_default")]
    #[schema(value_type = Object)]
    context: Map<String, Value>,
}

/// What becomes of writes.
#[derive(Default, Deserialize, PartialEq, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
enum WritesBody {
    /// They are not made.
    #[default]
    Capture,
    /// They are.
    Send,
}

impl LibraryBody {
    fn library(self, unnamed: &str) -> Library {
        match self {
            LibraryBody::Named(name) => Library::Named(name),
            LibraryBody::Given(GivenLibraryBody { name, tools }) => {
                Library::Given { name: name.unwrap_or_else(|| unnamed.to_owned()), tools }
            }
        }
    }
}

/// A trial that has begun.
#[derive(Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TrialBegunView {
    trial_id: String,
}

/// A trial, as far as it has come.
#[derive(Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TrialView {
    trial_id: String,
    /// The agent.
    agent_ref: String,
    /// Whether more is to come.
    under_way: bool,
    /// How many runs each library is to have.
    runs: u32,
    /// Both libraries side by side, as far as runs have ended or wait.
    #[serde(flatten)]
    report: Report,
}

/// What became of an agent's live runs.
#[derive(Serialize, utoipa::ToSchema)]
pub struct LiveReportView {
    /// Each library that a share of the runs had (`b`), held against the runs that did not (`a`).
    split: Vec<Report>,
    /// Each library that was tried in the shadow of runs (`b`), held against those runs (`a`).
    shadow: Vec<Report>,
}

/// Which runs.
#[derive(Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct Since {
    /// Those that began then or later; all when absent.
    since: Option<String>,
}

/// Begins to compare two libraries over the same inputs, and leaves that to itself.
#[utoipa::path(post, path = "/api/v1/ai/trials", tag = TAG, operation_id = "startTrial", request_body = TrialBody,
    responses((status = 202, body = TrialBegunView, headers(("Location" = String, description = "the trial"))),
        (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub async fn start(
    State(engine): State<App>,
    Caller(session): Caller,
    Body(body): Body<TrialBody>,
) -> Result<impl IntoResponse, Problem> {
    let (place, over) = match (body.inputs, body.runs, body.bundles) {
        (Some(inputs), None, None) => {
            let inputs = inputs.into_iter().map(|input| (input.user_message, input.context)).collect();
            ("/inputs", Over::Inputs(inputs))
        }
        (None, Some(runs), None) => {
            let runs: Result<Vec<Original>, Problem> = runs.iter().map(|id| run_id(id).map(Original::Run)).collect();
            ("/runs", Over::Runs(runs?))
        }
        (None, None, Some(bundles)) => ("/bundles", Over::Runs(bundles.into_iter().map(Original::Bundle).collect())),
        _ => return Err(Problem::invalid("", "needs one of `inputs`, `runs` and `bundles`")),
    };
    if body.repeat == Some(0) {
        return Err(Problem::invalid("/repeat", "must be at least 1"));
    }
    let wanted = Comparison {
        agent: body.agent_ref,
        a: body.a.library("a"),
        b: body.b.library("b"),
        over,
        repeat: body.repeat.unwrap_or(1),
        sends_writes: body.writes == WritesBody::Send,
    };
    let trial = Box::pin(engine.agents.compare(&session, wanted)).await.map_err(|error| refused(place, error))?;
    let location = [(LOCATION, format!("/api/v1/ai/trials/{trial}"))];
    Ok((StatusCode::ACCEPTED, location, Json(TrialBegunView { trial_id: trial.to_string() })))
}

/// A trial, as far as it has come: outcomes, errors, latency and cost side by side, with confidence intervals.
#[utoipa::path(get, path = "/api/v1/ai/trials/{id}", tag = TAG, operation_id = "getTrial", params(("id" = String, Path)),
    responses((status = 200, body = TrialView), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub async fn get(
    State(engine): State<App>,
    Caller(session): Caller,
    Named(id): Named,
) -> Result<Json<TrialView>, Problem> {
    let unknown = || Problem::new(Code::NotFound, format!("there is no trial `{id}`"));
    let trial: TrialId = id.parse().map_err(|_| unknown())?;
    let found = engine.agents.compared(&session, trial).await?.ok_or_else(unknown)?;
    Ok(Json(TrialView {
        trial_id: trial.to_string(),
        agent_ref: found.agent,
        under_way: found.under_way,
        runs: found.runs,
        report: found.report,
    }))
}

/// What became of an agent's runs with and without the libraries of its split.
#[utoipa::path(get, path = "/api/v1/ai/agents/{ref}/trial-report", tag = TAG, operation_id = "reportTrials",
    params(("ref" = String, Path), Since),
    responses((status = 200, body = LiveReportView), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub async fn report(
    State(engine): State<App>,
    Caller(session): Caller,
    Named(agent): Named,
    Parameters(Since { since }): Parameters<Since>,
) -> Result<Json<LiveReportView>, Problem> {
    let since: Option<Timestamp> = since
        .map(|text| text.parse())
        .transpose()
        .map_err(|_| Problem::invalid("since", "is a moment such as `2026-11-15T08:00:00Z`"))?;
    let found = engine.agents.live_report(&session, &agent, since).await?;
    Ok(Json(LiveReportView { split: found.split, shadow: found.shadow }))
}

/// What a trial that cannot be made is to a client; `place` is where it says what is tried.
fn refused(place: &str, error: CompareError) -> Problem {
    let text = error.to_string();
    let invalid = |at: String| Problem::new(Code::InvalidTrial, text.clone()).at_field(&at, text.clone());
    match error {
        CompareError::Start(inner) => inner.into(),
        CompareError::Unavailable(inner) => inner.into(),
        CompareError::Library { first, source } => unbound(if first { "/a" } else { "/b" }, source),
        CompareError::Same => invalid("/b".to_owned()),
        CompareError::Count(_) => invalid(place.to_owned()),
        CompareError::RecordedWrites => invalid("/writes".to_owned()),
        CompareError::Empty(at) | CompareError::OtherAgent { at, .. } => invalid(format!("{place}/{at}")),
        CompareError::Run { at, source } => Problem::from(source).at_field(&format!("{place}/{at}"), text),
    }
}
