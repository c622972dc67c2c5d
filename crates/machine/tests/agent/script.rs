//! Random scripts for runs: model replies, tool results, completion order and other events.

use proptest::prelude::*;
use serde_json::{Value, json};
use toolwright_machine::agent::{
    ApplyOutcome, CallFacts, ClientResult, Decision, Effect, Event, EventError, EventKind, PreparedCall, RunSpec,
};
use toolwright_machine::journal::{Entry, EntryBody, RunStart};
use toolwright_machine::{AgentRun, Limits, Policy};
use toolwright_types::{
    Arguments, CallId, ErrorCode, Message, ModelReply, RequestedCall, RunId, SideEffects, StopReason, ToolError,
    UnknownOutcome,
};

use crate::harness::{ALLOWED, at, call, calls, envelope_of, prepare, request, text};

/// All random inputs of one run.
#[derive(Debug, Clone)]
pub(crate) struct Script {
    pub limits: Limits,
    pub policy: Policy,
    pub max_parallel_calls: u32,
    pub replies: Vec<ModelReply>,
    /// The random choices, used one after the other. After the last choice, the driver starts again with the first.
    pub choices: Vec<u32>,
}

impl Script {
    /// A script whose model answers with a single text.
    pub(crate) fn example() -> Self {
        let policy = Policy::allowing("default", Vec::<String>::new());
        Self {
            limits: Limits::default(),
            policy,
            max_parallel_calls: 1,
            replies: vec![text("Hello.")],
            choices: vec![5],
        }
    }

    pub(crate) fn spec(&self) -> RunSpec {
        let mut spec = RunSpec::new(RunId::from_bits(1), request(), self.policy.clone());
        spec.limits = self.limits;
        spec.max_parallel_calls = self.max_parallel_calls;
        spec.approval_wait_ms = Some(5_000);
        spec
    }
}

pub(crate) fn scripts() -> impl Strategy<Value = Script> {
    let replies = proptest::collection::vec(replies(), 1..8);
    let choices = proptest::collection::vec(any::<u32>(), 1..200);
    (limits(), policies(), 0..4_u32, replies, choices).prop_map(
        |(limits, policy, max_parallel_calls, replies, choices)| Script {
            limits,
            policy,
            max_parallel_calls,
            replies,
            choices,
        },
    )
}

fn limits() -> impl Strategy<Value = Limits> {
    (
        1..6_u32,
        0..8_u32,
        proptest::option::of(0..20_000_u64),
        proptest::option::of(0..80_u64),
        proptest::option::of(0.0..0.1),
    )
        .prop_map(|(max_iterations, max_tool_calls, timeout_ms, max_tokens, max_cost_usd)| Limits {
            max_iterations,
            max_tool_calls,
            timeout_ms,
            max_tokens,
            max_cost_usd,
        })
}

fn policies() -> impl Strategy<Value = Policy> {
    let guardrails = proptest::sample::subsequence(
        vec![
            json!({ "type": "no_delete" }),
            json!({ "type": "require_confirmation", "parameters": { "tools": ["search"] } }),
            json!({ "type": "content_filter", "parameters": { "patterns": ["[37]"] } }),
        ],
        0..=3,
    );
    (any::<bool>(), any::<bool>(), guardrails).prop_map(|(reads_only, requires_approval, guardrails)| {
        let mut policy = Policy::allowing("home", ALLOWED);
        policy.side_effects = if reads_only { SideEffects::Reads } else { SideEffects::Writes };
        policy.requires_approval = requires_approval;
        policy.unknown_outcome = if reads_only { UnknownOutcome::Model } else { UnknownOutcome::Person };
        policy.guardrails = guardrails.into_iter().map(|g| serde_json::from_value(g).unwrap()).collect();
        policy
    })
}

fn replies() -> impl Strategy<Value = ModelReply> {
    let stop = prop_oneof![
        8 => Just(StopReason::ToolUse),
        1 => Just(StopReason::MaxTokens),
        1 => Just(StopReason::Refusal),
    ];
    let asks = (proptest::collection::vec(call_requests(), 0..6), stop, proptest::option::of(0.0..0.05)).prop_map(
        |(tool_calls, stop, cost_usd)| ModelReply { stop, cost_usd, content: "hm".into(), ..calls(tool_calls) },
    );
    prop_oneof![6 => asks, 1 => Just(text("answer")), 1 => Just(text(""))]
}

fn call_requests() -> impl Strategy<Value = RequestedCall> {
    let tool = prop_oneof![
        Just("search"),
        Just("save"),
        Just("pay"),
        Just("browser"),
        Just("delete_deal"),
        Just("hidden"),
        Just("unknown"),
    ];
    let input = prop_oneof![6 => (0..4_i32).prop_map(|n| json!({ "n": n })), 1 => Just(json!({ "bad": 1 }))];
    (tool, input, 0..10_u8).prop_map(|(tool, input, luck)| match luck {
        0 => RequestedCall { arguments: Arguments::Malformed("{".into()), ..call("m", tool, Value::Null) },
        _ => call("m", tool, input),
    })
}

/// A marker in the effect log. After it, an effect may appear a second time.
pub(crate) const INTERRUPTED: &str = "interrupted";

/// A driver without IO. It answers the open effects in the order that the script chooses.
pub(crate) struct ScriptedDriver<'a> {
    script: &'a Script,
    pub run: AgentRun,
    /// Whether to save and restore the run after every turn.
    restores: bool,
    used: usize,
    replies: usize,
    millis: i64,
    last: Option<Event>,
    /// The requested effects, in order.
    pub log: Vec<String>,
    /// The applied events, in order.
    pub journal: Vec<Entry>,
    pub turns: usize,
}

impl<'a> ScriptedDriver<'a> {
    pub(crate) fn new(script: &'a Script, restores: bool) -> Self {
        let run = AgentRun::new(script.spec(), at(0));
        Self {
            script,
            run,
            restores,
            used: 0,
            replies: 0,
            millis: 0,
            last: None,
            log: Vec::new(),
            journal: vec![start_entry(script)],
            turns: 0,
        }
    }

    /// Runs the script to its end. Returns false if the run did not end within 2,000 turns.
    pub(crate) fn run_to_end(mut self) -> (Self, bool) {
        for _ in 0..2_000 {
            for effect in self.run.next() {
                let written = serde_json::to_string(&effect).unwrap();
                assert_eq!(serde_json::from_str::<Effect>(&written).unwrap(), effect);
                self.log.push(written);
            }
            if self.run.ending().is_some() {
                return (self, true);
            }
            self.take_turn();
            self.turns += 1;
            if self.restores {
                self.run = AgentRun::restore(&self.run.save()).unwrap();
            }
        }
        (self, false)
    }

    fn choose(&mut self, among: usize) -> usize {
        let choice = self.script.choices[self.used % self.script.choices.len()];
        // Each pass over the list of choices changes the choices by 1. Otherwise a short list could repeat the same
        // rejected event forever.
        let choice = choice.wrapping_add(u32::try_from(self.used / self.script.choices.len()).unwrap());
        self.used += 1;
        usize::try_from(choice).unwrap() % among
    }

    fn take_turn(&mut self) {
        self.millis += i64::try_from(self.choose(50)).unwrap();
        match self.choose(40) {
            0 => self.repeat_last_event(),
            1 => self.send_unrelated_event(),
            2 => self.jump_clock(),
            3 if self.choose(8) == 0 => self.send(EventKind::Cancelled { message: None }),
            _ => self.answer_open_effect(),
        }
    }

    fn send(&mut self, kind: EventKind) {
        let event = Event { at: at(self.millis), kind };
        // Events go through serialization, as they do in a journal.
        let event: Event = serde_json::from_str(&serde_json::to_string(&event).unwrap()).unwrap();
        self.last = Some(event.clone());
        let before = self.run.clone();
        let entry =
            Entry { n: self.journal.len() as u64 + 1, at: event.at, body: EntryBody::Event(event.kind.clone()) };
        if matches!(event.kind, EventKind::Recovered { .. } | EventKind::Verified { .. }) {
            self.log.push(INTERRUPTED.into());
        }
        let determined = self.run.writes_determined_by(&event, |_| true);
        match self.run.apply(event) {
            Ok(ApplyOutcome::Accepted) => {
                let closed = started_writes(&before).into_iter().filter(|id| !is_open(&self.run, id));
                for id in closed {
                    assert!(determined.iter().any(|write| write.envelope.call_id == id), "{id} has no outcome");
                }
                self.journal.push(entry);
            }
            Ok(ApplyOutcome::AlreadyEnded) => panic!("the run had not ended"),
            Err(EventError::Expired(_) | EventError::NotEditable(_)) => assert_eq!(self.run, before),
            Err(error) => panic!("{error}"),
        }
    }

    /// Sends the last event again. The run must reject it without a change. Events that are valid at any time are
    /// exempt.
    fn repeat_last_event(&mut self) {
        let Some(event) = self.last.clone() else { return };
        let any_time = matches!(
            event.kind,
            EventKind::TimerFired
                | EventKind::Cancelled { .. }
                | EventKind::Recovered { .. }
                | EventKind::Intended { .. }
        );
        let before = self.run.clone();
        let entry =
            Entry { n: self.journal.len() as u64 + 1, at: event.at, body: EntryBody::Event(event.kind.clone()) };
        let event_text = format!("{event:?}");
        let lost = matches!(event.kind, EventKind::Recovered { .. });
        let result = self.run.apply(event);
        if result.is_ok() {
            self.journal.push(entry);
            // After a recovery, the run may issue the same effect again.
            self.log.extend(lost.then(|| INTERRUPTED.to_owned()));
        }
        if !any_time {
            assert!(result.is_err(), "{event_text}");
            assert_eq!(self.run, before);
        }
    }

    fn send_unrelated_event(&mut self) {
        let call_id = CallId::derive("nobody", "", &Value::Null, 0);
        let before = self.run.clone();
        let kind = match self.choose(3) {
            0 => EventKind::Expired { call_id },
            1 => EventKind::ClientReturned { call_id, result: ClientResult::Output(Value::Null) },
            _ => EventKind::model_replied(99, text("x")),
        };
        assert!(self.run.apply(Event { at: at(self.millis), kind }).is_err());
        assert_eq!(self.run, before);
    }

    /// Moves the clock, sometimes backwards.
    fn jump_clock(&mut self) {
        self.millis += i64::try_from(self.choose(4_000)).unwrap() - 500;
        self.send(EventKind::TimerFired);
    }

    fn answer_open_effect(&mut self) {
        let open = self.run.pending();
        assert!(!open.is_empty(), "a run that has not ended has open effects");
        let at = self.choose(open.len());
        match open.into_iter().nth(at).unwrap() {
            Effect::CallModel { iteration, .. } => self.reply(iteration),
            Effect::PrepareCalls { iteration, calls } => {
                let calls = calls.iter().map(|call| with_order_keys(prepare(call), &call.input)).collect();
                self.send(EventKind::Prepared { iteration, calls });
            }
            Effect::PrepareAgain { call_id, call } => {
                let mut prepared = prepare(&call);
                if let (PreparedCall::Ready(facts), 0) = (&mut prepared, self.choose(10)) {
                    facts.definition_hash = "other".into();
                }
                self.send(EventKind::PreparedAgain { call_id, call: prepared });
            }
            Effect::RunCall(call) => self.run_call(&call),
            Effect::VerifyCall { call, .. } => match self.choose(3) {
                0 => self.send(EventKind::call_ended(envelope_of(&call, Ok(json!("it was made"))))),
                1 => self.send(EventKind::Verified { call_id: call.call_id, unknown_reason: None }),
                _ => self.send(EventKind::Verified { call_id: call.call_id, unknown_reason: Some("who knows".into()) }),
            },
            Effect::RequestApproval(request) => self.decide(request.call_id),
            Effect::RequestClientAction(request) => self.answer_client_action(request.call_id),
            Effect::Finish { .. } => panic!("the run has ended"),
        }
    }

    fn reply(&mut self, iteration: u32) {
        if self.choose(60) == 0 {
            return self.send(EventKind::ModelFailed { iteration, reason: "model_error".into(), message: "x".into() });
        }
        let mut reply = self.script.replies[self.replies % self.script.replies.len()].clone();
        for (at, call) in reply.tool_calls.iter_mut().enumerate() {
            call.id = format!("{iteration}/{at}");
        }
        self.replies += 1;
        self.send(EventKind::model_replied(iteration, reply));
    }

    fn run_call(&mut self, call: &toolwright_machine::agent::CallToRun) {
        if call.facts.effects == SideEffects::Writes {
            self.send(EventKind::Intended { call_id: call.call_id.clone() });
            if self.choose(4) == 0 {
                // Either the driver of the whole run was lost, or only the driver of this call.
                let call_id = (self.choose(2) == 0).then(|| call.call_id.clone());
                self.send(EventKind::Recovered { call_id });
                return;
            }
        }
        let result = match self.choose(3) {
            0 => Err(ToolError::new(ErrorCode::NetworkError, "down")),
            n => Ok(json!({ "n": n, "of": call.input })),
        };
        let mut envelope = envelope_of(call, result);
        envelope.metadata.cost_usd = (self.choose(4) == 0).then_some(0.004);
        if call.facts.name == "browser" && !call.captured {
            let (prepared_payload, schema) = (call.input.clone(), json!({}));
            return self.send(EventKind::HandedToClient { prepared_payload, schema, pending: Box::new(envelope) });
        }
        self.send(EventKind::call_ended(envelope));
    }

    fn decide(&mut self, call_id: CallId) {
        let decision = match self.choose(5) {
            0 => return self.send(EventKind::Expired { call_id }),
            1 => Decision::Deny { reason: None },
            2 => Decision::Edit { input: json!({ "n": self.choose(4) }) },
            3 => Decision::Edit { input: json!({ "bad": 1 }) },
            _ => Decision::Approve,
        };
        self.send(EventKind::ApprovalDecided {
            call_id,
            definition_hash: "hash-1".into(),
            decision,
            decided_by: None,
            reason: None,
        });
        let expired =
            self.run.pending_approvals().into_iter().filter(|request| request.expires_at < Some(at(self.millis)));
        for request in expired.collect::<Vec<_>>() {
            self.send(EventKind::Expired { call_id: request.call_id });
        }
    }

    fn answer_client_action(&mut self, call_id: CallId) {
        let result = match self.choose(3) {
            0 => return self.send(EventKind::Expired { call_id }),
            1 => ClientResult::Error(ToolError::new(ErrorCode::ProviderError, "no")),
            _ => ClientResult::Output(json!("done")),
        };
        self.send(EventKind::ClientReturned { call_id, result });
    }
}

/// The calls that are open and have a recorded intent.
fn started_writes(run: &AgentRun) -> Vec<CallId> {
    let open = run.open_calls().map(|call| call.call_id.clone());
    open.filter(|id| run.intended_at(id).is_some()).collect()
}

fn is_open(run: &AgentRun, id: &CallId) -> bool {
    run.open_calls().any(|call| call.call_id == id)
}

fn start_entry(script: &Script) -> Entry {
    let start = RunStart::new("a", "h", "p", script.spec());
    Entry { n: 1, at: at(0), body: EntryBody::Started(Box::new(start)) }
}

/// Adds order keys to writes, so that writes with equal inputs run one after the other. Some writes are idempotent, and
/// some have a verify operation.
fn with_order_keys(prepared: PreparedCall, input: &Value) -> PreparedCall {
    let key = |facts: CallFacts| CallFacts {
        order_keys: [input.to_string()].into(),
        idempotent: input["n"] == 1,
        verifiable: input["n"] == 2,
        ..facts
    };
    match prepared {
        PreparedCall::Ready(facts) if facts.effects == SideEffects::Writes => {
            PreparedCall::Ready(Box::new(key(*facts)))
        }
        other => other,
    }
}

/// The calls that the model requested, in order.
pub(crate) fn requested_calls(messages: &[Message]) -> Vec<&RequestedCall> {
    let mut calls = Vec::new();
    for message in messages {
        if let Message::Assistant { tool_calls, .. } = message {
            calls.extend(tool_calls);
        }
    }
    calls
}
