//! A test harness for a run, with scripted tools and a manual clock.

use serde_json::{Value, json};
use toolwright_machine::agent::{
    ApplyOutcome, CallFacts, CallToPrepare, CallToRun, Decision, Effect, Event, EventError, EventKind, PreparedCall,
    RunSpec,
};
use toolwright_machine::{AgentOutputs, AgentRun, Ending, Policy};
use toolwright_types::{
    Arguments, CallId, CallMetadata, ErrorCode, ExecutionSite, Message, ModelReply, ModelRequest, RequestedCall,
    ResponseFormat, RunId, SideEffects, StopReason, Timestamp, ToolEnvelope, ToolError, Usage,
};

/// The tools of the harness.
pub(crate) const TOOLS: [&str; 6] = ["search", "save", "delete_deal", "pay", "browser", "hidden"];

/// All tools except `hidden`.
pub(crate) const ALLOWED: [&str; 5] = ["search", "save", "delete_deal", "pay", "browser"];

pub(crate) fn at(millis: i64) -> Timestamp {
    Timestamp::from_micros(1_700_000_000_000_000 + millis * 1000)
}

pub(crate) fn request() -> ModelRequest {
    ModelRequest {
        model: "scripted".into(),
        messages: vec![Message::User { content: "go".into() }].into(),
        tools: Default::default(),
        temperature: None,
        max_output_tokens: None,
        response_format: ResponseFormat::Text,
        parallel_tool_calls: true,
        extra: serde_json::Map::new(),
        images: Default::default(),
    }
}

/// A spec that allows every tool except `hidden`.
pub(crate) fn spec() -> RunSpec {
    RunSpec::new(RunId::from_bits(7), request(), Policy::allowing("home", ALLOWED))
}

pub(crate) fn facts(tool: &str) -> CallFacts {
    let effects = match tool {
        "save" | "delete_deal" | "pay" => SideEffects::Writes,
        _ => SideEffects::Reads,
    };
    let mut facts = CallFacts::new(tool, "1.0.0", "hash-1", effects);
    facts.deletes = tool == "delete_deal";
    facts.requires_confirmation = tool == "pay";
    if tool == "browser" {
        facts.execution_site = ExecutionSite::Client;
    }
    facts
}

/// Prepares a call as the executor would.
pub(crate) fn prepare(call: &CallToPrepare) -> PreparedCall {
    if !TOOLS.contains(&call.tool.as_str()) {
        let error = ToolError::new(ErrorCode::PolicyDenied, "no such tool").reason("unknown_tool");
        return PreparedCall::Refused(Box::new(envelope(&call.tool, "", call.input.clone(), Err(error))));
    }
    if call.input.get("bad").is_some() {
        let error = ToolError::new(ErrorCode::ValidationError, "`bad` is not a field").reason("input_schema");
        return PreparedCall::Refused(Box::new(envelope(&call.tool, "1.0.0", call.input.clone(), Err(error))));
    }
    PreparedCall::Ready(Box::new(facts(&call.tool)))
}

pub(crate) fn envelope(name: &str, version: &str, input: Value, result: Result<Value, ToolError>) -> ToolEnvelope {
    let call_id = CallId::derive(name, version, &input, 0);
    let (output, error) = match result {
        Ok(output) => (output, None),
        Err(error) => (Value::Null, Some(error)),
    };
    ToolEnvelope {
        call_id,
        name: name.into(),
        version: version.into(),
        input,
        output,
        error,
        t_start: at(0),
        t_end: at(5),
        cached: false,
        truncated: false,
        attachments: Vec::new(),
        metadata: CallMetadata { attempt: 1, ..CallMetadata::default() },
    }
}

pub(crate) fn call(id: &str, name: &str, input: Value) -> RequestedCall {
    RequestedCall { id: id.into(), name: name.into(), arguments: Arguments::Json(input) }
}

pub(crate) fn calls(tool_calls: Vec<RequestedCall>) -> ModelReply {
    ModelReply {
        content: String::new(),
        tool_calls,
        thinking: Vec::new(),
        usage: Usage { input_tokens: 10, output_tokens: 5, cached_input_tokens: 0 },
        stop: StopReason::ToolUse,
        cost_usd: Some(0.01),
    }
}

pub(crate) fn text(content: &str) -> ModelReply {
    ModelReply { content: content.into(), stop: StopReason::EndTurn, ..calls(Vec::new()) }
}

/// The envelope of an executed call.
pub(crate) fn envelope_of(call: &CallToRun, result: Result<Value, ToolError>) -> ToolEnvelope {
    let mut envelope = envelope(&call.facts.name, &call.facts.version, call.input.clone(), result);
    envelope.call_id = call.call_id.clone();
    envelope
}

pub(crate) struct Harness {
    pub run: AgentRun,
    pub millis: i64,
}

impl Harness {
    pub(crate) fn new(spec: RunSpec) -> Self {
        Self { run: AgentRun::new(spec, at(0)), millis: 0 }
    }

    pub(crate) fn send(&mut self, kind: EventKind) -> Result<ApplyOutcome, EventError> {
        self.run.apply(Event { at: at(self.millis), kind })
    }

    pub(crate) fn apply(&mut self, kind: EventKind) {
        assert_eq!(self.send(kind).unwrap(), ApplyOutcome::Accepted);
    }

    /// Answers the open model call.
    pub(crate) fn reply(&mut self, reply: ModelReply) {
        let iteration = self.run.resource_usage().iterations;
        self.apply(EventKind::model_replied(iteration, reply));
    }

    /// Answers the open preparation with the harness tools.
    pub(crate) fn prepare(&mut self) {
        self.prepare_as(prepare);
    }

    pub(crate) fn prepare_as(&mut self, facts: impl Fn(&CallToPrepare) -> PreparedCall) {
        let pending = self.run.pending();
        let [Effect::PrepareCalls { iteration, calls }] = &pending[..] else {
            panic!("nothing to prepare");
        };
        self.apply(EventKind::Prepared { iteration: *iteration, calls: calls.iter().map(facts).collect() });
    }

    /// Replies with these calls and prepares them.
    pub(crate) fn request_calls(&mut self, tool_calls: Vec<RequestedCall>) {
        self.reply(calls(tool_calls));
        self.prepare();
    }

    pub(crate) fn running(&self) -> Vec<CallToRun> {
        let running = |effect| match effect {
            Effect::RunCall(call) => Some(*call),
            _ => None,
        };
        self.run.pending().into_iter().filter_map(running).collect()
    }

    pub(crate) fn end_call(&mut self, call: &CallToRun, result: Result<Value, ToolError>) {
        self.apply(EventKind::call_ended(envelope_of(call, result)));
    }

    /// Ends every running call with `{"ok": tool}`.
    pub(crate) fn end_all(&mut self) {
        for call in self.running() {
            self.end_call(&call, Ok(json!({ "ok": call.facts.name })));
        }
    }

    /// Hands every running call to the client and returns their ids.
    pub(crate) fn hand_over(&mut self) -> Vec<CallId> {
        let calls = self.running();
        for call in &calls {
            self.apply(EventKind::HandedToClient {
                prepared_payload: json!({ "do": call.input }),
                schema: json!({}),
                pending: Box::new(envelope_of(call, Err(ToolError::new(ErrorCode::Unknown, "waiting")))),
            });
        }
        calls.into_iter().map(|call| call.call_id).collect()
    }

    pub(crate) fn decide(&mut self, call_id: &CallId, decision: Decision) -> Result<ApplyOutcome, EventError> {
        self.send(EventKind::ApprovalDecided {
            call_id: call_id.clone(),
            definition_hash: "hash-1".into(),
            decision,
            decided_by: Some("ann".into()),
            reason: None,
        })
    }

    /// Answers every open second preparation.
    pub(crate) fn prepare_again(&mut self) {
        for effect in self.run.pending() {
            if let Effect::PrepareAgain { call_id, call } = effect {
                self.apply(EventKind::PreparedAgain { call_id, call: prepare(&call) });
            }
        }
    }

    pub(crate) fn ending(&self) -> &Ending {
        self.run.ending().expect("the run has ended")
    }

    pub(crate) fn outputs(&self) -> AgentOutputs {
        self.run.outputs()
    }

    /// The envelopes in order, as tool, error code and reason.
    pub(crate) fn results(&self) -> Vec<(String, Option<ErrorCode>, Option<String>)> {
        self.outputs().in_order().map(|e| (e.name.clone(), e.error.as_ref().map(|e| e.code), reason(e))).collect()
    }

    /// The contents of the tool messages so far.
    pub(crate) fn tool_contents(&self) -> Vec<String> {
        let content = |message: &Message| match message {
            Message::Tool { content, .. } => Some(content.clone()),
            _ => None,
        };
        self.run.messages().iter().filter_map(content).collect()
    }
}

pub(crate) fn reason(envelope: &ToolEnvelope) -> Option<String> {
    envelope.error.as_ref()?.details.as_ref()?.get("reason")?.as_str().map(str::to_owned)
}

pub(crate) fn denied(tool: &str, reason: &str) -> (String, Option<ErrorCode>, Option<String>) {
    (tool.into(), Some(ErrorCode::PolicyDenied), Some(reason.into()))
}

pub(crate) fn succeeded(tool: &str) -> (String, Option<ErrorCode>, Option<String>) {
    (tool.into(), None, None)
}
