//! Journals of runs: verified, exported, replayed, compared, forked.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE, LOCATION};
use axum::response::IntoResponse;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use toolwright_engine::agents::Changes;
use toolwright_machine::journal::bundle::{Bundle, InvalidBundle, Outcome};
use toolwright_machine::journal::diff::differences;

use super::runs::run_id;
use crate::extract::{App, Body, Caller, Named, NamedWith, Raw};
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

/// Replays a bundle without network and clock, and says where it differs from what was recorded.
#[utoipa::path(post, path = "/api/v1/ai/runs/replay", tag = TAG, operation_id = "replayBundle",
    request_body(content = String, content_type = "application/jsonl"),
    responses((status = 200, body = ReplayView), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub async fn replay(Caller(_session): Caller, Raw(body): Raw) -> Result<Json<ReplayView>, Problem> {
    let unfit = |error: InvalidBundle| Problem::new(Code::InvalidBundle, error.to_string());
    let text = std::str::from_utf8(&body).map_err(|_| Problem::new(Code::InvalidBundle, "it is not UTF-8"))?;
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
