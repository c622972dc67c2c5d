//! What a run looks like to someone who watches: a function of its journal, entry by entry.
//!
//! Not here: text while it is being written, which is in no journal.

use serde::{Deserialize, Serialize};
use toolwright_types::{RunStatus, Usage};

use crate::agent::{AgentRun, Applied, ApprovalRequest, ClientRequest, Effect, Event, EventError, Happened};
use crate::view::ToolCallEntry;

/// What a watcher is told.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Moment {
    /// How often the model had been asked.
    pub iteration: u32,
    /// What is told.
    pub what: Told,
}

/// What is told.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Told {
    /// The model is asked.
    Thinking,
    /// The model said this, all of it.
    Text(String),
    /// What the model consumed.
    Usage {
        /// Tokens.
        usage: Usage,
        /// Dollars, when the price is known.
        cost_usd: Option<f64>,
    },
    /// A call began.
    CallStarted(Box<ToolCallEntry>),
    /// A call ended or was refused.
    CallEnded(Box<ToolCallEntry>),
    /// A person has to decide.
    ApprovalRequired(Box<ApprovalRequest>),
    /// The client has to act.
    ClientAction(Box<ClientRequest>),
    /// The run ended.
    Ended {
        /// How.
        status: RunStatus,
        /// Why, as a word.
        reason: Option<String>,
        /// Why, for a person.
        message: Option<String>,
        /// The answer.
        response: String,
    },
}

/// A run and its story so far.
#[derive(Debug)]
pub struct Timeline {
    run: AgentRun,
    receipts: usize,
}

/// What one entry led to.
#[derive(Debug, Default)]
pub struct Step {
    /// What is to be done.
    pub effects: Vec<Effect>,
    /// What is told.
    pub moments: Vec<Moment>,
}

impl Timeline {
    /// The story of a run from here on.
    pub fn of(run: AgentRun) -> Self {
        let receipts = run.receipts_after(0).count();
        Self { run, receipts }
    }

    /// The run.
    pub fn run(&self) -> &AgentRun {
        &self.run
    }

    /// What the run asks for now and had not asked for before.
    pub fn advance(&mut self) -> Step {
        let effects = self.run.next();
        let mut moments = Vec::with_capacity(effects.len());
        self.tell_effects(&effects, &mut moments);
        Step { effects, moments }
    }

    /// Tells the run what happened. An error, or an event after the end, changes nothing.
    pub fn apply(&mut self, event: Event) -> Result<Step, EventError> {
        let mut moments = Vec::new();
        if let Happened::ModelReplied { reply, .. } = &event.what {
            if !reply.content.is_empty() {
                moments.push(self.moment(Told::Text(reply.content.clone())));
            }
            moments.push(self.moment(Told::Usage { usage: reply.usage, cost_usd: reply.cost_usd }));
        }
        // What ends belongs to the step it began in, also when the next one begins with it.
        let iteration = self.run.spent().iterations;
        if self.run.apply(event)? == Applied::Late {
            return Ok(Step::default());
        }
        for envelope in self.run.receipts_after(self.receipts) {
            moments.push(Moment { iteration, what: Told::CallEnded(Box::new(envelope.into())) });
        }
        self.receipts = self.run.receipts_after(0).count();
        let mut step = self.advance();
        moments.append(&mut step.moments);
        Ok(Step { effects: step.effects, moments })
    }

    fn tell_effects(&self, effects: &[Effect], moments: &mut Vec<Moment>) {
        moments.extend(effects.iter().filter_map(|effect| self.told(effect)).map(|told| self.moment(told)));
    }

    fn told(&self, effect: &Effect) -> Option<Told> {
        match effect {
            Effect::CallModel { .. } => Some(Told::Thinking),
            Effect::RunCall(call) => Some(Told::CallStarted(Box::new((&**call).into()))),
            Effect::AskApproval(request) => Some(Told::ApprovalRequired(request.clone())),
            Effect::HandToClient(request) => Some(Told::ClientAction(request.clone())),
            Effect::Finish { ending, response } => Some(Told::Ended {
                status: ending.status,
                reason: ending.reason.clone(),
                message: ending.message.clone(),
                response: response.clone(),
            }),
            Effect::PrepareCalls { .. } | Effect::PrepareAgain { .. } | Effect::VerifyCall { .. } => None,
        }
    }

    fn moment(&self, what: Told) -> Moment {
        Moment { iteration: self.run.spent().iterations, what }
    }
}
