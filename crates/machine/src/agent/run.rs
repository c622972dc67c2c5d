//! The run itself: its state, what it asks for, and how an event moves it.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use toolwright_types::{CallId, Message, OfferedTool, RequestedCall, ResponseFormat, RunId, Timestamp, ToolEnvelope};

use super::approval::{self, ApprovalRecord};
use super::call::{Batch, CallState};
use super::ledger::Ledger;
use super::{Applied, Effect, EffectId, Event, EventError, Happened, Spec};
use super::{check, client, doubt, prepared, reply, start};
use crate::{AgentOutputs, Ending, Limits, RunStatus, Spent};

/// One execution of an agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AgentRun {
    pub(super) spec: Spec,
    /// The conversation, the spec's messages first.
    pub(super) messages: Arc<Vec<Message>>,
    pub(super) phase: Phase,
    /// The latest moment known.
    pub(super) now: Timestamp,
    pub(super) spent: Spent,
    pub(super) ledger: Ledger,
    pub(super) response: String,
    pub(super) nudged: bool,
    /// How often an answer that did not fit was sent back.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(super) sent_back: u32,
    pub(super) warnings: Vec<String>,
    pub(super) approvals: Vec<ApprovalRecord>,
    /// Open effects that the driver has.
    pub(super) handed: Vec<EffectId>,
}

/// What the run waits for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Phase {
    /// The model's reply.
    Model,
    /// The facts of the calls it asked for.
    Preparing(Vec<RequestedCall>),
    /// Those calls.
    Calling(Batch),
    /// Nothing.
    Ended(Ending),
}

impl AgentRun {
    /// A run that begins at `at`.
    pub fn new(mut spec: Spec, at: Timestamp) -> Self {
        spec.limits = spec.policy.tighten(spec.limits);
        let messages = std::mem::take(&mut spec.request.messages);
        let mut run = Self {
            spec,
            messages,
            phase: Phase::Model,
            now: at,
            spent: Spent::default(),
            ledger: Ledger::default(),
            response: String::new(),
            nudged: false,
            sent_back: 0,
            warnings: Vec::new(),
            approvals: Vec::new(),
            handed: Vec::new(),
        };
        run.ask_model();
        run
    }

    /// Effects that were not handed out yet. Never the same one twice.
    // INVARIANT: what is open is a function of the run's state, so a replay asks for the same effects.
    #[expect(
        clippy::should_implement_trait,
        reason = "a run is no iterator: it may have more to do after giving nothing"
    )]
    pub fn next(&mut self) -> Vec<Effect> {
        let fresh: Vec<EffectId> = self.open().into_iter().filter(|id| !self.handed.contains(id)).collect();
        let effects = fresh.iter().filter_map(|id| self.effect(id)).collect();
        self.handed.extend(fresh);
        effects
    }

    /// Counts everything that is open as handed out, without making the effects.
    pub fn hand_out(&mut self) {
        self.handed = self.open();
    }

    /// Everything that has not been answered, handed out or not: what a driver takes up after a restart.
    pub fn pending(&self) -> Vec<Effect> {
        self.open().iter().filter_map(|id| self.effect(id)).collect()
    }

    /// One of those, by its id; none when it was answered, or never asked for.
    pub fn pending_effect(&self, id: &EffectId) -> Option<Effect> {
        self.open().contains(id).then(|| self.effect(id)).flatten()
    }

    /// Which attempt at an effect is wanted, from 0 on. Together with its id it is never asked for twice.
    pub fn attempt(&self, id: &EffectId) -> u32 {
        match id {
            EffectId::PrepareAgain(call) | EffectId::Call(call) | EffectId::Verify(call) => {
                self.batch().and_then(|batch| batch.find(call)).map_or(0, |call| call.attempt)
            }
            _ => 0,
        }
    }

    /// When a call that may change the world was last about to be made.
    pub fn intended_at(&self, call: &CallId) -> Option<Timestamp> {
        self.batch().and_then(|batch| batch.find(call)).and_then(|call| call.intended)
    }

    /// Forgets what was handed out, so that [`AgentRun::next`] gives all that is pending once more.
    pub fn reissue(&mut self) {
        self.handed.clear();
    }

    /// Whether the run would take this event now.
    pub fn accepts(&self, event: &Event) -> Result<(), EventError> {
        check::check(self, event)
    }

    /// Takes an event. An error, or an event after the end, changes nothing. A driver may pass over errors about
    /// effects it performed itself: a limit can make a preparation pointless while it is under way.
    pub fn apply(&mut self, event: Event) -> Result<Applied, EventError> {
        if self.ending().is_some() {
            return Ok(Applied::Late);
        }
        check::check(self, &event)?;
        if event.what == Happened::taken_up() {
            // Nobody drove the run meanwhile; that time is not the run's.
            self.now = event.at.max(self.now);
        }
        self.pass_time(event.at);
        match event.what {
            Happened::ModelReplied { reply, misfit, .. } => reply::replied(self, *reply, misfit),
            Happened::ModelFailed { reason, message, .. } => self.fail(&reason, message),
            Happened::Prepared { calls, .. } => prepared::prepared(self, calls),
            Happened::PreparedAgain { call_id, call } => approval::prepared_again(self, &call_id, call),
            Happened::Intended { call_id } => doubt::intended(self, &call_id),
            Happened::TakenUp { call_id } => doubt::taken_up(self, call_id.as_ref()),
            Happened::Verified { call_id, unknown } => doubt::verified(self, &call_id, unknown),
            Happened::CallEnded { envelope, usage, calls, offers } => {
                self.spent.usage += usage;
                self.spent.tool_calls = self.spent.tool_calls.saturating_add(calls);
                self.offer(offers);
                start::ended(self, *envelope);
            }
            Happened::CallPaused { call_id, run, status } => start::paused(self, &call_id, run, status),
            Happened::CallWentOn { call_id } => start::went_on(self, &call_id),
            Happened::CallHandedOver { prepared_payload, schema, pending } => {
                client::handed_over(self, prepared_payload, schema, pending);
            }
            Happened::Approval { call_id, decision, by, .. } => approval::decided(self, &call_id, decision, by),
            Happened::ClientReturned { call_id, result } => client::returned(self, &call_id, result),
            Happened::Expired { call_id } => client::expired(self, &call_id),
            Happened::TimePassed => self.watch_time(),
            Happened::Cancelled { message } => self.cancel(message),
            Happened::Failed { reason, message } => self.fail(&reason, message),
        }
        self.advance();
        let open = self.open();
        self.handed.retain(|id| open.contains(id));
        Ok(Applied::Taken)
    }

    /// Which run this is.
    pub fn id(&self) -> RunId {
        self.spec.run
    }

    /// Where it stands.
    pub fn status(&self) -> RunStatus {
        match &self.phase {
            Phase::Ended(ending) => ending.status,
            Phase::Calling(batch) if batch.only_waits() && batch.asks() => RunStatus::AwaitingApproval,
            Phase::Calling(batch) if batch.only_waits() => RunStatus::AwaitingClient,
            _ => RunStatus::Running,
        }
    }

    /// Whether nothing is under way and somebody outside has to act.
    pub fn suspended(&self) -> bool {
        matches!(&self.phase, Phase::Calling(batch) if batch.only_waits())
    }

    /// How it ended, once it has.
    pub fn ending(&self) -> Option<&Ending> {
        match &self.phase {
            Phase::Ended(ending) => Some(ending),
            _ => None,
        }
    }

    /// The receipts filed after the first `known`, in the order they were filed.
    pub fn receipts_after(&self, known: usize) -> impl Iterator<Item = &ToolEnvelope> {
        self.ledger.filed_after(known)
    }

    /// The receipts in an order that two runs which do the same share, whatever took how long.
    pub fn receipts_as_asked(&self) -> Vec<&ToolEnvelope> {
        self.ledger.as_asked()
    }

    /// The calls of the reply under way, in the order the model emitted them.
    pub fn calls(&self) -> impl Iterator<Item = &CallId> {
        self.batch().into_iter().flat_map(|batch| &batch.calls).map(|call| &call.call_id)
    }

    /// The calls whose runs wait for somebody, and those runs.
    pub fn paused(&self) -> Vec<(CallId, RunId)> {
        let calls = self.batch().into_iter().flat_map(|batch| &batch.calls);
        let paused = calls.filter_map(|call| match &call.state {
            CallState::Paused { run, .. } => Some((call.call_id.clone(), *run)),
            _ => None,
        });
        paused.collect()
    }

    /// What it leaves behind, or would if it ended now.
    pub fn outputs(&self) -> AgentOutputs {
        AgentOutputs::new(self.response.clone(), self.ledger.in_order().cloned(), self.spec.traces_url.clone())
    }

    /// The conversation so far, with the messages it began with.
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// Adds to the conversation. Nobody else holds it by then: a request is gone when its reply is told.
    pub(super) fn say(&mut self, messages: impl IntoIterator<Item = Message>) {
        Arc::make_mut(&mut self.messages).extend(messages);
    }

    /// What it has used.
    pub fn spent(&self) -> &Spent {
        &self.spent
    }

    /// How often the model was asked. One that follows a plan asks none.
    pub fn model_calls(&self) -> u32 {
        if self.spec.plan.is_empty() { self.spent.iterations } else { 0 }
    }

    /// How much it may use, guardrails included.
    pub fn limits(&self) -> &Limits {
        &self.spec.limits
    }

    /// What its readers should know although it went on.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// What people decided, and which knobs had asked for it.
    pub fn decisions(&self) -> &[ApprovalRecord] {
        &self.approvals
    }

    /// What the answer was to be.
    pub fn response_format(&self) -> &ResponseFormat {
        &self.spec.request.response_format
    }

    /// When the driver should say that time has passed: the run's deadline or the next expiry, whichever comes first.
    pub fn wake_at(&self) -> Option<Timestamp> {
        let waits = match &self.phase {
            Phase::Calling(batch) => batch.next_expiry(),
            _ => None,
        };
        self.deadline().into_iter().chain(waits).min()
    }

    /// Lets the model call these tools too. When it sees as many as it may, those it was shown last make room: they
    /// were ranked last at the start, or found longest ago.
    fn offer(&mut self, offers: Vec<OfferedTool>) {
        let tools = Arc::make_mut(&mut self.spec.request.tools);
        let known = |tools: &[OfferedTool], name: &str| tools.iter().any(|tool| tool.name.eq_ignore_ascii_case(name));
        let fresh: Vec<OfferedTool> = offers.into_iter().filter(|offer| !known(tools, &offer.name)).collect();
        let most = self.spec.max_tools.map_or(usize::MAX, |most| usize::try_from(most).unwrap_or(usize::MAX));
        // The first is the tool that finds the others; it makes room only where there is no other.
        let finder = usize::from(most > 1).min(tools.len());
        tools.splice(finder..finder, fresh);
        tools.truncate(most);
    }

    fn deadline(&self) -> Option<Timestamp> {
        let running = self.ending().is_none() && !self.suspended();
        let timeout_us = self.spec.limits.timeout_ms.filter(|_| running)?.saturating_mul(1000);
        Some(self.now.later(Duration::from_micros(timeout_us.saturating_sub(self.spent.active_us))))
    }

    fn pass_time(&mut self, at: Timestamp) {
        let now = at.max(self.now);
        if !self.suspended() {
            let passed = now.as_micros().saturating_sub(self.now.as_micros());
            self.spent.active_us = self.spent.active_us.saturating_add(u64::try_from(passed).unwrap_or(0));
        }
        self.now = now;
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
pub(super) fn is_zero(count: &u32) -> bool {
    *count == 0
}
