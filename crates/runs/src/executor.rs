//! Executes the effects of runs by calling models and tools. It makes no decisions: every outcome becomes an event that
//! the machine decides on.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use semver::VersionReq;
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use toolwright_budget::JsonError;
use toolwright_machine::agent::{
    CallFacts, CallToPrepare, CallToRun, EventKind, PreparedCall, json_answer, outcome_unknown,
};
use toolwright_machine::is_delete_tool;
use toolwright_machine::journal::RunStart;
use toolwright_machine::journal::recording::Recording;
use toolwright_models::{Model, ModelError};
use toolwright_tools::builtin::search_tools;
use toolwright_tools::{
    Allowance, CallContext, CallOutcome, CallRequest, CallResources, CallSequence, CallerInfo, ClientAction, Executor,
    Preparation, ReadyCall, Rejection, Schema, UpdateSender, Violation,
};
use toolwright_types::{
    CallId, ErrorCode, ExecutionSite, ModelReply, ModelRequest, Owner, Principal, RealmScope, ResolvedInput,
    ResponseFormat, RunId, RunStatus, StopReason, Surface, Timestamp, ToolEnvelope, ToolError, step_handlers,
};

use super::plan_schema::{PlanSchema, listed_violations};
use super::ports::{EffectExecutor, EffectOutcome};
use super::registry::{ReplyPublisher, RunHandle};
use super::verify::{self, Verified};
use crate::blobs::BlobStore;
use toolwright_catalog::Toolset;

/// Executes the effects of one run with its model and its tools.
pub struct RunExecutor {
    /// Executes tool calls.
    pub executor: Executor,
    /// Stores payloads that are too large for a journal.
    pub blobs: BlobStore,
    /// The model, or the reason why the model cannot be used. This error ends the run only when the run needs the
    /// model.
    pub model: Result<Arc<dyn Model>, ModelError>,
    /// The tools of the run.
    pub tools: Arc<Toolset>,
    /// The implementations that replace tools of the run. The keys are tool names in lower case.
    pub bound: HashMap<String, BoundTool>,
    /// The replies and envelopes of a recorded run. They answer this run instead of the model and the tools.
    pub recording: Option<Arc<Recording>>,
    /// The context of all calls of the run.
    pub cx: Arc<CallContext>,
    /// The schemas that the replies of the model must match.
    pub answers: AnswerSchemas,
    /// For a direct call: the call as it was prepared before the run started.
    pub prepared: Mutex<Option<Preparation>>,
}

/// The schemas that the replies of a run's model must match.
#[derive(Debug, Clone, Default)]
pub struct AnswerSchemas {
    /// The schema of a structured answer.
    pub answer: Option<Arc<Schema>>,
    /// The schema of a plan.
    pub plan: Option<Arc<PlanSchema>>,
}

impl AnswerSchemas {
    /// Returns the schema of plans, if the requested response is a plan.
    fn of_plan(&self, format: &ResponseFormat) -> Option<&PlanSchema> {
        let ResponseFormat::Structured(requested) = format else { return None };
        self.plan.as_deref().filter(|plan| plan.source() == requested)
    }
}

/// The realm in which a run acts, the principal that it acts as, and its owner.
#[derive(Debug, Clone)]
pub struct RunScope {
    /// The realm in which the run acts.
    pub realm: Arc<RealmScope>,
    /// The principal whose permissions the run has.
    pub principal: Arc<Principal>,
    /// The principal that started the run.
    pub owner: Owner,
}

/// An implementation (another tool of the catalog) that replaces a tool of a run.
pub struct BoundTool {
    /// The name of the replaced tool.
    pub tool: String,
    /// The name of the implementation.
    pub name: String,
    /// The version requirement for the implementation.
    pub wanted: Option<VersionReq>,
    /// The time limit of a call to the implementation.
    pub limit: Duration,
}

impl RunExecutor {
    pub(super) async fn ask(
        self: Arc<Self>,
        handle: Arc<RunHandle>,
        iteration: u32,
        mut request: Box<ModelRequest>,
    ) -> EffectOutcome {
        if let Some(event) = self.recording.as_ref().and_then(|recording| recording.reply(iteration, &request)) {
            return EffectOutcome::Event(event);
        }
        let mut publisher = ReplyPublisher::new(handle, iteration);
        let replied = match &self.model {
            Ok(model) => {
                if model.supports_images() {
                    request.images = self.blobs.images(&self.cx.realm, &request.messages).await;
                }
                model.complete(&request, &mut publisher).await
            }
            Err(error) => Err(error.clone()),
        };
        EffectOutcome::Event(match replied {
            Ok(reply) => {
                let (schema_error, answer_unchecked) = match self.check_answer(&request.response_format, &reply).await {
                    Ok(()) => (None, false),
                    Err(AnswerError::Mismatch(why)) => (Some(why), false),
                    Err(AnswerError::Unchecked(why)) => (Some(why), true),
                };
                EventKind::ModelReplied { iteration, reply: Box::new(reply), schema_error, answer_unchecked }
            }
            Err(error) => EventKind::ModelFailed {
                iteration,
                reason: format!("model_{}", error.kind.as_str()),
                message: error.message,
            },
        })
    }

    pub(super) async fn prepare_all(self: Arc<Self>, iteration: u32, calls: Vec<CallToPrepare>) -> EffectOutcome {
        let mut results = Vec::with_capacity(calls.len());
        for call in calls {
            let recorded =
                self.recording.as_ref().and_then(|known| known.preparation(&call.tool, &call.input)).cloned();
            results.push(match recorded {
                Some(known) => (known, None),
                None => self.prepared_call(call).await,
            });
        }
        EffectOutcome::Prepared { iteration, results }
    }

    pub(super) async fn prepare_again(self: Arc<Self>, call_id: CallId, call: CallToPrepare) -> EffectOutcome {
        let (call, ready) = self.prepared_call(call).await;
        EffectOutcome::PreparedAgain { call_id, call, ready: ready.map(Box::new) }
    }

    /// Executes a call. `ready` is the prepared call, if this process prepared it.
    pub(super) async fn call(
        self: Arc<Self>,
        call: Box<CallToRun>,
        ready: Option<ReadyCall>,
        allowance: Option<Allowance>,
    ) -> EffectOutcome {
        let CallToRun { call_id, first_call, input, facts, approved, repeated, captured, .. } = *call;
        if let Some(known) = self.recording.as_ref().and_then(|known| known.ended(&call_id, &facts.name, &input)) {
            return EffectOutcome::Event(known);
        }
        let shown = facts.closure_hash.clone().filter(|_| approved);
        let ready = match ready {
            Some(ready) => Ok(ready),
            None => self.prepare_exactly(input, facts).await,
        };
        let ready = match (ready, shown) {
            (Ok(ready), Some(shown)) => self.check_closure(ready, &shown).await,
            (ready, _) => ready,
        };
        let ready = match ready {
            Ok(ready) => match first_call.filter(|_| !ready.starts_run()) {
                Some(first) => ready.with_call_id(call_id.clone()).with_key_of(first),
                // Each attempt at a call that starts a run starts another run.
                None => ready.with_call_id(call_id.clone()),
            },
            Err(mut envelope) => {
                if repeated && !captured {
                    // The call cannot be executed now, but an earlier attempt of this write may have taken effect.
                    let why = envelope.error.map_or_else(String::new, |error| error.message);
                    envelope.error = Some(outcome_unknown(&why));
                }
                return EffectOutcome::Event(EventKind::call_ended(ToolEnvelope { call_id, ..*envelope }));
            }
        };
        if captured {
            return EffectOutcome::Event(EventKind::call_ended(self.executor.capture(ready)));
        }
        let outcome = match allowance {
            None => self.executor.call(&self.cx, ready).await,
            Some(allowance) => match self.start_run(ready, allowance).await {
                Ok(outcome) => outcome,
                Err((run, status)) => return EffectOutcome::Event(EventKind::ChildSuspended { call_id, run, status }),
            },
        };
        EffectOutcome::Event(match outcome {
            CallOutcome::Client(action) => EventKind::HandedToClient {
                schema: form_schema(&action).unwrap_or(action.schema),
                prepared_payload: action.prepared_payload,
                pending: action.pending,
            },
            CallOutcome::Done(envelope) => self.ended(envelope),
        })
    }

    /// Asks the verify operation whether an interrupted write took effect.
    pub(super) async fn verify(self: Arc<Self>, call: Box<CallToRun>, intended_at: Timestamp) -> EffectOutcome {
        let CallToRun { call_id, input, facts, .. } = *call;
        let ready = match self.prepare_exactly(input, facts).await {
            Ok(ready) => ready.with_call_id(call_id.clone()),
            Err(envelope) => {
                let why = envelope
                    .error
                    .map_or_else(|| "the verify operation cannot be called".to_owned(), |error| error.message);
                return EffectOutcome::Event(EventKind::Verified { call_id, unknown_reason: Some(why) });
            }
        };
        EffectOutcome::Event(match verify::ask(&self.executor, &self.cx, &ready, intended_at).await {
            Verified::Done(output) => EventKind::call_ended(self.executor.confirm(ready, output)),
            Verified::NotDone => EventKind::Verified { call_id, unknown_reason: None },
            Verified::Unknown(why) => EventKind::Verified { call_id, unknown_reason: Some(why) },
        })
    }

    /// Executes a call that starts a child run. Returns when the child run ends or is suspended.
    async fn start_run(&self, ready: ReadyCall, allowance: Allowance) -> Result<CallOutcome, (RunId, RunStatus)> {
        let (pause, mut paused) = UpdateSender::new();
        let mut cx = (*self.cx).clone();
        cx.resources.allowance = Some(allowance);
        cx.resources.pause = Some(pause);
        tokio::select! {
            outcome = self.executor.call(&cx, ready) => Ok(outcome),
            waits = paused.next() => Err(waits),
        }
    }

    /// Prepares a call again after the machine has decided on it. The call is refused if the definition of the tool has
    /// changed since that decision.
    async fn prepare_exactly(&self, input: Value, facts: CallFacts) -> Result<ReadyCall, Box<ToolEnvelope>> {
        let (version, names) = (Some(facts.version), Some(facts.resolved_inputs));
        let call = CallToPrepare { tool: facts.name, version, input, names };
        match self.prepare(call).await {
            Preparation::Ready(ready) if ready.tool.content_hash == facts.definition_hash => Ok(*ready),
            Preparation::Ready(ready) => Err(Box::new(self.executor.refuse(*ready, definition_changed()))),
            Preparation::Refused(envelope) => Err(envelope),
        }
    }

    /// Refuses a call if a definition in the closure of its tool has changed since the approval was requested. `shown`
    /// is the fingerprint of the closure at that time.
    async fn check_closure(&self, ready: ReadyCall, shown: &str) -> Result<ReadyCall, Box<ToolEnvelope>> {
        let error = match self.executor.closure(&self.cx.realm, &ready.tool).await {
            Ok(closure) if closure.fingerprint() == shown => return Ok(ready),
            Ok(_) => definition_changed(),
            Err(error) => error,
        };
        Err(Box::new(self.executor.refuse(ready, error)))
    }

    /// Prepares a call, and returns the facts on which the machine decides about the call.
    async fn prepared_call(&self, call: CallToPrepare) -> (PreparedCall, Option<ReadyCall>) {
        let mut prepared = self.prepare(call).await;
        if self.cx.surface == Surface::WorkflowStep {
            prepared = self.executor.check_surface(&self.cx, prepared);
        }
        let ready = match prepared {
            Preparation::Ready(ready) => ready,
            Preparation::Refused(envelope) => return (PreparedCall::Refused(envelope), None),
        };
        match self.executor.closure_fingerprint(&self.cx.realm, &ready.tool).await {
            Ok(fingerprint) => {
                let mut facts = facts(&self.cx, &ready);
                facts.closure_hash = fingerprint;
                (PreparedCall::Ready(Box::new(facts)), Some(*ready))
            }
            Err(error) => (PreparedCall::Refused(Box::new(self.executor.refuse(*ready, error))), None),
        }
    }

    /// The time limit of a call.
    pub(super) fn time_limit(&self, call: &CallToRun) -> Duration {
        match self.bound_to(&call.facts.name) {
            Some(bound) => bound.limit,
            None => self.tools.find(&call.facts.name).map_or(Duration::ZERO, |member| member.tool.limits.total),
        }
    }

    /// Whether a call starts a child run.
    pub(super) fn starts_run(&self, call: &CallToRun) -> bool {
        self.tools.find(&call.facts.name).is_some_and(|member| member.tool.starts_run())
    }

    fn bound_to(&self, tool: &str) -> Option<&BoundTool> {
        self.bound.get(&tool.to_ascii_lowercase())
    }

    async fn prepare(&self, call: CallToPrepare) -> Preparation {
        if let Some(prepared) = self.prepared.lock().unwrap_or_else(PoisonError::into_inner).take() {
            return prepared;
        }
        // The preparation needs a sequence that numbers calls. The resulting call ids are not used, because the machine
        // assigns the call ids of a run.
        let mut sequence = CallSequence::default();
        let exact = call.version.as_ref().and_then(|version| format!("={version}").parse().ok());
        if let Some(BoundTool { tool, name, wanted, .. }) = self.bound_to(&call.tool) {
            // The life cycle, permission, schema and side effects of the implementation apply, not those of the
            // replaced tool.
            let request =
                CallRequest { tool: name.clone(), version: exact.or_else(|| wanted.clone()), input: call.input };
            return self.prepare_request(request, call.names, &mut sequence).await.with_name(tool);
        }
        let member = self.tools.find(&call.tool);
        if let Some(member) = member.filter(|member| member.is_outside_catalog()) {
            return self.executor.prepare_tool(&self.cx, Arc::clone(&member.tool), call.input, &mut sequence).await;
        }
        let version = exact.or_else(|| member.and_then(|member| member.version_req.clone()));
        let request = CallRequest { tool: call.tool, version, input: call.input };
        self.prepare_request(request, call.names, &mut sequence).await
    }

    /// Prepares a call. An input may contain names instead of ids. `names` contains the ids that an earlier preparation
    /// found, by input field. If `names` is `None`, the ids are looked up.
    async fn prepare_request(
        &self,
        request: CallRequest,
        names: Option<BTreeMap<String, ResolvedInput>>,
        sequence: &mut CallSequence,
    ) -> Preparation {
        match names {
            Some(names) => self.executor.prepare_resolved(&self.cx, request, names, sequence).await,
            None => self.executor.prepare(&self.cx, request, sequence).await,
        }
    }

    fn ended(&self, envelope: Box<ToolEnvelope>) -> EventKind {
        let child = envelope.metadata.child_run.as_ref();
        let (usage, nested_calls) = child.map_or_else(Default::default, |child| (child.usage, child.tool_calls));
        let offered_tools =
            if envelope.name == search_tools::NAME { self.found_tools(&envelope.output) } else { Vec::new() };
        EventKind::CallEnded { envelope, usage, nested_calls, offered_tools }
    }

    fn found_tools(&self, output: &Value) -> Vec<toolwright_types::OfferedTool> {
        let tools = output.get("tools").and_then(Value::as_array).into_iter().flatten();
        self.tools.offered_by_name(tools.filter_map(|tool| tool.get("name")?.as_str()))
    }

    /// Checks that the model's answer matches the requested response format. Replies that are empty, are truncated, are
    /// a refusal or request tool calls are not checked, because they are not answers.
    async fn check_answer(&self, format: &ResponseFormat, reply: &ModelReply) -> Result<(), AnswerError> {
        let is_answer = reply.tool_calls.is_empty() && reply.stop == StopReason::EndTurn;
        if *format == ResponseFormat::Text || !is_answer || reply.content.trim().is_empty() {
            return Ok(());
        }
        let plan = self.answers.of_plan(format);
        let text = if plan.is_some() { json_answer(&reply.content) } else { &reply.content };
        let value: Value = match toolwright_budget::parse(text.to_owned().into()).await {
            Ok(value) => value,
            Err(JsonError::Malformed(error)) => return Err(AnswerError::Mismatch(format!("it is not JSON ({error})"))),
            Err(error) => return Err(AnswerError::Mismatch(error.to_string())),
        };
        let (name, checked) = match (plan, &self.answers.answer) {
            (Some(plan), _) => ("the schema of plans", plan.validate(&value).await),
            (None, Some(schema)) if matches!(format, ResponseFormat::Structured(_)) => {
                ("`responseSchema`", schema.try_validate(value).await.map(drop))
            }
            (None, _) => return Ok(()),
        };
        checked.map_err(|rejection| match rejection {
            Rejection::Mismatch(violations) if plan.is_some() => AnswerError::Mismatch(listed_violations(&violations)),
            Rejection::Mismatch(violations) => {
                AnswerError::Mismatch(violations.first().map(Violation::to_string).unwrap_or_default())
            }
            Rejection::Unchecked(stopped) => {
                AnswerError::Unchecked(format!("the answer cannot be checked against {name}: {stopped}"))
            }
        })
    }
}

/// Why an answer is not accepted.
enum AnswerError {
    /// The answer does not match the response format. The model may try again.
    Mismatch(String),
    /// The answer could not be checked.
    Unchecked(String),
}

impl EffectExecutor for RunExecutor {
    fn ask(
        self: Arc<Self>,
        handle: Arc<RunHandle>,
        iteration: u32,
        request: Box<ModelRequest>,
    ) -> BoxFuture<'static, EffectOutcome> {
        RunExecutor::ask(self, handle, iteration, request).boxed()
    }

    fn prepare_all(self: Arc<Self>, iteration: u32, calls: Vec<CallToPrepare>) -> BoxFuture<'static, EffectOutcome> {
        RunExecutor::prepare_all(self, iteration, calls).boxed()
    }

    fn prepare_again(self: Arc<Self>, call_id: CallId, call: CallToPrepare) -> BoxFuture<'static, EffectOutcome> {
        RunExecutor::prepare_again(self, call_id, call).boxed()
    }

    fn call(
        self: Arc<Self>,
        call: Box<CallToRun>,
        ready: Option<ReadyCall>,
        allowance: Option<Allowance>,
    ) -> BoxFuture<'static, EffectOutcome> {
        RunExecutor::call(self, call, ready, allowance).boxed()
    }

    fn verify(self: Arc<Self>, call: Box<CallToRun>, intended_at: Timestamp) -> BoxFuture<'static, EffectOutcome> {
        RunExecutor::verify(self, call, intended_at).boxed()
    }

    fn time_limit(&self, call: &CallToRun) -> Duration {
        RunExecutor::time_limit(self, call)
    }

    fn starts_run(&self, call: &CallToRun) -> bool {
        RunExecutor::starts_run(self, call)
    }

    fn cancel(&self) {
        self.cx.cancel.cancel();
    }
}

/// The context of every call of a run.
pub(crate) fn call_context(start: &RunStart, scope: RunScope, tools: &Arc<Toolset>) -> CallContext {
    let RunScope { realm, principal, owner } = scope;
    let is_workflow = start.spec.workflow.is_some();
    CallContext {
        run: start.spec.run,
        realm,
        principal,
        owner,
        surface: if is_workflow { Surface::WorkflowStep } else { Surface::Tool },
        caller: CallerInfo {
            correlation_id: Some(start.correlation_id()),
            agent: (!start.direct && !is_workflow).then(|| start.subject.clone()),
            workflow_instance: is_workflow.then(|| start.spec.run.to_string()),
            conversation: start.conversation.map(|id| id.to_string()),
            session: start.session.clone(),
            durable: start.durable,
            ..CallerInfo::default()
        },
        cancel: CancellationToken::new(),
        depth: start.depth,
        hops: start.hops,
        captures: start.spec.policy.capture_writes,
        resources: CallResources { toolbox: Some(Arc::clone(tools) as _), ..CallResources::default() },
    }
}

/// The schema of the form that a step of a workflow shows. It is part of the payload.
fn form_schema(action: &ClientAction) -> Option<Value> {
    (action.pending.name == step_handlers::FORM).then(|| action.prepared_payload.get("schema").cloned()).flatten()
}

fn definition_changed() -> ToolError {
    let message = "the tool, its provider or a tool that it may call changed between the decision and the call";
    ToolError::new(ErrorCode::PolicyDenied, message).reason("definition_changed")
}

pub(super) fn facts(cx: &CallContext, ready: &ReadyCall) -> CallFacts {
    let tool = &ready.tool;
    let definition = &tool.definition;
    let mut facts = CallFacts::new(ready.name(), &definition.version.to_string(), &tool.content_hash, ready.effects);
    facts.idempotent = definition.idempotent;
    facts.verifiable = definition.verify_tool_ref.is_some();
    let method = definition.invocation.method.as_deref();
    facts.deletes = ready.deletes || is_delete_tool(definition.ref_name.as_str(), method);
    facts.requires_confirmation = definition.requires_confirmation;
    if !definition.is_tool_fully_executed_on_server {
        facts.execution_site = ExecutionSite::Client;
    }
    facts.realms.insert(cx.realm.name.to_string());
    facts.order_keys = ready.order_keys();
    facts.model_output_bytes = definition.model_output_bytes.unwrap_or(facts.model_output_bytes);
    facts.principal = Some(cx.principal.name.to_string());
    facts.policy_id = Some(ready.permit.policy.clone());
    facts.resolved_inputs.clone_from(ready.resolved_inputs());
    facts.price_usd = tool.fixed_price_usd();
    facts
}
