//! A run on a bench: tools by name, time by hand.

use serde_json::{Value, json};
use toolwright_machine::agent::{
    Applied, CallToPrepare, CallToRun, Decision, Effect, Event, EventError, Facts, Happened, Prepared, Spec,
};
use toolwright_machine::{AgentOutputs, AgentRun, Ending, Policy};
use toolwright_types::{
    Arguments, CallId, CallMetadata, ErrorCode, ExecutionSite, Message, ModelReply, ModelRequest, RequestedCall,
    ResponseFormat, RunId, SideEffects, StopReason, Timestamp, ToolEnvelope, ToolError, Usage,
};

/// The tools of the bench.
pub const TOOLS: [&str; 6] = ["search", "save", "delete_deal", "pay", "browser", "hidden"];

/// All but `hidden`.
pub const ALLOWED: [&str; 5] = ["search", "save", "delete_deal", "pay", "browser"];

pub fn at(millis: i64) -> Timestamp {
    Timestamp::from_micros(1_700_000_000_000_000 + millis * 1000)
}

pub fn request() -> ModelRequest {
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

/// Every tool but `hidden` is allowed.
pub fn spec() -> Spec {
    Spec::new(RunId::from_bits(7), request(), Policy::allowing("home", ALLOWED))
}

pub fn facts(tool: &str) -> Facts {
    let effects = match tool {
        "save" | "delete_deal" | "pay" => SideEffects::Writes,
        _ => SideEffects::Reads,
    };
    let mut facts = Facts::new(tool, "1.0.0", "hash-1", effects);
    facts.deletes = tool == "delete_deal";
    facts.requires_confirmation = tool == "pay";
    if tool == "browser" {
        facts.execution_site = ExecutionSite::Client;
    }
    facts
}

/// What the executor's first half says about a call.
pub fn prepare(call: &CallToPrepare) -> Prepared {
    if !TOOLS.contains(&call.tool.as_str()) {
        let error = ToolError::new(ErrorCode::PolicyDenied, "no such tool").reason("unknown_tool");
        return Prepared::Refused(Box::new(envelope(&call.tool, "", call.input.clone(), Err(error))));
    }
    if call.input.get("bad").is_some() {
        let error = ToolError::new(ErrorCode::ValidationError, "`bad` is not a field").reason("input_schema");
        return Prepared::Refused(Box::new(envelope(&call.tool, "1.0.0", call.input.clone(), Err(error))));
    }
    Prepared::Ready(Box::new(facts(&call.tool)))
}

pub fn envelope(name: &str, version: &str, input: Value, result: Result<Value, ToolError>) -> ToolEnvelope {
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

pub fn call(id: &str, name: &str, input: Value) -> RequestedCall {
    RequestedCall { id: id.into(), name: name.into(), arguments: Arguments::Json(input) }
}

pub fn calls(tool_calls: Vec<RequestedCall>) -> ModelReply {
    ModelReply {
        content: String::new(),
        tool_calls,
        thinking: Vec::new(),
        usage: Usage { input_tokens: 10, output_tokens: 5, cached_input_tokens: 0 },
        stop: StopReason::ToolUse,
        cost_usd: Some(0.01),
    }
}

pub fn text(content: &str) -> ModelReply {
    ModelReply { content: content.into(), stop: StopReason::EndTurn, ..calls(Vec::new()) }
}

/// What the executor's second half says when all goes well.
pub fn receipt(call: &CallToRun, result: Result<Value, ToolError>) -> ToolEnvelope {
    let mut envelope = envelope(&call.facts.name, &call.facts.version, call.input.clone(), result);
    envelope.call_id = call.call_id.clone();
    envelope
}

pub struct Bench {
    pub run: AgentRun,
    pub millis: i64,
}

impl Bench {
    pub fn new(spec: Spec) -> Self {
        Self { run: AgentRun::new(spec, at(0)), millis: 0 }
    }

    pub fn send(&mut self, what: Happened) -> Result<Applied, EventError> {
        self.run.apply(Event { at: at(self.millis), what })
    }

    pub fn tell(&mut self, what: Happened) {
        assert_eq!(self.send(what).unwrap(), Applied::Taken);
    }

    /// Answers the open model call.
    pub fn reply(&mut self, reply: ModelReply) {
        let step = self.run.spent().iterations;
        self.tell(Happened::replied(step, reply));
    }

    /// Answers the open preparation with what the bench's tools say.
    pub fn prepare(&mut self) {
        self.prepare_as(prepare);
    }

    pub fn prepare_as(&mut self, facts: impl Fn(&CallToPrepare) -> Prepared) {
        let pending = self.run.pending();
        let [Effect::PrepareCalls { step, calls }] = &pending[..] else {
            panic!("nothing to prepare");
        };
        self.tell(Happened::Prepared { step: *step, calls: calls.iter().map(facts).collect() });
    }

    /// A reply that asks for these calls, prepared.
    pub fn ask(&mut self, tool_calls: Vec<RequestedCall>) {
        self.reply(calls(tool_calls));
        self.prepare();
    }

    /// The calls under way.
    pub fn running(&self) -> Vec<CallToRun> {
        let running = |effect| match effect {
            Effect::RunCall(call) => Some(*call),
            _ => None,
        };
        self.run.pending().into_iter().filter_map(running).collect()
    }

    pub fn end_call(&mut self, call: &CallToRun, result: Result<Value, ToolError>) {
        self.tell(Happened::ended(receipt(call, result)));
    }

    /// Ends every call under way with `{"ok": tool}`.
    pub fn end_all(&mut self) {
        for call in self.running() {
            self.end_call(&call, Ok(json!({ "ok": call.facts.name })));
        }
    }

    /// The server's part of every client call under way.
    pub fn hand_over(&mut self) -> Vec<CallId> {
        let calls = self.running();
        for call in &calls {
            self.tell(Happened::CallHandedOver {
                prepared_payload: json!({ "do": call.input }),
                schema: json!({}),
                pending: Box::new(receipt(call, Err(ToolError::new(ErrorCode::Unknown, "waiting")))),
            });
        }
        calls.into_iter().map(|call| call.call_id).collect()
    }

    pub fn decide(&mut self, call_id: &CallId, decision: Decision) -> Result<Applied, EventError> {
        self.send(Happened::Approval {
            call_id: call_id.clone(),
            definition_hash: "hash-1".into(),
            decision,
            by: Some("ann".into()),
        })
    }

    /// Answers every second preparation.
    pub fn prepare_again(&mut self) {
        for effect in self.run.pending() {
            if let Effect::PrepareAgain { call_id, call } = effect {
                self.tell(Happened::PreparedAgain { call_id, call: prepare(&call) });
            }
        }
    }

    pub fn ending(&self) -> &Ending {
        self.run.ending().expect("the run has ended")
    }

    pub fn outputs(&self) -> AgentOutputs {
        self.run.outputs()
    }

    /// The receipts in order: tool, error code and reason.
    pub fn receipts(&self) -> Vec<(String, Option<ErrorCode>, Option<String>)> {
        self.outputs().in_order().map(|e| (e.name.clone(), e.error.as_ref().map(|e| e.code), reason(e))).collect()
    }

    /// The contents of the tool messages so far.
    pub fn told(&self) -> Vec<String> {
        let content = |message: &Message| match message {
            Message::Tool { content, .. } => Some(content.clone()),
            _ => None,
        };
        self.run.messages().iter().filter_map(content).collect()
    }
}

pub fn reason(envelope: &ToolEnvelope) -> Option<String> {
    envelope.error.as_ref()?.details.as_ref()?.get("reason")?.as_str().map(str::to_owned)
}

pub fn denied(tool: &str, reason: &str) -> (String, Option<ErrorCode>, Option<String>) {
    (tool.into(), Some(ErrorCode::PolicyDenied), Some(reason.into()))
}

pub fn fine(tool: &str) -> (String, Option<ErrorCode>, Option<String>) {
    (tool.into(), None, None)
}
