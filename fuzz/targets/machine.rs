//! The agent machine: any order of events that reality can produce ends in a defined status, within its limits.
#![no_main]

use libfuzzer_sys::fuzz_target;
use serde_json::{Value, json};
use toolwright_machine::agent::{AgentRun, CallToPrepare, ClientResult, Decision, Effect, Event, Facts, Happened, Prepared, Spec};
use toolwright_machine::{Guardrail, Limits, Policy};
use toolwright_types::{
    Arguments, CallId, CallMetadata, ErrorCode, ExecutionSite, ModelReply, ModelRequest, RequestedCall, RunId, SideEffects,
    StopReason, Timestamp, ToolEnvelope, ToolError, UnknownOutcome, Usage,
};

/// Decides by the bytes of the input, and by zeros when they are used up.
struct Dice<'a>(&'a [u8]);

impl Dice<'_> {
    fn roll(&mut self, sides: u8) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        first % sides
    }
}

fuzz_target!(|bytes: &[u8]| {
    let mut dice = Dice(bytes);
    let limits = Limits {
        max_iterations: 1 + u32::from(dice.roll(6)),
        max_tool_calls: u32::from(dice.roll(10)),
        timeout_ms: (dice.roll(2) == 0).then_some(5_000),
        max_tokens: (dice.roll(3) == 0).then_some(500),
        max_cost_usd: (dice.roll(3) == 0).then_some(0.02),
    };
    let mut run = AgentRun::new(spec(&mut dice, limits), at(0));
    let mut millis = 0;
    for _ in 0..120 {
        let _ = run.next();
        if run.ending().is_some() {
            break;
        }
        millis += i64::from(dice.roll(200));
        let pending = run.pending();
        assert!(!pending.is_empty(), "a run that has not ended waits for something");
        let chosen = usize::from(dice.roll(8)) % pending.len();
        let what = match dice.roll(24) {
            0 => Happened::TimePassed,
            1 => Happened::Cancelled { message: None },
            2 | 3 => Happened::taken_up(),
            _ => answer(&mut dice, &pending[chosen]),
        };
        let before = run.clone();
        if run.apply(Event { at: at(millis), what }).is_err() {
            assert_eq!(run, before, "an event that is not taken changes nothing");
        }
        if dice.roll(8) == 0 {
            run = AgentRun::restore(&run.save()).expect("what was saved can be restored");
        }
    }
    assert!(run.spent().iterations <= limits.max_iterations && run.spent().tool_calls <= limits.max_tool_calls);
    if run.ending().is_some() {
        let outputs = run.outputs();
        assert_eq!(outputs.tool_order.len(), outputs.tools_by_id.len());
    }
});

fn spec(dice: &mut Dice<'_>, limits: Limits) -> Spec {
    let request: ModelRequest =
        serde_json::from_value(json!({ "model": "m", "messages": [{ "role": "user", "content": "Go." }] })).unwrap();
    let mut policy = Policy::allowing("r", ["read", "write", "browser"]);
    policy.requires_approval = dice.roll(2) == 0;
    policy.unknown_outcome = if dice.roll(2) == 0 { UnknownOutcome::Model } else { UnknownOutcome::Person };
    if dice.roll(3) == 0 {
        policy.guardrails.push(Guardrail::NoDelete);
    }
    let mut spec = Spec::new(RunId::from_bits(1), request, policy);
    spec.limits = limits;
    spec.max_parallel_calls = u32::from(dice.roll(4));
    spec.approval_wait_ms = Some(1_000);
    spec.client_wait_ms = Some(1_000);
    spec
}

fn answer(dice: &mut Dice<'_>, effect: &Effect) -> Happened {
    match effect {
        Effect::CallModel { step, .. } => match dice.roll(12) {
            0 => Happened::ModelFailed { step: *step, reason: "model_network".into(), message: "down".into() },
            1 => Happened::ModelReplied { step: *step, reply: Box::new(reply(dice)), misfit: Some("no".into()) },
            _ => Happened::replied(*step, reply(dice)),
        },
        Effect::PrepareCalls { step, calls } => {
            Happened::Prepared { step: *step, calls: calls.iter().map(|call| prepared(dice, call)).collect() }
        }
        Effect::PrepareAgain { call_id, call } => {
            Happened::PreparedAgain { call_id: call_id.clone(), call: prepared(dice, call) }
        }
        Effect::RunCall(call) if !call.again && call.facts.effects == SideEffects::Writes => {
            Happened::Intended { call_id: call.call_id.clone() }
        }
        Effect::VerifyCall { call, .. } => match dice.roll(3) {
            0 => Happened::ended(envelope(&call.call_id, &call.facts.name, call.input.clone(), false)),
            1 => Happened::Verified { call_id: call.call_id.clone(), unknown: None },
            _ => Happened::Verified { call_id: call.call_id.clone(), unknown: Some("who knows".into()) },
        },
        Effect::RunCall(call) => {
            let receipt = envelope(&call.call_id, &call.facts.name, call.input.clone(), dice.roll(3) == 0);
            if call.facts.execution_site == ExecutionSite::Client {
                Happened::CallHandedOver { prepared_payload: Value::Null, schema: json!({}), pending: Box::new(receipt) }
            } else {
                Happened::ended(receipt)
            }
        }
        Effect::AskApproval(asked) => match dice.roll(5) {
            0 => Happened::Expired { call_id: asked.call_id.clone() },
            1 => decided(asked.call_id.clone(), Decision::Deny { reason: None }),
            2 => decided(asked.call_id.clone(), Decision::Edit { input: json!({ "n": dice.roll(4) }) }),
            _ => decided(asked.call_id.clone(), Decision::Approve),
        },
        Effect::HandToClient(asked) => match dice.roll(3) {
            0 => Happened::Expired { call_id: asked.call_id.clone() },
            1 => Happened::ClientReturned { call_id: asked.call_id.clone(), result: ClientResult::Error(failed()) },
            _ => Happened::ClientReturned { call_id: asked.call_id.clone(), result: ClientResult::Output(json!(1)) },
        },
        Effect::Finish { .. } => Happened::TimePassed,
    }
}

fn decided(call_id: CallId, decision: Decision) -> Happened {
    Happened::Approval { call_id, definition_hash: "h".into(), decision, by: None }
}

fn reply(dice: &mut Dice<'_>) -> ModelReply {
    let names = ["read", "write", "browser", "delete_all", "unknown"];
    let calls = (0..dice.roll(4)).map(|at| RequestedCall {
        id: format!("c{at}"),
        name: names[usize::from(dice.roll(5))].into(),
        arguments: match dice.roll(6) {
            0 => Arguments::Malformed("{oops".into()),
            n => Arguments::Json(json!({ "n": n })),
        },
    });
    let tool_calls: Vec<RequestedCall> = calls.collect();
    let stop = match (dice.roll(10), tool_calls.is_empty()) {
        (0, _) => StopReason::Refusal,
        (1, _) => StopReason::MaxTokens,
        (_, true) => StopReason::EndTurn,
        (_, false) => StopReason::ToolUse,
    };
    ModelReply {
        content: if dice.roll(3) == 0 { String::new() } else { "text".into() },
        tool_calls,
        thinking: Vec::new(),
        usage: Usage { input_tokens: 40, output_tokens: 10, cached_input_tokens: 0 },
        stop,
        cost_usd: (dice.roll(2) == 0).then_some(0.004),
    }
}

fn prepared(dice: &mut Dice<'_>, call: &CallToPrepare) -> Prepared {
    if !["read", "write", "browser", "delete_all"].contains(&call.tool.as_str()) {
        return Prepared::Refused(Box::new(envelope(&CallId::derive("x", "", &Value::Null, 0), &call.tool, call.input.clone(), true)));
    }
    let effects = if call.tool == "read" { SideEffects::Reads } else { SideEffects::Writes };
    let hash = if dice.roll(12) == 0 { "other" } else { "h" };
    let mut facts = Facts::new(&call.tool, "1.0.0", hash, effects);
    facts.deletes = call.tool == "delete_all";
    facts.requires_confirmation = dice.roll(6) == 0;
    (facts.idempotent, facts.verifiable) = (dice.roll(3) == 0, dice.roll(2) == 0);
    facts.realms = ["r".to_owned()].into();
    if call.tool == "browser" {
        facts.execution_site = ExecutionSite::Client;
    }
    if effects == SideEffects::Writes {
        facts.order_keys = [call.input.to_string()].into();
    }
    Prepared::Ready(Box::new(facts))
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
