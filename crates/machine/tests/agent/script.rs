//! Random scripts: what models say, what tools do, in which order it becomes known, and what else happens.

use proptest::prelude::*;
use serde_json::{Value, json};
use toolwright_machine::agent::{
    Applied, ClientResult, Decision, Effect, Event, EventError, Facts, Happened, Prepared, Spec,
};
use toolwright_machine::journal::{Began, Entry, Recorded};
use toolwright_machine::{AgentRun, Limits, Policy};
use toolwright_types::{
    Arguments, CallId, ErrorCode, Message, ModelReply, RequestedCall, RunId, SideEffects, StopReason, ToolError,
    UnknownOutcome,
};

use crate::bench::{ALLOWED, at, call, calls, prepare, receipt, request, text};

/// Everything that is random about one run.
#[derive(Debug, Clone)]
pub struct Script {
    pub limits: Limits,
    pub policy: Policy,
    pub places: u32,
    pub replies: Vec<ModelReply>,
    /// Decides whatever is to be decided, one after the other, from the start again when used up.
    pub choices: Vec<u32>,
}

impl Script {
    /// One answer and nothing else.
    pub fn example() -> Self {
        let policy = Policy::allowing("default", Vec::<String>::new());
        Self { limits: Limits::default(), policy, places: 1, replies: vec![text("Hello.")], choices: vec![5] }
    }

    pub fn spec(&self) -> Spec {
        let mut spec = Spec::new(RunId::from_bits(1), request(), self.policy.clone());
        spec.limits = self.limits;
        spec.max_parallel_calls = self.places;
        spec.approval_wait_ms = Some(5_000);
        spec
    }
}

pub fn scripts() -> impl Strategy<Value = Script> {
    let replies = proptest::collection::vec(replies(), 1..8);
    let choices = proptest::collection::vec(any::<u32>(), 1..200);
    (limits(), policies(), 0..4_u32, replies, choices).prop_map(|(limits, policy, places, replies, choices)| Script {
        limits,
        policy,
        places,
        replies,
        choices,
    })
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
    let asks = (proptest::collection::vec(wishes(), 0..6), stop, proptest::option::of(0.0..0.05)).prop_map(
        |(tool_calls, stop, cost_usd)| ModelReply { stop, cost_usd, content: "hm".into(), ..calls(tool_calls) },
    );
    prop_oneof![6 => asks, 1 => Just(text("answer")), 1 => Just(text(""))]
}

fn wishes() -> impl Strategy<Value = RequestedCall> {
    let tool = prop_oneof![
        Just("search"),
        Just("save"),
        Just("pay"),
        Just("browser"),
        Just("delete_deal"),
        Just("hidden"),
        Just("unheard"),
    ];
    let input = prop_oneof![6 => (0..4_i32).prop_map(|n| json!({ "n": n })), 1 => Just(json!({ "bad": 1 }))];
    (tool, input, 0..10_u8).prop_map(|(tool, input, luck)| match luck {
        0 => RequestedCall { arguments: Arguments::Malformed("{".into()), ..call("m", tool, Value::Null) },
        _ => call("m", tool, input),
    })
}

/// What a player's log says where a call may have to be made again.
pub const DOUBT: &str = "doubt";

/// A driver without a world: it answers what is open as the script decides, in the order the script decides.
pub struct Player<'a> {
    script: &'a Script,
    pub run: AgentRun,
    /// Saves and restores the run after every step.
    restores: bool,
    used: usize,
    replies: usize,
    millis: i64,
    last: Option<Event>,
    /// What the run asked for, in order.
    pub log: Vec<String>,
    /// What happened to it, in order.
    pub journal: Vec<Entry>,
    pub steps: usize,
}

impl<'a> Player<'a> {
    pub fn new(script: &'a Script, restores: bool) -> Self {
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
            journal: vec![beginning(script)],
            steps: 0,
        }
    }

    /// Plays to the end; false if there was none within reason.
    pub fn play(mut self) -> (Self, bool) {
        for _ in 0..2_000 {
            for effect in self.run.next() {
                let written = serde_json::to_string(&effect).unwrap();
                assert_eq!(serde_json::from_str::<Effect>(&written).unwrap(), effect);
                self.log.push(written);
            }
            if self.run.ending().is_some() {
                return (self, true);
            }
            self.step();
            self.steps += 1;
            if self.restores {
                self.run = AgentRun::restore(&self.run.save()).unwrap();
            }
        }
        (self, false)
    }

    fn choose(&mut self, among: usize) -> usize {
        let choice = self.script.choices[self.used % self.script.choices.len()];
        // The round matters too, or a short list of choices could send the same nonsense for ever.
        let choice = choice.wrapping_add(u32::try_from(self.used / self.script.choices.len()).unwrap());
        self.used += 1;
        usize::try_from(choice).unwrap() % among
    }

    fn step(&mut self) {
        self.millis += i64::try_from(self.choose(50)).unwrap();
        match self.choose(40) {
            0 => self.repeat(),
            1 => self.stray(),
            2 => self.jump(),
            3 if self.choose(8) == 0 => self.send(Happened::Cancelled { message: None }),
            _ => self.answer(),
        }
    }

    fn send(&mut self, what: Happened) {
        let event = Event { at: at(self.millis), what };
        // Events go through a journal: what is read back is what happened.
        let event: Event = serde_json::from_str(&serde_json::to_string(&event).unwrap()).unwrap();
        self.last = Some(event.clone());
        let before = self.run.clone();
        let entry =
            Entry { n: self.journal.len() as u64 + 1, at: event.at, what: Recorded::Happened(event.what.clone()) };
        if matches!(event.what, Happened::TakenUp { .. } | Happened::Verified { .. }) {
            self.log.push(DOUBT.into());
        }
        match self.run.apply(event) {
            Ok(Applied::Taken) => self.journal.push(entry),
            Ok(Applied::Late) => panic!("the run had not ended"),
            Err(EventError::TooLate(_) | EventError::NotEditable(_)) => assert_eq!(self.run, before),
            Err(error) => panic!("{error}"),
        }
    }

    /// The last event once more: an error that changes nothing, unless it is of those that may come at any time.
    fn repeat(&mut self) {
        let Some(event) = self.last.clone() else { return };
        let any_time = matches!(
            event.what,
            Happened::TimePassed | Happened::Cancelled { .. } | Happened::TakenUp { .. } | Happened::Intended { .. }
        );
        let before = self.run.clone();
        let entry =
            Entry { n: self.journal.len() as u64 + 1, at: event.at, what: Recorded::Happened(event.what.clone()) };
        let shown = format!("{event:?}");
        let lost = matches!(event.what, Happened::TakenUp { .. });
        let result = self.run.apply(event);
        if result.is_ok() {
            self.journal.push(entry);
            // What was lost twice may have to be made once more.
            self.log.extend(lost.then(|| DOUBT.to_owned()));
        }
        if !any_time {
            assert!(result.is_err(), "{shown}");
            assert_eq!(self.run, before);
        }
    }

    fn stray(&mut self) {
        let call_id = CallId::derive("nobody", "", &Value::Null, 0);
        let before = self.run.clone();
        let what = match self.choose(3) {
            0 => Happened::Expired { call_id },
            1 => Happened::ClientReturned { call_id, result: ClientResult::Output(Value::Null) },
            _ => Happened::replied(99, text("x")),
        };
        assert!(self.run.apply(Event { at: at(self.millis), what }).is_err());
        assert_eq!(self.run, before);
    }

    /// Time passes, sometimes backwards.
    fn jump(&mut self) {
        self.millis += i64::try_from(self.choose(4_000)).unwrap() - 500;
        self.send(Happened::TimePassed);
    }

    /// Answers one of the open effects.
    fn answer(&mut self) {
        let open = self.run.pending();
        assert!(!open.is_empty(), "a run that has not ended waits for something");
        let at = self.choose(open.len());
        match open.into_iter().nth(at).unwrap() {
            Effect::CallModel { step, .. } => self.reply(step),
            Effect::PrepareCalls { step, calls } => {
                let calls = calls.iter().map(|call| keyed(prepare(call), &call.input)).collect();
                self.send(Happened::Prepared { step, calls });
            }
            Effect::PrepareAgain { call_id, call } => {
                let mut prepared = prepare(&call);
                if let (Prepared::Ready(facts), 0) = (&mut prepared, self.choose(10)) {
                    facts.definition_hash = "other".into();
                }
                self.send(Happened::PreparedAgain { call_id, call: prepared });
            }
            Effect::RunCall(call) => self.run_call(&call),
            Effect::VerifyCall { call, .. } => match self.choose(3) {
                0 => self.send(Happened::ended(receipt(&call, Ok(json!("it was made"))))),
                1 => self.send(Happened::Verified { call_id: call.call_id, unknown: None }),
                _ => self.send(Happened::Verified { call_id: call.call_id, unknown: Some("who knows".into()) }),
            },
            Effect::AskApproval(request) => self.decide(request.call_id),
            Effect::HandToClient(request) => self.act(request.call_id),
            Effect::Finish { .. } => panic!("the run has ended"),
        }
    }

    fn reply(&mut self, step: u32) {
        if self.choose(60) == 0 {
            return self.send(Happened::ModelFailed { step, reason: "model_error".into(), message: "x".into() });
        }
        let mut reply = self.script.replies[self.replies % self.script.replies.len()].clone();
        for (at, call) in reply.tool_calls.iter_mut().enumerate() {
            call.id = format!("{step}/{at}");
        }
        self.replies += 1;
        self.send(Happened::replied(step, reply));
    }

    fn run_call(&mut self, call: &toolwright_machine::agent::CallToRun) {
        if call.facts.effects == SideEffects::Writes {
            self.send(Happened::Intended { call_id: call.call_id.clone() });
            if self.choose(4) == 0 {
                // The whole driver, or that of this call alone.
                let call_id = (self.choose(2) == 0).then(|| call.call_id.clone());
                self.send(Happened::TakenUp { call_id });
                return;
            }
        }
        let result = match self.choose(3) {
            0 => Err(ToolError::new(ErrorCode::NetworkError, "down")),
            n => Ok(json!({ "n": n, "of": call.input })),
        };
        let mut envelope = receipt(call, result);
        envelope.metadata.cost_usd = (self.choose(4) == 0).then_some(0.004);
        if call.facts.name == "browser" && !call.captured {
            let (prepared_payload, schema) = (call.input.clone(), json!({}));
            return self.send(Happened::CallHandedOver { prepared_payload, schema, pending: Box::new(envelope) });
        }
        self.send(Happened::ended(envelope));
    }

    fn decide(&mut self, call_id: CallId) {
        let decision = match self.choose(5) {
            0 => return self.send(Happened::Expired { call_id }),
            1 => Decision::Deny { reason: None },
            2 => Decision::Edit { input: json!({ "n": self.choose(4) }) },
            3 => Decision::Edit { input: json!({ "bad": 1 }) },
            _ => Decision::Approve,
        };
        self.send(Happened::Approval { call_id, definition_hash: "hash-1".into(), decision, by: None });
        let expired = self.run.approvals().into_iter().filter(|request| request.expires_at < Some(at(self.millis)));
        for request in expired.collect::<Vec<_>>() {
            self.send(Happened::Expired { call_id: request.call_id });
        }
    }

    fn act(&mut self, call_id: CallId) {
        let result = match self.choose(3) {
            0 => return self.send(Happened::Expired { call_id }),
            1 => ClientResult::Error(ToolError::new(ErrorCode::ProviderError, "no")),
            _ => ClientResult::Output(json!("done")),
        };
        self.send(Happened::ClientReturned { call_id, result });
    }
}

fn beginning(script: &Script) -> Entry {
    let began = Began::of("a", "h", "p", script.spec());
    Entry { n: 1, at: at(0), what: Recorded::Began(Box::new(began)) }
}

/// Writes with one input share a key, so that some calls wait for each other; some can be repeated, some asked about.
fn keyed(prepared: Prepared, input: &Value) -> Prepared {
    let key = |facts: Facts| Facts {
        order_keys: [input.to_string()].into(),
        idempotent: input["n"] == 1,
        verifiable: input["n"] == 2,
        ..facts
    };
    match prepared {
        Prepared::Ready(facts) if facts.effects == SideEffects::Writes => Prepared::Ready(Box::new(key(*facts))),
        other => other,
    }
}

/// The calls a run was asked for, in order, as the model knows them.
pub fn asked(messages: &[Message]) -> Vec<&RequestedCall> {
    let mut asked = Vec::new();
    for message in messages {
        if let Message::Assistant { tool_calls, .. } = message {
            asked.extend(tool_calls);
        }
    }
    asked
}
