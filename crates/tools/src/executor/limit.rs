//! The tool's own rate limit, per realm.

use toolwright_types::{ErrorCode, ToolError};

use super::Ports;
use crate::{CallContext, CompiledTool};

pub(super) async fn admit(ports: &Ports, cx: &CallContext, tool: &CompiledTool) -> Result<(), ToolError> {
    let Some(limit) = tool.definition.rate_limit else {
        return Ok(());
    };
    // A changed limit is a new allowance.
    let key = format!("{}/{}/{}/{}", cx.realm.realm, tool.id, limit.per_second, limit.burst);
    ports.limiter.admit(&key, limit).await.map_err(|wait| {
        let message = format!("tool `{}` allows {} calls per second", tool.definition.ref_name, limit.per_second);
        ToolError::new(ErrorCode::RateLimit, message)
            .reason("tool_rate_limit")
            .retry_after(round_up(wait.as_secs_f64()))
    })
}

/// Milliseconds are precise enough to wait by, and readable.
fn round_up(seconds: f64) -> f64 {
    (seconds * 1000.0).ceil() / 1000.0
}
