//! Converts results of MCP servers to backend replies.

use bytes::Bytes;
use data_encoding::BASE64;
use rmcp::model::{CallToolResult, ContentBlock, ResourceContents};
use serde_json::{Value, json};
use toolwright_tools::ToolFailure;
use toolwright_tools::executor::BackendReply;
use toolwright_tools::ports::Payload;
use toolwright_types::{AttachmentKind, ErrorCode, ToolError};

/// The maximum length of an error message from a server's result.
const MAX_MESSAGE_CHARS: usize = 2_000;

/// Converts a result. The output is the structured content if there is any, otherwise `{"content": […]}`. Binary
/// content becomes payloads of the reply.
pub(super) fn from_result(result: CallToolResult) -> Result<BackendReply, ToolFailure> {
    let mut reply = BackendReply::default();
    let content: Vec<Value> = result.content.into_iter().map(|block| block_to_json(block, &mut reply)).collect();
    if result.is_error == Some(true) {
        let texts = content.iter().filter_map(|block| block["text"].as_str()).collect::<Vec<_>>().join("\n");
        let message: String = texts.chars().take(MAX_MESSAGE_CHARS).collect();
        let message = if message.is_empty() { "the tool failed without a message".to_owned() } else { message };
        let error = ToolError::new(ErrorCode::ProviderError, message).reason("mcp_error");
        return Err(ToolFailure { retryable: false, ..error.detail("content", content).into() });
    }
    reply.output = match result.structured_content {
        Some(structured) => structured,
        None => json!({ "content": content }),
    };
    Ok(reply)
}

/// Converts a content block to JSON and moves its binary data to the payloads of `reply`.
fn block_to_json(block: ContentBlock, reply: &mut BackendReply) -> Value {
    match block {
        ContentBlock::Image(image) => {
            push_payload(reply, AttachmentKind::Image, &image.mime_type, &image.data);
            json!({ "type": "image", "mimeType": image.mime_type })
        }
        ContentBlock::Audio(audio) => {
            push_payload(reply, AttachmentKind::Blob, &audio.mime_type, &audio.data);
            json!({ "type": "audio", "mimeType": audio.mime_type })
        }
        ContentBlock::Resource(embedded) => match embedded.resource {
            ResourceContents::BlobResourceContents { uri, mime_type, blob, .. } => {
                let mime_type = mime_type.unwrap_or_else(|| "application/octet-stream".to_owned());
                push_payload(reply, AttachmentKind::Blob, &mime_type, &blob);
                json!({ "type": "resource", "resource": { "uri": uri, "mimeType": mime_type } })
            }
            text => json!({ "type": "resource", "resource": text }),
        },
        other => serde_json::to_value(other).unwrap_or_default(),
    }
}

fn push_payload(reply: &mut BackendReply, kind: AttachmentKind, content_type: &str, base64: &str) {
    match BASE64.decode(base64.as_bytes()) {
        Ok(bytes) => {
            let content_type = content_type.to_owned();
            reply.payloads.push(Payload { kind, content_type, bytes: Bytes::from(bytes) });
        }
        Err(_) => {
            reply.warnings.push(format!("a payload of type `{content_type}` is not valid base64 and was dropped"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(json: Value) -> CallToolResult {
        serde_json::from_value(json).unwrap()
    }

    #[test]
    fn structured_content_takes_precedence_over_content() {
        let text = json!([{ "type": "text", "text": "1" }]);
        let reply = from_result(result(json!({ "content": text, "structuredContent": { "n": 1 } }))).unwrap();
        assert_eq!(reply.output, json!({ "n": 1 }));
        let reply = from_result(result(json!({ "content": text }))).unwrap();
        assert_eq!(reply.output, json!({ "content": text }));
    }

    #[test]
    fn binary_content_becomes_payloads_and_invalid_base64_causes_a_warning() {
        let content = json!([
            { "type": "image", "data": "AAEC", "mimeType": "image/png" },
            { "type": "audio", "data": "not base64!", "mimeType": "audio/wav" },
            { "type": "resource", "resource": { "uri": "x://y", "blob": "AAE=" } },
        ]);
        let reply = from_result(result(json!({ "content": content }))).unwrap();
        let kinds: Vec<_> = reply.payloads.iter().map(|payload| (payload.kind, payload.bytes.len())).collect();
        assert_eq!(kinds, [(AttachmentKind::Image, 3), (AttachmentKind::Blob, 2)]);
        assert_eq!(reply.warnings.len(), 1);
        assert_eq!(reply.output["content"][0], json!({ "type": "image", "mimeType": "image/png" }));
    }

    #[test]
    fn error_result_becomes_a_provider_error_without_retry() {
        let response = json!({ "content": [{ "type": "text", "text": "no such file" }], "isError": true });
        let failure = from_result(result(response)).unwrap_err();
        assert_eq!((failure.error.code, failure.error.message.as_str()), (ErrorCode::ProviderError, "no such file"));
        assert!(!failure.retryable);
    }
}
