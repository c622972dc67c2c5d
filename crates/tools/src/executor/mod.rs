//! The one way to a result.
//!
//! [`Executor::prepare`] gathers the facts of a call, a machine or a direct caller decides on them, and
//! [`Executor::call`] performs it. Each stage is a module of its own; the two functions below are the whole order.

mod batch;
mod cache;
mod cap;
mod client;
mod fallback;
mod guard;
mod limit;
mod memory;
mod parts;
mod queue;
mod receipt;
mod redact;
mod references;
mod resolve;
mod run;
mod secrets;
mod sequence;
mod shape;
mod within;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use semver::VersionReq;
use serde_json::Value;
use tokio::time::Instant;
use toolwright_types::{
    CallId, Clock, ResolvedInput, RunId, SideEffects, SystemClock, Timestamp, ToolEnvelope, ToolError, ToolType,
};
use tracing::Instrument;

pub use client::ClientAction;
pub use memory::{MemoryCache, MemoryLimiter};
pub use parts::Parts;
pub use queue::Queue;
pub use redact::Redactor;
use references::Resolution;
pub use resolve::ReadyCall;
pub use run::{Attempt, Backend, IdempotencyKey, Reply};
pub use sequence::CallSequence;
pub use within::Role;

use crate::ports::{
    Authorizer, Blobs, Catalog, Drifts, NoDrifts, NoReferences, RateLimiter, References, ResultCache, Secrets,
};
use crate::{CallContext, CompiledTool};

/// Performs tool calls. Cheap to clone.
#[derive(Clone)]
pub struct Executor {
    ports: Arc<Ports>,
    backends: Arc<BTreeMap<ToolType, Arc<dyn Backend>>>,
}

/// What the executor reaches the world through.
pub struct Ports {
    /// Finds tools.
    pub catalog: Arc<dyn Catalog>,
    /// Decides permission.
    pub authorizer: Arc<dyn Authorizer>,
    /// Knows secrets.
    pub secrets: Arc<dyn Secrets>,
    /// Knows what things are called.
    pub references: Arc<dyn References>,
    /// Hears of outputs that are not what their tools say.
    pub drifts: Arc<dyn Drifts>,
    /// Keeps large payloads.
    pub blobs: Arc<dyn Blobs>,
    /// Remembers results.
    pub cache: Arc<dyn ResultCache>,
    /// Counts calls.
    pub limiter: Arc<dyn RateLimiter>,
    /// Tells the time.
    pub clock: Arc<dyn Clock>,
}

impl Ports {
    /// Ports with a memory cache, a memory limiter, no reference data and the machine's clock.
    pub fn local(
        catalog: Arc<dyn Catalog>,
        authorizer: Arc<dyn Authorizer>,
        secrets: Arc<dyn Secrets>,
        blobs: Arc<dyn Blobs>,
    ) -> Self {
        Self {
            catalog,
            authorizer,
            secrets,
            references: Arc::new(NoReferences),
            drifts: Arc::new(NoDrifts),
            blobs,
            cache: Arc::new(MemoryCache::default()),
            limiter: Arc::new(MemoryLimiter::default()),
            clock: Arc::new(SystemClock),
        }
    }
}

/// A wish to call a tool.
#[derive(Debug, Clone)]
pub struct CallRequest {
    /// The tool's reference name or id.
    pub tool: String,
    /// The version wanted; the highest active one when absent.
    pub version: Option<VersionReq>,
    /// The arguments as they were given.
    pub input: Value,
}

/// What became of the first half of a call.
#[derive(Debug)]
pub enum Prepared {
    /// The facts of a call that can be made.
    Ready(Box<ReadyCall>),
    /// The receipt that says why it cannot.
    Refused(Box<ToolEnvelope>),
}

/// What became of a call.
#[derive(Debug)]
pub enum Outcome {
    /// It ended, one way or the other.
    Done(Box<ToolEnvelope>),
    /// The server's part is done; the client performs the rest.
    Client(Box<ClientAction>),
}

impl Executor {
    /// An executor over these ports, with one backend for each type of tool it can run.
    pub fn new(ports: Ports, backends: impl IntoIterator<Item = (ToolType, Arc<dyn Backend>)>) -> Self {
        Self { ports: Arc::new(ports), backends: Arc::new(backends.into_iter().collect()) }
    }

    /// The same executor with another backend for one type, for example another library of functions.
    pub fn with_backend(&self, kind: ToolType, backend: Arc<dyn Backend>) -> Self {
        let mut backends = (*self.backends).clone();
        backends.insert(kind, backend);
        Self { ports: Arc::clone(&self.ports), backends: Arc::new(backends) }
    }

    /// The first half: resolve, authorize, validate. Changes nothing.
    pub async fn prepare(&self, cx: &CallContext, request: CallRequest, sequence: &mut CallSequence) -> Prepared {
        let t_start = self.ports.clock.now();
        let found = resolve::find(&self.ports, cx, &request).await;
        let names = match &found {
            // Whoever may not call the tool learns no ids by asking.
            Ok(tool) if !tool.definition.resolve.is_empty() && resolve::permission(&self.ports, cx, tool).is_ok() => {
                references::look_up(&self.ports, cx, tool, &request.input).await
            }
            _ => Resolution::default(),
        };
        self.examine(cx, request, found, names, t_start, sequence)
    }

    /// The first half for a call whose names were looked up before: they mean what they meant then.
    pub async fn prepare_resolved(
        &self,
        cx: &CallContext,
        request: CallRequest,
        names: BTreeMap<String, ResolvedInput>,
        sequence: &mut CallSequence,
    ) -> Prepared {
        let t_start = self.ports.clock.now();
        let found = resolve::find(&self.ports, cx, &request).await;
        self.examine(cx, request, found, Resolution::known(names), t_start, sequence)
    }

    /// The first half for a tool that is in no catalog, such as an agent that another may delegate to.
    pub fn prepare_tool(
        &self,
        cx: &CallContext,
        tool: Arc<CompiledTool>,
        input: Value,
        sequence: &mut CallSequence,
    ) -> Prepared {
        let request = CallRequest { tool: tool.definition.ref_name.to_string(), version: None, input };
        self.examine(cx, request, Ok(tool), Resolution::default(), self.ports.clock.now(), sequence)
    }

    fn examine(
        &self,
        cx: &CallContext,
        request: CallRequest,
        found: Result<Arc<CompiledTool>, ToolError>,
        names: Resolution,
        t_start: Timestamp,
        sequence: &mut CallSequence,
    ) -> Prepared {
        let version = found.as_ref().map(|tool| tool.definition.version.to_string()).unwrap_or_default();
        let call_id = sequence.next(&request.tool_name(found.as_deref().ok()), &version, &request.input);
        let receipt = receipt::Receipt::new(cx, &request, found.as_deref().ok(), call_id, t_start);
        let checked = found.and_then(|tool| {
            resolve::lifecycle(&tool)?;
            let permit = resolve::permission(&self.ports, cx, &tool)?;
            let input = resolve::input(&tool, names.applied(request.input))?;
            Ok((tool, input, permit))
        });
        match checked {
            Ok((tool, input, permit)) => {
                let mut ready = ReadyCall::new(receipt, tool, input, permit);
                ready.receipt.resolved(names);
                Prepared::Ready(Box::new(ready))
            }
            Err(error) => Prepared::Refused(Box::new(receipt.failed(error, self.ports.clock.now()))),
        }
    }

    /// The receipt of a call that was made before and of which the outcome is known now.
    pub fn confirm(&self, ready: ReadyCall, output: Value) -> ToolEnvelope {
        ready.receipt.confirmed(output, self.ports.clock.now())
    }

    /// The key that goes out with a call: the same for all attempts and after a restart, different in every run.
    pub fn idempotency_key(&self, cx: &CallContext, ready: &ReadyCall) -> String {
        run::idempotency_key(cx.run, ready.instead_of.as_deref(), ready.call_id())
    }

    /// The key that went out with a call of a run.
    pub fn idempotency_key_of(run: RunId, call_id: &CallId) -> String {
        run::idempotency_key(run, None, call_id)
    }

    /// Waits until `patience` after `moment`.
    pub async fn wait_until(&self, moment: Timestamp, patience: Duration) {
        let passed = self.ports.clock.now().as_micros().saturating_sub(moment.as_micros());
        let passed = Duration::from_micros(u64::try_from(passed).unwrap_or(0));
        tokio::time::sleep(patience.saturating_sub(passed)).await;
    }

    /// The receipt of a call that was ready and is not made after all.
    pub fn refuse(&self, ready: ReadyCall, error: ToolError) -> ToolEnvelope {
        ready.receipt.failed(error, self.ports.clock.now())
    }

    /// The receipt of a call that was ready and is kept from being made, because its run is only a trial.
    pub fn capture(&self, ready: ReadyCall) -> ToolEnvelope {
        let mut receipt = ready.receipt;
        receipt.begin(self.ports.clock.now());
        receipt.captured(self.ports.clock.now())
    }

    /// The second half: rate limit, cache, secrets, run, redact, map, validate, cap.
    pub async fn call(&self, cx: &CallContext, ready: ReadyCall) -> Outcome {
        // A span is written down when it begins, also if nothing is logged in it; what goes wrong says itself which call it was.
        let span = tracing::debug_span!("tool_call", run = %cx.run, call = %ready.call_id());
        self.perform(cx, ready).instrument(span).await
    }

    async fn perform(&self, cx: &CallContext, ready: ReadyCall) -> Outcome {
        let ports = &*self.ports;
        // INVARIANT: the only way out for a call of any kind is below, so nothing that a trial calls gets past here.
        if cx.captures && ready.reaches_out() {
            return Outcome::done(self.capture(ready));
        }
        let ReadyCall { mut receipt, tool, input, instead_of, .. } = ready;
        // It may have waited for its turn, or for a person, since it was prepared.
        receipt.begin(ports.clock.now());
        if let Err(error) = limit::admit(ports, cx, &tool).await {
            return Outcome::done(receipt.failed(error, ports.clock.now()));
        }
        if !tool.definition.is_tool_fully_executed_on_server {
            return client::prepare(ports, receipt, &tool, &input);
        }
        let identified = match secrets::identify(ports, cx, &tool).await {
            Ok(identified) => identified,
            Err(error) => return Outcome::done(receipt.failed(error, ports.clock.now())),
        };
        receipt.secret_scope(&identified);
        let implementation = self.backend(&tool).map(|backend| backend.implementation(&tool));
        receipt.bound_to(implementation.as_deref());
        let mut key = cache::key(cx, &tool, &identified, &input, implementation);
        if let Some(hit) = cache::lookup(ports, key.as_deref()).await {
            return Outcome::done(receipt.cached(hit, ports.clock.now()));
        }
        let deadline = Instant::now() + tool.limits.total;
        let secrets = match secrets::reveal(ports, cx, &tool, &identified, deadline).await {
            Ok(secrets) => secrets,
            Err(error) => return Outcome::done(receipt.failed(error, ports.clock.now())),
        };
        let redactor = Redactor::new(secrets.values());
        if redactor.is_in(&input) {
            // A hit opens no secret and so could not remove this one from its receipt.
            key = None;
        }
        let call_id = receipt.call_id().clone();
        let idempotency_key = IdempotencyKey::new(cx.run, instead_of.as_deref(), &call_id);
        let (queue, parts) = (Queue::default(), Parts::default());
        let attempt = Attempt {
            executor: self,
            cx,
            tool: &tool,
            input: &input,
            secrets: &secrets,
            redactor: &redactor,
            idempotency_key: &idempotency_key,
            call_id: &call_id,
            clock: &*ports.clock,
            queue: &queue,
            parts: &parts,
        };
        let shaped = match run::attempts(self.backend(&tool), attempt, deadline).await {
            run::Ran::Ended { attempts, result } => {
                receipt.attempts(attempts);
                let result = match result {
                    Ok(reply) => Ok(reply),
                    Err(failure) => Err(secrets::after_failure(ports, cx, &tool, &identified, failure).await),
                };
                shape::shape(&tool, &input, result, &mut receipt)
            }
            run::Ran::Fallback { attempts, failure, tool: other } => {
                receipt.attempts(attempts);
                let failure = secrets::after_failure(ports, cx, &tool, &identified, failure).await;
                // What another tool answered is not this one's result next time.
                key = None;
                let answer = self.fall_back(attempt, other, failure, deadline, &mut receipt).await;
                answer.and_then(|reply| shape::promised(&tool, reply, &mut receipt))
            }
        };
        receipt.calls(parts.told());
        let drift = receipt.take_drift();
        if !drift.is_empty() {
            ports.drifts.noticed(&cx.realm, &tool, &drift);
        }
        let capped = match shaped {
            // Once more: a mapping may have put together what came in pieces.
            Ok(reply) => cap::cap(ports, cx, &tool, reply.redacted(&redactor)).await,
            Err(failure) => Err(failure.error),
        };
        let envelope = receipt.finish(capped, &redactor, ports.clock.now());
        cache::store(ports, &tool, key, &envelope).await;
        Outcome::done(envelope)
    }

    fn backend(&self, tool: &CompiledTool) -> Option<&Arc<dyn Backend>> {
        self.backends.get(&tool.definition.tool_type)
    }
}

impl Prepared {
    /// The same call under the name of another tool, in whose place this one is called.
    pub fn standing_in_for(self, name: &str) -> Self {
        match self {
            Prepared::Ready(mut ready) => {
                ready.receipt.stand_in_for(name);
                Prepared::Ready(ready)
            }
            Prepared::Refused(mut envelope) => {
                envelope.name = name.to_owned();
                Prepared::Refused(envelope)
            }
        }
    }
}

impl Outcome {
    fn done(envelope: ToolEnvelope) -> Self {
        Outcome::Done(Box::new(envelope))
    }
}

impl CallRequest {
    /// The name that goes into receipts and call ids: the definition's when there is one.
    fn tool_name(&self, tool: Option<&CompiledTool>) -> String {
        tool.map_or_else(|| self.tool.clone(), |tool| tool.definition.ref_name.to_string())
    }
}

impl ReadyCall {
    /// The deterministic identity of the call.
    pub fn call_id(&self) -> &CallId {
        self.receipt.call_id()
    }

    /// The name under which it is called: its tool's own, unless that stands in for another.
    pub fn name(&self) -> &str {
        self.receipt.name()
    }

    /// Names in its input that were looked up, by field.
    pub fn resolved_inputs(&self) -> &BTreeMap<String, ResolvedInput> {
        self.receipt.resolved_inputs()
    }

    /// Whether it would change something, or make a client do so.
    pub fn reaches_out(&self) -> bool {
        self.tool.effects == SideEffects::Writes || !self.tool.definition.is_tool_fully_executed_on_server
    }

    /// The same call under the id that a machine has given it.
    pub fn numbered(mut self, call_id: CallId) -> Self {
        self.receipt.number(call_id);
        self
    }
}
