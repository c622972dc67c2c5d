//! Converts envelopes to results of `tools/call`.

use std::borrow::Cow;

use rmcp::model::{CallToolResult, ContentBlock, MetaObject, RequestId, Resource, ResultType};
use serde::Serialize;
use serde_json::{Value, json};
use toolwright_tools::export::WRAPPER_PROPERTY;
use toolwright_types::{Attachment, ToolEnvelope, ToolError};

use super::resources::blob_uri;

/// The name of the field in a result's `_meta` that contains the envelope.
pub(super) const ENVELOPE_META_KEY: &str = "toolwright/envelope";

/// Converts an envelope. The output becomes structured content and text, attachments become resource links, and a
/// failure becomes a result with `isError`. `_meta` contains the whole envelope.
pub(super) fn from_envelope(envelope: &ToolEnvelope) -> CallToolResult {
    let CallResultBody { content, structured_content, .. } = CallResultBody::new(envelope);
    let mut result = match &envelope.error {
        Some(_) => CallToolResult::error(content),
        None => CallToolResult::success(content),
    };
    result.structured_content = structured_content.map(Cow::into_owned);
    let envelope = serde_json::to_value(envelope).unwrap_or_default();
    result.meta = Some(MetaObject::from(serde_json::Map::from_iter([(ENVELOPE_META_KEY.to_owned(), envelope)])));
    result
}

/// Converts an output without an envelope.
pub(super) fn from_output(output: &Value) -> CallToolResult {
    let mut result = CallToolResult::success(vec![ContentBlock::text(text(output))]);
    result.structured_content = structured(output).map(Cow::into_owned);
    result
}

/// Converts an error without an envelope.
pub(super) fn from_error(error: &ToolError) -> CallToolResult {
    let mut result = CallToolResult::error(vec![ContentBlock::text(error_text(error))]);
    result.structured_content = Some(json!({ "error": error }));
    result
}

/// The response message of a call. Its result is equal to that of [`from_envelope`], but it borrows from the envelope
/// instead of copying.
#[derive(Serialize)]
pub(super) struct CallResponse<'a> {
    jsonrpc: &'static str,
    id: &'a RequestId,
    result: CallResultBody<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct CallResultBody<'a> {
    /// Absent for clients with an MCP session, because their protocol revisions do not have this field.
    #[serde(skip_serializing_if = "Option::is_none")]
    result_type: Option<ResultType>,
    content: Vec<ContentBlock>,
    #[serde(skip_serializing_if = "Option::is_none")]
    structured_content: Option<Cow<'a, Value>>,
    is_error: bool,
    #[serde(rename = "_meta")]
    meta: Meta<'a>,
}

#[derive(Serialize)]
struct Meta<'a> {
    #[serde(rename = "toolwright/envelope")]
    envelope: &'a ToolEnvelope,
}

impl<'a> CallResponse<'a> {
    pub(super) fn new(id: &'a RequestId, envelope: &'a ToolEnvelope, legacy: bool) -> Self {
        let result_type = (!legacy).then_some(ResultType::COMPLETE);
        Self { jsonrpc: "2.0", id, result: CallResultBody { result_type, ..CallResultBody::new(envelope) } }
    }
}

impl<'a> CallResultBody<'a> {
    fn new(envelope: &'a ToolEnvelope) -> Self {
        let (text, structured_content) = match &envelope.error {
            Some(error) => (error_text(error), Some(Cow::Owned(json!({ "error": error })))),
            None => (text(&envelope.output), structured(&envelope.output)),
        };
        let mut content = vec![ContentBlock::text(text)];
        content.extend(envelope.attachments.iter().filter_map(resource_link));
        content.extend(envelope.metadata.messages.iter().map(ContentBlock::text));
        if envelope.truncated {
            content.push(ContentBlock::text("The output is truncated; the linked resource has the whole output."));
        }
        let (is_error, meta) = (envelope.error.is_some(), Meta { envelope });
        Self { result_type: None, content, structured_content, is_error, meta }
    }
}

fn text(output: &Value) -> String {
    match output {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Returns the structured content for an output. Structured content must be an object, so any other output is wrapped
/// in an object. A null output has no structured content.
fn structured(output: &Value) -> Option<Cow<'_, Value>> {
    match output {
        Value::Object(_) => Some(Cow::Borrowed(output)),
        Value::Null => None,
        other => Some(Cow::Owned(json!({ WRAPPER_PROPERTY: other }))),
    }
}

/// The error as text. It contains the error code, so that the model can read it.
fn error_text(error: &ToolError) -> String {
    format!("{}: {}", error.code, error.message)
}

fn resource_link(attachment: &Attachment) -> Option<ContentBlock> {
    let uri = blob_uri(attachment)?;
    let name = uri.rsplit('/').next().unwrap_or_default().chars().take(12).collect::<String>();
    let mut resource = Resource::new(uri, name);
    resource.mime_type.clone_from(&attachment.content_type);
    resource.size = attachment.bytes;
    Some(ContentBlock::ResourceLink(resource))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn call_response_has_the_same_result_as_the_function_from_envelope() {
        let envelope = |output: Value, error: Value, truncated: bool| -> ToolEnvelope {
            let envelope = json!({ "call_id": "call_a", "name": "t", "version": "1.0.0", "input": {}, "output": output,
                "error": error, "t_start": "2026-01-01T00:00:00Z", "t_end": "2026-01-01T00:00:00Z", "cached": false,
                "truncated": truncated, "attachments": [], "metadata": { "attempt": 1 } });
            serde_json::from_value(envelope).unwrap()
        };
        let error = json!({ "code": "TIMEOUT", "message": "late" });
        for envelope in [
            envelope(json!({ "a": 1 }), Value::Null, false),
            envelope(json!("a text"), Value::Null, true),
            envelope(json!([1, 2]), Value::Null, false),
            envelope(Value::Null, Value::Null, false),
            envelope(Value::Null, error, false),
        ] {
            let response = |legacy| serde_json::to_value(CallResponse::new(&RequestId::Number(7), &envelope, legacy));
            let mut result = json!({ "jsonrpc": "2.0", "id": 7, "result": from_envelope(&envelope) });
            assert_eq!(response(false).unwrap(), result);
            result["result"].as_object_mut().unwrap().remove("resultType");
            assert_eq!(response(true).unwrap(), result);
        }
    }
}
