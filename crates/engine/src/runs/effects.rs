//! Performs what a run asks for. Nothing here decides: every outcome, good or bad, becomes an event.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use semver::VersionReq;
use serde_json::Value;
use toolwright_machine::agent::{CallToPrepare, CallToRun, Facts, Happened, Prepared as Verdict, outcome_unknown};
use toolwright_machine::journal::recording::Recording;
use toolwright_machine::means_delete;
use toolwright_models::{Model, ModelError};
use toolwright_tools::builtin::search_tools;
use toolwright_tools::{
    Allowance, CallContext, CallRequest, CallSequence, Executor, Outcome, Prepared, ReadyCall, Schema, Word,
};
use toolwright_types::{
    CallId, ErrorCode, ExecutionSite, ModelReply, ModelRequest, ResolvedInput, ResponseFormat, RunId, RunStatus,
    StopReason, Timestamp, ToolEnvelope, ToolError, ToolType, Usage,
};

use super::live::{Listener, LiveRun};
use super::verify::{self, Verified};
use crate::agents::Toolset;
use crate::blobs::BlobStore;

/// What a run's effects are performed with.
pub(crate) struct Crew {
    pub executor: Executor,
    pub blobs: BlobStore,
    /// The model, or why there is none: a run that cannot ask says so when it asks.
    pub model: Result<Arc<dyn Model>, ModelError>,
    pub tools: Arc<Toolset>,
    /// Implementations that take the places of tools, by the tools' names in lower case.
    pub bound: HashMap<String, Bound>,
    /// What is answered as it was in another run.
    pub recording: Option<Arc<Recording>>,
    pub cx: Arc<CallContext>,
    /// What a structured answer must fit.
    pub answer: Option<Arc<Schema>>,
}

/// What a tool is bound to.
pub(crate) struct Bound {
    /// The tool, as it is written.
    pub tool: String,
    /// The implementation: a tool of this name, in this version.
    pub name: String,
    pub wanted: Option<VersionReq>,
    /// How long a call of it may take.
    pub limit: Duration,
}

/// What came of an effect.
pub(crate) enum Done {
    Happened(Happened),
    /// Beside the facts, the calls themselves, so that they need not be prepared again to be made.
    Prepared {
        step: u32,
        results: Vec<(Verdict, Option<ReadyCall>)>,
    },
    PreparedAgain {
        call_id: CallId,
        call: Verdict,
        ready: Option<Box<ReadyCall>>,
    },
    /// A write that was not begun, because its intent was safe too late.
    TooLate {
        call: Box<CallToRun>,
        ready: Option<Box<ReadyCall>>,
        allowance: Option<Allowance>,
    },
    /// Calls that wait for runs which have ended.
    ChildrenEnded(Vec<CallId>),
    /// Somebody else performs it, and tells the run.
    PassedOn,
}

impl Done {
    /// What the run is told; nothing where somebody else tells it.
    pub fn happened(self) -> Option<Happened> {
        match self {
            Done::Happened(what) => Some(what),
            Done::Prepared { step, results } => {
                Some(Happened::Prepared { step, calls: results.into_iter().map(|(call, _)| call).collect() })
            }
            Done::PreparedAgain { call_id, call, .. } => Some(Happened::PreparedAgain { call_id, call }),
            Done::TooLate { .. } | Done::ChildrenEnded(_) | Done::PassedOn => None,
        }
    }
}

impl Crew {
    pub(super) async fn ask(self: Arc<Self>, live: Arc<LiveRun>, step: u32, mut request: Box<ModelRequest>) -> Done {
        if let Some(said) = self.recording.as_ref().and_then(|recording| recording.reply(step, &request)) {
            return Done::Happened(said);
        }
        let mut listener = Listener::to(live, step);
        let replied = match &self.model {
            Ok(model) => {
                if model.sees_images() {
                    request.images = self.blobs.images(&self.cx.realm, &request.messages).await;
                }
                model.complete(&request, &mut listener).await
            }
            Err(error) => Err(error.clone()),
        };
        Done::Happened(match replied {
            Ok(reply) => {
                let misfit = self.misfit(&request.response_format, &reply);
                Happened::ModelReplied { step, reply: Box::new(reply), misfit }
            }
            Err(error) => {
                Happened::ModelFailed { step, reason: format!("model_{}", error.kind.as_str()), message: error.message }
            }
        })
    }

    pub(super) async fn prepare_all(self: Arc<Self>, step: u32, calls: Vec<CallToPrepare>) -> Done {
        let mut results = Vec::with_capacity(calls.len());
        for call in calls {
            let recorded =
                self.recording.as_ref().and_then(|known| known.preparation(&call.tool, &call.input)).cloned();
            results.push(match recorded {
                Some(known) => (known, None),
                None => verdict(&self.cx, self.prepare(call).await),
            });
        }
        Done::Prepared { step, results }
    }

    pub(super) async fn prepare_again(self: Arc<Self>, call_id: CallId, call: CallToPrepare) -> Done {
        let (call, ready) = verdict(&self.cx, self.prepare(call).await);
        Done::PreparedAgain { call_id, call, ready: ready.map(Box::new) }
    }

    /// Makes a call. `ready` is the call as it was prepared, if that was done by this process.
    pub(super) async fn call(
        self: Arc<Self>,
        call: Box<CallToRun>,
        ready: Option<ReadyCall>,
        allowance: Option<Allowance>,
    ) -> Done {
        let CallToRun { call_id, input, facts, again, captured, .. } = *call;
        if let Some(known) = self.recording.as_ref().and_then(|known| known.ended(&call_id, &facts.name, &input)) {
            return Done::Happened(known);
        }
        let ready = match ready {
            Some(ready) => ready.numbered(call_id.clone()),
            None => match self.ready_again(input, facts).await {
                Ok(ready) => ready.numbered(call_id.clone()),
                Err(mut envelope) => {
                    if again && !captured {
                        // That it cannot be made now does not say that it was not made then.
                        let why = envelope.error.map_or_else(String::new, |error| error.message);
                        envelope.error = Some(outcome_unknown(&why));
                    }
                    return Done::Happened(Happened::ended(ToolEnvelope { call_id, ..*envelope }));
                }
            },
        };
        if captured {
            return Done::Happened(Happened::ended(self.executor.capture(ready)));
        }
        let kind = ready.tool.definition.tool_type;
        let outcome = match allowance {
            None => self.executor.call(&self.cx, ready).await,
            Some(allowance) => match self.start_run(ready, allowance).await {
                Ok(outcome) => outcome,
                Err((run, status)) => return Done::Happened(Happened::CallPaused { call_id, run, status }),
            },
        };
        Done::Happened(match outcome {
            Outcome::Client(action) => Happened::CallHandedOver {
                prepared_payload: action.prepared_payload,
                schema: action.schema,
                pending: action.pending,
            },
            Outcome::Done(envelope) => self.ended(kind, envelope),
        })
    }

    /// Asks whether a call was made that an earlier driver was about to make.
    pub(super) async fn verify(self: Arc<Self>, call: Box<CallToRun>, intended_at: Timestamp) -> Done {
        let CallToRun { call_id, input, facts, .. } = *call;
        let ready = match self.ready_again(input, facts).await {
            Ok(ready) => ready.numbered(call_id.clone()),
            Err(envelope) => {
                let why = envelope.error.map_or_else(|| "it cannot be asked".to_owned(), |error| error.message);
                return Done::Happened(Happened::Verified { call_id, unknown: Some(why) });
            }
        };
        Done::Happened(match verify::ask(&self.executor, &self.cx, &ready, intended_at).await {
            Verified::Done(output) => Happened::ended(self.executor.confirm(ready, output)),
            Verified::NotDone => Happened::Verified { call_id, unknown: None },
            Verified::Unknown(why) => Happened::Verified { call_id, unknown: Some(why) },
        })
    }

    /// Makes a call that starts a run, until that run waits for somebody.
    async fn start_run(&self, ready: ReadyCall, allowance: Allowance) -> Result<Outcome, (RunId, RunStatus)> {
        let (pause, mut paused) = Word::new();
        let mut cx = (*self.cx).clone();
        cx.lent.allowance = Some(allowance);
        cx.lent.pause = Some(pause);
        tokio::select! {
            outcome = self.executor.call(&cx, ready) => Ok(outcome),
            waits = paused.next() => Err(waits),
        }
    }

    /// The call prepared anew, for exactly the definition that was decided on.
    async fn ready_again(&self, input: Value, facts: Facts) -> Result<ReadyCall, Box<ToolEnvelope>> {
        let (version, names) = (Some(facts.version), Some(facts.resolved_inputs));
        let call = CallToPrepare { tool: facts.name, version, input, names };
        match self.prepare(call).await {
            Prepared::Ready(ready) if ready.tool.content_hash == facts.definition_hash => Ok(*ready),
            Prepared::Ready(ready) => Err(Box::new(self.executor.refuse(*ready, definition_changed()))),
            Prepared::Refused(envelope) => Err(envelope),
        }
    }

    /// How long a call may take at most.
    pub(super) fn time_limit(&self, call: &CallToRun) -> Duration {
        match self.bound_to(&call.facts.name) {
            Some(bound) => bound.limit,
            None => self.tools.find(&call.facts.name).map_or(Duration::ZERO, |member| member.tool.limits.total),
        }
    }

    /// Whether a call would start a run of its own.
    pub(super) fn starts_run(&self, call: &CallToRun) -> bool {
        self.tools.find(&call.facts.name).is_some_and(|member| member.delegate)
    }

    fn bound_to(&self, tool: &str) -> Option<&Bound> {
        self.bound.get(&tool.to_ascii_lowercase())
    }

    async fn prepare(&self, call: CallToPrepare) -> Prepared {
        // The machine numbers calls; these numbers are thrown away.
        let mut sequence = CallSequence::default();
        let exact = call.version.as_ref().and_then(|version| format!("={version}").parse().ok());
        if let Some(Bound { tool, name, wanted, .. }) = self.bound_to(&call.tool) {
            // Life cycle, permission, schema and effects are those of what is really called.
            let request =
                CallRequest { tool: name.clone(), version: exact.or_else(|| wanted.clone()), input: call.input };
            return self.examine(request, call.names, &mut sequence).await.standing_in_for(tool);
        }
        let member = self.tools.find(&call.tool);
        if let Some(member) = member.filter(|member| member.is_unlisted()) {
            return self.executor.prepare_tool(&self.cx, Arc::clone(&member.tool), call.input, &mut sequence);
        }
        let version = exact.or_else(|| member.and_then(|member| member.wanted.clone()));
        let request = CallRequest { tool: call.tool, version, input: call.input };
        self.examine(request, call.names, &mut sequence).await
    }

    /// `names` are what names in the input were found to mean before, if that was asked.
    async fn examine(
        &self,
        request: CallRequest,
        names: Option<BTreeMap<String, ResolvedInput>>,
        sequence: &mut CallSequence,
    ) -> Prepared {
        match names {
            Some(names) => self.executor.prepare_resolved(&self.cx, request, names, sequence).await,
            None => self.executor.prepare(&self.cx, request, sequence).await,
        }
    }

    fn ended(&self, kind: ToolType, envelope: Box<ToolEnvelope>) -> Happened {
        let (usage, calls) = match kind {
            ToolType::Agent => consumed(&envelope),
            _ => (Usage::default(), 0),
        };
        let offers = if envelope.name == search_tools::NAME { self.found(&envelope.output) } else { Vec::new() };
        Happened::CallEnded { envelope, usage, calls, offers }
    }

    fn found(&self, output: &Value) -> Vec<toolwright_types::OfferedTool> {
        let tools = output.get("tools").and_then(Value::as_array).into_iter().flatten();
        self.tools.offers(tools.filter_map(|tool| tool.get("name")?.as_str()))
    }

    /// Why an answer is not what was asked for. What asks for tools, was cut or refused is no answer yet.
    fn misfit(&self, format: &ResponseFormat, reply: &ModelReply) -> Option<String> {
        let is_answer = reply.tool_calls.is_empty() && reply.stop == StopReason::EndTurn;
        if *format == ResponseFormat::Text || !is_answer || reply.content.trim().is_empty() {
            return None;
        }
        let value: Value = match serde_json::from_str(&reply.content) {
            Ok(value) => value,
            Err(error) => return Some(format!("it is not JSON ({error})")),
        };
        let violations = self.answer.as_ref()?.check(&value).err()?;
        violations.first().map(|violation| format!("{}: {}", violation.path, violation.message))
    }
}

/// Tokens and calls that an agent behind a tool has used; it says so in its result and in its error.
fn consumed(envelope: &ToolEnvelope) -> (Usage, u32) {
    let details = envelope.error.as_ref().and_then(|error| error.details.as_ref());
    let said =
        |name: &str| envelope.output.get(name).or_else(|| details.and_then(|details| details.get(name))).cloned();
    let usage = said("usage").and_then(|usage| serde_json::from_value(usage).ok()).unwrap_or_default();
    let calls = said("toolCallsUsed").and_then(|calls| calls.as_u64()).unwrap_or(0);
    (usage, u32::try_from(calls).unwrap_or(u32::MAX))
}

fn definition_changed() -> ToolError {
    let message = "the tool was changed between the decision and the call";
    ToolError::new(ErrorCode::PolicyDenied, message).reason("definition_changed")
}

fn verdict(cx: &CallContext, prepared: Prepared) -> (Verdict, Option<ReadyCall>) {
    match prepared {
        Prepared::Ready(ready) => (Verdict::Ready(Box::new(facts(cx, &ready))), Some(*ready)),
        Prepared::Refused(envelope) => (Verdict::Refused(envelope), None),
    }
}

pub(super) fn facts(cx: &CallContext, ready: &ReadyCall) -> Facts {
    let tool = &ready.tool;
    let definition = &tool.definition;
    let mut facts = Facts::new(ready.name(), &definition.version.to_string(), &tool.content_hash, tool.effects);
    facts.idempotent = definition.idempotent;
    facts.verifiable = definition.verify_tool_ref.is_some();
    facts.deletes = means_delete(definition.ref_name.as_str(), definition.invocation.method.as_deref());
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
    facts
}
