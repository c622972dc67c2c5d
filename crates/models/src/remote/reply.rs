//! Collects a stream into a reply.

use futures::StreamExt as _;
use genai::Error;
use genai::chat::{
    ChatStream, ChatStreamEvent, MessageContent, StopReason as GenaiStopReason, StreamEnd, Usage as GenaiUsage,
};
use toolwright_types::{ModelReply, StopReason, Usage};

use super::calls::StreamedCalls;
use super::frames::FrameObserver;
use super::protocol::Protocol;
use super::{Target, thinking};
use crate::names::NameTable;
use crate::{ErrorKind, ModelError, Sink};

/// The maximum total length of the text, the reasoning and the call arguments of a reply, in bytes.
const MAX_REPLY_BYTES: usize = 8 << 20;

/// The content of a stream that has ended.
pub(super) struct CollectedStream {
    text: String,
    reasoning: String,
    calls: StreamedCalls,
    /// The end event of `genai`; `None` if the stream ended without one.
    end: Option<StreamEnd>,
    /// An error of `genai` during the stream. It is ignored if the reply is complete.
    deferred_error: Option<Error>,
}

/// Reads `stream` to its end.
pub(super) async fn collect(
    protocol: Protocol,
    mut stream: ChatStream,
    observer: &FrameObserver,
    sink: &mut dyn Sink,
) -> Result<CollectedStream, Error> {
    let mut collected = CollectedStream {
        text: String::new(),
        reasoning: String::new(),
        calls: StreamedCalls::new(protocol),
        end: None,
        deferred_error: None,
    };
    while let Some(event) = stream.next().await {
        if collected.is_too_long() || observer.exceeded().is_some() {
            break;
        }
        match event {
            Ok(ChatStreamEvent::Chunk(chunk)) if !chunk.content.is_empty() => {
                collected.text.push_str(&chunk.content);
                sink.text(&chunk.content);
            }
            Ok(ChatStreamEvent::ReasoningChunk(chunk)) if !chunk.content.is_empty() => {
                collected.reasoning.push_str(&chunk.content);
                sink.thinking(&chunk.content);
            }
            Ok(ChatStreamEvent::ToolCallChunk(chunk)) => collected.calls.record(chunk.tool_call),
            Ok(ChatStreamEvent::End(end)) => {
                collected.end = Some(end);
                break;
            }
            Ok(_) => {}
            // `genai` does not know the type of this delta. The other deltas of the reply are valid.
            Err(Error::JsonValueExt(error)) => tracing::debug!(%error, "ignored an unknown delta of a model reply"),
            // Google sends frames without candidates, which contain token counts or the notice that the prompt is
            // blocked. `genai` reports them as errors.
            Err(Error::ChatResponse { body, model_iden })
                if protocol == Protocol::Gemini && body.get("error").is_none() =>
            {
                collected.deferred_error = Some(Error::ChatResponse { body, model_iden });
            }
            // The Responses API reports the reason of this failure in another frame.
            Err(error @ Error::StreamParse { .. }) if protocol == Protocol::Responses => {
                collected.deferred_error = Some(error);
                break;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(collected)
}

impl CollectedStream {
    fn is_too_long(&self) -> bool {
        self.text.len() + self.reasoning.len() + self.calls.argument_bytes() > MAX_REPLY_BYTES
    }
}

/// Builds the reply from a collected stream.
pub(super) fn build_reply(
    target: &Target,
    collected: CollectedStream,
    observer: &FrameObserver,
    names: &NameTable,
) -> Result<ModelReply, ModelError> {
    if let Some(failure) = observer.failure() {
        return Err(ModelError::from_event(target.provider, &failure));
    }
    if let Some(exceeded) = observer.exceeded() {
        return Err(malformed(target, &format!("one of its frames is too large: {exceeded}")));
    }
    if collected.is_too_long() {
        return Err(malformed(target, "it must not exceed 8 MiB"));
    }
    let CollectedStream { mut text, reasoning, calls, end, deferred_error } = collected;
    let has_end_event = end.is_some();
    let end = end.unwrap_or_default();
    let reason = end.captured_stop_reason.or_else(|| observer.stop_reason().map(GenaiStopReason::from));
    let is_complete =
        reason.is_some() || (has_end_event && target.protocol == Protocol::Other) || observer.block_reason().is_some();
    if !is_complete {
        return Err(match deferred_error {
            Some(Error::StreamParse { .. }) => malformed(target, "its stream cannot be parsed"),
            _ => ModelError::new(
                ErrorKind::Network,
                format!("{} ended the stream before the reply was complete", target.provider),
            ),
        });
    }
    let content = end.captured_content.unwrap_or_else(|| MessageContent::from_parts(Vec::new()));
    let captured = has_end_event.then(|| content.tool_calls().into_iter().cloned().collect());
    let calls = calls.finish(captured);
    let truncated = matches!(reason, Some(GenaiStopReason::MaxTokens(_)));
    let stop = stop_reason(target, reason, observer, text.is_empty(), !calls.calls.is_empty())?;
    text.push_str(&observer.refusal());
    Ok(ModelReply {
        tool_calls: calls.to_requested_calls(names, truncated),
        thinking: thinking::extract_blocks(target, &content, &calls.calls, Some(&reasoning)),
        content: text,
        usage: end.captured_usage.map(convert_usage).unwrap_or_default(),
        stop,
        cost_usd: None,
    })
}

/// Converts the stop reason. Some providers report a normal stop even if the reply contains calls, or report a refusal
/// in another field.
fn stop_reason(
    target: &Target,
    reason: Option<GenaiStopReason>,
    observer: &FrameObserver,
    is_empty: bool,
    has_calls: bool,
) -> Result<StopReason, ModelError> {
    let filtered = observer.stop_reason().as_deref() == Some("content_filter");
    if observer.block_reason().is_some() || !observer.refusal().is_empty() || filtered {
        return Ok(StopReason::Refusal);
    }
    Ok(match reason {
        Some(GenaiStopReason::MaxTokens(_)) => StopReason::MaxTokens,
        Some(GenaiStopReason::ContentFilter(_)) => StopReason::Refusal,
        _ if has_calls => StopReason::ToolUse,
        Some(GenaiStopReason::Other(reason)) if is_empty => {
            let message = observer.stop_message().unwrap_or_else(|| "no details".to_owned());
            return Err(malformed(target, &format!("it is empty and ended with `{reason}`: {message}")));
        }
        _ => StopReason::EndTurn,
    })
}

fn malformed(target: &Target, reason: &str) -> ModelError {
    ModelError::new(ErrorKind::Malformed, format!("the reply of {} cannot be used: {reason}", target.provider))
}

fn convert_usage(usage: GenaiUsage) -> Usage {
    let count = |tokens: Option<i32>| tokens.and_then(|tokens| u64::try_from(tokens).ok()).unwrap_or(0);
    // If the reply consists only of reasoning, Google omits the number of output tokens. The number of reasoning tokens
    // is used instead.
    let reasoning = usage.completion_tokens_details.and_then(|details| details.reasoning_tokens);
    Usage {
        input_tokens: count(usage.prompt_tokens),
        output_tokens: count(usage.completion_tokens.or(reasoning)),
        cached_input_tokens: count(usage.prompt_tokens_details.and_then(|details| details.cached_tokens)),
    }
}
