//! Journals of runs: verify, export, replay, diff and fork.

use std::borrow::Cow;
use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE, LOCATION};
use axum::http::{HeaderMap, StatusCode};
use axum::response::IntoResponse;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use toolwright_agents::{Agents, ForkChanges, ReplayChanges, ReplaySource};
use toolwright_catalog::Session;
use toolwright_machine::journal::bundle::{Bundle, InvalidBundle, RunOutcome};
use toolwright_machine::journal::diff::{ValueDifference, differences, remove_timestamps};
use toolwright_runs::{AlignedEntry, Divergence, Runs};
use toolwright_types::{CallSource, ErrorCode, RunId, RunStatus, Timestamp, ToolEnvelope};

use super::runs::run_id;
use crate::extract::{Caller, JsonBody, PathName, PathPair, QueryParams, RawBody, parse_json};
use crate::list_params;
use crate::problem::{Code, Problem};
use crate::run_views::AcceptedView;

const TAG: &str = "runs";
/// The content type of a bundle.
const JSON_LINES: &str = "application/jsonl";

/// The result of a verification.
#[derive(Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct VerificationView {
    /// Whether the hash chain is intact.
    pub intact: bool,
    /// The number of entries.
    pub entries: u64,
    /// The hash of the last entry. Keep a copy elsewhere to prove later that the journal was not changed.
    pub head_hash: String,
    /// The first entry that does not match the hash chain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub broken_at: Option<u64>,
    /// Why the entry does not match.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// Verifies the hash chain of a run's journal.
#[utoipa::path(get, path = "/api/v1/ai/runs/{id}/verify", tag = TAG, operation_id = "verifyRun", params(("id" = String, Path)),
    responses((status = 200, body = VerificationView)))]
pub(crate) async fn verify(
    State(runs): State<Runs>,
    Caller(session): Caller,
    PathName(id): PathName,
) -> Result<Json<VerificationView>, Problem> {
    let found = runs.verify(&session, run_id(&id)?).await?;
    let (broken_at, why) = found.broken.unzip();
    let intact = broken_at.is_none();
    Ok(Json(VerificationView { intact, entries: found.entries, head_hash: found.head_hash, broken_at, why }))
}

/// Exports a run as a bundle, which any server can replay.
#[utoipa::path(get, path = "/api/v1/ai/runs/{id}/export", tag = TAG, operation_id = "exportRun", params(("id" = String, Path)),
    responses((status = 200, body = String, content_type = "application/jsonl")))]
pub(crate) async fn export(
    State(runs): State<Runs>,
    Caller(session): Caller,
    PathName(id): PathName,
) -> Result<impl IntoResponse, Problem> {
    let run = run_id(&id)?;
    let bundle = runs.export(&session, run).await?;
    let headers =
        [(CONTENT_TYPE, JSON_LINES.to_owned()), (CONTENT_DISPOSITION, format!("attachment; filename=\"{run}.jsonl\""))];
    Ok((headers, bundle))
}

/// The result of a replay.
#[derive(Serialize, utoipa::ToSchema)]
pub(crate) struct ReplayView {
    /// Whether the replay is identical to the recording, byte for byte.
    identical: bool,
    /// The id of the run.
    run: String,
    /// The number of replayed entries.
    entries: usize,
    /// The first difference: entry (0 for the outcome), kind, field, expected, got.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    divergence: Option<Value>,
}

/// A recorded run, and the changes to replay it with.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ReplayBody {
    /// The run as a bundle.
    #[serde(default)]
    bundle: Option<String>,
    /// A run of this server, instead of a bundle.
    #[serde(default)]
    run_id: Option<String>,
    /// The changes.
    with: ReplayChangesBody,
}

/// The changes of a replay; everything else is taken from the recording.
#[derive(Default, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ReplayChangesBody {
    /// The tools to call in place of recorded tools, by the name of the recorded tool: `tool` or `tool@requirement`.
    #[serde(default, deserialize_with = "toolwright_types::null_as_default")]
    tools: BTreeMap<String, String>,
    /// The model, as `provider/model` or `model`.
    #[serde(default)]
    model: Option<String>,
    /// The instructions.
    #[serde(default)]
    prompt: Option<String>,
}

/// The differences between a replay with changes and the recording.
#[derive(Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TrialReplayView {
    /// The run that replays the recording.
    pub run_id: String,
    /// The recorded run.
    pub replay_of: String,
    /// The status of the replay.
    pub status: RunStatus,
    /// Whether the replay has the same outcome as the recording.
    pub identical: bool,
    /// Each field that differs: field, expected (recorded), got (now). Fields are status, reason, answer, calls (tool,
    /// version, input, output, error), iterations, usage and costUsd.
    #[schema(value_type = Vec<Object>)]
    pub differences: Vec<ValueDifference>,
    /// The calls, and the source of each result.
    pub calls: Vec<TrialCallView>,
    /// The replies of the model.
    pub replies: TrialRepliesView,
}

/// A call of a trial.
#[derive(Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TrialCallView {
    /// The call.
    pub call_id: String,
    /// The name of the tool.
    pub tool: String,
    /// The version that ran.
    pub version: String,
    /// The tool that replaced `tool`, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub implementation: Option<String>,
    /// `recorded`: taken from the recording. `made`: the tool was called. `captured`: the call was a write, so it
    /// was not made.
    pub source: Cow<'static, str>,
    /// The error code of a failed call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorCode>,
}

impl From<&ToolEnvelope> for TrialCallView {
    fn from(envelope: &ToolEnvelope) -> Self {
        Self {
            call_id: envelope.call_id.to_string(),
            tool: envelope.name.clone(),
            version: envelope.version.clone(),
            implementation: envelope.metadata.implementation.clone(),
            source: match envelope.metadata.source {
                Some(CallSource::Recorded) => "recorded".into(),
                Some(CallSource::Captured) => "captured".into(),
                None => "made".into(),
            },
            error: envelope.error.as_ref().map(|error| error.code),
        }
    }
}

/// The sources of the model replies of a trial.
#[derive(Serialize, Deserialize, utoipa::ToSchema)]
pub struct TrialRepliesView {
    /// The number of recorded replies.
    pub recorded: usize,
    /// The number of model calls.
    pub made: usize,
}

/// The response to a bundle, or to a body with changes.
#[derive(Serialize, utoipa::ToSchema)]
#[serde(untagged)]
pub(crate) enum ReplayResponse {
    /// The result of replaying a bundle.
    Bundle(ReplayView),
    /// The new run, and its differences from the recorded run.
    Trial(TrialReplayView),
}

/// Replays a bundle without access to the network or the clock, and returns the first difference from the recording. If
/// the body is JSON, starts a new run that replays the recorded run with the changes in `with`.
#[utoipa::path(post, path = "/api/v1/ai/runs/replay", tag = TAG, operation_id = "replayBundle",
    request_body(content((String = "application/jsonl"), (ReplayBody = "application/json"))),
    responses((status = 200, body = ReplayResponse)))]
pub(crate) async fn replay(
    State(agents): State<Agents>,
    Caller(session): Caller,
    headers: HeaderMap,
    RawBody(body): RawBody,
) -> Result<Json<ReplayResponse>, Problem> {
    let content_type =
        headers.get(CONTENT_TYPE).and_then(|content_type| content_type.to_str().ok()).unwrap_or_default();
    if content_type
        .split(';')
        .next()
        .is_some_and(|content_type| content_type.trim().eq_ignore_ascii_case("application/json"))
    {
        // The future is boxed, because it is large.
        let trial = Box::pin(replay_with(&agents, &session, parse_json(&body)?)).await?;
        return Ok(Json(ReplayResponse::Trial(trial)));
    }
    Ok(Json(ReplayResponse::Bundle(replay_bundle(&body)?)))
}

async fn replay_with(agents: &Agents, session: &Session, body: ReplayBody) -> Result<TrialReplayView, Problem> {
    let ReplayChangesBody { tools, model, prompt } = body.with;
    if tools.is_empty() && model.is_none() && prompt.is_none() {
        return Err(Problem::invalid("/with", "must have at least one of `tools`, `model` and `prompt`"));
    }
    let original = match (body.bundle, body.run_id) {
        (Some(bundle), None) => ReplaySource::Bundle(bundle),
        (None, Some(id)) => ReplaySource::Run(run_id(&id)?),
        _ => return Err(Problem::invalid("", "exactly one of `bundle` and `runId` is required")),
    };
    let replay = Box::pin(agents.replay(session, original, ReplayChanges { tools, model, prompt })).await?;
    let replay_of = replay.recorded.id().to_string();
    let replayed = agents.replay_report(session, replay).await?;
    let run = &replayed.snapshot.run;
    Ok(TrialReplayView {
        run_id: run.id().to_string(),
        replay_of,
        status: run.status(),
        identical: replayed.differences.is_empty(),
        differences: replayed.differences,
        calls: run.envelopes_in_request_order().into_iter().map(TrialCallView::from).collect(),
        replies: TrialRepliesView { recorded: replayed.recorded_replies, made: replayed.live_replies },
    })
}

fn replay_bundle(body: &[u8]) -> Result<ReplayView, Problem> {
    let invalid_bundle = |error: InvalidBundle| Problem::new(Code::InvalidBundle, error.to_string());
    let text = std::str::from_utf8(body).map_err(|_| Problem::new(Code::InvalidBundle, "the bundle must be UTF-8"))?;
    let bundle = Bundle::parse(text).map_err(invalid_bundle)?;
    let divergence = bundle.replay().map_err(invalid_bundle)?;
    Ok(ReplayView {
        identical: divergence.is_none(),
        run: bundle.run.to_string(),
        entries: bundle.entries.len(),
        divergence: divergence.and_then(|divergence| serde_json::to_value(divergence).ok()),
    })
}

/// The differences between two runs.
#[derive(Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunDiffView {
    /// Each field of the outcomes that differs: field, expected (the first run), got (the second).
    #[schema(value_type = Vec<Object>)]
    pub differences: Vec<ValueDifference>,
    /// The first journal entry that differs; null if the journals are equal.
    #[serde(default)]
    pub first_divergence: Option<DivergenceView>,
    /// The entries of both journals, aligned by their number. Without `from`, they begin three entries before the
    /// divergence.
    #[serde(default)]
    pub entries: Vec<AlignedEntryView>,
    /// The cursor of the next entries, or null after the last entry.
    #[serde(default)]
    pub next_cursor: Option<String>,
}

/// The first entry in which two journals differ. The comparison ignores times, the ids of runs and conversations, and
/// the ids that a model provider gives to calls.
#[derive(Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DivergenceView {
    /// The number of the entry.
    pub n: u64,
    /// The kind of the entry in the first run; null if the first run has fewer entries.
    pub kind: Option<String>,
    /// The kind of the entry in the second run; null if the second run has fewer entries.
    pub other_kind: Option<String>,
    /// The first 20 fields that differ: field, expected (the first run), got (the second).
    #[schema(value_type = Vec<Object>)]
    pub differences: Vec<ValueDifference>,
}

/// Two journal entries with the same number.
#[derive(Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AlignedEntryView {
    /// The number of both entries in their journals.
    pub n: u64,
    /// Whether the entries are equal.
    pub equal: bool,
    /// The kind of the entry in the first run; null if the first run has fewer entries.
    pub kind: Option<String>,
    /// The time of the entry of the first run.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub at: Option<Timestamp>,
    /// The kind of the entry in the second run; null if the second run has fewer entries.
    pub other_kind: Option<String>,
    /// The time of the entry of the second run.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub other_at: Option<Timestamp>,
}

impl From<AlignedEntry> for AlignedEntryView {
    fn from(aligned: AlignedEntry) -> Self {
        let ((kind, at), (other_kind, other_at)) = (aligned.one.unzip(), aligned.other.unzip());
        Self { n: aligned.n, equal: aligned.equal, kind, at, other_kind, other_at }
    }
}

/// The parameters of a comparison.
#[derive(Deserialize, utoipa::IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct DiffParams {
    /// The number of the first entry in `entries`. Default: three entries before the first divergence.
    from: Option<u64>,
    /// The number of entries, from 1 to 100. Default: 20.
    limit: Option<u32>,
    /// `nextCursor` of the previous page. It replaces `from`.
    cursor: Option<String>,
}

/// Compares two runs: their outcomes, field by field, and their journals, entry by entry.
#[utoipa::path(get, path = "/api/v1/ai/runs/{id}/diff/{other}", tag = TAG, operation_id = "compareRuns",
    params(("id" = String, Path), ("other" = String, Path), DiffParams),
    responses((status = 200, body = RunDiffView)))]
pub(crate) async fn diff(
    State(runs): State<Runs>,
    Caller(session): Caller,
    PathPair(id, other): PathPair,
    QueryParams(params): QueryParams<DiffParams>,
) -> Result<Json<RunDiffView>, Problem> {
    let limit = list_params::limit(params.limit)?;
    let from = list_params::cursor(params.cursor.as_deref())?.or(params.from);
    let (one, two) = (run_id(&id)?, run_id(&other)?);
    let [expected, got] = [outcome(&runs, &session, one).await?, outcome(&runs, &session, two).await?];
    let journals = runs.compare_journals(&session, [one, two], from, limit).await?;
    Ok(Json(RunDiffView {
        differences: differences(&expected, &got),
        first_divergence: journals.divergence.map(|Divergence { n, kind, other_kind, differences }| DivergenceView {
            n,
            kind,
            other_kind,
            differences,
        }),
        entries: journals.entries.into_iter().map(AlignedEntryView::from).collect(),
        next_cursor: journals.next.map(|n| n.to_string()),
    }))
}

/// Returns the outcome of a run, without its timestamps. The journal is replayed a page at a time.
async fn outcome(runs: &Runs, session: &Session, run: RunId) -> Result<Value, Problem> {
    let state = runs.state_at(session, run, None).await?;
    let mut outcome = serde_json::to_value(RunOutcome::from_run(&state.run)).unwrap_or_default();
    remove_timestamps(&mut outcome);
    Ok(outcome)
}

/// A fork of a run.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ForkBody {
    /// The last journal entry that both runs share, from 1.
    at: u64,
    /// A new message of the user.
    #[serde(default)]
    message: Option<String>,
    /// New instructions.
    #[serde(default)]
    prompt: Option<String>,
    /// A new model, as `provider/model` or `model`.
    #[serde(default)]
    model: Option<String>,
    /// A new result for the call that ends with entry `at`.
    #[serde(default, deserialize_with = "deserialize_present")]
    #[schema(value_type = Option<Value>)]
    result: Option<Value>,
    /// New version requirements, by tool name.
    #[serde(default, deserialize_with = "toolwright_types::null_as_default")]
    tools: BTreeMap<String, String>,
    /// Whether the fork is durable. Default: the same as the original run.
    #[serde(default)]
    durable: Option<bool>,
    /// Whether the fork may send writes again that the original run completed after entry `at`. If false, a fork that
    /// could repeat such writes is rejected, and the response lists the writes.
    #[serde(default, deserialize_with = "toolwright_types::null_as_default")]
    send_writes: bool,
}

/// Distinguishes null from an absent value, because null is a valid result.
fn deserialize_present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

/// Forks a run: starts a new run with the first entries of the original run, and returns at once.
#[utoipa::path(post, path = "/api/v1/ai/runs/{id}/fork", tag = TAG, operation_id = "forkRun", request_body = ForkBody, params(("id" = String, Path)),
    responses((status = 202, body = AcceptedView, headers(("Location" = String, description = "the path of the new run")))))]
pub(crate) async fn fork(
    State(agents): State<Agents>,
    Caller(session): Caller,
    PathName(id): PathName,
    JsonBody(body): JsonBody<ForkBody>,
) -> Result<impl IntoResponse, Problem> {
    for (tool, version) in &body.tools {
        if version.parse::<semver::VersionReq>().is_err() {
            let problem = format!("must be a version requirement such as `1.2.0` or `^1`, got `{version}`");
            return Err(Problem::invalid(&format!("/tools/{tool}"), problem));
        }
    }
    let changes = ForkChanges {
        message: body.message,
        prompt: body.prompt,
        model: body.model,
        result: body.result,
        tools: body.tools.into_iter().collect(),
        durable: body.durable,
        send_writes: body.send_writes,
    };
    let run = agents.fork(&session, run_id(&id)?, body.at, changes).await?;
    let location = [(LOCATION, format!("/api/v1/ai/runs/{run}"))];
    Ok((StatusCode::ACCEPTED, location, Json(AcceptedView::running(run))))
}
