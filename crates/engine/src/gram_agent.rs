//! Runs one agent from a gram text in a temporary engine, without a server. The entry point is
//! [`execute_agent_with_library`].

use toolwright_machine::view::{self, AgentResponse, InvocationStatus};
use toolwright_store::SealKey;
use toolwright_tools::Library;
use toolwright_types::{Message, RunStatus};

use crate::{Engine, OpenError, Options};
use toolwright_agents::{AgentPattern, AgentRequest, AgentSource, ExecutionModel, PatternError, StartError};

/// Why [`execute_agent_with_library`] returned no response.
#[derive(Debug, thiserror::Error)]
pub enum ExecuteError {
    /// The text does not contain exactly one valid agent.
    #[error(transparent)]
    Pattern(#[from] PatternError),
    /// The run could not start.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The run failed, was cancelled, or waits for an approval or a client.
    #[error("run ended with status {status}: {message}")]
    Ended {
        /// The status of the run.
        status: RunStatus,
        /// The reason, or what the run waits for.
        message: String,
    },
    /// The temporary folder could not be created.
    #[error("create a temporary folder for the run")]
    Folder(#[from] std::io::Error),
    /// The seal key could not be created.
    #[error("create a seal key in the temporary folder")]
    Seal(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The engine could not be opened.
    #[error("open an engine in the temporary folder")]
    Open(#[from] OpenError),
    /// The journal of the run could not be written.
    #[error("the run was lost; the log has the cause")]
    Lost,
}

/// Runs the agent that a gram text defines, with the user's message `input`. The agent's tools call the functions of
/// `library` with the same names. `context` is the previous conversation, latest message last.
///
/// The agent is compiled. If that fails, it is interpreted. All data is stored in a temporary folder, which is removed
/// before this function returns.
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
    let response = Box::pin(run(&engine, &agent, input, context)).await;
    engine.close().await;
    response
}

async fn run(
    engine: &Engine,
    agent: &AgentPattern,
    input: &str,
    context: Vec<Message>,
) -> Result<AgentResponse, ExecuteError> {
    let session = engine.identity.admin_session().await.map_err(StartError::from)?;
    let compiled = engine.agents.compile(&session, agent, ExecutionModel::Hybrid).await?;
    let request = AgentRequest { message: input.to_owned(), history: context, ..AgentRequest::default() };
    let started = engine.agents.start(&session, AgentSource::Compiled(&compiled), request).await?;
    let settled = engine.runs.settled(&started.handle).await.ok_or(ExecuteError::Lost)?;
    let response = view::agent_response(&settled.run, &settled.run.outputs());
    match response.status {
        RunStatus::Completed | RunStatus::MaxIterations | RunStatus::BudgetExceeded => Ok(response),
        status => {
            let message = settled.run.ending().and_then(|ending| ending.message.clone());
            Err(ExecuteError::Ended {
                status,
                message: message.unwrap_or_else(|| "the run waits for an approval or a client".to_owned()),
            })
        }
    }
}

/// Converts the response of an agent to the response type of the gram crate. The result of an unfinished call becomes
/// an error.
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
