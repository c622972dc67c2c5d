//! Stops tools that call themselves over MCP.
//!
//! A tool of an MCP server may lead back to this server, for example if a server imports the tools of a second server,
//! which imports the tools of the first. Each call therefore carries the number of Toolwright servers that it has passed
//! through, in the field `_meta` of the request.

use rmcp::model::{MetaObject, RequestMetaObject};
use serde_json::{Map, Value, json};
use toolwright_tools::ToolFailure;
use toolwright_types::{ErrorCode, ToolError};

/// The field of `_meta` with the number of servers that a call has passed through.
pub(crate) const META_KEY: &str = "toolwright/hops";
/// The field of the `_meta` of a tool list that identifies the deployment.
pub(crate) const DEPLOYMENT_META_KEY: &str = "toolwright/deployment";
/// The maximum number of servers that a call passes through.
pub(crate) const MAX_HOPS: u8 = 8;

/// Returns the number of servers that a request has passed through: 0 if the request does not contain the number.
pub(crate) fn from_meta(meta: &Map<String, Value>) -> u8 {
    meta.get(META_KEY).map_or(0, from_value)
}

/// Returns the number of servers from the value of [`META_KEY`].
pub(crate) fn from_value(hops: &Value) -> u8 {
    u8::try_from(hops.as_u64().unwrap_or_default()).unwrap_or(u8::MAX)
}

/// Returns the `_meta` for a call that this server makes while it handles a received call. `received` is the number of
/// servers that the received call has passed through. Fails if it has reached [`MAX_HOPS`].
pub(crate) fn next_meta(received: u8) -> Result<RequestMetaObject, ToolFailure> {
    if received >= MAX_HOPS {
        let message = format!(
            "the call has passed through {MAX_HOPS} servers; check whether one of their MCP tools leads back to itself"
        );
        return Err(ToolError::new(ErrorCode::PolicyDenied, message).reason("too_many_hops").into());
    }
    Ok(RequestMetaObject(MetaObject::from(Map::from_iter([(META_KEY.to_owned(), json!(received + 1))]))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn call_that_passed_through_the_maximum_number_of_servers_is_refused() {
        let mut received = 0;
        for _ in 0..MAX_HOPS {
            received = from_meta(&next_meta(received).unwrap().0.0);
        }
        assert_eq!(received, MAX_HOPS);
        assert!(next_meta(received).is_err());
        assert!(next_meta(from_meta(json!({ "toolwright/hops": 1_000_000 }).as_object().unwrap())).is_err());
        assert_eq!(from_meta(json!({ "toolwright/hops": "many" }).as_object().unwrap()), 0);
    }
}
