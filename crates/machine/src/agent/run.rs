//! The state of a run, its effects, and the application of events.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use toolwright_types::{CallId, Message, OfferedTool, RequestedCall, ResponseFormat, RunId, Timestamp, ToolEnvelope};

use super::approval::{self, ApprovalRecord};
use super::call::{Batch, CallState, SuspendedChild};
use super::ledger::Ledger;
use super::model_calls::ModelCall;
use super::planned::{self, PlanState};
use super::workflow;
use super::{ApplyOutcome, Effect, EffectId, Event, EventError, EventKind, RunSpec};
use super::{check, client, interrupted_calls, preparation, reply, scheduling};
use crate::workflow::WorkflowState;
use crate::{AgentOutputs, Ending, Limits, ResourceUsage, RunStatus};

/// The machine of one run: its state, its open effects, and the events it accepts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AgentRun {
    pub(super) spec: RunSpec,
    /// The conversation, starting with the messages of the spec.
    pub(super) messages: Arc<Vec<Message>>,
    pub(super) phase: Phase,
    /// The time of the latest event.
    pub(super) now: Timestamp,
    pub(super) resource_usage: ResourceUsage,
    pub(super) ledger: Ledger,
    pub(super) response: String,
    pub(super) nudged: bool,
    /// How often an answer was rejected because it did not match the schema.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(super) rejected_answers: u32,
    pub(super) warnings: Vec<String>,
    /// The model calls that have been answered so far.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) model_calls: Vec<ModelCall>,
    /// The state of the plan, if the run follows a plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) plan: Option<Box<PlanState>>,
    /// The state of the workflow, if the run executes one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) workflow: Option<Box<WorkflowState>>,
    pub(super) decisions: Vec<ApprovalRecord>,
    /// Whether the run continued after it was suspended.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) resumed: bool,
    /// Open effects that were issued to the driver.
    pub(super) issued: Vec<EffectId>,
}

/// What the run waits for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Phase {
    /// The model's reply.
    Model,
    /// The preparation of the requested calls.
    Preparing(Vec<RequestedCall>),
    /// The calls of a reply.
    Calling(Batch),
    /// Nothing: the run has ended.
    Ended(Ending),
}

impl AgentRun {
    /// Creates a run that starts at `at`.
    pub fn new(mut spec: RunSpec, at: Timestamp) -> Self {
        spec.limits = spec.policy.tighten_limits(spec.limits);
        let messages = std::mem::take(&mut spec.request.messages);
        let mut run = Self {
            spec,
            messages,
            phase: Phase::Model,
            now: at,
            resource_usage: ResourceUsage::default(),
            ledger: Ledger::default(),
            response: String::new(),
            nudged: false,
            rejected_answers: 0,
            warnings: Vec::new(),
            model_calls: Vec::new(),
            plan: None,
            workflow: None,
            decisions: Vec::new(),
            resumed: false,
            issued: Vec::new(),
        };
        match (run.spec.plan.clone(), run.spec.workflow.clone()) {
            (_, Some(workflow)) => workflow::start(&mut run, &workflow),
            (Some(plan), None) => {
                run.plan = Some(Box::new(PlanState::new()));
                planned::start(&mut run, &plan);
            }
            (None, None) => run.call_model(),
        }
        run
    }

    /// Returns the open effects that were not issued yet, and marks them as issued.
    // INVARIANT: the open effects are a function of the run's state, so a replay requests the same effects.
    #[expect(
        clippy::should_implement_trait,
        reason = "a run is not an iterator: it may request more effects after returning none"
    )]
    pub fn next(&mut self) -> Vec<Effect> {
        let fresh: Vec<EffectId> = self.open_effects().into_iter().filter(|id| !self.issued.contains(id)).collect();
        let effects = fresh.iter().filter_map(|id| self.effect(id)).collect();
        self.issued.extend(fresh);
        effects
    }

    /// Marks all open effects as issued without building them.
    pub fn mark_issued(&mut self) {
        self.issued = self.open_effects();
    }

    /// Returns all open effects, including effects that were already issued. A driver performs them after a restart.
    pub fn pending(&self) -> Vec<Effect> {
        self.open_effects().iter().filter_map(|id| self.effect(id)).collect()
    }

    /// Returns the open effect with this id, if there is one.
    pub fn pending_effect(&self, id: &EffectId) -> Option<Effect> {
        self.open_effects().contains(id).then(|| self.effect(id)).flatten()
    }

    /// Returns the attempt number of an effect, from 0. Each combination of effect id and attempt is requested only
    /// once.
    pub fn attempt(&self, id: &EffectId) -> u32 {
        match id {
            EffectId::PrepareAgain(call) | EffectId::Call(call) | EffectId::Verify(call) => {
                self.batch().and_then(|batch| batch.find(call)).map_or(0, |call| call.attempt)
            }
            _ => 0,
        }
    }

    /// The time of the last intent of a call.
    pub fn intended_at(&self, call: &CallId) -> Option<Timestamp> {
        self.batch().and_then(|batch| batch.find(call)).and_then(|call| call.intended_at)
    }

    /// Marks all open effects as not issued, so that [`AgentRun::next`] returns them again.
    pub fn reissue_effects(&mut self) {
        self.issued.clear();
    }

    /// Checks whether the run would accept this event now.
    pub fn accepts(&self, event: &Event) -> Result<(), EventError> {
        check::check(self, event)
    }

    /// Applies an event. A rejected event, or an event after the end, changes nothing. A driver may ignore the
    /// rejection of an event for an effect that it performed. For example, a limit can refuse an approved call while
    /// its second preparation is still running.
    pub fn apply(&mut self, event: Event) -> Result<ApplyOutcome, EventError> {
        if self.ending().is_some() {
            return Ok(ApplyOutcome::AlreadyEnded);
        }
        check::check(self, &event)?;
        if event.kind == EventKind::recovered() {
            // The run had no driver until now, so the elapsed time does not count as active time.
            self.now = event.at.max(self.now);
        }
        let (idle_since, was_suspended) = (self.now, self.suspended());
        self.advance_clock(event.at);
        match event.kind {
            EventKind::ModelReplied { reply, schema_error, answer_unchecked, .. } => {
                self.record_model_call(&reply, idle_since);
                reply::apply_reply(self, *reply, schema_error, answer_unchecked)
            }
            EventKind::ModelFailed { reason, message, .. } => self.fail(&reason, message),
            EventKind::Prepared { iteration, calls } => preparation::apply_preparation(self, iteration, calls),
            EventKind::PreparedAgain { call_id, call } => approval::apply_second_preparation(self, &call_id, call),
            EventKind::Intended { call_id } => interrupted_calls::record_intent(self, &call_id),
            EventKind::Recovered { call_id } => interrupted_calls::recover(self, call_id.as_ref()),
            EventKind::Verified { call_id, unknown_reason } => {
                interrupted_calls::apply_verification(self, &call_id, unknown_reason)
            }
            EventKind::CallEnded { envelope, usage, nested_calls, offered_tools } => {
                self.resource_usage.usage += usage;
                self.resource_usage.tool_calls = self.resource_usage.tool_calls.saturating_add(nested_calls);
                self.offer_tools(offered_tools);
                scheduling::finish_call(self, *envelope);
            }
            EventKind::ChildSuspended { call_id, run, status } => scheduling::pause_call(self, &call_id, run, status),
            EventKind::ChildEnded { call_id } => scheduling::resume_call(self, &call_id),
            EventKind::HandedToClient { prepared_payload, schema, pending } => {
                client::hand_over(self, prepared_payload, schema, pending);
            }
            EventKind::ApprovalDecided { call_id, decision, decided_by, .. } => {
                approval::apply_decision(self, &call_id, decision, decided_by)
            }
            EventKind::ClientReturned { call_id, result } => client::apply_result(self, &call_id, result),
            EventKind::Expired { call_id } => client::expire(self, &call_id),
            EventKind::TimerFired => {
                self.check_timeout();
                workflow::fire_timers(self);
            }
            EventKind::SignalReceived { name, payload, .. } => workflow::receive_signal(self, name, payload),
            EventKind::Paused { .. } => workflow::set_paused(self, true),
            EventKind::Resumed { .. } => workflow::set_paused(self, false),
            EventKind::Cancelled { message } => self.cancel(message),
            EventKind::Failed { reason, message } => self.fail(&reason, message),
        }
        self.advance();
        self.resumed |= was_suspended && !self.suspended();
        let open = self.open_effects();
        self.issued.retain(|id| open.contains(id));
        Ok(ApplyOutcome::Accepted)
    }

    /// The id of the run.
    pub fn id(&self) -> RunId {
        self.spec.run
    }

    /// The status of the run.
    pub fn status(&self) -> RunStatus {
        match &self.phase {
            Phase::Ended(ending) => ending.status,
            _ if !self.suspended() => RunStatus::Running,
            _ if self.is_paused() => RunStatus::Paused,
            Phase::Calling(batch) if batch.awaits_approval() => RunStatus::AwaitingApproval,
            Phase::Calling(batch) if batch.awaits_client() => RunStatus::AwaitingClient,
            _ => RunStatus::Waiting,
        }
    }

    /// Whether no work is running and the run waits: for an approval, a client, a child run, a signal or a time, or
    /// because it is paused.
    pub fn suspended(&self) -> bool {
        match (&self.phase, &self.workflow) {
            (Phase::Calling(batch), Some(state)) => state.preparing.is_empty() && !batch.has_work(),
            (Phase::Calling(batch), None) => batch.is_waiting(),
            _ => false,
        }
    }

    /// The ending of the run, once it has ended.
    pub fn ending(&self) -> Option<&Ending> {
        match &self.phase {
            Phase::Ended(ending) => Some(ending),
            _ => None,
        }
    }

    /// The envelopes in insertion order. The first `known` envelopes are skipped.
    pub fn envelopes_after(&self, known: usize) -> impl Iterator<Item = &ToolEnvelope> {
        self.ledger.envelopes_after(known)
    }

    /// The envelopes in an order that does not depend on timing, so that runs with the same calls have the same order.
    pub fn envelopes_in_request_order(&self) -> Vec<&ToolEnvelope> {
        self.ledger.in_request_order()
    }

    /// The open calls that were prepared in an iteration, each with its position among the calls of this preparation.
    pub fn prepared_calls(&self, iteration: u32) -> impl Iterator<Item = (usize, &CallId)> {
        let calls = self.batch().into_iter().flat_map(|batch| &batch.calls).enumerate();
        calls.filter_map(move |(position, call)| match &call.step {
            None => Some((position, &call.call_id)),
            Some(step) if step.iteration == iteration => {
                Some((usize::try_from(step.position).unwrap_or(usize::MAX), &call.call_id))
            }
            Some(_) => None,
        })
    }

    /// The suspended child runs for which calls of this run wait.
    pub fn suspended_children(&self) -> Vec<SuspendedChild> {
        let calls = self.batch().into_iter().flat_map(|batch| &batch.calls);
        let paused = calls.filter_map(|call| match &call.state {
            CallState::ChildSuspended { run, status } => Some(SuspendedChild {
                call_id: call.call_id.clone(),
                tool: call.name.clone(),
                run: *run,
                status: *status,
            }),
            _ => None,
        });
        paused.collect()
    }

    /// The current outputs of the run. They are final after the run has ended.
    pub fn outputs(&self) -> AgentOutputs {
        AgentOutputs::new(self.response.clone(), self.ledger.in_start_order().cloned(), self.spec.traces_url.clone())
    }

    /// The conversation so far, including the initial messages.
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// Appends to the conversation. This copies the messages only if a model request still shares them. Normally the
    /// request is dropped before its reply is applied.
    pub(super) fn push_messages(&mut self, messages: impl IntoIterator<Item = Message>) {
        Arc::make_mut(&mut self.messages).extend(messages);
    }

    /// The resources that the run has consumed.
    pub fn resource_usage(&self) -> &ResourceUsage {
        &self.resource_usage
    }

    /// The number of started model calls; 0 for a run that uses no model.
    pub fn started_model_calls(&self) -> u32 {
        if self.workflow.is_some() {
            return 0;
        }
        match (&self.spec.plan, self.spec.predefined_calls.is_empty()) {
            (None, true) => self.resource_usage.iterations,
            (None, false) => 0,
            (Some(_), _) => {
                let open = u32::from(self.phase == Phase::Model);
                u32::try_from(self.model_calls.len()).unwrap_or(u32::MAX).saturating_add(open)
            }
        }
    }

    /// Whether the run follows a plan.
    pub fn follows_plan(&self) -> bool {
        self.plan.is_some()
    }

    /// The limits of the run, tightened by its guardrails.
    pub fn limits(&self) -> &Limits {
        &self.spec.limits
    }

    /// Warnings about the run, for people who read its result.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// The approval decisions so far, with their triggers.
    pub fn decisions(&self) -> &[ApprovalRecord] {
        &self.decisions
    }

    /// Whether the run continued after it was suspended. If it is suspended now, this is not the first time.
    pub fn resumed(&self) -> bool {
        self.resumed
    }

    /// The requested format of the answer.
    pub fn response_format(&self) -> &ResponseFormat {
        &self.spec.request.response_format
    }

    /// The time when the driver must send the next event: `timer_fired` at the run's deadline, or `expired` when an
    /// approval or client action expires. `timer_fired` also continues the steps of a workflow whose timers are due.
    pub fn wake_at(&self) -> Option<Timestamp> {
        let waits = match &self.phase {
            Phase::Calling(batch) => batch.next_expiry(),
            _ => None,
        };
        let timer = self.workflow.as_ref().and_then(|state| state.timers.first()).map(|timer| timer.at);
        self.deadline().into_iter().chain(waits).chain(timer).min()
    }

    /// Offers more tools to the model. New tools are inserted near the front. If there are more than `max_tools`, tools
    /// are dropped from the end of the list: first the last tools of the initial list, then the tools that were found
    /// earliest.
    fn offer_tools(&mut self, offers: Vec<OfferedTool>) {
        let tools = Arc::make_mut(&mut self.spec.request.tools);
        let known = |tools: &[OfferedTool], name: &str| tools.iter().any(|tool| tool.name.eq_ignore_ascii_case(name));
        let fresh: Vec<OfferedTool> = offers.into_iter().filter(|offer| !known(tools, &offer.name)).collect();
        let most = self.spec.max_tools.map_or(usize::MAX, |most| usize::try_from(most).unwrap_or(usize::MAX));
        // The first tool is the tool search, with which the model finds other tools. It keeps its position unless
        // `max_tools` is 1 or less.
        let finder = usize::from(most > 1).min(tools.len());
        tools.splice(finder..finder, fresh);
        tools.truncate(most);
    }

    fn deadline(&self) -> Option<Timestamp> {
        let running = self.ending().is_none() && !self.suspended();
        let timeout_us = self.spec.limits.timeout_ms.filter(|_| running)?.saturating_mul(1000);
        Some(self.now.saturating_add(Duration::from_micros(timeout_us.saturating_sub(self.resource_usage.active_us))))
    }

    fn advance_clock(&mut self, at: Timestamp) {
        self.resource_usage.active_us = self.active_us_at(at);
        self.now = at.max(self.now);
    }

    /// The active time of the run at `at`, if the run does not change until then.
    pub(super) fn active_us_at(&self, at: Timestamp) -> u64 {
        if self.suspended() {
            return self.resource_usage.active_us;
        }
        let passed = at.max(self.now).as_micros().saturating_sub(self.now.as_micros());
        self.resource_usage.active_us.saturating_add(u64::try_from(passed).unwrap_or(0))
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
pub(super) fn is_zero(count: &u32) -> bool {
    *count == 0
}
