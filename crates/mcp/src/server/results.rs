//! Receipts as results of `tools/call`.

use std::borrow::Cow;

use rmcp::model::{CallToolResult, ContentBlock, MetaObject, RequestId, Resource, ResultType};
use serde::Serialize;
use serde_json::{Value, json};
use toolwright_tools::export::WRAPPED;
use toolwright_types::{Attachment, ToolEnvelope, ToolError};

use super::resources::blob_uri;

/// Where the envelope is, in `_meta` of a result.
pub(super) const ENVELOPE: &str = "toolwright/envelope";

/// An envelope as an MCP client reads it: the output as structure and as text, payloads as links, failures as results
/// with `isError`, and the whole receipt beside it.
pub(super) fn of_envelope(envelope: &ToolEnvelope) -> CallToolResult {
    let Shown { content, structured_content, .. } = Shown::of(envelope);
    let mut result = match &envelope.error {
        Some(_) => CallToolResult::error(content),
        None => CallToolResult::success(content),
    };
    result.structured_content = structured_content.map(Cow::into_owned);
    let receipt = serde_json::to_value(envelope).unwrap_or_default();
    result.meta = Some(MetaObject::from(serde_json::Map::from_iter([(ENVELOPE.to_owned(), receipt)])));
    result
}

/// An output as the result of what has no envelope.
pub(super) fn of_output(output: &Value) -> CallToolResult {
    let mut result = CallToolResult::success(vec![ContentBlock::text(text(output))]);
    result.structured_content = structure(output).map(Cow::into_owned);
    result
}

/// A failure as the result of what has no envelope.
pub(super) fn of_error(error: &ToolError) -> CallToolResult {
    let mut result = CallToolResult::error(vec![ContentBlock::text(failure(error))]);
    result.structured_content = Some(json!({ "error": error }));
    result
}

/// The message that answers a call with its envelope: what [`of_envelope`] says, without copies of what is in the envelope.
#[derive(Serialize)]
pub(super) struct Answered<'a> {
    jsonrpc: &'static str,
    id: &'a RequestId,
    result: Shown<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Shown<'a> {
    /// Absent for older clients, which do not know it.
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

impl<'a> Answered<'a> {
    pub fn new(id: &'a RequestId, envelope: &'a ToolEnvelope, to_older: bool) -> Self {
        let result_type = (!to_older).then_some(ResultType::COMPLETE);
        Self { jsonrpc: "2.0", id, result: Shown { result_type, ..Shown::of(envelope) } }
    }
}

impl<'a> Shown<'a> {
    fn of(envelope: &'a ToolEnvelope) -> Self {
        let (text, structured_content) = match &envelope.error {
            Some(error) => (failure(error), Some(Cow::Owned(json!({ "error": error })))),
            None => (text(&envelope.output), structure(&envelope.output)),
        };
        let mut content = vec![ContentBlock::text(text)];
        content.extend(envelope.attachments.iter().filter_map(link));
        if envelope.truncated {
            content.push(ContentBlock::text("This is only the beginning; the whole is in the linked resource."));
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

/// Structured content is an object; anything else becomes one, as schemas of such outputs do.
fn structure(output: &Value) -> Option<Cow<'_, Value>> {
    match output {
        Value::Object(_) => Some(Cow::Borrowed(output)),
        Value::Null => None,
        other => Some(Cow::Owned(json!({ WRAPPED: other }))),
    }
}

/// A failure, with its code where a model reads it.
fn failure(error: &ToolError) -> String {
    format!("{}: {}", error.code, error.message)
}

fn link(attachment: &Attachment) -> Option<ContentBlock> {
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
    fn an_answer_says_what_the_result_says() {
        let envelope = |output: Value, error: Value, truncated: bool| -> ToolEnvelope {
            let envelope = json!({ "call_id": "call_a", "name": "t", "version": "1.0.0", "input": {}, "output": output,
                "error": error, "t_start": "2026-01-01T00:00:00Z", "t_end": "2026-01-01T00:00:00Z", "cached": false,
                "truncated": truncated, "attachments": [], "metadata": { "attempt": 1 } });
            serde_json::from_value(envelope).unwrap()
        };
        let failed = json!({ "code": "TIMEOUT", "message": "late" });
        for envelope in [
            envelope(json!({ "a": 1 }), Value::Null, false),
            envelope(json!("a text"), Value::Null, true),
            envelope(json!([1, 2]), Value::Null, false),
            envelope(Value::Null, Value::Null, false),
            envelope(Value::Null, failed, false),
        ] {
            let answered = |to_older| serde_json::to_value(Answered::new(&RequestId::Number(7), &envelope, to_older));
            let mut result = json!({ "jsonrpc": "2.0", "id": 7, "result": of_envelope(&envelope) });
            assert_eq!(answered(false).unwrap(), result);
            result["result"].as_object_mut().unwrap().remove("resultType");
            assert_eq!(answered(true).unwrap(), result);
        }
    }
}
