//! Runs that know what to do before they begin: they follow a plan, and ask no model.

use std::sync::Arc;

use toolwright_machine::agent::{PlannedCall, Spec};
use toolwright_machine::journal::Began;
use toolwright_machine::{Limits, Policy};
use toolwright_types::{Message, ModelRequest, ResponseFormat, RunId};

use crate::access::Session;

/// What a planned run is about.
pub(crate) struct Planned {
    pub run: RunId,
    /// The agent or tool that it is an execution of, and the exact definition.
    pub subject: String,
    pub definition_hash: String,
    /// What it is to do, for people.
    pub task: Option<String>,
    pub plan: Vec<PlannedCall>,
    pub durable: bool,
}

impl Planned {
    /// The beginning of a run that makes the planned calls, and no others, on the authority of whoever asks for it.
    pub fn begin(self, session: &Session) -> Began {
        let messages: Vec<Message> = self.task.into_iter().map(|content| Message::User { content }).collect();
        let request = ModelRequest {
            model: String::new(),
            messages: Arc::new(messages),
            tools: Arc::default(),
            temperature: None,
            max_output_tokens: None,
            response_format: ResponseFormat::Text,
            parallel_tool_calls: false,
            extra: serde_json::Map::new(),
            images: Default::default(),
        };
        let tools: Vec<String> = self.plan.iter().map(|call| call.tool.clone()).collect();
        let mut spec = Spec::new(self.run, request, Policy::allowing(session.realm.name.as_str(), tools));
        let calls = u32::try_from(self.plan.len()).unwrap_or(u32::MAX);
        // One more, because the end stands where a reply would.
        spec.limits = Limits { max_iterations: calls.saturating_add(1), max_tool_calls: calls, ..Limits::platform() };
        spec.plan = self.plan;
        let began = Began::of(self.subject, self.definition_hash, session.principal.name.as_str(), spec);
        Began { durable: self.durable, ..began }
    }
}
