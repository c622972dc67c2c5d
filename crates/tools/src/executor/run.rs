//! Runs the tool: attempts within a deadline, retries where they can help and do no harm.

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
    Attachment, Backoff, CallId, Clock, ErrorAction, ErrorCode, ErrorSemantics, RunId, SideEffects, ToolError,
};

use super::Executor;
use super::parts::Parts;
use super::queue::Queue;
use super::redact::Redactor;
use super::resolve::denied;
use crate::ports::Payload;
use crate::{CallContext, CompiledTool, Step, ToolFailure};

/// How much of a message about progress is passed on, in characters.
const LONGEST_MESSAGE: usize = 500;

/// Runs tools of one type.
pub trait Backend: Send + Sync {
    /// Makes one attempt. Dropping the future abandons it.
    fn attempt<'a>(&'a self, attempt: Attempt<'a>) -> BoxFuture<'a, Result<Reply, ToolFailure>>;

    /// What would run `tool`, where one definition can have several implementations.
    fn implementation(&self, _tool: &CompiledTool) -> String {
        String::new()
    }
}

/// One attempt at a call.
#[derive(Clone, Copy)]
pub struct Attempt<'a> {
    /// Who makes it, for a tool that calls tools.
    pub executor: &'a Executor,
    /// Who calls, and where.
    pub cx: &'a CallContext,
    /// What is called.
    pub tool: &'a CompiledTool,
    /// With what.
    pub input: &'a Value,
    /// The secrets of the call, by name.
    pub secrets: &'a BTreeMap<String, SecretString>,
    /// Removes them again, for a backend that cuts what it reports.
    pub redactor: &'a Redactor,
    /// The same for all attempts, different in every run.
    pub idempotency_key: &'a IdempotencyKey<'a>,
    /// The call.
    pub call_id: &'a CallId,
    /// The time.
    pub clock: &'a dyn Clock,
    /// Where a backend notes that the call waits for its turn.
    pub queue: &'a Queue,
    /// The calls that it makes.
    pub parts: &'a Parts,
}

impl Attempt<'_> {
    /// What lines about it in the log say of the call, at whatever level they are let through.
    fn span(&self) -> tracing::Span {
        let Self { cx, tool, call_id, .. } = self;
        tracing::error_span!(
            "attempt",
            run = %cx.run, call = %call_id, tool = %tool.definition.ref_name, principal = %cx.principal.name,
            agent = cx.caller.agent.as_deref(), conversation = cx.caller.conversation.as_deref(),
            session = cx.caller.session.as_deref(),
        )
    }

    /// Whether anybody wants to know how far the call is.
    pub fn is_followed(&self) -> bool {
        self.cx.lent.progress.is_some()
    }

    /// Tells whoever follows the call how far it is.
    pub fn tell(&self, mut step: Step) {
        let Some(progress) = &self.cx.lent.progress else { return };
        if let Some(message) = &mut step.message {
            self.redactor.text(message);
            if let Some((end, _)) = message.char_indices().nth(LONGEST_MESSAGE) {
                message.truncate(end);
            }
        }
        progress.say(step);
    }

    /// What a function is called with: the input, or what the tool makes of it.
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

/// What a backend got.
#[derive(Debug, Default)]
pub struct Reply {
    /// The answer, before it is mapped.
    pub output: Value,
    /// The HTTP status, if there was one.
    pub http_status: Option<u16>,
    /// Headers worth keeping.
    pub headers: BTreeMap<String, String>,
    /// Payloads that do not fit into JSON.
    pub payloads: Vec<Payload>,
    /// Payloads that are stored already.
    pub attachments: Vec<Attachment>,
    /// Whether `output` is only the beginning of what is stored already.
    pub truncated: bool,
    /// What the caller should know.
    pub warnings: Vec<String>,
    /// What it cost, where that is known.
    pub cost_usd: Option<f64>,
}

impl Reply {
    /// A reply that is just a value.
    pub fn of(output: Value) -> Self {
        Self { output, ..Self::default() }
    }

    /// The reply without these secrets, for a backend that has some which the executor does not know.
    pub fn without<'a>(self, secrets: impl IntoIterator<Item = &'a SecretString>) -> Self {
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

/// How the attempts ended.
pub(super) enum Ran {
    Ended { attempts: u32, result: Result<Reply, ToolFailure> },
    Fallback { attempts: u32, failure: ToolFailure, tool: String },
}

/// Whatever it returns has gone through the redactor: a mapping or a cut that came first could take a secret apart.
pub(super) async fn attempts(backend: Option<&Arc<dyn Backend>>, call: Attempt<'_>, deadline: Instant) -> Ran {
    let (cx, tool) = (call.cx, call.tool);
    let Some(backend) = backend else {
        let kind = serde_json::to_value(tool.definition.tool_type).unwrap_or_default();
        let message = format!("this server cannot run tools of type {}", kind.as_str().unwrap_or_default());
        return Ran::Ended { attempts: 0, result: Err(denied("no_backend", message).into()) };
    };
    let mut attempts = 0;
    loop {
        attempts += 1;
        let mut failure = match contained(call, deadline, async { backend.attempt(call).await }).await {
            Ok(reply) => return Ran::Ended { attempts, result: Ok(reply.redacted(call.redactor)) },
            Err(failure) => failure.redacted(call.redactor),
        };
        let semantics = failure.http_status.and_then(|status| tool.definition.error_handling.get(&status));
        explain(&mut failure, semantics);
        call.span().in_scope(|| {
            tracing::warn!(attempt = attempts, code = %failure.error.code, status = failure.http_status, "tool attempt failed");
        });
        match decide(tool, &failure, semantics, attempts) {
            Decision::Retry(wait) if wait < deadline.saturating_duration_since(Instant::now()) => {
                if cx.cancel.run_until_cancelled(tokio::time::sleep(wait)).await.is_none() {
                    return Ran::Ended { attempts, result: Err(cancelled()) };
                }
            }
            Decision::Fallback(tool) => return Ran::Fallback { attempts, failure, tool },
            Decision::Retry(_) | Decision::Fail => return Ran::Ended { attempts, result: Err(failure) },
        }
    }
}

/// One attempt that cannot outlast its limit, outlive its run or take the server down.
async fn contained(
    call: Attempt<'_>,
    deadline: Instant,
    attempt: impl Future<Output = Result<Reply, ToolFailure>>,
) -> Result<Reply, ToolFailure> {
    let (cx, tool) = (call.cx, call.tool);
    let left = deadline.saturating_duration_since(Instant::now());
    let guarded = tokio::time::timeout(left.min(tool.limits.attempt), AssertUnwindSafe(attempt).catch_unwind());
    match cx.cancel.run_until_cancelled(guarded).await {
        None => Err(cancelled()),
        Some(Err(_elapsed)) => {
            let limit = if tool.limits.attempt <= left { tool.limits.attempt } else { tool.limits.total };
            let message = format!("tool `{}` did not answer within {} ms", tool.definition.ref_name, limit.as_millis());
            let late = ToolError::new(ErrorCode::Timeout, message).reason("deadline");
            Err(call.queue.explain(late, limit).into())
        }
        Some(Ok(Err(_panic))) => {
            let name = tool.definition.ref_name.as_str();
            let tag = format!("[{name}_ExecuteAsync__Exception]");
            call.span().in_scope(|| tracing::error!(tag, "a tool panicked"));
            Err(ToolFailure::fatal(ErrorCode::Unknown, format!("tool `{name}` failed unexpectedly")).reason("panic"))
        }
        Some(Ok(Ok(result))) => result,
    }
}

pub(super) fn cancelled() -> ToolFailure {
    ToolFailure::fatal(ErrorCode::Unknown, "the call was cancelled").reason("cancelled")
}

/// The author's words about a status replace the upstream's, which move to the details.
fn explain(failure: &mut ToolFailure, semantics: Option<&ErrorSemantics>) {
    if let Some(message) = semantics.and_then(|semantics| semantics.message.clone()) {
        let said = std::mem::replace(&mut failure.error.message, message);
        let error = std::mem::replace(&mut failure.error, ToolError::new(ErrorCode::Unknown, ""));
        failure.error = error.detail("cause", said);
    }
}

#[derive(Debug, PartialEq)]
enum Decision {
    Retry(Duration),
    Fallback(String),
    Fail,
}

fn decide(tool: &CompiledTool, failure: &ToolFailure, semantics: Option<&ErrorSemantics>, attempts: u32) -> Decision {
    let wants_retry = match semantics.map(|semantics| semantics.action) {
        Some(ErrorAction::Retry) => true,
        Some(ErrorAction::Clarify | ErrorAction::Fail) => false,
        Some(ErrorAction::Fallback) => {
            let other = semantics.and_then(|semantics| semantics.fallback_tool_ref.clone());
            return other.map_or(Decision::Fail, Decision::Fallback);
        }
        None => failure.retryable,
    };
    // INVARIANT: a write that is not idempotent is attempted once, whatever else is configured.
    let harmless = tool.effects != SideEffects::Writes || tool.definition.idempotent;
    if !(wants_retry && harmless && attempts <= tool.limits.retries) {
        return Decision::Fail;
    }
    let asked =
        failure.error.retry_after_s.map(|seconds| Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX));
    let backoff = tool.definition.default_retry_backoff.unwrap_or_default();
    Decision::Retry(asked.unwrap_or_else(|| pause(backoff, attempts)))
}

/// Between half and the whole of the nominal pause, so that callers that failed together do not return together.
fn pause(backoff: Backoff, attempts: u32) -> Duration {
    const BASE: Duration = Duration::from_millis(200);
    const LONGEST: Duration = Duration::from_secs(30);
    let nominal = match backoff {
        Backoff::None => return Duration::ZERO,
        Backoff::Linear => BASE.saturating_mul(attempts),
        Backoff::Exponential => BASE.saturating_mul(2u32.saturating_pow(attempts - 1)),
    };
    nominal.min(LONGEST).mul_f64(0.5 + rand::random::<f64>() / 2.0)
}

/// The key that goes out with a call, made when somebody asks for it: most calls only read, and send none.
pub struct IdempotencyKey<'a> {
    run: RunId,
    instead_of: Option<&'a str>,
    call_id: &'a CallId,
    text: OnceLock<String>,
}

impl<'a> IdempotencyKey<'a> {
    pub(super) fn new(run: RunId, instead_of: Option<&'a str>, call_id: &'a CallId) -> Self {
        Self { run, instead_of, call_id, text: OnceLock::new() }
    }

    /// The key.
    pub fn as_str(&self) -> &str {
        self.text.get_or_init(|| idempotency_key(self.run, self.instead_of, self.call_id))
    }
}

/// Derived, not drawn: all attempts of a call and its repetition after a crash share it, no two runs do. A fallback
/// derives from the key of the call it stands in for, so that two calls that fall back alike stay two.
pub(super) fn idempotency_key(run: RunId, instead_of: Option<&str>, call_id: &CallId) -> String {
    let mut hasher = Hasher::default();
    hasher.sequence(|items| {
        items.string(&instead_of.map_or_else(|| run.to_string(), str::to_owned));
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
        }
    }

    #[test]
    fn reactions_follow_the_definition() {
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
        let now = Decision::Retry(Duration::ZERO);
        for (extra, status, retryable, attempts, expected) in [
            (&twice, 502, true, 1, &now),
            (&twice, 502, true, 2, &now),
            (&twice, 502, true, 3, &Decision::Fail),
            (&twice, 400, false, 1, &Decision::Fail),
            (&twice, 409, false, 1, &now),
            (&twice, 404, true, 1, &Decision::Fail),
            (&twice, 500, true, 1, &Decision::Fail),
            (&twice, 503, true, 1, &Decision::Fallback("other".into())),
            (&write, 502, true, 1, &Decision::Fail),
            (&write, 409, true, 1, &Decision::Fail),
            (&idempotent, 502, true, 1, &now),
            (&json!({}), 502, true, 1, &Decision::Fail),
        ] {
            let tool = with(extra.clone());
            let decision =
                decide(&tool, &failure(status, retryable), tool.definition.error_handling.get(&status), attempts);
            assert_eq!(&decision, expected, "{extra} {status} attempt {attempts}");
        }
    }

    #[test]
    fn the_upstreams_wish_to_wait_is_honoured() {
        let tool = tool(json!({ "defaultRetryCount": 1 }));
        let mut failure = failure(429, true);
        failure.error.retry_after_s = Some(7.0);
        assert_eq!(decide(&tool, &failure, None, 1), Decision::Retry(Duration::from_secs(7)));
    }

    #[test]
    fn pauses_grow_and_stay_bounded() {
        for (backoff, attempt, nominal) in
            [(Backoff::Linear, 3, 600), (Backoff::Exponential, 4, 1600), (Backoff::Exponential, 40, 30_000)]
        {
            let millis = pause(backoff, attempt).as_millis();
            assert!((nominal / 2..=nominal).contains(&millis), "{backoff:?} {attempt}: {millis}");
        }
    }
}
