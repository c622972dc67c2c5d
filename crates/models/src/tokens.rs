//! Estimates token counts without a provider's tokenizer.
//!
//! One token is about four characters of English, two characters of Greek, Cyrillic, Arabic or accented Latin, and one
//! character of Chinese, Japanese or an emoji. For prose and JSON the estimate is within a third of the providers'
//! counts. It is used to decide when a conversation must be shortened, and never for billing.

use toolwright_types::{Arguments, Message, ModelRequest, ResponseFormat};

/// The tokens of a message in addition to its text: role and separators.
const PER_MESSAGE: u64 = 4;
/// The tokens of a tool definition in addition to its texts.
const PER_TOOL: u64 = 8;
/// The tokens of an image of any size. Providers scale large images down to about this cost.
const PER_IMAGE: u64 = 1_600;

/// Estimates the number of tokens in `text`: at least one unless it is empty.
pub fn estimate_tokens(text: &str) -> u64 {
    let quarters: u64 = text
        .chars()
        .map(|c| match u32::from(c) {
            0..0x80 => 1,
            0x80..0x2E80 => 2,
            _ => 4,
        })
        .sum();
    quarters.div_ceil(4)
}

/// Estimates the number of input tokens of a request: messages, tools and the response schema.
pub fn estimate_request_tokens(request: &ModelRequest) -> u64 {
    let messages: u64 = request.messages.iter().map(|message| PER_MESSAGE + message_tokens(message)).sum();
    let tools: u64 = request
        .tools
        .iter()
        .map(|tool| {
            let schema = estimate_tokens(&tool.input_schema.to_string());
            PER_TOOL + estimate_tokens(&tool.name) + estimate_tokens(&tool.description) + schema
        })
        .sum();
    let format = match &request.response_format {
        ResponseFormat::Structured(schema) => estimate_tokens(&schema.to_string()),
        ResponseFormat::Text | ResponseFormat::Json => 0,
    };
    messages + tools + format
}

fn message_tokens(message: &Message) -> u64 {
    match message {
        Message::System { content } | Message::User { content } => estimate_tokens(content),
        Message::Tool { content, name, images, .. } => {
            let images = u64::try_from(images.len()).unwrap_or(u64::MAX).saturating_mul(PER_IMAGE);
            estimate_tokens(content) + estimate_tokens(name) + images
        }
        Message::Assistant { content, tool_calls, thinking } => {
            let calls = tool_calls.iter().map(|call| {
                let arguments = match &call.arguments {
                    Arguments::Json(value) => estimate_tokens(&value.to_string()),
                    Arguments::Malformed(text) => estimate_tokens(text),
                };
                PER_MESSAGE + estimate_tokens(&call.name) + arguments
            });
            let thinking = thinking.iter().map(|block| estimate_tokens(&block.to_string()));
            estimate_tokens(content) + calls.sum::<u64>() + thinking.sum::<u64>()
        }
    }
}
