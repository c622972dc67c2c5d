//! An agent of a text with a library of functions: one call, no server, nothing left behind.

use toolwright_machine::view::{self, AgentResponse, InvocationStatus};
use toolwright_store::SealKey;
use toolwright_tools::Library;
use toolwright_types::{Message, RunStatus};

use crate::agents::{AgentPattern, AgentRequest, AgentSource, ExecutionModel, PatternError, StartError};
use crate::{Engine, OpenError, Options};

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum ExecuteError {
    /// The text has no agent that can be run.
    #[error(transparent)]
    Pattern(#[from] PatternError),
    /// The run could not begin.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The run ended without an answer, or waits for someone who is not there.
    #[error("the run ended {status}: {message}")]
    Ended {
        /// Where it stands.
        status: RunStatus,
        /// Why.
        message: String,
    },
    /// There is no place to run it in.
    #[error("make a temporary place to run the agent in")]
    Folder(#[from] std::io::Error),
    /// There is no key for that place.
    #[error("make a key for the temporary place")]
    Seal(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// That place cannot be opened.
    #[error("open the temporary place")]
    Open(#[from] OpenError),
    /// The journal failed under the run.
    #[error("the run was lost; the log has the cause")]
    Lost,
}

/// Runs the agent of a gram text on `input`. Its tools are bound by name to `library`; `context` is what was said before,
/// the latest last.
///
/// The pattern is compiled, or interpreted if that fails. Everything is kept in a temporary folder, which is gone when the
/// answer is there.
pub async fn execute_agent_with_library(
    agent: &str,
    input: &str,
    context: Vec<Message>,
    library: Library,
) -> Result<AgentResponse, ExecuteError> {
    let agent = AgentPattern::parse(agent)?;
    let folder = tempfile::tempdir()?;
    let seal =
        SealKey::from_file(folder.path().join("seal.key")).map_err(|error| ExecuteError::Seal(Box::new(error)))?;
    let mut options = Options::in_folder(folder.path().to_owned(), seal);
    options.library = library;
    let (engine, _) = Box::pin(Engine::open(options)).await?;
    let answer = Box::pin(answer(&engine, &agent, input, context)).await;
    engine.close().await;
    answer
}

async fn answer(
    engine: &Engine,
    agent: &AgentPattern,
    input: &str,
    context: Vec<Message>,
) -> Result<AgentResponse, ExecuteError> {
    let session = engine.identity.admin_session().await.map_err(StartError::from)?;
    let compiled = engine.agents.compile(&session, agent, ExecutionModel::Hybrid).await?;
    let request = AgentRequest { message: input.to_owned(), history: context, ..AgentRequest::default() };
    let started = engine.agents.start(&session, AgentSource::Compiled(&compiled), request).await?;
    let settled = engine.runs.outcome(&started).await.ok_or(ExecuteError::Lost)?;
    let response = view::agent_response(&settled.run, &settled.run.outputs());
    match response.status {
        RunStatus::Completed | RunStatus::MaxIterations | RunStatus::BudgetExceeded => Ok(response),
        status => {
            let message = settled.run.ending().and_then(|ending| ending.message.clone());
            Err(ExecuteError::Ended { status, message: message.unwrap_or_else(|| "it waits for someone".to_owned()) })
        }
    }
}

/// What an agent answered, as gram says it. A call that is not finished is one without a result.
pub fn gram_response(response: &AgentResponse) -> toolwright_gram::AgentResponse {
    let calls = response.tool_calls.iter().map(|call| &call.invocation);
    let tools_used = calls.map(|call| toolwright_gram::ToolInvocation {
        tool_name: call.tool_ref.clone(),
        args: call.input.clone(),
        result: match (call.status, &call.error_message) {
            (Some(InvocationStatus::Success), _) => Ok(call.output.clone()),
            (_, Some(message)) => Err(message.clone()),
            (_, None) => Err("the call is not finished".to_owned()),
        },
    });
    toolwright_gram::AgentResponse { content: response.response_text.clone(), tools_used: tools_used.collect() }
}
