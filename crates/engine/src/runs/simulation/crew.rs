//! Models and tools: what they are asked, and when they must not be.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use serde_json::{Value, json};
use toolwright_machine::agent::{CallToPrepare, CallToRun, Facts, Happened, Prepared};
use toolwright_tools::{Allowance, ReadyCall};
use toolwright_types::{
    Arguments, CallId, CallMetadata, Clock, ErrorCode, ExecutionSite, ModelReply, ModelRequest, RequestedCall, RunId,
    RunStatus, SideEffects, StopReason, Timestamp, ToolEnvelope, ToolError, Usage,
};

use super::server::Life;
use super::world::{TIME_LIMIT, World};
use crate::runs::driver::BEGUN_WITHIN;
use crate::runs::effects::Done;
use crate::runs::live::LiveRun;
use crate::runs::ports::Performer;

/// Reads, writes of all kinds, what a person must agree to, what a client performs, what starts a run, and nothing.
pub const TOOLS: [&str; 8] = ["look", "put", "order", "mail", "pay", "browser", "delegate", "unheard"];

/// Performs the effects of one run in one server.
pub struct Crew {
    pub world: World,
    pub life: Arc<Life>,
    pub run: RunId,
    pub durable: bool,
}

impl Crew {
    fn name(&self) -> String {
        format!("{} {}", self.life.name, self.run)
    }

    fn reply(&self) -> ModelReply {
        let mut truth = self.world.truth();
        let count = if truth.dice.happens(250) { 0 } else { 1 + truth.dice.below(4) };
        let mut calls = Vec::new();
        for n in 0..count {
            let tool = TOOLS[usize::try_from(truth.dice.below(TOOLS.len() as u64)).unwrap_or(0)];
            let input = json!({ "n": truth.dice.below(1000) });
            calls.push(RequestedCall { id: format!("m{n}"), name: tool.into(), arguments: Arguments::Json(input) });
        }
        ModelReply {
            content: if count == 0 { "done".into() } else { String::new() },
            stop: if count == 0 { StopReason::EndTurn } else { StopReason::ToolUse },
            tool_calls: calls,
            thinking: Vec::new(),
            usage: Usage { input_tokens: 10, output_tokens: 5, cached_input_tokens: 0 },
            cost_usd: None,
        }
    }

    fn prepare(&self, call: &CallToPrepare) -> Prepared {
        match call.tool.as_str() {
            "unheard" => {
                let error = ToolError::new(ErrorCode::PolicyDenied, "no such tool").reason("unknown_tool");
                let call_id = CallId::derive(&call.tool, "", &call.input, 0);
                Prepared::Refused(Box::new(envelope(&self.world, &call.tool, call_id, &call.input, Err(error))))
            }
            tool => Prepared::Ready(Box::new(facts(tool))),
        }
    }

    /// What must hold when a call begins.
    fn check(&self, call: &CallToRun) {
        let id = call.call_id.as_str();
        if self.durable && self.world.recorded(self.run, "call_ended", id) {
            self.world.violation(format!("{}: {id} had ended and is made again", self.name()));
        }
        if call.facts.effects != SideEffects::Writes {
            return;
        }
        if !self.world.recorded(self.run, "intended", id) {
            self.world.violation(format!("{}: {id} is made without an intent", self.name()));
        }
        let truth = self.world.truth();
        let driver = truth.rows.get(&self.run).and_then(|row| row.driver.clone());
        let covered = driver.as_ref().and_then(|driver| truth.leases.get(driver)).copied();
        drop(truth);
        let limit = i64::try_from(TIME_LIMIT.as_micros()).unwrap_or(i64::MAX);
        let end = Timestamp::from_micros(self.world.now().as_micros().saturating_add(limit));
        if covered.is_none_or(|until| until < end) {
            self.world.violation(format!("{}: {id} is made under a lease that it may outlive", self.name()));
        }
    }

    /// A request arrives at the tool, whatever has become of whoever sent it.
    fn dispatch(&self, call: &CallToRun, travel: Duration) {
        let (world, run, call_id, tool) = (self.world.clone(), self.run, call.call_id.clone(), call.facts.name.clone());
        let idempotent = call.facts.idempotent;
        tokio::spawn(async move {
            tokio::time::sleep(travel).await;
            world.note(|| format!("{run} {tool} {call_id} arrives"));
            let mut truth = world.truth();
            let deed = truth.deeds.entry((run, call_id.clone())).or_default();
            deed.tool = tool.clone();
            // The key that is sent along is the same each time, and the tool knows it.
            deed.done = if idempotent { 1 } else { deed.done + 1 };
            let done = deed.done;
            drop(truth);
            if done > 1 + world.agreed_again(run, &call_id) {
                world.violation(format!("{run}: {tool} {call_id} was done twice"));
            }
        });
    }

    async fn make(&self, call: &CallToRun) -> Result<Value, ToolError> {
        let (travel, lost) = self.journey();
        if call.facts.effects == SideEffects::Writes && !lost {
            self.dispatch(call, travel);
        }
        self.life.may_end("while a call is under way").await;
        if lost {
            tokio::time::sleep(TIME_LIMIT).await;
            return Err(ToolError::new(ErrorCode::Timeout, "no answer").detail("started", true));
        }
        tokio::time::sleep(travel).await;
        self.life.may_end("after a call").await;
        Ok(json!({ "done": true }))
    }

    /// How long a request is on its way, and whether it gets lost there.
    fn journey(&self) -> (Duration, bool) {
        let mut truth = self.world.truth();
        let faults = truth.faults;
        let longest = if truth.dice.happens(faults.slow) { 9_900 } else { 400 };
        (truth.dice.millis(longest), truth.dice.happens(faults.lost))
    }
}

fn facts(tool: &str) -> Facts {
    let writes = matches!(tool, "put" | "order" | "mail" | "pay");
    let mut facts = Facts::new(tool, "1.0.0", "hash", if writes { SideEffects::Writes } else { SideEffects::Reads });
    facts.idempotent = tool == "put";
    facts.verifiable = tool == "order";
    facts.requires_confirmation = tool == "pay";
    if tool == "browser" {
        facts.execution_site = ExecutionSite::Client;
    }
    facts
}

fn envelope(
    world: &World,
    tool: &str,
    call_id: CallId,
    input: &Value,
    result: Result<Value, ToolError>,
) -> ToolEnvelope {
    let (output, error) = match result {
        Ok(output) => (output, None),
        Err(error) => (Value::Null, Some(error)),
    };
    ToolEnvelope {
        call_id,
        name: tool.into(),
        version: "1.0.0".into(),
        input: input.clone(),
        output,
        error,
        t_start: world.now(),
        t_end: world.now(),
        cached: false,
        truncated: false,
        attachments: Vec::new(),
        metadata: CallMetadata { attempt: 1, ..CallMetadata::default() },
    }
}

impl Performer for Crew {
    fn ask(self: Arc<Self>, _: Arc<LiveRun>, step: u32, _: Box<ModelRequest>) -> BoxFuture<'static, Done> {
        Box::pin(async move {
            self.world.note(|| format!("{} asks {step}", self.name()));
            if self.durable && self.world.recorded(self.run, "model_replied", &format!("\"step\":{step},")) {
                self.world.violation(format!("{}: step {step} was answered and is asked again", self.name()));
            }
            self.life.may_end("while a model is asked").await;
            self.world.pass(|dice| dice.millis(2_000)).await;
            if self.world.chance(20) {
                let (reason, message) = ("model_overloaded".into(), "no answer".into());
                return Done::Happened(Happened::ModelFailed { step, reason, message });
            }
            Done::Happened(Happened::replied(step, self.reply()))
        })
    }

    fn prepare_all(self: Arc<Self>, step: u32, calls: Vec<CallToPrepare>) -> BoxFuture<'static, Done> {
        Box::pin(async move {
            self.world.pass(|dice| dice.millis(20)).await;
            let results = calls.iter().map(|call| (self.prepare(call), None)).collect();
            Done::Prepared { step, results }
        })
    }

    fn prepare_again(self: Arc<Self>, call_id: CallId, call: CallToPrepare) -> BoxFuture<'static, Done> {
        Box::pin(async move {
            self.world.pass(|dice| dice.millis(20)).await;
            Done::PreparedAgain { call_id, call: self.prepare(&call), ready: None }
        })
    }

    fn call(
        self: Arc<Self>,
        call: Box<CallToRun>,
        _: Option<ReadyCall>,
        _: Option<Allowance>,
    ) -> BoxFuture<'static, Done> {
        Box::pin(async move {
            let CallToRun { call_id, input, facts, .. } = (*call).clone();
            self.world.note(|| format!("{} calls {} {call_id}", self.name(), facts.name));
            self.check(&call);
            if facts.execution_site == ExecutionSite::Client {
                let pending = envelope(&self.world, &facts.name, call_id, &input, Ok(Value::Null));
                let (prepared_payload, schema) = (Value::Null, Value::Bool(true));
                return Done::Happened(Happened::CallHandedOver {
                    prepared_payload,
                    schema,
                    pending: Box::new(pending),
                });
            }
            if facts.name == "delegate" && self.world.chance(500) {
                let child = self.child(&call_id);
                if !self.ended(child) {
                    let status = RunStatus::AwaitingApproval;
                    return Done::Happened(Happened::CallPaused { call_id, run: child, status });
                }
            }
            let result = self.make(&call).await;
            Done::Happened(Happened::ended(envelope(&self.world, &facts.name, call_id, &input, result)))
        })
    }

    fn verify(self: Arc<Self>, call: Box<CallToRun>, intended_at: Timestamp) -> BoxFuture<'static, Done> {
        Box::pin(async move {
            let passed = self.world.now().as_micros().saturating_sub(intended_at.as_micros());
            let passed = Duration::from_micros(u64::try_from(passed).unwrap_or(0));
            tokio::time::sleep((TIME_LIMIT + BEGUN_WITHIN).saturating_sub(passed)).await;
            self.life.may_end("before a verification").await;
            self.world.pass(|dice| dice.millis(100)).await;
            let deed = (self.run, call.call_id.clone());
            let done = self.world.truth().deeds.get(&deed).is_some_and(|deed| deed.done > 0);
            self.world.note(|| format!("{} verifies {}: {done}", self.name(), call.call_id));
            self.life.may_end("after a verification").await;
            let call_id = call.call_id.clone();
            Done::Happened(if self.world.chance(150) {
                Happened::Verified { call_id, unknown: Some("nobody knows".into()) }
            } else if done {
                let output = Ok(json!({ "done": true }));
                Happened::ended(envelope(&self.world, &call.facts.name, call_id, &call.input, output))
            } else {
                Happened::Verified { call_id, unknown: None }
            })
        })
    }

    fn time_limit(&self, _: &CallToRun) -> Duration {
        TIME_LIMIT
    }

    fn starts_run(&self, call: &CallToRun) -> bool {
        call.facts.name == "delegate"
    }

    fn cancel(&self) {}
}

impl Crew {
    fn child(&self, call_id: &CallId) -> RunId {
        let mut bits = 7_u128;
        for byte in call_id.as_str().bytes() {
            bits = bits.wrapping_mul(31).wrapping_add(u128::from(byte));
        }
        RunId::from_bits(bits)
    }

    /// Whether a run that a call has started has ended; it begins to count when it is first asked for.
    fn ended(&self, child: RunId) -> bool {
        let now = self.world.now();
        let mut truth = self.world.truth();
        let after = i64::try_from(truth.dice.below(90_000_000)).unwrap_or(0);
        *truth.children.entry(child).or_insert(Timestamp::from_micros(now.as_micros() + after)) <= now
    }
}
