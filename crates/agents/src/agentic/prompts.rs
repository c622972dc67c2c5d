//! Shows and writes the system prompts of agentic tools.

use std::sync::Arc;

use serde_json::{Map, Value};
use toolwright_catalog::{CompiledAgent, Session, default_prompt};
use toolwright_machine::plan::PlanSpec;
use toolwright_runs::AnswerSchemas;
use toolwright_tools::CompiledTool;
use toolwright_types::{
    AgentDefinition, Document, Message, RequestedCall, ResponseFormat, RunId, RunStatus, ToolDefinition, Usage,
};

use super::AgenticCall;
use crate::error::StartError;
use crate::spec::{RunDraft, RunOrigin};
use crate::{Agents, Unavailable};

/// The instructions for the model that writes a system prompt.
const PROMPT_WRITER: &str = "You write system prompts for tools with an embedded language model. You get a draft. Improve \
    it: make it specific to the purpose and the tools, keep every {{placeholder}} exactly as it is, add no placeholder, \
    and keep it short. Answer with the prompt only.";

/// The first request to the model of an agentic tool, for people who write its prompt.
#[derive(Debug, Clone)]
pub struct PromptPreview {
    /// The system prompt with its variables filled in.
    pub system_prompt: String,
    /// The message with the task.
    pub user_message: String,
    /// Warnings about missing variables and data that was cut.
    pub warnings: Vec<String>,
    /// The estimated number of input tokens.
    pub estimated_tokens: u64,
    /// The reply of the model, if it was called.
    pub reply: Option<PromptReply>,
}

/// The reply of a model to a prompt.
#[derive(Debug, Clone)]
pub struct PromptReply {
    /// The text of the reply.
    pub text: String,
    /// The calls that the model requests. None of them is executed.
    pub requested_calls: Vec<RequestedCall>,
    /// The run that called the model.
    pub run: RunId,
    /// The consumed tokens.
    pub usage: Usage,
    /// The cost in US dollars.
    pub cost_usd: f64,
}

impl Agents {
    /// Renders the first request to the model of an agentic tool. With `call_model`, also returns the reply of the
    /// model. No tool is executed.
    pub async fn preview_prompt(
        &self,
        session: &Session,
        tool: &Arc<CompiledTool>,
        input: &Value,
        call_model: bool,
    ) -> Result<PromptPreview, StartError> {
        let agent = self.embedded_agent(session, tool).await?;
        let origin = RunOrigin::new(session, Arc::clone(&session.realm), Arc::clone(&session.principal));
        let call = AgenticCall { tool, input, plan: None };
        let draft = Box::pin(self.draft_agentic(&agent, call, origin)).await?;
        let mut preview = PromptPreview {
            system_prompt: String::new(),
            user_message: String::new(),
            warnings: draft.start.warnings.clone(),
            estimated_tokens: draft.tokens(),
            reply: None,
        };
        for message in draft.start.spec.request.messages.iter() {
            match message {
                Message::System { content } => preview.system_prompt.clone_from(content),
                Message::User { content } => preview.user_message.clone_from(content),
                Message::Assistant { .. } | Message::Tool { .. } => {}
            }
        }
        if call_model {
            preview.reply = Some(self.first_reply(draft).await?);
        }
        Ok(preview)
    }

    /// Returns a new system prompt for an agentic tool. With `call_model`, the embedded model improves the generated
    /// prompt.
    pub async fn generate_prompt(
        &self,
        session: &Session,
        tool: &CompiledTool,
        call_model: bool,
    ) -> Result<String, StartError> {
        let definition: &ToolDefinition = &tool.definition;
        let Some(config) = &definition.agentic else { return Err(no_model()) };
        let template = default_prompt(definition, config);
        if !call_model {
            return Ok(template);
        }
        let agent = self.embedded_agent(session, tool).await?;
        let mut writer = AgentDefinition::new(definition.ref_name.clone());
        writer.llm_config = agent.document.body.llm_config.clone();
        writer.system_prompt = None;
        writer.memory_config.persist_conversation = Some(false);
        let document = Document { meta: agent.document.meta.clone(), body: writer };
        let writer = CompiledAgent::compile(document, &[]).map(Arc::new);
        let writer = writer.map_err(|issues| Unavailable::new("the prompt cannot be written", issues))?;
        let origin = RunOrigin::new(session, Arc::clone(&session.realm), Arc::clone(&session.principal));
        let message = format!("{PROMPT_WRITER}\n\nThe draft:\n\n{template}");
        let draft = self.draft_run(&writer, origin, Map::new(), message).await?;
        Ok(self.first_reply(draft).await?.text)
    }

    /// Returns the agent inside an agentic tool, if the session may execute the tool.
    pub(super) async fn embedded_agent(
        &self,
        session: &Session,
        tool: &CompiledTool,
    ) -> Result<Arc<CompiledAgent>, StartError> {
        use toolwright_tools::ports::Authorizer as _;
        let permit = self.0.access.may_execute(&session.principal, &session.realm, tool);
        permit.map_err(|denial| StartError::NoTools(format!("you lack `{}`", denial.permission)))?;
        let agent = self.0.resolver.catalog.embedded_agent(&session.realm, tool).await?;
        agent.ok_or_else(no_model)
    }

    /// Calls the model once with the first request of a draft. The policy of the run allows no tool, so the run
    /// executes no tool.
    async fn first_reply(&self, mut draft: Box<RunDraft>) -> Result<PromptReply, StartError> {
        let spec = &mut draft.start.spec;
        if let Some(PlanSpec { schema, .. }) = spec.plan.take().as_deref() {
            spec.request.response_format = ResponseFormat::Structured(schema.clone());
        }
        spec.policy.enabled_tools.clear();
        spec.limits.max_iterations = 1;
        draft.start.agentic = None;
        // Without answer schemas, the run accepts every reply. The person who tests a prompt wants to see the first
        // reply even if a schema would reject it.
        draft.executor.answers = AnswerSchemas::default();
        let handle = self.launch(draft, Vec::new()).await;
        let handle = handle.map_err(|error| Unavailable::new("the model cannot be called", error))?;
        let lost = || Unavailable::new("the reply of the model was lost", "no driver");
        let snapshot = self.0.runs.settled(&handle).await.ok_or_else(lost)?;
        let run = &snapshot.run;
        if !matches!(run.status(), RunStatus::Completed | RunStatus::MaxIterations) {
            let why = run.ending().and_then(|ending| ending.message.clone());
            return Err(StartError::Model(why.unwrap_or_else(|| "the model did not answer".to_owned())));
        }
        let (text, requested_calls) = run.messages().iter().find_map(reply_of).unwrap_or_default();
        let usage = run.resource_usage();
        Ok(PromptReply { text, requested_calls, run: run.id(), usage: usage.usage, cost_usd: usage.cost_usd })
    }
}

fn reply_of(message: &Message) -> Option<(String, Vec<RequestedCall>)> {
    match message {
        Message::Assistant { content, tool_calls, .. } => Some((content.clone(), tool_calls.clone())),
        _ => None,
    }
}

fn no_model() -> StartError {
    StartError::NoTools("the tool has no embedded model".to_owned())
}
