//! Implements `toolwright agentic-tools`: tools with an embedded model. One module per group of subcommands.

mod create;
mod draft;
mod executions;
mod export;
mod input;
mod invoke;
mod list;
mod outcome;
mod prompts;
mod show;
mod trace;
mod update;
mod wizard;

use super::client::{AGENTIC_TOOLS, parse_name, path};
use super::exit::Exit;
use super::failure::Failure;
use super::{Context, delete};

/// Subcommands of `agentic-tools`.
#[derive(clap::Subcommand)]
pub(crate) enum AgenticToolsCommand {
    /// List agentic tools
    List(list::ListArgs),
    /// Show an agentic tool, its tools and its system prompt
    #[command(visible_alias = "show")]
    Get(ReferenceArgs),
    /// Create agentic tools from files or from options; without them, a terminal asks for each field
    Create(create::CreateArgs),
    /// Change fields of an agentic tool
    Update(update::UpdateArgs),
    /// Activate a draft or a disabled agentic tool
    Enable(ReferenceArgs),
    /// Disable an agentic tool, so that calls to it are refused
    Disable(ReferenceArgs),
    /// Delete agentic tools and all their versions
    Delete(delete::DeleteArgs),
    /// Call an agentic tool and print its result and its cost
    #[command(visible_alias = "run")]
    Invoke(invoke::InvokeArgs),
    /// Show the first request to the model for a sample task, without a call to any tool
    Test(prompts::TestArgs),
    /// List the executions of an agentic tool, newest first
    History(executions::HistoryArgs),
    /// Show an execution: the request, the plan, all calls, the result and the cost
    #[command(visible_alias = "execution")]
    Logs(executions::LogsArgs),
    /// Execute the plan of an execution again, without a call to the model
    Rerun(invoke::RerunArgs),
    /// List, restore and regenerate the system prompt
    #[command(subcommand)]
    Prompt(prompts::PromptCommand),
    /// Print an agentic tool in the format of another system
    Export(export::ExportArgs),
}

/// Arguments of the subcommands for one agentic tool.
#[derive(clap::Args)]
pub(crate) struct ReferenceArgs {
    /// refName or ID of the agentic tool
    #[arg(value_name = "REF", value_parser = parse_name)]
    reference: String,
}

/// Runs an `agentic-tools` subcommand.
pub(super) async fn run(cx: &Context, command: AgenticToolsCommand) -> Result<Exit, Failure> {
    match command {
        AgenticToolsCommand::List(args) => list::run(cx, args).await,
        AgenticToolsCommand::Get(args) => show::run(cx, &args).await,
        AgenticToolsCommand::Create(args) => create::run(cx, args).await,
        AgenticToolsCommand::Update(args) => update::run(cx, &args).await,
        AgenticToolsCommand::Enable(args) => update::set_status(cx, &args.reference, "active").await,
        AgenticToolsCommand::Disable(args) => update::set_status(cx, &args.reference, "disabled").await,
        AgenticToolsCommand::Delete(args) => delete::run(cx, AGENTIC_TOOLS, args).await,
        AgenticToolsCommand::Invoke(args) => invoke::run(cx, args).await,
        AgenticToolsCommand::Test(args) => prompts::test(cx, args).await,
        AgenticToolsCommand::History(args) => executions::list(cx, args).await,
        AgenticToolsCommand::Logs(args) => executions::show(cx, &args).await,
        AgenticToolsCommand::Rerun(args) => invoke::rerun(cx, &args).await,
        AgenticToolsCommand::Prompt(command) => prompts::run(cx, command).await,
        AgenticToolsCommand::Export(args) => export::run(cx, &args).await,
    }
}

/// Returns the path of an execution.
fn execution_path(tool: &str, execution: &str) -> String {
    path(&format!("{}/executions", path(AGENTIC_TOOLS, tool)), execution)
}
