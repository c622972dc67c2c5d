//! Runs the attempts of a call within its deadline. Retries temporary failures, unless a retry could repeat a write.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use secrecy::SecretString;
use serde_json::Value;
use tokio::time::Instant;
use toolwright_expr::Scope;
use toolwright_types::json::Hasher;
use toolwright_types::{
    Attachment, CallId, ChildRun, Clock, CorrelationId, ErrorAction, ErrorCode, ErrorSemantics, RetryDelays, RunId,
    SideEffects, ToolError,
};

use super::Executor;
use super::call_messages::CallMessages;
use super::nested_calls::NestedCalls;
use super::queue_timer::QueueTimer;
use super::redact::Redactor;
use super::resolve::denied;
use crate::ports::Payload;
use crate::{CallContext, CallProgress, CompiledTool, ToolFailure};

/// The maximum length of a progress message, in characters.
const MAX_PROGRESS_MESSAGE_CHARS: usize = 500;

/// The implementation that executes tools of one type.
pub trait Backend: Send + Sync {
    /// Performs one attempt. Dropping the future abandons the attempt.
    fn attempt<'a>(&'a self, attempt: Attempt<'a>) -> BoxFuture<'a, Result<BackendReply, ToolFailure>>;

    /// Returns the side effects of a call to `tool` with `input`. A call can have fewer side effects than its tool, but
    /// not more.
    fn effects(&self, tool: &CompiledTool, _input: &Value) -> SideEffects {
        tool.effects
    }

    /// Whether a call to the tool with this input deletes something. A run also checks whether the name or the HTTP
    /// method of the tool indicates a deletion.
    fn deletes(&self, _tool: &CompiledTool, _input: &Value) -> bool {
        false
    }

    /// Returns the name and version of the implementation that would run `tool`. Empty for tool types with one
    /// implementation per definition.
    fn implementation(&self, _tool: &CompiledTool) -> String {
        String::new()
    }
}

/// The data that a backend receives for an attempt. It is the same for all attempts of a call.
#[derive(Clone, Copy)]
pub struct Attempt<'a> {
    /// The executor, for tools that call other tools.
    pub executor: &'a Executor,
    /// The context of the call.
    pub cx: &'a CallContext,
    /// The tool.
    pub tool: &'a Arc<CompiledTool>,
    /// The input.
    pub input: &'a Value,
    /// The side effects of the call.
    pub effects: SideEffects,
    /// The secrets of the call, by name.
    pub secrets: &'a BTreeMap<String, SecretString>,
    /// Redacts the secrets. A backend must redact a text before it truncates the text.
    pub redactor: &'a Redactor,
    /// The idempotency key: the same for all attempts, different in every run.
    pub idempotency_key: &'a IdempotencyKey<'a>,
    /// The id of the call.
    pub call_id: &'a CallId,
    /// The clock.
    pub clock: &'a dyn Clock,
    /// Records the time that the call spends in a queue.
    pub queue: &'a QueueTimer,
    /// Records the nested calls.
    pub nested_calls: &'a NestedCalls,
    /// Records the messages of the tool.
    pub messages: &'a CallMessages,
}

impl Attempt<'_> {
    /// Returns the span that log events about the attempt carry. Its level is error, so that no log filter drops the
    /// fields.
    fn span(&self) -> tracing::Span {
        let Self { cx, tool, call_id, .. } = self;
        tracing::error_span!(
            "attempt",
            run = %cx.run, call = %call_id, tool = %tool.definition.ref_name, principal = %cx.principal.name,
            agent = cx.caller.agent.as_deref(), conversation = cx.caller.conversation.as_deref(),
            session = cx.caller.session.as_deref(),
            correlation = cx.caller.correlation_id.as_ref().map(CorrelationId::as_str),
        )
    }

    /// Whether the caller observes progress.
    pub fn wants_progress(&self) -> bool {
        self.cx.resources.progress.is_some()
    }

    /// Reports progress to the caller.
    pub fn report_progress(&self, mut progress: CallProgress) {
        let Some(sender) = &self.cx.resources.progress else { return };
        if let Some(message) = &mut progress.message {
            self.redactor.text(message);
            if let Some((end, _)) = message.char_indices().nth(MAX_PROGRESS_MESSAGE_CHARS) {
                message.truncate(end);
            }
        }
        sender.send(progress);
    }

    /// Returns the arguments of a function: the tool's body template rendered with the input, or the input itself if
    /// there is no template.
    pub fn arguments(&self) -> Result<Value, ToolFailure> {
        match &self.tool.arguments {
            None => Ok(self.input.clone()),
            Some(template) => match template.render(&Scope::new(self.input)) {
                Ok(rendered) => Ok(rendered.value),
                Err(error) => Err(ToolFailure::invalid(error.to_string()).reason("template")),
            },
        }
    }
}

/// The reply of a backend.
#[derive(Debug, Default)]
pub struct BackendReply {
    /// The output, before the response mapping.
    pub output: Value,
    /// The HTTP status, if any.
    pub http_status: Option<u16>,
    /// The response headers for the envelope.
    pub headers: BTreeMap<String, String>,
    /// Payloads that cannot be represented as JSON.
    pub payloads: Vec<Payload>,
    /// Payloads that are already stored.
    pub attachments: Vec<Attachment>,
    /// Whether `output` is a truncated copy of a stored payload.
    pub truncated: bool,
    /// Warnings for the caller.
    pub warnings: Vec<String>,
    /// The cost, if known.
    pub cost_usd: Option<f64>,
    /// The run that the call started.
    pub child_run: Option<Box<ChildRun>>,
}

impl BackendReply {
    /// Creates a reply with this output.
    pub fn from_output(output: Value) -> Self {
        Self { output, ..Self::default() }
    }

    /// Redacts secrets that the executor does not know, for backends that obtain credentials themselves.
    pub fn redact<'a>(self, secrets: impl IntoIterator<Item = &'a SecretString>) -> Self {
        self.redacted(&Redactor::new(secrets))
    }

    pub(crate) fn redacted(mut self, redactor: &Redactor) -> Self {
        redactor.value(&mut self.output);
        self.headers.values_mut().chain(&mut self.warnings).for_each(|text| redactor.text(text));
        for payload in &mut self.payloads {
            payload.bytes = redactor.bytes(std::mem::take(&mut payload.bytes));
        }
        self
    }
}

/// The result of all attempts.
pub(super) enum AttemptsResult {
    Finished { attempts: u32, result: Result<BackendReply, ToolFailure> },
    Fallback { attempts: u32, failure: ToolFailure, tool: String },
}

/// Runs attempts until one succeeds or the failure is final. The result is redacted, because a later mapping or
/// truncation could split a secret and hide it from the redactor.
pub(super) async fn run(backend: Option<&Arc<dyn Backend>>, call: Attempt<'_>, deadline: Instant) -> AttemptsResult {
    let (cx, tool) = (call.cx, call.tool);
    let Some(backend) = backend else {
        let kind = serde_json::to_value(tool.definition.tool_type).unwrap_or_default();
        let message = format!("this server cannot run tools of type {}", kind.as_str().unwrap_or_default());
        return AttemptsResult::Finished { attempts: 0, result: Err(denied("no_backend", message).into()) };
    };
    let mut attempts = 0;
    loop {
        attempts += 1;
        // Only the last attempt is reported, so only its messages are kept.
        drop(call.messages.take());
        let mut failure = match run_attempt(call, deadline, async { backend.attempt(call).await }).await {
            Ok(reply) => return AttemptsResult::Finished { attempts, result: Ok(reply.redacted(call.redactor)) },
            Err(failure) => failure.redacted(call.redactor),
        };
        let semantics = failure.http_status.and_then(|status| tool.definition.error_handling.get(&status));
        apply_message(&mut failure, semantics);
        call.span().in_scope(|| {
            let (tag, ToolError { code, message, .. }) = (exception_tag(tool), &failure.error);
            tracing::warn!(tag, attempt = attempts, %code, status = failure.http_status, error = message, "tool attempt failed");
        });
        match decide(tool, call.effects, &failure, semantics, attempts) {
            AfterFailure::Retry(wait) if wait < deadline.saturating_duration_since(Instant::now()) => {
                if cx.cancel.run_until_cancelled(tokio::time::sleep(wait)).await.is_none() {
                    return AttemptsResult::Finished { attempts, result: Err(cancelled_failure()) };
                }
            }
            AfterFailure::Fallback(tool) => return AttemptsResult::Fallback { attempts, failure, tool },
            AfterFailure::Retry(_) | AfterFailure::Fail => {
                return AttemptsResult::Finished { attempts, result: Err(failure) };
            }
        }
    }
}

/// Runs one attempt with a timeout. The attempt ends when its run is cancelled. A panic becomes a failure.
async fn run_attempt(
    call: Attempt<'_>,
    deadline: Instant,
    attempt: impl Future<Output = Result<BackendReply, ToolFailure>>,
) -> Result<BackendReply, ToolFailure> {
    let (cx, tool) = (call.cx, call.tool);
    let remaining = deadline.saturating_duration_since(Instant::now());
    let guarded = tokio::time::timeout(remaining.min(tool.limits.attempt), AssertUnwindSafe(attempt).catch_unwind());
    match cx.cancel.run_until_cancelled(guarded).await {
        None => Err(cancelled_failure()),
        Some(Err(_elapsed)) => {
            let limit = if tool.limits.attempt <= remaining { tool.limits.attempt } else { tool.limits.total };
            Err(call.queue.explain(timeout_error(tool, limit), limit).into())
        }
        Some(Ok(Err(_panic))) => {
            let name = tool.definition.ref_name.as_str();
            call.span().in_scope(|| tracing::error!(tag = exception_tag(tool), "tool panicked"));
            Err(ToolFailure::fatal(ErrorCode::Unknown, format!("tool `{name}` failed unexpectedly")).reason("panic"))
        }
        Some(Ok(Ok(result))) => result,
    }
}

/// Returns the value of the field `tag` in log events about failed attempts. The form is the same for all tool types.
fn exception_tag(tool: &CompiledTool) -> String {
    format!("[{}_ExecuteAsync__Exception]", tool.definition.ref_name)
}

/// Creates the failure of a call whose reply was not processed before the deadline.
pub(super) fn timeout_failure(tool: &CompiledTool, limit: Duration) -> ToolFailure {
    timeout_error(tool, limit).into()
}

fn timeout_error(tool: &CompiledTool, limit: Duration) -> ToolError {
    let message = format!("tool `{}` did not answer within {} ms", tool.definition.ref_name, limit.as_millis());
    ToolError::new(ErrorCode::Timeout, message).reason("deadline")
}

pub(crate) fn cancelled_failure() -> ToolFailure {
    ToolFailure::fatal(ErrorCode::Unknown, "the call was cancelled").reason("cancelled")
}

/// Replaces the upstream's message with the message that `errorHandling` defines for the HTTP status. The upstream's
/// message moves to the details.
fn apply_message(failure: &mut ToolFailure, semantics: Option<&ErrorSemantics>) {
    if let Some(message) = semantics.and_then(|semantics| semantics.message.clone()) {
        let upstream_message = std::mem::replace(&mut failure.error.message, message);
        let error = std::mem::replace(&mut failure.error, ToolError::new(ErrorCode::Unknown, ""));
        failure.error = error.detail("cause", upstream_message);
    }
}

/// The delays between attempts, unless the definition or the upstream sets other delays.
const RETRY_DELAYS: RetryDelays = RetryDelays::exponential(Duration::from_millis(200), Duration::from_secs(30));

/// What to do after a failed attempt.
#[derive(Debug, PartialEq)]
enum AfterFailure {
    Retry(Duration),
    Fallback(String),
    Fail,
}

fn decide(
    tool: &CompiledTool,
    effects: SideEffects,
    failure: &ToolFailure,
    semantics: Option<&ErrorSemantics>,
    attempts: u32,
) -> AfterFailure {
    let wants_retry = match semantics.map(|semantics| semantics.action) {
        Some(ErrorAction::Retry) => true,
        Some(ErrorAction::Clarify | ErrorAction::Fail) => false,
        Some(ErrorAction::Fallback) => {
            let other = semantics.and_then(|semantics| semantics.fallback_tool_ref.clone());
            return other.map_or(AfterFailure::Fail, AfterFailure::Fallback);
        }
        None => failure.retryable,
    };
    // INVARIANT: a write that is not idempotent is attempted only once, even if the definition configures retries.
    let repeatable = effects != SideEffects::Writes || tool.definition.idempotent;
    if !(wants_retry && repeatable && attempts <= tool.limits.retries) {
        return AfterFailure::Fail;
    }
    let requested_delay =
        failure.error.retry_after_s.map(|seconds| Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX));
    let backoff = tool.definition.default_retry_backoff.unwrap_or_default();
    let delays = RetryDelays { backoff, ..RETRY_DELAYS };
    AfterFailure::Retry(requested_delay.unwrap_or_else(|| delays.jittered(attempts - 1, rand::random())))
}

/// The idempotency key of a call. Computed on first use, because most calls only read and send no key.
pub struct IdempotencyKey<'a> {
    run: RunId,
    parent_key: Option<&'a str>,
    call_id: &'a CallId,
    text: OnceLock<String>,
}

impl<'a> IdempotencyKey<'a> {
    pub(super) fn new(run: RunId, parent_key: Option<&'a str>, call_id: &'a CallId) -> Self {
        Self { run, parent_key, call_id, text: OnceLock::new() }
    }

    /// Returns the key.
    pub fn as_str(&self) -> &str {
        self.text.get_or_init(|| idempotency_key(self.run, self.parent_key, self.call_id))
    }
}

/// Derives the idempotency key from the run and the call id. All attempts of a call have the same key, even after a
/// crash, and the keys of two runs differ. For a nested call or fallback, the key of the parent call replaces the run,
/// so that equal calls of two parents get different keys.
pub(super) fn idempotency_key(run: RunId, parent_key: Option<&str>, call_id: &CallId) -> String {
    let mut hasher = Hasher::default();
    hasher.sequence(|items| {
        items.string(&parent_key.map_or_else(|| run.to_string(), str::to_owned));
        items.string(call_id.as_str());
    });
    let mut key = hasher.finish_hex();
    key.truncate(32);
    key
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tool(extra: Value) -> CompiledTool {
        let mut body = json!({ "refName": "t", "toolType": "FUNCTION", "invocation": { "path": "echo" } });
        body.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        CompiledTool::for_tests(body)
    }

    fn failure(status: u16, retryable: bool) -> ToolFailure {
        ToolFailure {
            error: ToolError::new(ErrorCode::ProviderError, "no"),
            retryable,
            http_status: Some(status),
            cost_usd: None,
            child_run: None,
        }
    }

    #[test]
    fn status_and_side_effects_decide_whether_a_failed_call_is_retried() {
        let handling = json!({ "errorHandling": {
            "404": { "action": "clarify" }, "409": { "action": "retry" }, "500": { "action": "fail" },
            "503": { "action": "fallback", "fallbackToolRef": "other" }
        }});
        let with = |extra: Value| {
            let mut all = handling.clone();
            all.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
            tool(all)
        };
        let twice = json!({ "defaultRetryCount": 2, "defaultRetryBackoff": "none" });
        let write = json!({ "defaultRetryCount": 2, "defaultRetryBackoff": "none", "sideEffects": "writes" });
        let idempotent = json!({ "defaultRetryCount": 2, "defaultRetryBackoff": "none", "sideEffects": "writes", "idempotent": true });
        let now = AfterFailure::Retry(Duration::ZERO);
        for (extra, status, retryable, attempts, expected) in [
            (&twice, 502, true, 1, &now),
            (&twice, 502, true, 2, &now),
            (&twice, 502, true, 3, &AfterFailure::Fail),
            (&twice, 400, false, 1, &AfterFailure::Fail),
            (&twice, 409, false, 1, &now),
            (&twice, 404, true, 1, &AfterFailure::Fail),
            (&twice, 500, true, 1, &AfterFailure::Fail),
            (&twice, 503, true, 1, &AfterFailure::Fallback("other".into())),
            (&write, 502, true, 1, &AfterFailure::Fail),
            (&write, 409, true, 1, &AfterFailure::Fail),
            (&idempotent, 502, true, 1, &now),
            (&json!({}), 502, true, 1, &AfterFailure::Fail),
        ] {
            let tool = with(extra.clone());
            let decision = decide(
                &tool,
                tool.effects,
                &failure(status, retryable),
                tool.definition.error_handling.get(&status),
                attempts,
            );
            assert_eq!(&decision, expected, "{extra} {status} attempt {attempts}");
        }
    }

    #[test]
    fn delay_requested_by_the_upstream_is_used_for_the_retry() {
        let tool = tool(json!({ "defaultRetryCount": 1 }));
        let mut failure = failure(429, true);
        failure.error.retry_after_s = Some(7.0);
        assert_eq!(decide(&tool, tool.effects, &failure, None, 1), AfterFailure::Retry(Duration::from_secs(7)));
    }
}
