//! Journals of runs: verified, exported, replayed, compared, forked.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE, LOCATION};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use toolwright_engine::Session;
use toolwright_engine::agents::{Changes, Original, With};
use toolwright_machine::journal::bundle::{Bundle, InvalidBundle, Outcome};
use toolwright_machine::journal::diff::differences;
use toolwright_types::{CallSource, ErrorCode, RunStatus, ToolEnvelope};

use super::runs::run_id;
use crate::extract::{App, Body, Caller, Named, NamedWith, Raw, json_body};
use crate::problem::{Code, Problem};
use crate::run_views::AcceptedView;

const TAG: &str = "runs";
/// What a bundle is.
const JSON_LINES: &str = "application/jsonl";

/// Whether a journal is what was written.
#[derive(Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct VerificationView {
    /// Whether it is.
    intact: bool,
    /// How many entries it has.
    entries: u64,
    /// The hash of the last one. Kept elsewhere, it proves what the whole journal was.
    head: String,
    /// The first entry that is not what was written.
    #[serde(skip_serializing_if = "Option::is_none")]
    broken_at: Option<u64>,
    /// Why not.
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
}

/// Holds a run's journal against its chain of hashes.
#[utoipa::path(get, path = "/api/v1/ai/runs/{id}/verify", tag = TAG, operation_id = "verifyRun", params(("id" = String, Path)),
    responses((status = 200, body = VerificationView), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub async fn verify(
    State(engine): State<App>,
    Caller(session): Caller,
    Named(id): Named,
) -> Result<Json<VerificationView>, Problem> {
    let found = engine.runs.verify(&session, run_id(&id)?).await?;
    let (broken_at, why) = found.broken.unzip();
    let intact = broken_at.is_none();
    Ok(Json(VerificationView { intact, entries: found.entries, head: found.head, broken_at, why }))
}

/// Gives a run as a bundle that can be replayed anywhere.
#[utoipa::path(get, path = "/api/v1/ai/runs/{id}/export", tag = TAG, operation_id = "exportRun", params(("id" = String, Path)),
    responses((status = 200, body = String, content_type = "application/jsonl"), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub async fn export(
    State(engine): State<App>,
    Caller(session): Caller,
    Named(id): Named,
) -> Result<impl IntoResponse, Problem> {
    let run = run_id(&id)?;
    let bundle = engine.runs.export(&session, run).await?;
    let headers =
        [(CONTENT_TYPE, JSON_LINES.to_owned()), (CONTENT_DISPOSITION, format!("attachment; filename=\"{run}.jsonl\""))];
    Ok((headers, bundle))
}

/// Whether a bundle replays as it was recorded.
#[derive(Serialize, utoipa::ToSchema)]
pub struct ReplayView {
    /// Whether this release makes the same run of it, to the byte.
    identical: bool,
    /// The run.
    run: String,
    /// How many entries were replayed.
    entries: usize,
    /// Where it first differs: entry (0 for the outcome), kind, field, expected, got.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    divergence: Option<Value>,
}

/// A recorded run, and what is to be new.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ReplayBody {
    /// The run as a bundle.
    #[serde(default)]
    bundle: Option<String>,
    /// A run of this server instead.
    #[serde(default)]
    run_id: Option<String>,
    /// What is new.
    with: WithBody,
}

/// What is new; the rest is as it was recorded.
#[derive(Default, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WithBody {
    /// Implementations of tools, by their names: `tool` or `tool@version`.
    #[serde(default)]
    tools: BTreeMap<String, String>,
    /// The model, as `provider/model` or `model`.
    #[serde(default)]
    model: Option<String>,
    /// The instructions.
    #[serde(default)]
    prompt: Option<String>,
}

/// Where a replay against something new differs from what was recorded.
#[derive(Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TrialReplayView {
    /// The run that replayed.
    run_id: String,
    /// The run that was recorded.
    replay_of: String,
    /// Where it stands.
    status: RunStatus,
    /// Whether what became of it is the same.
    identical: bool,
    /// Each field that differs: field, expected (recorded), got (now). Fields are status, reason, answer, calls (tool,
    /// version, input, output, error), iterations, usage and costUsd.
    #[schema(value_type = Vec<Object>)]
    differences: Vec<Value>,
    /// Each call, and where its result comes from.
    calls: Vec<TrialCallView>,
    /// The model's replies.
    replies: TrialRepliesView,
}

/// A call of a trial.
#[derive(Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TrialCallView {
    call_id: String,
    /// The tool.
    tool: String,
    /// The version that ran.
    version: String,
    /// What ran in its place, where something did.
    #[serde(skip_serializing_if = "Option::is_none")]
    implementation: Option<String>,
    /// `recorded`: as it was; `made`: the tool was called; `captured`: it would have changed something, and was not made.
    source: &'static str,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<ErrorCode>,
}

impl From<&ToolEnvelope> for TrialCallView {
    fn from(envelope: &ToolEnvelope) -> Self {
        Self {
            call_id: envelope.call_id.to_string(),
            tool: envelope.name.clone(),
            version: envelope.version.clone(),
            implementation: envelope.metadata.implementation.clone(),
            source: match envelope.metadata.source {
                Some(CallSource::Recorded) => "recorded",
                Some(CallSource::Captured) => "captured",
                None => "made",
            },
            error: envelope.error.as_ref().map(|error| error.code),
        }
    }
}

/// Where the replies of a trial's model come from.
#[derive(Serialize, utoipa::ToSchema)]
pub struct TrialRepliesView {
    /// How many are as they were.
    recorded: usize,
    /// How many the model was asked for.
    made: usize,
}

/// Replays a bundle without network and clock, and says where it differs from what was recorded. As JSON with `with`, the
/// run is replayed against something new, as a run of its own.
#[utoipa::path(post, path = "/api/v1/ai/runs/replay", tag = TAG, operation_id = "replayBundle",
    request_body(content((String = "application/jsonl"), (ReplayBody = "application/json"))),
    responses((status = 200, content((ReplayView), (TrialReplayView))), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub async fn replay(
    State(engine): State<App>,
    Caller(session): Caller,
    headers: HeaderMap,
    Raw(body): Raw,
) -> Result<Response, Problem> {
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    if kind.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json")) {
        return Ok(replay_with(&engine, &session, json_body(&body)?).await?.into_response());
    }
    Ok(replay_as_it_was(&body)?.into_response())
}

async fn replay_with(engine: &App, session: &Session, body: ReplayBody) -> Result<Json<TrialReplayView>, Problem> {
    let WithBody { tools, model, prompt } = body.with;
    if tools.is_empty() && model.is_none() && prompt.is_none() {
        return Err(Problem::invalid("/with", "names nothing that is new: give `tools`, `model` or `prompt`"));
    }
    let original = match (body.bundle, body.run_id) {
        (Some(bundle), None) => Original::Bundle(bundle),
        (None, Some(id)) => Original::Run(run_id(&id)?),
        _ => return Err(Problem::invalid("", "needs either `bundle` or `runId`")),
    };
    let replay = engine.agents.replay(session, original, With { tools, model, prompt }).await?;
    let replay_of = replay.recorded.id().to_string();
    let replayed = engine.agents.replayed(session, replay).await?;
    let run = &replayed.snapshot.run;
    Ok(Json(TrialReplayView {
        run_id: run.id().to_string(),
        replay_of,
        status: run.status(),
        identical: replayed.differences.is_empty(),
        differences: replayed.differences.iter().filter_map(|one| serde_json::to_value(one).ok()).collect(),
        calls: run.receipts_as_asked().into_iter().map(TrialCallView::from).collect(),
        replies: TrialRepliesView { recorded: replayed.recorded_replies, made: replayed.asked },
    }))
}

fn replay_as_it_was(body: &[u8]) -> Result<Json<ReplayView>, Problem> {
    let unfit = |error: InvalidBundle| Problem::new(Code::InvalidBundle, error.to_string());
    let text = std::str::from_utf8(body).map_err(|_| Problem::new(Code::InvalidBundle, "it is not UTF-8"))?;
    let bundle = Bundle::read(text).map_err(unfit)?;
    let divergence = bundle.replay().map_err(unfit)?;
    Ok(Json(ReplayView {
        identical: divergence.is_none(),
        run: bundle.run.to_string(),
        entries: bundle.entries.len(),
        divergence: divergence.and_then(|divergence| serde_json::to_value(divergence).ok()),
    }))
}

/// Where two runs differ.
#[derive(Serialize, utoipa::ToSchema)]
pub struct RunDiffView {
    /// Each field of their outcomes that differs: field, expected (the first run), got (the second).
    #[schema(value_type = Vec<Object>)]
    differences: Vec<Value>,
}

/// Compares what became of two runs, field by field.
#[utoipa::path(get, path = "/api/v1/ai/runs/{id}/diff/{other}", tag = TAG, operation_id = "compareRuns",
    params(("id" = String, Path), ("other" = String, Path)),
    responses((status = 200, body = RunDiffView), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub async fn diff(
    State(engine): State<App>,
    Caller(session): Caller,
    NamedWith(id, other): NamedWith,
) -> Result<Json<RunDiffView>, Problem> {
    let mut outcomes = Vec::with_capacity(2);
    for id in [&id, &other] {
        let record = engine.runs.get(&session, run_id(id)?).await?;
        let mut outcome = serde_json::to_value(Outcome::of(&record.snapshot.run)).unwrap_or_default();
        leave_out_times(&mut outcome);
        outcomes.push(outcome);
    }
    let differences = match outcomes.as_slice() {
        [one, two] => differences(one, two),
        _ => Vec::new(),
    };
    let differences = differences.iter().filter_map(|one| serde_json::to_value(one).ok()).collect();
    Ok(Json(RunDiffView { differences }))
}

/// Takes out when things happened: two runs never happen at the same time.
fn leave_out_times(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|name, _| !["t_start", "t_end", "active_us", "at"].contains(&name.as_str()));
            fields.values_mut().for_each(leave_out_times);
        }
        Value::Array(items) => items.iter_mut().for_each(leave_out_times),
        _ => {}
    }
}

/// A run that shares the beginning of another.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ForkBody {
    /// The last entry that both share, from 1.
    at: u64,
    /// What the user says instead.
    #[serde(default)]
    message: Option<String>,
    /// The instructions instead.
    #[serde(default)]
    prompt: Option<String>,
    /// The model instead, as `provider/model` or `model`.
    #[serde(default)]
    model: Option<String>,
    /// What the call that ends with entry `at` returned instead.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<Value>)]
    result: Option<Value>,
    /// Versions to use of tools, by name.
    #[serde(default)]
    tools: BTreeMap<String, String>,
    /// Whether it goes on after a crash; as the other when absent.
    #[serde(default)]
    durable: Option<bool>,
}

/// A value that is there, also when it is null.
fn given<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

/// Starts a run with the first entries of another, and leaves it to itself.
#[utoipa::path(post, path = "/api/v1/ai/runs/{id}/fork", tag = TAG, operation_id = "forkRun", request_body = ForkBody, params(("id" = String, Path)),
    responses((status = 202, body = AcceptedView, headers(("Location" = String, description = "the new run"))),
        (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub async fn fork(
    State(engine): State<App>,
    Caller(session): Caller,
    Named(id): Named,
    Body(body): Body<ForkBody>,
) -> Result<impl IntoResponse, Problem> {
    for (tool, version) in &body.tools {
        if version.parse::<semver::VersionReq>().is_err() {
            let problem = format!("`{version}` is no version requirement, such as `1.2.0` or `^1`");
            return Err(Problem::invalid(&format!("/tools/{tool}"), problem));
        }
    }
    let changes = Changes {
        message: body.message,
        prompt: body.prompt,
        model: body.model,
        result: body.result,
        tools: body.tools.into_iter().collect(),
        durable: body.durable,
    };
    let run = engine.agents.fork(&session, run_id(&id)?, body.at, changes).await?;
    let location = [(LOCATION, format!("/api/v1/ai/runs/{run}"))];
    Ok((StatusCode::ACCEPTED, location, Json(AcceptedView::running(run))))
}
