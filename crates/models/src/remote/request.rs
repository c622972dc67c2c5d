//! Converts a request to the types of `genai`.

use genai::chat::{
    CacheControl, ChatMessage, ChatRequest, ContentPart, CustomPart, MessageContent, Tool, ToolCall, ToolResponse,
};
use serde_json::{Value, json};
use toolwright_types::{Arguments, Image, Message, ModelRequest, OfferedTool, RequestedCall, ResponseFormat};

use super::protocol::Protocol;
use super::{Target, options, thinking};
use crate::names::wire_name;
use crate::schema;

/// The text that replaces an empty message, because Anthropic and Google reject messages without text.
const EMPTY_TEXT: &str = "(empty)";

/// Builds the request for `genai`.
pub(super) fn build_request(target: &Target, request: &ModelRequest) -> ChatRequest {
    let mut chat = ChatRequest::default();
    let (mut instructions, mut rest) = split_instructions(&request.messages);
    let format = format_instruction(target, request);
    match (target.protocol, format.as_deref()) {
        // The Responses API requires the word JSON in a message. The word in the instructions does not count.
        (Protocol::Responses, Some(format)) => chat.messages.push(ChatMessage::system(format)),
        (_, format) => instructions.extend(format),
    }
    if !instructions.is_empty() {
        chat.system = Some(instructions.join("\n\n"));
    }
    while let Some((message, later)) = rest.split_first() {
        rest = later;
        match message {
            Message::System { content } => chat.messages.push(ChatMessage::system(content.as_str())),
            Message::User { content } => chat.messages.push(ChatMessage::user(non_empty(content))),
            Message::Assistant { content, tool_calls, thinking } => {
                chat.messages.extend(assistant_message(target, content, tool_calls, thinking));
            }
            // The results of all calls of one reply must be in one message.
            Message::Tool { .. } => {
                let count = later.iter().take_while(|message| matches!(message, Message::Tool { .. })).count();
                let (results, after) = later.split_at(count);
                rest = after;
                let results = || std::iter::once(message).chain(results);
                let parts = results().filter_map(|message| tool_result(target, request, message));
                chat.messages.push(ChatMessage::tool(MessageContent::from_parts(parts.collect::<Vec<_>>())));
                chat.messages.extend(image_message(target, request, results()));
            }
        }
    }
    if let (Protocol::Anthropic, Some(last)) = (target.protocol, chat.messages.last_mut()) {
        // Marks the conversation as cacheable, because the next request starts with the same messages. The other
        // providers detect a repeated start of the conversation without a mark.
        last.options = Some(CacheControl::Ephemeral.into());
    }
    if !request.tools.is_empty() {
        chat.tools = Some(request.tools.iter().map(|tool| convert_tool(target.protocol, tool)).collect());
    }
    chat
}

/// Splits a conversation into its leading instructions and the remaining messages.
fn split_instructions(messages: &[Message]) -> (Vec<&str>, &[Message]) {
    let leading = messages.iter().map_while(|message| match message {
        Message::System { content } => Some(content.as_str()),
        _ => None,
    });
    let instructions: Vec<&str> = leading.collect();
    let rest = messages.get(instructions.len()..).unwrap_or_default();
    (instructions.into_iter().filter(|text| !text.trim().is_empty()).collect(), rest)
}

fn non_empty(content: &str) -> &str {
    if content.trim().is_empty() { EMPTY_TEXT } else { content }
}

/// Converts an assistant message. Returns `None` for an empty message, which providers reject.
fn assistant_message(target: &Target, content: &str, calls: &[RequestedCall], blocks: &[Value]) -> Option<ChatMessage> {
    let mut parts = thinking::leading_parts(target, blocks);
    if !content.trim().is_empty() {
        parts.push(ContentPart::from_text(content));
    }
    let calls = calls.iter().enumerate().map(|(index, call)| {
        ContentPart::ToolCall(ToolCall {
            call_id: call.id.clone(),
            fn_name: wire_name(&call.name),
            fn_arguments: arguments_object(&call.arguments),
            thought_signatures: thinking::call_signatures(target, blocks, index),
        })
    });
    parts.extend(calls);
    let is_content = |part: &ContentPart| matches!(part, ContentPart::Text(_) | ContentPart::ToolCall(_));
    parts.iter().any(is_content).then(|| ChatMessage::assistant(MessageContent::from_parts(parts)))
}

/// Converts arguments to an object, because providers accept only objects. Invalid arguments are wrapped in an object,
/// so that the model sees its mistake.
fn arguments_object(arguments: &Arguments) -> Value {
    match arguments {
        Arguments::Json(Value::Object(fields)) => Value::Object(fields.clone()),
        Arguments::Json(other) => json!({ "not_an_object": other }),
        Arguments::Malformed(text) => json!({ "not_json": text }),
    }
}

fn tool_result(target: &Target, request: &ModelRequest, message: &Message) -> Option<ContentPart> {
    let Message::Tool { id, name, content, is_error, .. } = message else {
        return None;
    };
    let images: Vec<&Image> = images(target, request, message).collect();
    Some(match (target.protocol, is_error) {
        (Protocol::Anthropic, is_error) if *is_error || !images.is_empty() => {
            let text = json!({"type": "text", "text": content});
            let images = images.into_iter().map(|Image { content_type, base64 }| {
                json!({"type": "image", "source": {"type": "base64", "media_type": content_type, "data": base64}})
            });
            let content: Vec<Value> = std::iter::once(text).chain(images).collect();
            let block = json!({"type": "tool_result", "tool_use_id": id, "content": content, "is_error": is_error});
            ContentPart::Custom(CustomPart { model_iden: None, data: block })
        }
        // The other protocols have no error flag, so a prefix marks the error.
        (_, true) => tool_response(id, name, &format!("Error: {content}")),
        (_, false) => tool_response(id, name, content),
    })
}

/// Returns the images of a tool result, or none if the model accepts no images. An image whose bytes are not in
/// `request.images` is skipped.
fn images<'a>(target: &Target, request: &'a ModelRequest, message: &'a Message) -> impl Iterator<Item = &'a Image> {
    let references = match message {
        Message::Tool { images, .. } if target.protocol.supports_images(&target.model) => images.as_slice(),
        _ => &[],
    };
    references.iter().filter_map(|image| request.images.get(&image.url))
}

/// Returns a message with the images of the results, for protocols whose results cannot contain images.
fn image_message<'a>(
    target: &Target,
    request: &'a ModelRequest,
    results: impl Iterator<Item = &'a Message>,
) -> Option<ChatMessage> {
    if target.protocol == Protocol::Anthropic {
        return None;
    }
    let mut parts = Vec::new();
    for message in results {
        let Message::Tool { id, name, .. } = message else { continue };
        for (n, Image { content_type, base64 }) in images(target, request, message).enumerate() {
            if n == 0 {
                parts.push(ContentPart::from_text(format!("What {} returned for call {id}:", wire_name(name))));
            }
            parts.push(ContentPart::from_binary_base64(content_type, base64.as_str(), None));
        }
    }
    (!parts.is_empty()).then(|| ChatMessage::user(MessageContent::from_parts(parts)))
}

fn tool_response(id: &str, name: &str, content: &str) -> ContentPart {
    ContentPart::ToolResponse(ToolResponse::new(id, content).with_fn_name(wire_name(name)))
}

fn convert_tool(protocol: Protocol, tool: &OfferedTool) -> Tool {
    let schema = schema::lower(&tool.input_schema, protocol.dialect());
    let mut converted = Tool::new(wire_name(&tool.name)).with_schema(schema);
    converted.description = Some(tool.description.clone()).filter(|text| !text.trim().is_empty());
    // The Responses API defaults to strict mode, which does not allow optional properties.
    if protocol == Protocol::Responses { converted.with_strict(false) } else { converted }
}

/// Returns the instruction to reply with JSON, for providers that do not enforce the format or also require an
/// instruction.
fn format_instruction(target: &Target, request: &ModelRequest) -> Option<String> {
    match &request.response_format {
        ResponseFormat::Text => None,
        ResponseFormat::Json => Some("Answer with one JSON value and nothing else.".to_owned()),
        ResponseFormat::Structured(_) if options::enforces_schema(target, request) => None,
        ResponseFormat::Structured(schema) => {
            Some(format!("Answer with one JSON value that fits this JSON Schema, and nothing else:\n{schema}"))
        }
    }
}
