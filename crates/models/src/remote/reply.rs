//! A stream, gathered into a reply.

use futures::StreamExt as _;
use genai::Error;
use genai::chat::{ChatStream, ChatStreamEvent, MessageContent, StopReason as Reason, StreamEnd, Usage as Counted};
use toolwright_types::{ModelReply, StopReason, Usage};

use super::calls::Streamed;
use super::family::Family;
use super::frames::Frames;
use super::{Target, thinking};
use crate::names::NameTable;
use crate::{ErrorKind, ModelError, Sink};

/// A reply with more text than this is not read to its end.
const LONGEST: usize = 8 << 20;

/// A stream that has ended.
pub(super) struct Gathered {
    text: String,
    reasoning: String,
    calls: Streamed,
    /// genai's notice of the end; None when the stream just stopped.
    end: Option<StreamEnd>,
    /// A frame that genai takes for an error although it may be none.
    doubtful: Option<Error>,
}

/// Reads `stream` to its end.
pub(super) async fn gather(family: Family, mut stream: ChatStream, sink: &mut dyn Sink) -> Result<Gathered, Error> {
    let mut gathered = Gathered {
        text: String::new(),
        reasoning: String::new(),
        calls: Streamed::new(family),
        end: None,
        doubtful: None,
    };
    while let Some(event) = stream.next().await {
        if gathered.is_too_long() {
            break;
        }
        match event {
            Ok(ChatStreamEvent::Chunk(piece)) if !piece.content.is_empty() => {
                gathered.text.push_str(&piece.content);
                sink.text(&piece.content);
            }
            Ok(ChatStreamEvent::ReasoningChunk(piece)) if !piece.content.is_empty() => {
                gathered.reasoning.push_str(&piece.content);
                sink.thinking(&piece.content);
            }
            Ok(ChatStreamEvent::ToolCallChunk(piece)) => gathered.calls.note(piece.tool_call),
            Ok(ChatStreamEvent::End(end)) => {
                gathered.end = Some(end);
                break;
            }
            Ok(_) => {}
            // A piece of a kind that genai does not know. The reply goes on without it.
            Err(Error::JsonValueExt(error)) => tracing::debug!(%error, "passed over a piece of a reply"),
            // Google sends frames without an answer in them: the count of tokens, or that the prompt is blocked.
            Err(Error::ChatResponse { body, model_iden })
                if family == Family::Gemini && body.get("error").is_none() =>
            {
                gathered.doubtful = Some(Error::ChatResponse { body, model_iden });
            }
            // The Responses API says in another frame why it failed.
            Err(error @ Error::StreamParse { .. }) if family == Family::Responses => {
                gathered.doubtful = Some(error);
                break;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(gathered)
}

impl Gathered {
    fn is_too_long(&self) -> bool {
        self.text.len() + self.reasoning.len() > LONGEST
    }
}

/// The reply that `gathered` holds.
pub(super) fn finish(
    target: &Target,
    gathered: Gathered,
    frames: &Frames,
    names: &NameTable,
) -> Result<ModelReply, ModelError> {
    if let Some(failure) = frames.failure() {
        return Err(ModelError::from_event(target.provider, &failure));
    }
    if gathered.is_too_long() {
        return Err(unreadable(target, "it is longer than 8 MB"));
    }
    let Gathered { mut text, reasoning, calls, end, doubtful } = gathered;
    let noticed = end.is_some();
    let end = end.unwrap_or_default();
    let reason = end.captured_stop_reason.or_else(|| frames.end().map(Reason::from));
    let broken_off = reason.is_none() && !(noticed && target.family == Family::Other) && frames.blocked().is_none();
    if broken_off {
        return Err(match doubtful {
            Some(Error::StreamParse { .. }) => unreadable(target, "its stream cannot be read"),
            _ => ModelError::new(
                ErrorKind::Network,
                format!("{} broke off before the reply was complete", target.provider),
            ),
        });
    }
    let content = end.captured_content.unwrap_or_else(|| MessageContent::from_parts(Vec::new()));
    let captured = noticed.then(|| content.tool_calls().into_iter().cloned().collect());
    let calls = calls.finish(captured);
    let cut = matches!(reason, Some(Reason::MaxTokens(_)));
    let stop = stop(target, reason, frames, text.is_empty(), !calls.calls.is_empty())?;
    text.push_str(&frames.refusal());
    Ok(ModelReply {
        tool_calls: calls.requested(names, cut),
        thinking: thinking::kept(target, &content, &calls.calls, Some(&reasoning)),
        content: text,
        usage: end.captured_usage.map(usage).unwrap_or_default(),
        stop,
        cost_usd: None,
    })
}

/// Why the model stopped. Providers also say `stop` when they want calls made, or when they refuse in another field.
fn stop(
    target: &Target,
    reason: Option<Reason>,
    frames: &Frames,
    silent: bool,
    calls: bool,
) -> Result<StopReason, ModelError> {
    if frames.blocked().is_some() || !frames.refusal().is_empty() || frames.end().as_deref() == Some("content_filter") {
        return Ok(StopReason::Refusal);
    }
    Ok(match reason {
        Some(Reason::MaxTokens(_)) => StopReason::MaxTokens,
        Some(Reason::ContentFilter(_)) => StopReason::Refusal,
        _ if calls => StopReason::ToolUse,
        Some(Reason::Other(word)) if silent => {
            let detail = frames.detail().unwrap_or_else(|| "no more is said".to_owned());
            return Err(unreadable(target, &format!("it ended with `{word}`: {detail}")));
        }
        _ => StopReason::EndTurn,
    })
}

fn unreadable(target: &Target, what: &str) -> ModelError {
    ModelError::new(ErrorKind::Malformed, format!("{} gave no usable reply: {what}", target.provider))
}

fn usage(counted: Counted) -> Usage {
    let count = |tokens: Option<i32>| tokens.and_then(|tokens| u64::try_from(tokens).ok()).unwrap_or(0);
    // Google leaves the sum out when a model has only thought.
    let thought = counted.completion_tokens_details.and_then(|details| details.reasoning_tokens);
    Usage {
        input_tokens: count(counted.prompt_tokens),
        output_tokens: count(counted.completion_tokens.or(thought)),
        cached_input_tokens: count(counted.prompt_tokens_details.and_then(|details| details.cached_tokens)),
    }
}
