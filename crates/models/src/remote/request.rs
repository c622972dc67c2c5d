//! A request in genai's words.

use genai::chat::{
    CacheControl, ChatMessage, ChatRequest, ContentPart, CustomPart, MessageContent, Tool, ToolCall, ToolResponse,
};
use serde_json::{Value, json};
use toolwright_types::{Arguments, Image, Message, ModelRequest, OfferedTool, RequestedCall, ResponseFormat};

use super::family::Family;
use super::{Target, options, thinking};
use crate::names::wire_name;
use crate::schema;

/// Anthropic and Google refuse a message without text.
const NOTHING: &str = "(empty)";

pub(super) fn of(target: &Target, request: &ModelRequest) -> ChatRequest {
    let mut asked = ChatRequest::default();
    let (mut instructions, mut rest) = split(&request.messages);
    let format = format_instruction(target, request);
    match (target.family, format.as_deref()) {
        // It looks for the word JSON in messages only.
        (Family::Responses, Some(format)) => asked.messages.push(ChatMessage::system(format)),
        (_, format) => instructions.extend(format),
    }
    if !instructions.is_empty() {
        asked.system = Some(instructions.join("\n\n"));
    }
    while let Some((message, later)) = rest.split_first() {
        rest = later;
        match message {
            Message::System { content } => asked.messages.push(ChatMessage::system(content.as_str())),
            Message::User { content } => asked.messages.push(ChatMessage::user(said(content))),
            Message::Assistant { content, tool_calls, thinking } => {
                asked.messages.extend(assistant(target, content, tool_calls, thinking));
            }
            // Results of one reply belong into one message.
            Message::Tool { .. } => {
                let more = later.iter().take_while(|message| matches!(message, Message::Tool { .. })).count();
                let (results, after) = later.split_at(more);
                rest = after;
                let results = || std::iter::once(message).chain(results);
                let parts = results().filter_map(|message| result(target, request, message));
                asked.messages.push(ChatMessage::tool(MessageContent::from_parts(parts.collect::<Vec<_>>())));
                asked.messages.extend(pictures(target, request, results()));
            }
        }
    }
    if let (Family::Anthropic, Some(last)) = (target.family, asked.messages.last_mut()) {
        // Everything up to here is the beginning of the next request too; the other providers find that out themselves.
        last.options = Some(CacheControl::Ephemeral.into());
    }
    if !request.tools.is_empty() {
        asked.tools = Some(request.tools.iter().map(|tool| offered(target.family, tool)).collect());
    }
    asked
}

/// The instructions that a conversation begins with, and the rest.
fn split(messages: &[Message]) -> (Vec<&str>, &[Message]) {
    let leading = messages.iter().map_while(|message| match message {
        Message::System { content } => Some(content.as_str()),
        _ => None,
    });
    let instructions: Vec<&str> = leading.collect();
    let rest = messages.get(instructions.len()..).unwrap_or_default();
    (instructions.into_iter().filter(|text| !text.trim().is_empty()).collect(), rest)
}

fn said(content: &str) -> &str {
    if content.trim().is_empty() { NOTHING } else { content }
}

/// None when there is nothing to repeat: providers refuse an empty message of their own.
fn assistant(target: &Target, content: &str, calls: &[RequestedCall], blocks: &[Value]) -> Option<ChatMessage> {
    let mut parts = thinking::leading(target, blocks);
    if !content.trim().is_empty() {
        parts.push(ContentPart::from_text(content));
    }
    let calls = calls.iter().enumerate().map(|(index, call)| {
        ContentPart::ToolCall(ToolCall {
            call_id: call.id.clone(),
            fn_name: wire_name(&call.name),
            fn_arguments: arguments(&call.arguments),
            thought_signatures: thinking::of_call(target, blocks, index),
        })
    });
    parts.extend(calls);
    let speaks = |part: &ContentPart| matches!(part, ContentPart::Text(_) | ContentPart::ToolCall(_));
    parts.iter().any(speaks).then(|| ChatMessage::assistant(MessageContent::from_parts(parts)))
}

/// Providers take an object only. What was none is shown inside one, so that the model sees its mistake.
fn arguments(arguments: &Arguments) -> Value {
    match arguments {
        Arguments::Json(Value::Object(fields)) => Value::Object(fields.clone()),
        Arguments::Json(other) => json!({ "not_an_object": other }),
        Arguments::Malformed(text) => json!({ "not_json": text }),
    }
}

fn result(target: &Target, request: &ModelRequest, message: &Message) -> Option<ContentPart> {
    let Message::Tool { id, name, content, is_error, .. } = message else {
        return None;
    };
    let images: Vec<&Image> = images(target, request, message).collect();
    Some(match (target.family, is_error) {
        (Family::Anthropic, is_error) if *is_error || !images.is_empty() => {
            let text = json!({"type": "text", "text": content});
            let images = images.into_iter().map(|Image { content_type, base64 }| {
                json!({"type": "image", "source": {"type": "base64", "media_type": content_type, "data": base64}})
            });
            let content: Vec<Value> = std::iter::once(text).chain(images).collect();
            let block = json!({"type": "tool_result", "tool_use_id": id, "content": content, "is_error": is_error});
            ContentPart::Custom(CustomPart { model_iden: None, data: block })
        }
        // The others have no mark for a failure.
        (_, true) => response(id, name, &format!("Error: {content}")),
        (_, false) => response(id, name, content),
    })
}

/// The pictures that came with a result, as far as they are at hand and the model looks at them.
fn images<'a>(target: &Target, request: &'a ModelRequest, message: &'a Message) -> impl Iterator<Item = &'a Image> {
    let named = match message {
        Message::Tool { images, .. } if target.family.sees_images(&target.model) => images.as_slice(),
        _ => &[],
    };
    named.iter().filter_map(|image| request.images.get(&image.url))
}

/// A message with the pictures of these results, where a result itself cannot hold any.
fn pictures<'a>(
    target: &Target,
    request: &'a ModelRequest,
    results: impl Iterator<Item = &'a Message>,
) -> Option<ChatMessage> {
    if target.family == Family::Anthropic {
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

fn response(id: &str, name: &str, content: &str) -> ContentPart {
    ContentPart::ToolResponse(ToolResponse::new(id, content).with_fn_name(wire_name(name)))
}

fn offered(family: Family, tool: &OfferedTool) -> Tool {
    let schema = schema::lower(&tool.input_schema, family.dialect());
    let mut offered = Tool::new(wire_name(&tool.name)).with_schema(schema);
    offered.description = Some(tool.description.clone()).filter(|text| !text.trim().is_empty());
    // The Responses API is strict unless told otherwise, and then refuses what is optional.
    if family == Family::Responses { offered.with_strict(false) } else { offered }
}

/// The words that ask for JSON, wherever the provider cannot be held to it, or demands that it is also said.
fn format_instruction(target: &Target, request: &ModelRequest) -> Option<String> {
    match &request.response_format {
        ResponseFormat::Text => None,
        ResponseFormat::Json => Some("Answer with one JSON value and nothing else.".to_owned()),
        ResponseFormat::Structured(_) if options::holds_to_schema(target, request) => None,
        ResponseFormat::Structured(schema) => {
            Some(format!("Answer with one JSON value that fits this JSON Schema, and nothing else:\n{schema}"))
        }
    }
}
