//! Simulated models and tools. At the start of each call, the invariants are checked, such as a committed intent and a
//! valid lease.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use serde_json::{Value, json};
use toolwright_machine::agent::{CallFacts, CallToPrepare, CallToRun, EventKind, PreparedCall};
use toolwright_tools::{Allowance, ReadyCall};
use toolwright_types::{
    Arguments, CallId, CallMetadata, Clock, ErrorCode, ExecutionSite, ModelReply, ModelRequest, RequestedCall, RunId,
    RunStatus, SideEffects, StopReason, Timestamp, ToolEnvelope, ToolError, Usage,
};

use super::server::Lifetime;
use super::world::{SCHEDULER, TIME_LIMIT, World};
use crate::ports::{EffectExecutor, EffectOutcome, START_WITHIN};
use crate::registry::RunHandle;

/// The tools, in this order: a read, an idempotent write, a write with a verify operation, a write that is not
/// idempotent and has no verify operation, a write that needs an approval, a client tool, a delegate, and a tool that
/// does not exist.
pub(super) const TOOLS: [&str; 8] = ["look", "put", "order", "mail", "pay", "browser", "delegate", "unheard"];

/// Executes the effects of one run on one server.
pub(super) struct SimulatedExecutor {
    pub world: World,
    pub lifetime: Arc<Lifetime>,
    pub run: RunId,
    pub durable: bool,
    /// The id of the server in the lease table.
    pub server: String,
}

impl SimulatedExecutor {
    fn name(&self) -> String {
        format!("{} {}", self.lifetime.name, self.run)
    }

    fn reply(&self) -> ModelReply {
        let mut state = self.world.state();
        let count = if state.random.chance(250) { 0 } else { 1 + state.random.below(4) };
        let mut calls = Vec::new();
        for n in 0..count {
            let tool = TOOLS[usize::try_from(state.random.below(TOOLS.len() as u64)).unwrap_or(0)];
            let input = json!({ "n": state.random.below(1000) });
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

    fn prepare(&self, call: &CallToPrepare) -> PreparedCall {
        match call.tool.as_str() {
            "unheard" => {
                let error = ToolError::new(ErrorCode::PolicyDenied, "no such tool").reason("unknown_tool");
                let call_id = CallId::derive(&call.tool, "", &call.input, 0);
                PreparedCall::Refused(Box::new(envelope(&self.world, &call.tool, call_id, &call.input, Err(error))))
            }
            tool => PreparedCall::Ready(Box::new(facts(tool))),
        }
    }

    /// Checks the invariants at the start of a call.
    fn check(&self, call: &CallToRun) {
        let id = call.call_id.as_str();
        let writes = call.facts.effects == SideEffects::Writes;
        // The scheduler may repeat a read while another server still executes it.
        let repeatable = !writes && self.world.is_scheduled(self.run);
        if self.durable && !repeatable && self.world.recorded(self.run, "call_ended", id) {
            self.world.violation(format!("{}: {id} had ended and is made again", self.name()));
        }
        if !writes {
            return;
        }
        if !self.world.recorded(self.run, "intended", id) {
            self.world.violation(format!("{}: {id} is made without an intent", self.name()));
        }
        let state = self.world.state();
        let driver = state.rows.get(&self.run).and_then(|row| row.driver.clone());
        // A scheduled run has no driver with a lease. So the lease of the server that executes the task is checked.
        let driver = driver.map(|driver| if driver == SCHEDULER { self.server.clone() } else { driver });
        let covered = driver.as_ref().and_then(|driver| state.leases.get(driver)).copied();
        drop(state);
        let limit = i64::try_from(TIME_LIMIT.as_micros()).unwrap_or(i64::MAX);
        let end = Timestamp::from_micros(self.world.now().as_micros().saturating_add(limit));
        if covered.is_none_or(|until| until < end) {
            self.world.violation(format!("{}: {id} is made under a lease that it may outlive", self.name()));
        }
    }

    /// Delivers a request to the tool after the delay `travel`. The request arrives even if the server that sent it
    /// crashes.
    fn dispatch(&self, call: &CallToRun, travel: Duration) {
        let (world, run, call_id, tool) = (self.world.clone(), self.run, call.call_id.clone(), call.facts.name.clone());
        let idempotent = call.facts.idempotent;
        tokio::spawn(async move {
            tokio::time::sleep(travel).await;
            world.note(|| format!("{run} {tool} {call_id} arrives"));
            let mut state = world.state();
            let write = state.writes.entry((run, call_id.clone())).or_default();
            write.tool = tool.clone();
            // All attempts of a call have the same idempotency key, so an idempotent tool executes the write once.
            write.done = if idempotent { 1 } else { write.done + 1 };
            let done = write.done;
            drop(state);
            if done > 1 + world.approvals_after_intent(run, &call_id) {
                world.violation(format!("{run}: {tool} {call_id} was done twice"));
            }
        });
    }

    async fn make(&self, call: &CallToRun) -> Result<Value, ToolError> {
        let (travel, lost) = self.journey();
        if call.facts.effects == SideEffects::Writes && !lost {
            self.dispatch(call, travel);
        }
        self.lifetime.maybe_crash("while a call is under way").await;
        if lost {
            tokio::time::sleep(TIME_LIMIT).await;
            return Err(ToolError::new(ErrorCode::Timeout, "no answer").detail("started", true));
        }
        tokio::time::sleep(travel).await;
        self.lifetime.maybe_crash("after a call").await;
        Ok(json!({ "done": true }))
    }

    /// Returns the delivery time of a request, and whether the request is lost.
    fn journey(&self) -> (Duration, bool) {
        let mut state = self.world.state();
        let faults = state.faults;
        let longest = if state.random.chance(faults.slow) { 9_900 } else { 400 };
        (state.random.millis(longest), state.random.chance(faults.lost))
    }
}

fn facts(tool: &str) -> CallFacts {
    let writes = matches!(tool, "put" | "order" | "mail" | "pay");
    let mut facts =
        CallFacts::new(tool, "1.0.0", "hash", if writes { SideEffects::Writes } else { SideEffects::Reads });
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

impl EffectExecutor for SimulatedExecutor {
    fn ask(
        self: Arc<Self>,
        _: Arc<RunHandle>,
        iteration: u32,
        _: Box<ModelRequest>,
    ) -> BoxFuture<'static, EffectOutcome> {
        Box::pin(async move {
            self.world.note(|| format!("{} asks {iteration}", self.name()));
            let repeatable = self.world.is_scheduled(self.run);
            if self.durable
                && !repeatable
                && self.world.recorded(self.run, "model_replied", &format!("\"iteration\":{iteration},"))
            {
                self.world.violation(format!("{}: iteration {iteration} was answered and is asked again", self.name()));
            }
            self.lifetime.maybe_crash("while a model is asked").await;
            self.world.sleep_random(|random| random.millis(2_000)).await;
            if self.world.chance(20) {
                let (reason, message) = ("model_overloaded".into(), "no answer".into());
                return EffectOutcome::Event(EventKind::ModelFailed { iteration, reason, message });
            }
            EffectOutcome::Event(EventKind::model_replied(iteration, self.reply()))
        })
    }

    fn prepare_all(self: Arc<Self>, iteration: u32, calls: Vec<CallToPrepare>) -> BoxFuture<'static, EffectOutcome> {
        Box::pin(async move {
            self.world.sleep_random(|random| random.millis(20)).await;
            let results = calls.iter().map(|call| (self.prepare(call), None)).collect();
            EffectOutcome::Prepared { iteration, results }
        })
    }

    fn prepare_again(self: Arc<Self>, call_id: CallId, call: CallToPrepare) -> BoxFuture<'static, EffectOutcome> {
        Box::pin(async move {
            self.world.sleep_random(|random| random.millis(20)).await;
            EffectOutcome::PreparedAgain { call_id, call: self.prepare(&call), ready: None }
        })
    }

    fn call(
        self: Arc<Self>,
        call: Box<CallToRun>,
        _: Option<ReadyCall>,
        _: Option<Allowance>,
    ) -> BoxFuture<'static, EffectOutcome> {
        Box::pin(async move {
            let CallToRun { call_id, input, facts, .. } = (*call).clone();
            self.world.note(|| format!("{} calls {} {call_id}", self.name(), facts.name));
            self.check(&call);
            if facts.execution_site == ExecutionSite::Client {
                let pending = envelope(&self.world, &facts.name, call_id, &input, Ok(Value::Null));
                let (prepared_payload, schema) = (Value::Null, Value::Bool(true));
                return EffectOutcome::Event(EventKind::HandedToClient {
                    prepared_payload,
                    schema,
                    pending: Box::new(pending),
                });
            }
            if facts.name == "delegate" && self.world.chance(500) {
                let child = self.child(&call_id);
                if !self.ended(child) {
                    let status = RunStatus::AwaitingApproval;
                    return EffectOutcome::Event(EventKind::ChildSuspended { call_id, run: child, status });
                }
            }
            let result = self.make(&call).await;
            EffectOutcome::Event(EventKind::call_ended(envelope(&self.world, &facts.name, call_id, &input, result)))
        })
    }

    fn verify(self: Arc<Self>, call: Box<CallToRun>, intended_at: Timestamp) -> BoxFuture<'static, EffectOutcome> {
        Box::pin(async move {
            let passed = self.world.now().as_micros().saturating_sub(intended_at.as_micros());
            let passed = Duration::from_micros(u64::try_from(passed).unwrap_or(0));
            tokio::time::sleep((TIME_LIMIT + START_WITHIN).saturating_sub(passed)).await;
            self.lifetime.maybe_crash("before a verification").await;
            self.world.sleep_random(|random| random.millis(100)).await;
            let write = (self.run, call.call_id.clone());
            let done = self.world.state().writes.get(&write).is_some_and(|write| write.done > 0);
            self.world.note(|| format!("{} verifies {}: {done}", self.name(), call.call_id));
            self.lifetime.maybe_crash("after a verification").await;
            let call_id = call.call_id.clone();
            EffectOutcome::Event(if self.world.chance(150) {
                EventKind::Verified { call_id, unknown_reason: Some("the outcome cannot be determined".into()) }
            } else if done {
                let output = Ok(json!({ "done": true }));
                EventKind::call_ended(envelope(&self.world, &call.facts.name, call_id, &call.input, output))
            } else {
                EventKind::Verified { call_id, unknown_reason: None }
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

impl SimulatedExecutor {
    fn child(&self, call_id: &CallId) -> RunId {
        let mut bits = 7_u128;
        for byte in call_id.as_str().bytes() {
            bits = bits.wrapping_mul(31).wrapping_add(u128::from(byte));
        }
        RunId::from_bits(bits)
    }

    /// Whether a child run has ended. The random duration of the child run begins at the first check.
    fn ended(&self, child: RunId) -> bool {
        let now = self.world.now();
        let mut state = self.world.state();
        let after = i64::try_from(state.random.below(90_000_000)).unwrap_or(0);
        *state.children.entry(child).or_insert(Timestamp::from_micros(now.as_micros() + after)) <= now
    }
}
