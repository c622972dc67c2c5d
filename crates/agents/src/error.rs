//! The errors for a run that cannot be started.

use toolwright_catalog::{Denied, Unavailable};
use toolwright_gram::Diagnostics;
use toolwright_machine::workflow::WorkflowIssue;
use toolwright_notation::DefinitionError;
use toolwright_tools::{Issues, Violation};
use toolwright_types::{ConversationId, RunId, RunStatus};

/// Why a run could not be started. Nothing was written.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The agent does not exist.
    #[error("there is no agent `{agent}` in realm `{realm}`")]
    UnknownAgent {
        /// The requested name or id.
        agent: String,
        /// The realm that was searched.
        realm: String,
    },
    /// The agent does not have this version.
    #[error("agent `{agent}` has no version that matches `{requirement}`; it has {available}")]
    NoVersion {
        /// The requested name or id.
        agent: String,
        /// The requested version or requirement.
        requirement: String,
        /// The versions that exist, separated by commas.
        available: String,
    },
    /// The agent is disabled.
    #[error("agent `{0}` is disabled")]
    Disabled(String),
    /// The version of the agent is blocked.
    #[error("version {version} of agent `{agent}` is blocked; request another version, or make this one active")]
    Blocked {
        /// The agent.
        agent: String,
        /// The version.
        version: String,
    },
    /// The workflow does not exist.
    #[error("there is no workflow `{workflow}` in realm `{realm}`")]
    UnknownWorkflow {
        /// The requested name or id.
        workflow: String,
        /// The realm that was searched.
        realm: String,
    },
    /// The workflow cannot run, for example because a step registration was deleted.
    #[error("the workflow cannot run: {}", join_issues(.0))]
    InvalidWorkflow(Vec<WorkflowIssue>),
    /// The workflow is disabled.
    #[error("workflow `{0}` is disabled")]
    WorkflowDisabled(String),
    /// The version of the workflow is blocked.
    #[error("version {version} of workflow `{workflow}` is blocked; request another version, or make this one active")]
    WorkflowBlocked {
        /// The workflow.
        workflow: String,
        /// The version.
        version: String,
    },
    /// The workflow has no such step.
    #[error("workflow `{workflow}` has no step `{step}`")]
    UnknownStep {
        /// The workflow.
        workflow: String,
        /// The requested step.
        step: String,
    },
    /// The input of a workflow does not match its schema.
    #[error("the input does not match the schema of the workflow: {}", .0.first().map(ToString::to_string).unwrap_or_default())]
    WorkflowInput(Vec<Violation>),
    /// The principal lacks permission.
    #[error(transparent)]
    Denied(#[from] Denied),
    /// The agent or the principal may not act in the realm.
    #[error(
        "agent `{agent}` may not act in realm `{realm}`; its `allowedRealms` or your permissions do not include it"
    )]
    Realm {
        /// The agent.
        agent: String,
        /// The requested realm.
        realm: String,
    },
    /// The tools that an agentic tool needs cannot be used.
    #[error("no tools are available: {0}")]
    NoTools(String),
    /// The input of an agentic tool does not match its schema.
    #[error("the input does not match the schema of the tool: {0}")]
    Input(String),
    /// A plan is not valid for an agentic tool.
    #[error("the plan is not valid: {0}")]
    Plan(String),
    /// The principal does not exist.
    #[error("there is no principal `{0}`")]
    UnknownPrincipal(String),
    /// The conversation does not exist, or the principal may not see it.
    #[error("there is no conversation `{0}`")]
    UnknownConversation(String),
    /// The conversation is with another agent.
    #[error("conversation `{conversation}` is with agent `{agent}`")]
    OtherAgent {
        /// The conversation.
        conversation: ConversationId,
        /// The agent of the conversation.
        agent: String,
    },
    /// The conversation is not active.
    #[error("conversation `{0}` is {1}; set its status to ACTIVE to continue it")]
    ConversationClosed(ConversationId, &'static str),
    /// Another run of the conversation has not ended.
    #[error("run `{run}` of this conversation has not ended ({status}); wait for it, answer it or cancel it")]
    ConversationBusy {
        /// The run that has not ended.
        run: RunId,
        /// The status of that run.
        status: RunStatus,
    },
    /// The prompt cannot be rendered with this context.
    #[error("the agent's prompt cannot be rendered: {0}")]
    Prompt(String),
    /// The server does not know the agent's model.
    #[error("the agent's model cannot be used: {0}")]
    Model(String),
    /// The gram pattern does not define a valid agent.
    #[error(transparent)]
    Pattern(#[from] PatternError),
    /// The maximum number of concurrent runs is reached.
    #[error("{0} runs are active, which is the maximum of this server; try again later")]
    TooManyRuns(usize),
    /// The database failed.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

impl From<toolwright_store::StoreError> for StartError {
    fn from(error: toolwright_store::StoreError) -> Self {
        StartError::Unavailable(error.into())
    }
}

/// Why a gram text or pattern does not define a valid agent.
#[derive(Debug, thiserror::Error)]
pub enum PatternError {
    /// The text is not valid gram.
    #[error("the text is not gram: {0}")]
    Syntax(#[from] Diagnostics),
    /// The text defines no agent or several agents.
    #[error("the text must define exactly one agent, got {0}")]
    NotOneAgent(usize),
    /// The pattern is not an agent, or has unknown properties.
    #[error("the pattern does not define a runnable agent: {}", join_problems(.0))]
    Problems(Vec<DefinitionError>),
    /// The agent that the pattern defines is invalid.
    #[error("the agent is not valid: {0}")]
    Invalid(Issues),
    /// A tool that the pattern defines is invalid.
    #[error("tool `{tool}` is not valid: {issues}")]
    InvalidTool {
        /// The tool.
        tool: String,
        /// The issues of the tool.
        issues: Issues,
    },
    /// The database failed.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

fn join_issues(issues: &[WorkflowIssue]) -> String {
    issues.iter().filter(|issue| issue.is_error()).map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

fn join_problems(problems: &[DefinitionError]) -> String {
    problems.iter().map(DefinitionError::to_string).collect::<Vec<_>>().join("; ")
}
