//! Drives the agent machine with arbitrary events that are possible in its state. Every run must stay consistent and
//! within its limits.
#![no_main]

use libfuzzer_sys::fuzz_target;
use serde_json::{Value, json};
use toolwright_machine::agent::{
    AgentRun, CallFacts, CallToPrepare, ClientResult, Decision, Effect, Event, EventKind, PreparedCall, RunSpec,
};
use toolwright_machine::{Guardrail, Limits, Policy};
use toolwright_types::{
    Arguments, CallId, CallMetadata, ErrorCode, ExecutionSite, ModelReply, ModelRequest, RequestedCall, RunId,
    SideEffects, StopReason, Timestamp, ToolEnvelope, ToolError, UnknownOutcome, Usage,
};

/// Makes choices from the bytes of the input. After the last byte, it uses zeros.
struct ByteSource<'a>(&'a [u8]);

impl ByteSource<'_> {
    fn next_below(&mut self, bound: u8) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        first % bound
    }
}

fuzz_target!(|bytes: &[u8]| {
    let mut source = ByteSource(bytes);
    let limits = Limits {
        max_iterations: 1 + u32::from(source.next_below(6)),
        max_tool_calls: u32::from(source.next_below(10)),
        timeout_ms: (source.next_below(2) == 0).then_some(5_000),
        max_tokens: (source.next_below(3) == 0).then_some(500),
        max_cost_usd: (source.next_below(3) == 0).then_some(0.02),
    };
    let mut run = AgentRun::new(spec(&mut source, limits), at(0));
    let mut millis = 0;
    for _ in 0..120 {
        let _ = run.next();
        if run.ending().is_some() {
            break;
        }
        millis += i64::from(source.next_below(200));
        let pending = run.pending();
        assert!(!pending.is_empty(), "an unfinished run must have a pending effect");
        let chosen = usize::from(source.next_below(8)) % pending.len();
        let kind = match source.next_below(24) {
            0 => EventKind::TimerFired,
            1 => EventKind::Cancelled { message: None },
            2 | 3 => EventKind::recovered(),
            _ => answer(&mut source, &pending[chosen]),
        };
        let before = run.clone();
        if run.apply(Event { at: at(millis), kind }).is_err() {
            assert_eq!(run, before, "a rejected event must not change the run");
        }
        if source.next_below(8) == 0 {
            run = AgentRun::restore(&run.save()).expect("a saved run must restore");
        }
    }
    assert!(
        run.resource_usage().iterations <= limits.max_iterations
            && run.resource_usage().tool_calls <= limits.max_tool_calls
    );
    if run.ending().is_some() {
        let outputs = run.outputs();
        assert_eq!(outputs.tool_order.len(), outputs.tools_by_id.len());
    }
});

fn spec(source: &mut ByteSource<'_>, limits: Limits) -> RunSpec {
    let request: ModelRequest =
        serde_json::from_value(json!({ "model": "m", "messages": [{ "role": "user", "content": "Go." }] })).unwrap();
    let mut policy = Policy::allowing("r", ["read", "write", "browser"]);
    policy.requires_approval = source.next_below(2) == 0;
    policy.unknown_outcome = if source.next_below(2) == 0 { UnknownOutcome::Model } else { UnknownOutcome::Person };
    if source.next_below(3) == 0 {
        policy.guardrails.push(Guardrail::NoDelete);
    }
    let mut spec = RunSpec::new(RunId::from_bits(1), request, policy);
    spec.limits = limits;
    spec.max_parallel_calls = u32::from(source.next_below(4));
    spec.approval_wait_ms = Some(1_000);
    spec.client_wait_ms = Some(1_000);
    spec
}

fn answer(source: &mut ByteSource<'_>, effect: &Effect) -> EventKind {
    match effect {
        Effect::CallModel { iteration, .. } => match source.next_below(12) {
            0 => {
                EventKind::ModelFailed { iteration: *iteration, reason: "model_network".into(), message: "down".into() }
            }
            1 => EventKind::ModelReplied {
                iteration: *iteration,
                reply: Box::new(reply(source)),
                schema_error: Some("no".into()),
                answer_unchecked: false,
            },
            _ => EventKind::model_replied(*iteration, reply(source)),
        },
        Effect::PrepareCalls { iteration, calls } => EventKind::Prepared {
            iteration: *iteration,
            calls: calls.iter().map(|call| prepared(source, call)).collect(),
        },
        Effect::PrepareAgain { call_id, call } => {
            EventKind::PreparedAgain { call_id: call_id.clone(), call: prepared(source, call) }
        }
        Effect::RunCall(call) if !call.again && call.facts.effects == SideEffects::Writes => {
            EventKind::Intended { call_id: call.call_id.clone() }
        }
        Effect::VerifyCall { call, .. } => match source.next_below(3) {
            0 => EventKind::call_ended(envelope(&call.call_id, &call.facts.name, call.input.clone(), false)),
            1 => EventKind::Verified { call_id: call.call_id.clone(), unknown_reason: None },
            _ => EventKind::Verified { call_id: call.call_id.clone(), unknown_reason: Some("unknown".into()) },
        },
        Effect::RunCall(call) => {
            let receipt = envelope(&call.call_id, &call.facts.name, call.input.clone(), source.next_below(3) == 0);
            if call.facts.execution_site == ExecutionSite::Client {
                EventKind::HandedToClient {
                    prepared_payload: Value::Null,
                    schema: json!({}),
                    pending: Box::new(receipt),
                }
            } else {
                EventKind::call_ended(receipt)
            }
        }
        Effect::RequestApproval(approval) => match source.next_below(5) {
            0 => EventKind::Expired { call_id: approval.call_id.clone() },
            1 => decided(approval.call_id.clone(), Decision::Deny { reason: None }),
            2 => decided(approval.call_id.clone(), Decision::Edit { input: json!({ "n": source.next_below(4) }) }),
            _ => decided(approval.call_id.clone(), Decision::Approve),
        },
        Effect::RequestClientAction(action) => match source.next_below(3) {
            0 => EventKind::Expired { call_id: action.call_id.clone() },
            1 => EventKind::ClientReturned { call_id: action.call_id.clone(), result: ClientResult::Error(failed()) },
            _ => EventKind::ClientReturned { call_id: action.call_id.clone(), result: ClientResult::Output(json!(1)) },
        },
        Effect::Finish { .. } => EventKind::TimerFired,
    }
}

fn decided(call_id: CallId, decision: Decision) -> EventKind {
    EventKind::ApprovalDecided { call_id, definition_hash: "h".into(), decision, decided_by: None }
}

fn reply(source: &mut ByteSource<'_>) -> ModelReply {
    let names = ["read", "write", "browser", "delete_all", "unknown"];
    let calls = (0..source.next_below(4)).map(|at| RequestedCall {
        id: format!("c{at}"),
        name: names[usize::from(source.next_below(5))].into(),
        arguments: match source.next_below(6) {
            0 => Arguments::Malformed("{oops".into()),
            n => Arguments::Json(json!({ "n": n })),
        },
    });
    let tool_calls: Vec<RequestedCall> = calls.collect();
    let stop = match (source.next_below(10), tool_calls.is_empty()) {
        (0, _) => StopReason::Refusal,
        (1, _) => StopReason::MaxTokens,
        (_, true) => StopReason::EndTurn,
        (_, false) => StopReason::ToolUse,
    };
    ModelReply {
        content: if source.next_below(3) == 0 { String::new() } else { "text".into() },
        tool_calls,
        thinking: Vec::new(),
        usage: Usage { input_tokens: 40, output_tokens: 10, cached_input_tokens: 0 },
        stop,
        cost_usd: (source.next_below(2) == 0).then_some(0.004),
    }
}

fn prepared(source: &mut ByteSource<'_>, call: &CallToPrepare) -> PreparedCall {
    if !["read", "write", "browser", "delete_all"].contains(&call.tool.as_str()) {
        return PreparedCall::Refused(Box::new(envelope(
            &CallId::derive("x", "", &Value::Null, 0),
            &call.tool,
            call.input.clone(),
            true,
        )));
    }
    let effects = if call.tool == "read" { SideEffects::Reads } else { SideEffects::Writes };
    let hash = if source.next_below(12) == 0 { "other" } else { "h" };
    let mut facts = CallFacts::new(&call.tool, "1.0.0", hash, effects);
    facts.deletes = call.tool == "delete_all";
    facts.requires_confirmation = source.next_below(6) == 0;
    (facts.idempotent, facts.verifiable) = (source.next_below(3) == 0, source.next_below(2) == 0);
    facts.realms = ["r".to_owned()].into();
    if call.tool == "browser" {
        facts.execution_site = ExecutionSite::Client;
    }
    if effects == SideEffects::Writes {
        facts.order_keys = [call.input.to_string()].into();
    }
    PreparedCall::Ready(Box::new(facts))
}

fn envelope(call_id: &CallId, name: &str, input: Value, fails: bool) -> ToolEnvelope {
    ToolEnvelope {
        call_id: call_id.clone(),
        name: name.to_owned(),
        version: "1.0.0".into(),
        input,
        output: if fails { Value::Null } else { json!({ "ok": true }) },
        error: fails.then(failed),
        t_start: at(0),
        t_end: at(0),
        cached: false,
        truncated: false,
        attachments: Vec::new(),
        metadata: CallMetadata::default(),
    }
}

fn failed() -> ToolError {
    ToolError::new(ErrorCode::NetworkError, "down")
}

fn at(millis: i64) -> Timestamp {
    Timestamp::from_micros(millis * 1000)
}
