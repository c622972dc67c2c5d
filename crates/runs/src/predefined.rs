//! Runs that execute a fixed list of calls and never call a model.

use std::sync::Arc;

use toolwright_machine::agent::{PredefinedCall, RunSpec};
use toolwright_machine::journal::RunStart;
use toolwright_machine::{Limits, Policy};
use toolwright_types::{Message, ModelRequest, RunId};

use toolwright_catalog::Session;

/// A run with predefined calls.
pub struct PredefinedRun {
    /// The id of the new run.
    pub run: RunId,
    /// The agent or tool that is executed.
    pub subject: String,
    /// The content hash of the definition of the agent or tool.
    pub definition_hash: String,
    /// A description for users, stored as the first message of the run.
    pub task: Option<String>,
    /// The calls, in the order of their execution.
    pub plan: Vec<PredefinedCall>,
    /// Whether the run continues after a restart of the server.
    pub durable: bool,
}

impl PredefinedRun {
    /// Returns the first entry of a run that makes exactly these calls as the session's principal.
    pub fn begin(self, session: &Session) -> RunStart {
        let messages: Vec<Message> = self.task.into_iter().map(|content| Message::User { content }).collect();
        let request = ModelRequest { messages: Arc::new(messages), ..ModelRequest::none() };
        let tools: Vec<String> = self.plan.iter().map(|call| call.tool.clone()).collect();
        let mut spec = RunSpec::new(self.run, request, Policy::allowing(session.realm.name.as_str(), tools));
        let calls = u32::try_from(self.plan.len()).unwrap_or(u32::MAX);
        // Each call needs one iteration, and the end of the run needs one more. A child run that a call starts has its
        // own limits. So this run has no cost limit and no limit of calls.
        spec.limits = Limits {
            max_iterations: calls.saturating_add(1),
            max_tool_calls: u32::MAX,
            max_cost_usd: None,
            ..Limits::platform()
        };
        spec.predefined_calls = self.plan;
        let start = RunStart::new(self.subject, self.definition_hash, session.principal.name.as_str(), spec);
        RunStart { durable: self.durable, hops: session.hops, correlation: session.correlation.clone(), ..start }
    }
}
