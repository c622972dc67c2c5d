//! The model calls of a run, with the purpose of each.

use serde::{Deserialize, Serialize};
use toolwright_types::{Message, ModelReply, Timestamp, Usage};

use super::run::{AgentRun, is_zero};

/// One call to the model of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelCall {
    /// The iteration of the call.
    pub iteration: u32,
    /// The purpose of the call.
    pub purpose: ModelPurpose,
    /// The time when the run was ready for the call.
    pub started_at: Timestamp,
    /// The time of the reply.
    pub ended_at: Timestamp,
    /// The consumed tokens.
    #[serde(default)]
    pub usage: Usage,
    /// The cost in US dollars; `None` if the price of the model is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// The number of messages in the request. The reply is the message after them, if it has content or tool calls.
    #[serde(default)]
    pub request_messages: usize,
    /// The number of tool calls that the reply requests.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub requested_calls: u32,
}

/// The purpose of a model call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ModelPurpose {
    /// To plan how to fulfil the task. This is the first call of a run.
    Planning,
    /// To select the next tools.
    ToolSelection,
    /// To review the results and write the answer.
    ResultReview,
    /// To correct failed calls, a rejected answer or a rejected plan.
    ErrorRecovery,
}

impl ModelPurpose {
    /// The name of the purpose.
    pub fn as_str(self) -> &'static str {
        match self {
            ModelPurpose::Planning => "planning",
            ModelPurpose::ToolSelection => "tool_selection",
            ModelPurpose::ResultReview => "result_review",
            ModelPurpose::ErrorRecovery => "error_recovery",
        }
    }
}

/// The decision of the model in a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ModelDecision {
    /// The model calls more tools.
    Continue,
    /// The model considers the task done.
    Complete,
    /// The model tries again after an error.
    ErrorRecovery,
}

impl ModelDecision {
    /// The name of the decision.
    pub fn as_str(self) -> &'static str {
        match self {
            ModelDecision::Continue => "CONTINUE",
            ModelDecision::Complete => "COMPLETE",
            ModelDecision::ErrorRecovery => "ERROR_RECOVERY",
        }
    }
}

impl ModelCall {
    /// The decision of the model. It follows from the tool calls that the reply requests.
    pub fn decision(&self) -> ModelDecision {
        match (self.requested_calls, self.purpose) {
            (0, _) => ModelDecision::Complete,
            (_, ModelPurpose::ErrorRecovery) => ModelDecision::ErrorRecovery,
            _ => ModelDecision::Continue,
        }
    }
}

impl AgentRun {
    /// The model calls that have been answered so far.
    pub fn model_calls(&self) -> &[ModelCall] {
        &self.model_calls
    }

    /// Records a model call from its reply. Must be called before the reply is applied, because applying it changes the
    /// run.
    pub(super) fn record_model_call(&mut self, reply: &ModelReply, started_at: Timestamp) {
        let call = ModelCall {
            iteration: self.resource_usage.iterations,
            purpose: self.purpose_of(reply),
            started_at,
            ended_at: self.now,
            usage: reply.usage,
            cost_usd: reply.cost_usd,
            request_messages: self.messages.len(),
            requested_calls: u32::try_from(reply.tool_calls.len()).unwrap_or(u32::MAX),
        };
        self.model_calls.push(call);
    }

    fn purpose_of(&self, reply: &ModelReply) -> ModelPurpose {
        if self.model_calls.is_empty() {
            return ModelPurpose::Planning;
        }
        if self.plan.is_some() {
            return if self.is_planning() || self.corrects_answer() {
                ModelPurpose::ErrorRecovery
            } else {
                ModelPurpose::ResultReview
            };
        }
        if self.corrects_answer() || self.last_calls_failed() {
            ModelPurpose::ErrorRecovery
        } else if reply.tool_calls.is_empty() {
            ModelPurpose::ResultReview
        } else {
            ModelPurpose::ToolSelection
        }
    }

    /// Whether the model was asked again because its last answer was rejected.
    fn corrects_answer(&self) -> bool {
        self.rejected_answers > 0 && matches!(self.messages.last(), Some(Message::User { .. }))
    }

    fn last_calls_failed(&self) -> bool {
        let results = self.messages.iter().rev().map_while(|message| match message {
            Message::Tool { is_error, .. } => Some(*is_error),
            _ => None,
        });
        results.into_iter().any(|is_error| is_error)
    }
}
