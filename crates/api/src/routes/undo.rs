//! What a run did, taken back.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::LOCATION;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use toolwright_engine::agents::{Kept, Undo, Undone};

use super::runs::run_id;
use crate::extract::{App, Body, Caller, Named};
use crate::problem::Problem;
use crate::run_views::AcceptedView;

const TAG: &str = "runs";

/// How to undo a run.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct UndoBody {
    /// Whether to take back what can be, although something stays.
    #[serde(default)]
    partial: bool,
    /// Whether only to say what would be done.
    #[serde(default)]
    dry_run: bool,
}

/// What undoing a run comes down to.
#[derive(Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct UndoView {
    /// What is taken back, in this order.
    steps: Vec<UndoneView>,
    /// What stays.
    kept: Vec<KeptView>,
}

/// A call that is taken back.
#[derive(Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct UndoneView {
    /// The run that made it.
    run_id: String,
    /// The call.
    call_id: String,
    /// The tool that was called.
    tool: String,
    /// The tool that takes it back.
    with: String,
}

/// A call that stays.
#[derive(Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct KeptView {
    /// The run that made it.
    run_id: String,
    /// The call.
    call_id: String,
    /// The tool that was called.
    tool: String,
    /// Why it stays.
    why: &'static str,
}

impl From<Undo> for UndoView {
    fn from(undo: Undo) -> Self {
        let steps = undo.steps.into_iter().map(|Undone { run, call_id, tool, with }| UndoneView {
            run_id: run.to_string(),
            call_id: call_id.to_string(),
            tool,
            with,
        });
        let kept = undo.kept.into_iter().map(|Kept { run, call_id, tool, why }| KeptView {
            run_id: run.to_string(),
            call_id: call_id.to_string(),
            tool,
            why,
        });
        Self { steps: steps.collect(), kept: kept.collect() }
    }
}

/// Takes back what a run that has ended did, and what the runs that it started did, the last call first: a durable run
/// calls the `compensateToolRef` of each tool that wrote. Asked again, it goes on with what is left.
#[utoipa::path(post, path = "/api/v1/ai/runs/{id}/undo", tag = TAG, operation_id = "undoRun", request_body = UndoBody, params(("id" = String, Path)),
    responses((status = 202, body = AcceptedView, headers(("Location" = String, description = "the run that undoes it"))),
        (status = 200, body = UndoView, description = "with `dryRun`: what would be done"),
        (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub async fn undo(
    State(engine): State<App>,
    Caller(session): Caller,
    Named(id): Named,
    Body(body): Body<UndoBody>,
) -> Result<Response, Problem> {
    let id = run_id(&id)?;
    if body.dry_run {
        let undo = engine.agents.undo_plan(&session, id).await?;
        return Ok(Json(UndoView::from(undo)).into_response());
    }
    let run = engine.agents.undo(&session, id, body.partial).await?;
    let location = [(LOCATION, format!("/api/v1/ai/runs/{run}"))];
    Ok((StatusCode::ACCEPTED, location, Json(AcceptedView::running(run))).into_response())
}
