//! The executor: the only path from a call request to a result.
//!
//! [`Executor::prepare`] resolves and checks a call. Then a machine or a direct caller decides whether the call is
//! performed, and [`Executor::call`] performs it. Each step has its own module; this module defines their order.

mod attempts;
mod cache;
mod call_messages;
mod client;
mod closure;
mod direct;
mod envelope_builder;
mod escaped_secrets;
mod fallback;
mod in_memory;
mod nested;
mod nested_calls;
mod order;
mod output;
mod queue_timer;
mod rate_limit;
mod redact;
mod references;
mod resolve;
mod secrets;
mod sequence;
mod truncate;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use semver::VersionReq;
use serde_json::Value;
use tokio::time::Instant;
use toolwright_types::{
    CallId, Clock, CorrelationId, ResolvedInput, RunId, SideEffects, SystemClock, Timestamp, ToolEnvelope, ToolError,
    ToolType,
};
use tracing::Instrument;

pub(crate) use attempts::cancelled_failure;
pub use attempts::{Attempt, Backend, BackendReply, IdempotencyKey};
pub use cache::{Audience, CacheKey};
pub use call_messages::CallMessages;
pub use client::ClientAction;
pub use closure::Closure;
pub(crate) use envelope_builder::BUILTIN_LIBRARY;
use envelope_builder::EnvelopeBuilder;
pub use in_memory::{MemoryCache, MemoryRateLimiter};
pub use nested::NestedCallKind;
pub use nested_calls::NestedCalls;
pub use queue_timer::QueueTimer;
pub use redact::Redactor;
use references::Resolution;
pub use resolve::ReadyCall;
use secrets::IdentifiedSecrets;
pub use sequence::CallSequence;

use crate::ports::{
    Authorizer, BlobStorage, DriftSink, NoDriftSink, NoReferences, RateLimiter, ReferenceResolver, ResultCache,
    SecretResolver, ToolCatalog,
};
use crate::{CallContext, CompiledTool, RunFunction, ToolFailure};

/// Performs tool calls. Cheap to clone.
#[derive(Clone)]
pub struct Executor {
    ports: Arc<Ports>,
    backends: Arc<BTreeMap<ToolType, Arc<dyn Backend>>>,
}

/// The ports of an executor.
pub struct Ports {
    /// Finds tools.
    pub catalog: Arc<dyn ToolCatalog>,
    /// Decides permissions.
    pub authorizer: Arc<dyn Authorizer>,
    /// Opens secrets.
    pub secrets: Arc<dyn SecretResolver>,
    /// Resolves names to ids.
    pub references: Arc<dyn ReferenceResolver>,
    /// Receives differences between outputs and output schemas.
    pub drift_sink: Arc<dyn DriftSink>,
    /// Stores large payloads.
    pub blobs: Arc<dyn BlobStorage>,
    /// Caches results.
    pub cache: Arc<dyn ResultCache>,
    /// Limits the rate of calls.
    pub limiter: Arc<dyn RateLimiter>,
    /// The clock.
    pub clock: Arc<dyn Clock>,
}

impl Ports {
    /// Creates ports with an in-memory cache, an in-memory rate limiter, no reference data and the system clock.
    pub fn local(
        catalog: Arc<dyn ToolCatalog>,
        authorizer: Arc<dyn Authorizer>,
        secrets: Arc<dyn SecretResolver>,
        blobs: Arc<dyn BlobStorage>,
    ) -> Self {
        Self {
            catalog,
            authorizer,
            secrets,
            references: Arc::new(NoReferences),
            drift_sink: Arc::new(NoDriftSink),
            blobs,
            cache: Arc::new(MemoryCache::default()),
            limiter: Arc::new(MemoryRateLimiter::default()),
            clock: Arc::new(SystemClock),
        }
    }
}

/// A request to call a tool.
#[derive(Debug, Clone)]
pub struct CallRequest {
    /// The tool's reference name or id.
    pub tool: String,
    /// The required version. Default: the highest active version.
    pub version: Option<VersionReq>,
    /// The arguments as the caller sent them.
    pub input: Value,
}

/// The result of [`Executor::prepare`].
#[derive(Debug)]
pub enum Preparation {
    /// A call that can be performed.
    Ready(Box<ReadyCall>),
    /// The envelope of a call that was refused.
    Refused(Box<ToolEnvelope>),
}

/// Which tool answered a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AnsweredBy {
    Tool,
    Fallback,
}

/// The outcome of a call.
#[derive(Debug)]
pub enum CallOutcome {
    /// The call succeeded or failed.
    Done(Box<ToolEnvelope>),
    /// The server has prepared the call to a client tool, and the client must perform it.
    Client(Box<ClientAction>),
}

impl Executor {
    /// Creates an executor with one backend for each supported tool type.
    pub fn new(ports: Ports, backends: impl IntoIterator<Item = (ToolType, Arc<dyn Backend>)>) -> Self {
        Self { ports: Arc::new(ports), backends: Arc::new(backends.into_iter().collect()) }
    }

    /// Performs the first half of a call: resolve, authorize, validate. Has no side effects.
    pub async fn prepare(&self, cx: &CallContext, request: CallRequest, sequence: &mut CallSequence) -> Preparation {
        let t_start = self.ports.clock.now();
        let found = resolve::find_tool(&self.ports, cx, &request).await;
        let names = match &found {
            // The names are resolved only if the principal may call the tool, because other principals must not learn
            // the ids.
            Ok(tool) if !tool.definition.resolve.is_empty() && resolve::authorize(&self.ports, cx, tool).is_ok() => {
                references::resolve_names(&self.ports, cx, tool, &request.input).await
            }
            _ => Resolution::default(),
        };
        self.check_call(cx, request, found, names, t_start, sequence).await
    }

    /// Like [`Executor::prepare`], but takes the ids from `names`, the result of an earlier preparation, instead of
    /// resolving the names again.
    pub async fn prepare_resolved(
        &self,
        cx: &CallContext,
        request: CallRequest,
        names: BTreeMap<String, ResolvedInput>,
        sequence: &mut CallSequence,
    ) -> Preparation {
        let t_start = self.ports.clock.now();
        let found = resolve::find_tool(&self.ports, cx, &request).await;
        self.check_call(cx, request, found, Resolution::from_recorded(names), t_start, sequence).await
    }

    /// Like [`Executor::prepare`], for a tool that is not in the catalog, such as an agent that another agent delegates
    /// to.
    pub async fn prepare_tool(
        &self,
        cx: &CallContext,
        tool: Arc<CompiledTool>,
        input: Value,
        sequence: &mut CallSequence,
    ) -> Preparation {
        let request = CallRequest { tool: tool.definition.ref_name.to_string(), version: None, input };
        self.check_call(cx, request, Ok(tool), Resolution::default(), self.ports.clock.now(), sequence).await
    }

    async fn check_call(
        &self,
        cx: &CallContext,
        request: CallRequest,
        found: Result<Arc<CompiledTool>, ToolError>,
        names: Resolution,
        t_start: Timestamp,
        sequence: &mut CallSequence,
    ) -> Preparation {
        let version = found.as_ref().map(|tool| tool.definition.version.to_string()).unwrap_or_default();
        let call_id = sequence.next(&request.tool_name(found.as_deref().ok()), &version, &request.input);
        let mut envelope_builder = EnvelopeBuilder::new(cx, &request, found.as_deref().ok(), call_id, t_start);
        let permitted = found.and_then(|tool| {
            resolve::check_lifecycle(&tool)?;
            let permit = resolve::authorize(&self.ports, cx, &tool)?;
            Ok((tool, permit))
        });
        let checked = match permitted {
            Ok((tool, permit)) => tool.check_input(names.apply(request.input)).await.map(|input| (tool, input, permit)),
            Err(error) => Err(error),
        };
        envelope_builder.set_resolved_inputs(names);
        match checked {
            Ok((tool, input, permit)) => {
                let effects = self.backend(&tool).map_or(tool.effects, |backend| backend.effects(&tool, &input));
                let mut ready = ReadyCall::new(envelope_builder, tool, input, effects, permit);
                ready.deletes =
                    self.backend(&ready.tool).is_some_and(|backend| backend.deletes(&ready.tool, &ready.input));
                Preparation::Ready(Box::new(ready))
            }
            Err(error) => Preparation::Refused(Box::new(envelope_builder.failed(error, self.ports.clock.now()))),
        }
    }

    /// Returns the envelope of an interrupted write, after a check has confirmed that the write took effect.
    pub fn confirm(&self, ready: ReadyCall, output: Value) -> ToolEnvelope {
        let ReadyCall { mut envelope_builder, tool, input, .. } = ready;
        if let Some(price) = &tool.price {
            envelope_builder.add_cost(price.cost(&input, &output).usd);
        }
        envelope_builder.confirmed(output, self.ports.clock.now())
    }

    /// Returns the idempotency key of a call: the same for all attempts and after a restart, different in every run.
    pub fn idempotency_key(&self, cx: &CallContext, ready: &ReadyCall) -> String {
        attempts::idempotency_key(cx.run, ready.parent_key.as_deref(), ready.key_call())
    }

    /// Returns the idempotency key of a call of `run`.
    pub fn idempotency_key_for(run: RunId, call_id: &CallId) -> String {
        attempts::idempotency_key(run, None, call_id)
    }

    /// Waits until `delay` has passed since `start`.
    pub async fn wait_until(&self, start: Timestamp, delay: Duration) {
        let elapsed = self.ports.clock.now().as_micros().saturating_sub(start.as_micros());
        let elapsed = Duration::from_micros(u64::try_from(elapsed).unwrap_or(0));
        tokio::time::sleep(delay.saturating_sub(elapsed)).await;
    }

    /// Returns the envelope of a prepared call that is refused.
    pub fn refuse(&self, ready: ReadyCall, error: ToolError) -> ToolEnvelope {
        ready.envelope_builder.failed(error, self.ports.clock.now())
    }

    /// Returns the envelope of a prepared call that is not performed, because its run captures calls. The envelope is
    /// marked as captured.
    pub fn capture(&self, ready: ReadyCall) -> ToolEnvelope {
        let mut envelope_builder = ready.envelope_builder;
        envelope_builder.set_start(self.ports.clock.now());
        envelope_builder.captured(self.ports.clock.now())
    }

    /// Performs the second half of a call: rate limit, cache, secrets, run, redact, map, validate, truncate.
    pub async fn call(&self, cx: &CallContext, ready: ReadyCall) -> CallOutcome {
        // The span has the level debug, because a span costs time even if nothing is logged in it. The warnings and
        // errors of attempts get the ids of the call from the span of the attempt.
        let span = tracing::debug_span!(
            "tool_call", run = %cx.run, call = %ready.call_id(),
            correlation = cx.caller.correlation_id.as_ref().map(CorrelationId::as_str),
        );
        self.perform(cx, ready).instrument(span).await
    }

    async fn perform(&self, cx: &CallContext, mut ready: ReadyCall) -> CallOutcome {
        let ports = &*self.ports;
        // INVARIANT: every call passes this check before its tool runs, so a run that captures calls cannot cause side
        // effects.
        if cx.captures && ready.has_external_effects() {
            return CallOutcome::done(self.capture(ready));
        }
        // The start time is set again, because the call may have waited for other calls or for an approval since it was
        // prepared.
        ready.envelope_builder.set_start(ports.clock.now());
        if let Err(error) = rate_limit::check(ports, cx, &ready.tool).await {
            return CallOutcome::done(ready.envelope_builder.failed(error, ports.clock.now()));
        }
        if !ready.tool.definition.is_tool_fully_executed_on_server {
            return self.hand_to_client(cx, ready).await;
        }
        CallOutcome::done(self.run_on_server(cx, ready).await)
    }

    /// Answers the call from the cache, or opens its secrets and runs its tool.
    async fn run_on_server(&self, cx: &CallContext, ready: ReadyCall) -> ToolEnvelope {
        let ports = &*self.ports;
        let ReadyCall { mut envelope_builder, tool, input, effects, parent_key, key_call, .. } = ready;
        let identified = match secrets::identify(ports, cx, &tool).await {
            Ok(identified) => identified,
            Err(error) => return envelope_builder.failed(error, ports.clock.now()),
        };
        envelope_builder.set_secret_scope(&identified);
        let implementation = self.backend(&tool).map(|backend| backend.implementation(&tool));
        envelope_builder.set_implementation(implementation.as_deref());
        let mut key = cache::key(ports, cx, &tool, &identified, &input, implementation).await;
        if let Some(hit) = cache::lookup(ports, key.as_ref()).await {
            return envelope_builder.cached(hit, ports.clock.now());
        }
        let deadline = Instant::now() + tool.limits.total;
        let secrets = match secrets::reveal(ports, cx, &tool, &identified, deadline).await {
            Ok(secrets) => secrets,
            Err(error) => return envelope_builder.failed(error, ports.clock.now()),
        };
        let redactor = Redactor::new(secrets.values());
        if redactor.is_in(&input) {
            // The input contains a secret. The result is not cached, because a cache hit opens no secrets and so could
            // not redact the input.
            key = None;
        }
        let call_id = envelope_builder.call_id().clone();
        let key_call = key_call.unwrap_or_else(|| call_id.clone());
        let idempotency_key = IdempotencyKey::new(cx.run, parent_key.as_deref(), &key_call);
        let (queue, nested_calls, messages) = (QueueTimer::default(), NestedCalls::default(), CallMessages::default());
        let attempt = Attempt {
            executor: self,
            cx,
            tool: &tool,
            input: &input,
            effects,
            secrets: &secrets,
            redactor: &redactor,
            idempotency_key: &idempotency_key,
            call_id: &call_id,
            clock: &*ports.clock,
            queue: &queue,
            nested_calls: &nested_calls,
            messages: &messages,
        };
        let (reply, answered_by) = self.run_tool(attempt, &identified, deadline, &mut envelope_builder).await;
        if answered_by == AnsweredBy::Fallback {
            // The reply of the fallback must not be cached as the result of the failed tool.
            key = None;
        }
        envelope_builder.set_nested_calls(nested_calls.take());
        envelope_builder.add_messages(messages.take());
        let drift = envelope_builder.take_drift();
        if !drift.is_empty() {
            ports.drift_sink.record(&cx.realm, &tool, &drift);
        }
        let bounded = match reply {
            // Redacts again, because the response mapping may have joined the pieces of a secret.
            Ok(reply) => truncate::bound_output(ports, cx, &tool, reply.redacted(&redactor)).await,
            Err(failure) => Err(failure.error),
        };
        let envelope = envelope_builder.finish(bounded, &redactor, ports.clock.now());
        cache::store(ports, &tool, key, &envelope).await;
        envelope
    }

    /// Runs the tool's attempts. If they fail and the definition has a fallback for the failure, calls the fallback.
    /// Maps and validates the reply.
    async fn run_tool(
        &self,
        attempt: Attempt<'_>,
        identified: &IdentifiedSecrets,
        deadline: Instant,
        envelope_builder: &mut EnvelopeBuilder,
    ) -> (Result<BackendReply, ToolFailure>, AnsweredBy) {
        let Attempt { cx, tool, input, .. } = attempt;
        match attempts::run(self.backend(tool), attempt, deadline).await {
            attempts::AttemptsResult::Finished { attempts, result } => {
                envelope_builder.set_attempts(attempts);
                let result = match result {
                    Ok(reply) => Ok(reply),
                    Err(failure) => {
                        Err(secrets::report_refused_login(&self.ports, cx, tool, identified, failure).await)
                    }
                };
                (output::map_and_check(tool, input, result, deadline, envelope_builder).await, AnsweredBy::Tool)
            }
            attempts::AttemptsResult::Fallback { attempts, failure, tool: fallback } => {
                envelope_builder.set_attempts(attempts);
                let failure = secrets::report_refused_login(&self.ports, cx, tool, identified, failure).await;
                let reply = self.fall_back(attempt, fallback, failure, deadline, envelope_builder).await;
                let checked = match reply {
                    Ok(reply) => output::check(tool, reply, deadline, envelope_builder).await,
                    Err(failure) => Err(failure),
                };
                (checked, AnsweredBy::Fallback)
            }
        }
    }

    fn backend(&self, tool: &CompiledTool) -> Option<&Arc<dyn Backend>> {
        let tool_type = match tool.run_function() {
            Some(RunFunction::Agent) => ToolType::Agent,
            Some(RunFunction::Workflow) => ToolType::Workflow,
            None => tool.definition.tool_type,
        };
        self.backends.get(&tool_type)
    }
}

impl Preparation {
    /// Returns the same call under the name `name`. Used if a library replaces the tool `name`: the replacement is
    /// executed, but the envelope names the tool that the model called.
    pub fn with_name(self, name: &str) -> Self {
        match self {
            Preparation::Ready(mut ready) => {
                ready.envelope_builder.set_name(name);
                Preparation::Ready(ready)
            }
            Preparation::Refused(mut envelope) => {
                envelope.name = name.to_owned();
                Preparation::Refused(envelope)
            }
        }
    }
}

impl CallOutcome {
    fn done(envelope: ToolEnvelope) -> Self {
        CallOutcome::Done(Box::new(envelope))
    }
}

impl CallRequest {
    /// Returns the name for envelopes and call ids: the definition's name if the tool was found, else the requested
    /// name.
    fn tool_name(&self, tool: Option<&CompiledTool>) -> String {
        tool.map_or_else(|| self.tool.clone(), |tool| tool.definition.ref_name.to_string())
    }
}

impl ReadyCall {
    /// Returns the deterministic id of the call.
    pub fn call_id(&self) -> &CallId {
        self.envelope_builder.call_id()
    }

    /// Returns the name under which the tool is called. It differs from the name in the definition if the tool replaces
    /// another tool.
    pub fn name(&self) -> &str {
        self.envelope_builder.name()
    }

    /// Returns the names that were resolved in the input, by field.
    pub fn resolved_inputs(&self) -> &BTreeMap<String, ResolvedInput> {
        self.envelope_builder.resolved_inputs()
    }

    /// Whether the call would write or require a client.
    pub fn has_external_effects(&self) -> bool {
        self.effects == SideEffects::Writes || !self.tool.definition.is_tool_fully_executed_on_server
    }

    /// Whether the call starts a run of its own.
    pub fn starts_run(&self) -> bool {
        self.tool.starts_run()
    }

    /// Returns the call from whose id the idempotency key is derived.
    pub(crate) fn key_call(&self) -> &CallId {
        self.key_call.as_ref().unwrap_or_else(|| self.call_id())
    }

    /// Gives the call the idempotency key of an earlier call, which it repeats.
    pub fn with_key_of(mut self, call_id: CallId) -> Self {
        self.key_call = Some(call_id);
        self
    }

    /// Sets the call id that a machine assigned.
    pub fn with_call_id(mut self, call_id: CallId) -> Self {
        self.envelope_builder.set_call_id(call_id);
        self
    }
}
