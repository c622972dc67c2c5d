//! Undoing runs.

use std::borrow::Cow;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::LOCATION;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use toolwright_agents::{Agents, Compensation, IrreversibleCall, UndoPreview};

use super::runs::run_id;
use crate::extract::{Caller, JsonBody, PathName};
use crate::problem::Problem;
use crate::run_views::AcceptedView;

const TAG: &str = "runs";

/// Options of an undo.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct UndoBody {
    /// Whether to undo the remaining calls if some calls cannot be undone. If false, such an undo is rejected.
    #[serde(default, deserialize_with = "toolwright_types::null_as_default")]
    partial: bool,
    /// Whether to return the plan without executing it.
    #[serde(default, deserialize_with = "toolwright_types::null_as_default")]
    dry_run: bool,
}

/// The plan of an undo.
#[derive(Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct UndoView {
    /// The calls to undo, in this order.
    pub steps: Vec<UndoneCallView>,
    /// The calls that cannot be undone.
    pub kept: Vec<KeptCallView>,
}

/// A call to undo.
#[derive(Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct UndoneCallView {
    /// The run of the call.
    pub run_id: String,
    /// The call.
    pub call_id: String,
    /// The tool that was called.
    pub tool: String,
    /// The tool that undoes the call.
    pub with: String,
}

/// A call that cannot be undone.
#[derive(Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct KeptCallView {
    /// The run of the call.
    pub run_id: String,
    /// The call.
    pub call_id: String,
    /// The tool that was called.
    pub tool: String,
    /// The reason.
    pub why: Cow<'static, str>,
}

impl From<UndoPreview> for UndoView {
    fn from(undo: UndoPreview) -> Self {
        let steps = undo.compensations.into_iter().map(|Compensation { run, call_id, tool, undo_tool }| {
            UndoneCallView { run_id: run.to_string(), call_id: call_id.to_string(), tool, with: undo_tool }
        });
        let kept = undo.irreversible.into_iter().map(|IrreversibleCall { run, call_id, tool, reason }| KeptCallView {
            run_id: run.to_string(),
            call_id: call_id.to_string(),
            tool,
            why: reason.into(),
        });
        Self { steps: steps.collect(), kept: kept.collect() }
    }
}

/// Undoes the writes of a run that has ended and of its child runs, last call first. A new durable run calls, for each
/// write, the tool that `compensateToolRef` names. A repeated request continues with the remaining calls.
#[utoipa::path(post, path = "/api/v1/ai/runs/{id}/undo", tag = TAG, operation_id = "undoRun", request_body = UndoBody, params(("id" = String, Path)),
    responses((status = 202, body = AcceptedView, headers(("Location" = String, description = "the path of the run that undoes it"))),
        (status = 200, body = UndoView, description = "with `dryRun`: the plan")))]
pub(crate) async fn undo(
    State(agents): State<Agents>,
    Caller(session): Caller,
    PathName(id): PathName,
    JsonBody(body): JsonBody<UndoBody>,
) -> Result<Response, Problem> {
    let id = run_id(&id)?;
    if body.dry_run {
        let undo = agents.preview_undo(&session, id).await?;
        return Ok(Json(UndoView::from(undo)).into_response());
    }
    let run = agents.undo(&session, id, body.partial).await?;
    let location = [(LOCATION, format!("/api/v1/ai/runs/{run}"))];
    Ok((StatusCode::ACCEPTED, location, Json(AcceptedView::running(run))).into_response())
}
