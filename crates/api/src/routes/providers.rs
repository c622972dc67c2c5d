//! Providers: whether they can be reached. Their definitions are a collection like any other.

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use toolwright_tools::Outcome;
use toolwright_types::{ErrorCode, ToolError, ToolProviderConfig};

use crate::collection::Kind;
use crate::extract::{App, Caller, Named};
use crate::problem::Problem;

const TAG: &str = "tool-providers";

impl Kind for ToolProviderConfig {
    const PATH: &'static str = "/api/v1/ai/tool-providers";
    const TAG: &'static str = TAG;
    const ONE: &'static str = "ToolProvider";
}

/// Whether a provider can be reached with its credentials.
#[derive(Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReachView {
    /// Whether it answered and took the credentials.
    ok: bool,
    /// The status it answered with.
    http_status: Option<u16>,
    /// How long that took.
    duration_ms: u64,
    /// Why not.
    error: Option<ToolError>,
}

/// Asks a provider for its base URL.
#[utoipa::path(post, path = "/api/v1/ai/tool-providers/{ref}/test", tag = TAG, operation_id = "testToolProvider", params(("ref" = String, Path)),
    responses((status = 200, body = ReachView), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub async fn test(
    State(engine): State<App>,
    Caller(session): Caller,
    Named(name): Named,
) -> Result<Json<ReachView>, Problem> {
    let provider = engine.registry.get::<ToolProviderConfig>(&session, &name, None).await?;
    let Outcome::Done(envelope) = engine.calls.probe(&session, &provider).await? else {
        return Err(Problem::new(crate::Code::Internal, "a probe has no client's part"));
    };
    let http_status = envelope.metadata.http_status;
    // Any answer but a refusal of the credentials or a failure of the system shows that it is there: few have a root.
    let answered = http_status.is_some_and(|status| status < 500);
    let error = envelope.error.filter(|error| !(answered && error.code == ErrorCode::ProviderError));
    Ok(Json(ReachView {
        ok: error.is_none(),
        http_status,
        duration_ms: envelope.t_end.millis_since(envelope.t_start),
        error,
    }))
}
