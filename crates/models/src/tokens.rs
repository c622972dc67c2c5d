//! About how many tokens a text has, without any provider's vocabulary.
//!
//! Four characters of English are about one token. Other alphabets are cut finer: about two characters of Greek,
//! Cyrillic, Arabic or accented Latin, one of Chinese, Japanese or an emoji. On prose and JSON the estimate lies
//! within a third of what providers count; it decides when a conversation must be shortened, never what is billed.

use toolwright_types::{Arguments, Message, ModelRequest, ResponseFormat};

/// What a message costs beside its text: role and separators.
const PER_MESSAGE: u64 = 4;
/// What a tool costs beside its texts.
const PER_TOOL: u64 = 8;
/// What a picture costs, whatever its size: providers scale large ones down to about this.
const PER_IMAGE: u64 = 1_600;

/// About how many tokens `text` has; at least one unless it is empty.
pub fn estimate_tokens(text: &str) -> u64 {
    let quarters: u64 = text
        .chars()
        .map(|letter| match u32::from(letter) {
            0..0x80 => 1,
            0x80..0x2E80 => 2,
            _ => 4,
        })
        .sum();
    quarters.div_ceil(4)
}

/// About how many tokens the input of `request` has: messages, tools and the schema of the answer.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_letters_are_a_token_and_a_chinese_one_is_one() {
        let table = [("", 0), ("a", 1), ("abcd", 1), ("abcde", 2), ("Grüße", 2), ("你好", 2), ("🙂", 1), ("привет", 3)];
        for (text, tokens) in table {
            assert_eq!(estimate_tokens(text), tokens, "{text}");
        }
        let prose = "The quick brown fox jumps over the lazy dog. ".repeat(100);
        // Providers count 10 tokens per sentence.
        assert!((700..1300).contains(&estimate_tokens(&prose)));
    }

    #[test]
    fn everything_that_is_sent_is_counted() {
        let request: ModelRequest = serde_json::from_value(serde_json::json!({
            "model": "m",
            "messages": [
                {"role": "system", "content": "abcd"},
                {"role": "assistant", "tool_calls": [{"id": "1", "name": "abcd", "arguments": {"malformed": "abcd"}}]},
            ],
            "tools": [{"name": "abcd", "description": "abcd", "input_schema": {}}],
        }))
        .unwrap();
        assert_eq!(estimate_request_tokens(&request), (4 + 1) + (4 + 4 + 1 + 1) + (8 + 1 + 1 + 1));
    }
}
