//! The client: commands that talk to a server through its public API, and nothing else.
//!
//! A command returns the way it ended or a [`failure::Failure`]; only [`run`] turns either into an exit code. Starting a server
//! is not here.

mod agents;
mod apply;
mod approvals;
mod client;
mod conversations;
mod definitions;
mod doctor;
mod drift;
mod exit;
mod export;
mod facts;
mod failure;
mod fragments;
mod gram;
mod imported;
mod input;
mod keyboard;
mod keys;
mod live;
mod mcp;
mod output;
mod pages;
mod records;
mod remove;
mod runs;
mod schema;
mod secrets;
mod table;
mod time;
mod tools;
mod trials;
mod types;

use std::process::ExitCode;

use secrecy::SecretString;

use client::Client;
use exit::Exit;
use output::Output;

/// What a client can do.
#[derive(clap::Subcommand)]
pub enum Command {
    /// Define, inspect and call tools
    #[command(subcommand)]
    Tools(tools::ToolsCommand),
    /// Define agents, run them and talk to them
    #[command(subcommand)]
    Agents(agents::AgentsCommand),
    /// Define parts of instructions that agents share
    #[command(subcommand, alias = "fragments")]
    PromptFragments(fragments::FragmentsCommand),
    /// Check, format, query and change gram files; no server needed
    #[command(subcommand)]
    Gram(gram::GramCommand),
    /// Define types of records
    #[command(subcommand)]
    Types(types::TypesCommand),
    /// Find, count, write, import and export records
    #[command(subcommand)]
    Records(records::RecordsCommand),
    /// Show, watch and steer runs
    #[command(subcommand)]
    Runs(runs::RunsCommand),
    /// Compare implementations of an agent's tools
    #[command(subcommand)]
    Trials(trials::TrialsCommand),
    /// List the calls that wait for a decision
    #[command(subcommand)]
    Approvals(approvals::ApprovalsCommand),
    /// List, show, rename and delete conversations
    #[command(subcommand)]
    Conversations(conversations::ConversationsCommand),
    /// List where systems differ from what their tools say
    #[command(subcommand)]
    Drift(drift::DriftCommand),
    /// Set, list and remove secrets; a value is never shown
    #[command(subcommand)]
    Secrets(secrets::SecretsCommand),
    /// Make, list and revoke API keys
    #[command(subcommand)]
    Keys(keys::KeysCommand),
    /// Be an MCP server on standard input and output, or look at one
    Mcp(mcp::McpArgs),
    /// Check the connection to the server, step by step
    Doctor(doctor::DoctorArgs),
    /// Print completions for a shell
    Completions(CompletionsArgs),
}

/// Where the server is, who is asking, and for whom the answer is written.
#[derive(clap::Args)]
#[command(after_long_help = exit::HELP, next_help_heading = "Connection")]
pub struct Connection {
    /// The server
    #[arg(long, global = true, env = "TOOLWRIGHT_URL", default_value = "http://127.0.0.1:7411")]
    url: String,
    /// The API key
    #[arg(long, global = true, env = "TOOLWRIGHT_API_KEY", hide_env_values = true, value_name = "KEY")]
    api_key: Option<SecretString>,
    /// The realm to act in; your own when absent
    #[arg(long, global = true, env = "TOOLWRIGHT_REALM", value_name = "NAME")]
    realm: Option<String>,
    /// Print the API's JSON, one document, instead of text for people
    #[arg(long, global = true)]
    json: bool,
}

/// Options of `completions`.
#[derive(clap::Args)]
pub struct CompletionsArgs {
    /// The shell
    shell: clap_complete::Shell,
}

/// What every command needs.
struct Context {
    client: Client,
    output: Output,
}

/// Runs a command and says how it ended.
pub async fn run(connection: Connection, command: Command) -> ExitCode {
    let output = Output::detect(connection.json);
    let client = match Client::new(&connection) {
        Ok(client) => client,
        Err(failure) => return failure.report(&output).into(),
    };
    let cx = Context { client, output };
    let ended = match command {
        Command::Tools(command) => tools::run(&cx, command).await,
        Command::Agents(command) => agents::run(&cx, command).await,
        Command::PromptFragments(command) => fragments::run(&cx, command).await,
        Command::Gram(command) => gram::run(&cx, command).await,
        Command::Types(command) => types::run(&cx, command).await,
        Command::Records(command) => records::run(&cx, command).await,
        Command::Runs(command) => runs::run(&cx, command).await,
        Command::Trials(command) => trials::run(&cx, command).await,
        Command::Approvals(command) => approvals::run(&cx, command).await,
        Command::Conversations(command) => conversations::run(&cx, command).await,
        Command::Drift(command) => drift::run(&cx, command).await,
        Command::Secrets(command) => secrets::run(&cx, command).await,
        Command::Keys(command) => keys::run(&cx, command).await,
        // Boxed: a connection to any server has much to remember.
        Command::Mcp(args) => Box::pin(mcp::run(&cx, &connection, args)).await,
        Command::Doctor(_) => doctor::run(&cx).await,
        // Printed by `main`, which alone knows the whole command line.
        Command::Completions(_) => Ok(Exit::Ok),
    };
    match ended {
        Ok(exit) => exit.into(),
        Err(failure) => failure.report(&cx.output).into(),
    }
}

/// Prints the completions of the whole command line.
pub fn print_completions(args: &CompletionsArgs, mut command: clap::Command) {
    let mut script = Vec::new();
    let name = command.get_name().to_owned();
    clap_complete::generate(args.shell, &mut command, name, &mut script);
    output::raw(&script);
}
