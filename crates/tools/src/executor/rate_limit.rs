//! The rate limit of a tool, per realm.

use toolwright_types::{ErrorCode, ToolError};

use super::Ports;
use crate::{CallContext, CompiledTool};

pub(super) async fn check(ports: &Ports, cx: &CallContext, tool: &CompiledTool) -> Result<(), ToolError> {
    let Some(limit) = tool.definition.rate_limit else {
        return Ok(());
    };
    // The key contains the limit, so the calls before a change of the limit do not count against the new limit.
    let key = format!("{}/{}/{}/{}", cx.realm.realm, tool.id, limit.per_second, limit.burst);
    ports.limiter.admit(&key, limit).await.map_err(|wait| {
        let message = format!("tool `{}` allows {} calls per second", tool.definition.ref_name, limit.per_second);
        ToolError::new(ErrorCode::RateLimit, message)
            .reason("tool_rate_limit")
            .retry_after(round_up_to_millis(wait.as_secs_f64()))
    })
}

/// Rounds up to milliseconds, so that the number is easy to read.
fn round_up_to_millis(seconds: f64) -> f64 {
    (seconds * 1000.0).ceil() / 1000.0
}
