//! Results of MCP servers as replies of a backend.

use bytes::Bytes;
use data_encoding::BASE64;
use rmcp::model::{CallToolResult, ContentBlock, ResourceContents};
use serde_json::{Value, json};
use toolwright_tools::ToolFailure;
use toolwright_tools::executor::Reply;
use toolwright_tools::ports::Payload;
use toolwright_types::{AttachmentKind, ErrorCode, ToolError};

/// How much of what a server says about a failure becomes the message.
const LONGEST_MESSAGE: usize = 2_000;

/// The structured content if there is one, else `{"content": […]}`; what is no text goes beside it, as payloads.
pub(super) fn of_result(result: CallToolResult) -> Result<Reply, ToolFailure> {
    let mut reply = Reply::default();
    let content: Vec<Value> = result.content.into_iter().map(|block| set_down(block, &mut reply)).collect();
    if result.is_error == Some(true) {
        let texts = content.iter().filter_map(|block| block["text"].as_str()).collect::<Vec<_>>().join("\n");
        let message: String = texts.chars().take(LONGEST_MESSAGE).collect();
        let message = if message.is_empty() { "the tool failed without a word".to_owned() } else { message };
        let error = ToolError::new(ErrorCode::ProviderError, message).reason("mcp_error");
        return Err(ToolFailure { retryable: false, ..error.detail("content", content).into() });
    }
    reply.output = match result.structured_content {
        Some(structured) => structured,
        None => json!({ "content": content }),
    };
    Ok(reply)
}

/// A block as JSON, without what does not fit into it.
fn set_down(block: ContentBlock, reply: &mut Reply) -> Value {
    match block {
        ContentBlock::Image(image) => {
            put(reply, AttachmentKind::Image, &image.mime_type, &image.data);
            json!({ "type": "image", "mimeType": image.mime_type })
        }
        ContentBlock::Audio(audio) => {
            put(reply, AttachmentKind::Blob, &audio.mime_type, &audio.data);
            json!({ "type": "audio", "mimeType": audio.mime_type })
        }
        ContentBlock::Resource(embedded) => match embedded.resource {
            ResourceContents::BlobResourceContents { uri, mime_type, blob, .. } => {
                let mime_type = mime_type.unwrap_or_else(|| "application/octet-stream".to_owned());
                put(reply, AttachmentKind::Blob, &mime_type, &blob);
                json!({ "type": "resource", "resource": { "uri": uri, "mimeType": mime_type } })
            }
            text => json!({ "type": "resource", "resource": text }),
        },
        other => serde_json::to_value(other).unwrap_or_default(),
    }
}

fn put(reply: &mut Reply, kind: AttachmentKind, content_type: &str, base64: &str) {
    match BASE64.decode(base64.as_bytes()) {
        Ok(bytes) => {
            let content_type = content_type.to_owned();
            reply.payloads.push(Payload { kind, content_type, bytes: Bytes::from(bytes) });
        }
        Err(_) => reply.warnings.push(format!("a payload of type {content_type} is not base64 and was left out")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(json: Value) -> CallToolResult {
        serde_json::from_value(json).unwrap()
    }

    #[test]
    fn structured_content_comes_first() {
        let text = json!([{ "type": "text", "text": "1" }]);
        let reply = of_result(result(json!({ "content": text, "structuredContent": { "n": 1 } }))).unwrap();
        assert_eq!(reply.output, json!({ "n": 1 }));
        let reply = of_result(result(json!({ "content": text }))).unwrap();
        assert_eq!(reply.output, json!({ "content": text }));
    }

    #[test]
    fn what_is_no_text_becomes_a_payload() {
        let content = json!([
            { "type": "image", "data": "AAEC", "mimeType": "image/png" },
            { "type": "audio", "data": "not base64!", "mimeType": "audio/wav" },
            { "type": "resource", "resource": { "uri": "x://y", "blob": "AAE=" } },
        ]);
        let reply = of_result(result(json!({ "content": content }))).unwrap();
        let kinds: Vec<_> = reply.payloads.iter().map(|payload| (payload.kind, payload.bytes.len())).collect();
        assert_eq!(kinds, [(AttachmentKind::Image, 3), (AttachmentKind::Blob, 2)]);
        assert_eq!(reply.warnings.len(), 1);
        assert_eq!(reply.output["content"][0], json!({ "type": "image", "mimeType": "image/png" }));
    }

    #[test]
    fn an_error_is_the_providers() {
        let said = json!({ "content": [{ "type": "text", "text": "no such file" }], "isError": true });
        let failure = of_result(result(said)).unwrap_err();
        assert_eq!((failure.error.code, failure.error.message.as_str()), (ErrorCode::ProviderError, "no such file"));
        assert!(!failure.retryable);
    }
}
