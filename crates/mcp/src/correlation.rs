//! Sends and receives correlation ids over MCP, in the field `_meta` of a request. Headers are not used, because MCP
//! over standard input and output has no headers.

use rmcp::model::RequestMetaObject;
use serde_json::{Map, Value, json};
use toolwright_tools::CallContext;
use toolwright_types::CorrelationId;

/// The field of `_meta` with the correlation id.
const META_KEY: &str = "toolwright/correlationId";

/// Returns the correlation id of a request. An invalid id is ignored, as in the header of a REST request.
pub(crate) fn from_meta(meta: &Map<String, Value>) -> Option<CorrelationId> {
    from_value(meta.get(META_KEY)?)
}

/// Returns the correlation id from the value of [`META_KEY`].
pub(crate) fn from_value(id: &Value) -> Option<CorrelationId> {
    id.as_str()?.parse().ok()
}

/// Adds the correlation id of a call to the `_meta` of the request that the call sends.
pub(crate) fn add_to(meta: &mut RequestMetaObject, cx: &CallContext) {
    if let Some(id) = &cx.caller.correlation_id {
        meta.0.0.insert(META_KEY.to_owned(), json!(id));
    }
}
