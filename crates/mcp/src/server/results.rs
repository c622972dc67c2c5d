//! Receipts as results of `tools/call`.

use rmcp::model::{CallToolResult, ContentBlock, MetaObject, Resource};
use serde_json::{Value, json};
use toolwright_tools::export::WRAPPED;
use toolwright_types::{Attachment, ToolEnvelope, ToolError};

use super::resources::blob_uri;

/// Where the envelope is, in `_meta` of a result.
pub(super) const ENVELOPE: &str = "toolwright/envelope";

/// An envelope as an MCP client reads it: the output as structure and as text, payloads as links, failures as results
/// with `isError`, and the whole receipt beside it.
pub(super) fn of_envelope(envelope: &ToolEnvelope) -> CallToolResult {
    let mut result = match &envelope.error {
        Some(error) => of_error(error),
        None => of_output(&envelope.output),
    };
    result.content.extend(envelope.attachments.iter().filter_map(link));
    if envelope.truncated {
        result.content.push(ContentBlock::text("This is only the beginning; the whole is in the linked resource."));
    }
    let receipt = serde_json::to_value(envelope).unwrap_or_default();
    result.meta = Some(MetaObject::from(serde_json::Map::from_iter([(ENVELOPE.to_owned(), receipt)])));
    result
}

/// An output. Structured content is an object; anything else becomes one, as schemas of such outputs do.
pub(super) fn of_output(output: &Value) -> CallToolResult {
    let text = match output {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let mut result = CallToolResult::success(vec![ContentBlock::text(text)]);
    result.structured_content = match output {
        Value::Object(_) => Some(output.clone()),
        Value::Null => None,
        other => Some(json!({ WRAPPED: other })),
    };
    result
}

/// A failure, with its code where a program looks and in the text that a model reads.
pub(super) fn of_error(error: &ToolError) -> CallToolResult {
    let mut result = CallToolResult::error(vec![ContentBlock::text(format!("{}: {}", error.code, error.message))]);
    result.structured_content = Some(json!({ "error": error }));
    result
}

fn link(attachment: &Attachment) -> Option<ContentBlock> {
    let uri = blob_uri(attachment)?;
    let name = uri.rsplit('/').next().unwrap_or_default().chars().take(12).collect::<String>();
    let mut resource = Resource::new(uri, name);
    resource.mime_type.clone_from(&attachment.content_type);
    resource.size = attachment.bytes;
    Some(ContentBlock::ResourceLink(resource))
}
