//! Computes the updates for clients that watch a run, from the run's journal.
//!
//! Not here: the partial text of a streaming reply. The journal does not contain it.

use serde::{Deserialize, Serialize};
use toolwright_types::{RunStatus, Usage};

use crate::agent::{
    AgentRun, ApplyOutcome, ApprovalRequest, ClientActionRequest, Effect, Event, EventError, EventKind, SuspendedChild,
};
use crate::view::ToolCallEntry;

/// An update for the clients that watch a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunUpdate {
    /// The number of model calls so far.
    pub iteration: u32,
    /// The update.
    pub kind: RunUpdateKind,
}

/// The kinds of updates.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum RunUpdateKind {
    /// A model call started.
    Thinking,
    /// The complete text of a model reply.
    Text(String),
    /// The tokens and the cost of a model call.
    Usage {
        /// Tokens.
        usage: Usage,
        /// Cost in US dollars, if the price is known.
        cost_usd: Option<f64>,
    },
    /// A call started.
    CallStarted(Box<ToolCallEntry>),
    /// A call ended or was refused.
    CallEnded(Box<ToolCallEntry>),
    /// A person must decide.
    ApprovalRequired(Box<ApprovalRequest>),
    /// The client must act.
    ClientAction(Box<ClientActionRequest>),
    /// The child run that a call started waits for an approval or a client.
    ChildWaiting(SuspendedChild),
    /// The run ended.
    Ended {
        /// The final status.
        status: RunStatus,
        /// A stable reason code.
        reason: Option<String>,
        /// A message for people.
        message: Option<String>,
        /// The answer.
        response: String,
    },
}

/// A run that also reports its changes as updates for clients.
#[derive(Debug)]
pub struct Timeline {
    run: AgentRun,
    known_envelopes: usize,
}

/// The effects and updates that a change of the run produced.
#[derive(Debug, Default)]
pub struct Transition {
    /// The effects to perform.
    pub effects: Vec<Effect>,
    /// The updates for the clients that watch the run.
    pub updates: Vec<RunUpdate>,
}

impl Timeline {
    /// Creates a timeline that starts at the current state of a run.
    pub fn new(run: AgentRun) -> Self {
        let known_envelopes = run.envelopes_after(0).count();
        Self { run, known_envelopes }
    }

    /// The run.
    pub fn run(&self) -> &AgentRun {
        &self.run
    }

    /// Returns the requested effects that were not issued to the driver yet, and the updates about them.
    pub fn advance(&mut self) -> Transition {
        let effects = self.run.next();
        let mut updates = Vec::with_capacity(effects.len());
        self.push_effect_updates(&effects, &mut updates);
        Transition { effects, updates }
    }

    /// Applies an event to the run. A rejected event, or an event after the end, changes nothing.
    pub fn apply(&mut self, event: Event) -> Result<Transition, EventError> {
        let mut updates = Vec::new();
        if let EventKind::ModelReplied { reply, .. } = &event.kind {
            if !reply.content.is_empty() {
                updates.push(self.update(RunUpdateKind::Text(reply.content.clone())));
            }
            updates.push(self.update(RunUpdateKind::Usage { usage: reply.usage, cost_usd: reply.cost_usd }));
        }
        let paused_call = match &event.kind {
            EventKind::ChildSuspended { call_id, .. } => Some(call_id.clone()),
            _ => None,
        };
        // The update of an ended call has the iteration in which the call started, even if the same event starts the
        // next iteration.
        let iteration = self.run.resource_usage().iterations;
        if self.run.apply(event)? == ApplyOutcome::AlreadyEnded {
            return Ok(Transition::default());
        }
        if let Some(call_id) = paused_call {
            let children = self.run.suspended_children().into_iter().filter(|child| child.call_id == call_id);
            updates.extend(children.map(|child| RunUpdate { iteration, kind: RunUpdateKind::ChildWaiting(child) }));
        }
        for envelope in self.run.envelopes_after(self.known_envelopes) {
            updates.push(RunUpdate { iteration, kind: RunUpdateKind::CallEnded(Box::new(envelope.into())) });
        }
        self.known_envelopes = self.run.envelopes_after(0).count();
        let mut transition = self.advance();
        updates.append(&mut transition.updates);
        Ok(Transition { effects: transition.effects, updates })
    }

    fn push_effect_updates(&self, effects: &[Effect], updates: &mut Vec<RunUpdate>) {
        updates.extend(effects.iter().filter_map(|effect| self.update_for(effect)).map(|update| self.update(update)));
    }

    fn update_for(&self, effect: &Effect) -> Option<RunUpdateKind> {
        match effect {
            Effect::CallModel { .. } => Some(RunUpdateKind::Thinking),
            Effect::RunCall(call) => Some(RunUpdateKind::CallStarted(Box::new((&**call).into()))),
            Effect::RequestApproval(request) => Some(RunUpdateKind::ApprovalRequired(request.clone())),
            Effect::RequestClientAction(request) => Some(RunUpdateKind::ClientAction(request.clone())),
            Effect::Finish { ending, response } => Some(RunUpdateKind::Ended {
                status: ending.status,
                reason: ending.reason.clone(),
                message: ending.message.clone(),
                response: response.clone(),
            }),
            Effect::PrepareCalls { .. } | Effect::PrepareAgain { .. } | Effect::VerifyCall { .. } => None,
        }
    }

    fn update(&self, kind: RunUpdateKind) -> RunUpdate {
        RunUpdate { iteration: self.run.resource_usage().iterations, kind }
    }
}
