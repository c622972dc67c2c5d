//! Performs what a run asks for. Nothing here decides: every outcome, good or bad, becomes an event.

use std::sync::Arc;

use serde_json::Value;
use toolwright_machine::agent::{CallToPrepare, CallToRun, Facts, Happened, Prepared as Verdict};
use toolwright_machine::means_delete;
use toolwright_models::{Model, ModelError};
use toolwright_tools::builtin::search_tools;
use toolwright_tools::{
    Allowance, CallContext, CallRequest, CallSequence, Executor, Outcome, Prepared, ReadyCall, Schema,
};
use toolwright_types::{
    CallId, ExecutionSite, ModelReply, ModelRequest, ResponseFormat, StopReason, ToolEnvelope, ToolType, Usage,
};

use super::live::{Listener, LiveRun};
use crate::agents::Toolset;

/// What a run's effects are performed with.
pub(crate) struct Crew {
    pub executor: Executor,
    /// The model, or why there is none: a run that cannot ask says so when it asks.
    pub model: Result<Arc<dyn Model>, ModelError>,
    pub tools: Arc<Toolset>,
    pub cx: Arc<CallContext>,
    /// What a structured answer must fit.
    pub answer: Option<Arc<Schema>>,
}

/// What came of an effect.
pub(super) enum Done {
    Happened(Happened),
    /// Beside the facts, the calls themselves, so that they need not be prepared again to be made.
    Prepared {
        step: u32,
        results: Vec<(Verdict, Option<ReadyCall>)>,
    },
}

impl Crew {
    pub(super) async fn ask(self: Arc<Self>, live: Arc<LiveRun>, step: u32, request: Box<ModelRequest>) -> Done {
        let mut listener = Listener::to(live, step);
        let replied = match &self.model {
            Ok(model) => model.complete(&request, &mut listener).await,
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
            results.push(verdict(&self.cx, self.prepare(call).await));
        }
        Done::Prepared { step, results }
    }

    pub(super) async fn prepare_again(self: Arc<Self>, call_id: CallId, call: CallToPrepare) -> Done {
        let (call, _) = verdict(&self.cx, self.prepare(call).await);
        Done::Happened(Happened::PreparedAgain { call_id, call })
    }

    /// Makes a call. `ready` is the call as it was prepared, if that was done by this process.
    pub(super) async fn call(
        self: Arc<Self>,
        call: Box<CallToRun>,
        ready: Option<ReadyCall>,
        allowance: Option<Allowance>,
    ) -> Done {
        let CallToRun { call_id, input, facts, .. } = *call;
        let prepared = match ready {
            Some(ready) => Prepared::Ready(Box::new(ready)),
            None => {
                let call = CallToPrepare { tool: facts.name, version: Some(facts.version), input };
                self.prepare(call).await
            }
        };
        let ready = match prepared {
            Prepared::Ready(ready) => ready.numbered(call_id),
            Prepared::Refused(envelope) => {
                return Done::Happened(Happened::ended(ToolEnvelope { call_id, ..*envelope }));
            }
        };
        let kind = ready.tool.definition.tool_type;
        let outcome = match allowance {
            None => self.executor.call(&self.cx, ready).await,
            Some(allowance) => {
                let mut cx = (*self.cx).clone();
                cx.lent.allowance = Some(allowance);
                self.executor.call(&cx, ready).await
            }
        };
        Done::Happened(match outcome {
            Outcome::Done(envelope) => self.ended(kind, envelope),
            Outcome::Client(action) => Happened::CallHandedOver {
                prepared_payload: action.prepared_payload,
                schema: action.schema,
                pending: action.pending,
            },
        })
    }

    /// Whether a call would start a run of its own.
    pub(super) fn starts_run(&self, call: &CallToRun) -> bool {
        self.tools.find(&call.facts.name).is_some_and(|member| member.delegate)
    }

    async fn prepare(&self, call: CallToPrepare) -> Prepared {
        // The machine numbers calls; these numbers are thrown away.
        let mut sequence = CallSequence::default();
        let member = self.tools.find(&call.tool);
        if let Some(member) = member.filter(|member| member.is_unlisted()) {
            return self.executor.prepare_tool(&self.cx, Arc::clone(&member.tool), call.input, &mut sequence);
        }
        let exact = call.version.and_then(|version| format!("={version}").parse().ok());
        let version = exact.or_else(|| member.and_then(|member| member.wanted.clone()));
        let request = CallRequest { tool: call.tool, version, input: call.input };
        self.executor.prepare(&self.cx, request, &mut sequence).await
    }

    fn ended(&self, kind: ToolType, envelope: Box<ToolEnvelope>) -> Happened {
        let usage = match kind {
            ToolType::Agent => usage_of(&envelope),
            _ => Usage::default(),
        };
        let offers = if envelope.name == search_tools::NAME { self.found(&envelope.output) } else { Vec::new() };
        Happened::CallEnded { envelope, usage, offers }
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

/// Tokens that an agent behind a tool has used; it says so in its result and in its error.
fn usage_of(envelope: &ToolEnvelope) -> Usage {
    let details = envelope.error.as_ref().and_then(|error| error.details.as_ref());
    let usage = envelope.output.get("usage").or_else(|| details.and_then(|details| details.get("usage")));
    usage.and_then(|usage| serde_json::from_value(usage.clone()).ok()).unwrap_or_default()
}

fn verdict(cx: &CallContext, prepared: Prepared) -> (Verdict, Option<ReadyCall>) {
    match prepared {
        Prepared::Ready(ready) => (Verdict::Ready(Box::new(facts(cx, &ready))), Some(*ready)),
        Prepared::Refused(envelope) => (Verdict::Refused(envelope), None),
    }
}

fn facts(cx: &CallContext, ready: &ReadyCall) -> Facts {
    let tool = &ready.tool;
    let definition = &tool.definition;
    let mut facts =
        Facts::new(definition.ref_name.as_str(), &definition.version.to_string(), &tool.content_hash, tool.effects);
    facts.idempotent = definition.idempotent;
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
    facts
}
