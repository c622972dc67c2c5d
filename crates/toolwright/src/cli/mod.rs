//! The command-line client. It uses only the public REST API of a server.
//!
//! A command returns an [`Exit`] or a [`failure::Failure`], and [`run`] converts both into the exit code of the
//! process. `toolwright serve` is not part of this module.

mod agentic_tools;
mod agents;
mod apply;
mod approvals;
mod blobs;
mod client;
mod completions;
mod condition_bindings;
mod conversations;
mod definitions;
mod delete;
mod diff;
mod doctor;
mod drift;
mod editor;
mod effects;
mod events;
mod exit;
mod export;
mod failure;
mod fields;
mod follow;
mod fragments;
mod gram;
mod import_summary;
mod input;
mod keys;
mod mcp;
mod models;
mod output;
mod overview;
mod pages;
mod principals;
mod prompt;
mod providers;
mod ready;
mod realms;
mod records;
mod revisions;
mod runs;
mod schema;
mod secrets;
mod server;
mod source_lines;
mod spinner;
mod step_registrations;
mod suggest;
mod table;
mod time;
mod tools;
mod trials;
mod triggers;
mod types;
mod uses;
mod version;
mod versions;
mod webhooks;
mod workflow_instances;
mod workflows;

use std::process::ExitCode;

use secrecy::SecretString;

use client::ApiClient;
pub(crate) use completions::complete;
use exit::Exit;
use failure::Failure;
pub(crate) use follow::pluralize;
use output::Output;

/// The client commands.
#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// Create or update definitions of every kind from files
    Apply(apply::ApplyArgs),
    /// Compare definition files with the server
    Diff(diff::DiffArgs),
    /// Define, inspect and call tools
    #[command(subcommand)]
    Tools(tools::ToolsCommand),
    /// Define, inspect and call tools with an embedded model
    #[command(subcommand)]
    AgenticTools(agentic_tools::AgenticToolsCommand),
    /// Define, inspect and test providers
    #[command(subcommand)]
    Providers(providers::ProvidersCommand),
    /// Define, inspect, run and chat with agents
    #[command(subcommand)]
    Agents(agents::AgentsCommand),
    /// Define prompt fragments that agents share
    #[command(subcommand, alias = "fragments")]
    PromptFragments(fragments::FragmentsCommand),
    /// Check, format, query and rewrite gram files
    #[command(subcommand)]
    Gram(gram::GramCommand),
    /// Define and inspect entity types
    #[command(subcommand)]
    Types(types::TypesCommand),
    /// Define, inspect, check and run workflows
    #[command(subcommand)]
    Workflows(workflows::WorkflowsCommand),
    /// Show, follow and control runs of workflows
    #[command(subcommand)]
    WorkflowInstances(workflow_instances::WorkflowInstancesCommand),
    /// Define tools under names that steps of workflows use
    #[command(subcommand)]
    StepRegistrations(step_registrations::StepRegistrationsCommand),
    /// Define conditions that steps of workflows share
    #[command(subcommand)]
    ConditionBindings(condition_bindings::ConditionBindingsCommand),
    /// Start runs at scheduled times and for signed webhooks
    #[command(subcommand)]
    Triggers(triggers::TriggersCommand),
    /// Report events to other systems with signed webhooks
    #[command(subcommand)]
    Webhooks(webhooks::WebhooksCommand),
    /// Find, count, save, delete, import and export records
    #[command(subcommand)]
    Records(records::RecordsCommand),
    /// Show, watch and control runs
    #[command(subcommand)]
    Runs(runs::RunsCommand),
    /// Compare implementations of an agent's tools in trials
    #[command(subcommand)]
    Trials(trials::TrialsCommand),
    /// List and show calls that wait for approval or are decided
    #[command(subcommand)]
    Approvals(approvals::ApprovalsCommand),
    /// List, show, resolve and undo writes to the outside world
    #[command(subcommand)]
    Effects(effects::EffectsCommand),
    /// Follow the changes of a realm as they happen
    Events(events::EventsArgs),
    /// List, show, rename and delete conversations
    #[command(subcommand)]
    Conversations(conversations::ConversationsCommand),
    /// List and accept outputs that do not match the schema
    #[command(subcommand)]
    Drift(drift::DriftCommand),
    /// Download large payloads of calls
    #[command(subcommand)]
    Blobs(blobs::BlobsCommand),
    /// Set, list and delete secrets; values are never shown
    #[command(subcommand)]
    Secrets(secrets::SecretsCommand),
    /// Create, list and revoke API keys
    #[command(subcommand)]
    Keys(keys::KeysCommand),
    /// List and create realms
    #[command(subcommand)]
    Realms(realms::RealmsCommand),
    /// List principals
    #[command(subcommand)]
    Principals(principals::PrincipalsCommand),
    /// List models and their prices
    #[command(subcommand)]
    Models(models::ModelsCommand),
    /// Show the version, features and health of the server
    Server(server::ServerArgs),
    /// Serve MCP over stdio, probe MCP servers and log in to them
    Mcp(mcp::McpArgs),
    /// Check the connection to the server
    Doctor(doctor::DoctorArgs),
    /// Show the versions of the client and the server
    Version(version::VersionArgs),
    /// Print a shell completion script
    Completions(completions::CompletionsArgs),
}

/// The URL of the server, if neither a flag nor an environment variable sets it.
pub(crate) const DEFAULT_URL: &str = "http://127.0.0.1:7411";

/// Options of every client command: the server, the credentials and the output format.
#[derive(clap::Args)]
#[command(after_long_help = exit::HELP, next_help_heading = "Connection")]
pub(crate) struct Connection {
    /// URL of the server
    #[arg(long, global = true, env = "TOOLWRIGHT_URL", default_value = DEFAULT_URL)]
    url: String,
    /// API key
    #[arg(long, global = true, env = "TOOLWRIGHT_API_KEY", hide_env_values = true, value_name = "KEY")]
    api_key: Option<SecretString>,
    /// Realm to act in [default: your home realm]
    #[arg(long, global = true, env = "TOOLWRIGHT_REALM", value_name = "NAME")]
    realm: Option<String>,
    /// Print the API's JSON response instead of formatted text
    #[arg(long, global = true)]
    json: bool,
    /// Print the API's response as YAML instead of formatted text
    #[arg(long, global = true, conflicts_with = "json")]
    yaml: bool,
}

impl Connection {
    /// Returns the options that the environment sets, for completions.
    fn from_environment() -> Self {
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        Self {
            url: variable("TOOLWRIGHT_URL").unwrap_or_else(|| DEFAULT_URL.to_owned()),
            api_key: variable("TOOLWRIGHT_API_KEY").map(SecretString::from),
            realm: variable("TOOLWRIGHT_REALM"),
            json: true,
            yaml: false,
        }
    }
}

/// The client and the output, shared by all commands.
struct Context {
    client: ApiClient,
    output: Output,
}

/// Runs a command, reports its failure and returns its exit code.
pub(crate) async fn run(connection: Connection, command: Command) -> ExitCode {
    let output = Output::detect(connection.json, connection.yaml);
    let client = match ApiClient::new(&connection) {
        Ok(client) => client,
        Err(failure) => return failure.report(&output).into(),
    };
    let cx = Context { client, output };
    let ended = match command {
        Command::Apply(args) => apply::run(&cx, args, None).await,
        Command::Diff(args) => diff::run(&cx, &args).await,
        Command::Tools(command) => tools::run(&cx, command).await,
        // The futures of these commands are boxed, because they are large.
        Command::AgenticTools(command) => Box::pin(agentic_tools::run(&cx, command)).await,
        Command::Providers(command) => providers::run(&cx, command).await,
        Command::Agents(command) => agents::run(&cx, command).await,
        Command::PromptFragments(command) => fragments::run(&cx, command).await,
        Command::Gram(command) => gram::run(&cx, command).await,
        Command::Types(command) => types::run(&cx, command).await,
        Command::Workflows(command) => workflows::run(&cx, command).await,
        Command::WorkflowInstances(command) => workflow_instances::run(&cx, command).await,
        Command::StepRegistrations(command) => step_registrations::run(&cx, command).await,
        Command::ConditionBindings(command) => condition_bindings::run(&cx, command).await,
        Command::Triggers(command) => triggers::run(&cx, command).await,
        Command::Webhooks(command) => webhooks::run(&cx, command).await,
        Command::Records(command) => records::run(&cx, command).await,
        Command::Runs(command) => runs::run(&cx, command).await,
        Command::Trials(command) => trials::run(&cx, command).await,
        Command::Approvals(command) => approvals::run(&cx, command).await,
        Command::Effects(command) => effects::run(&cx, command).await,
        Command::Events(args) => events::run(&cx, args).await,
        Command::Conversations(command) => conversations::run(&cx, command).await,
        Command::Drift(command) => drift::run(&cx, command).await,
        Command::Blobs(command) => blobs::run(&cx, command).await,
        Command::Secrets(command) => secrets::run(&cx, command).await,
        Command::Keys(command) => keys::run(&cx, command).await,
        Command::Realms(command) => realms::run(&cx, command).await,
        Command::Principals(command) => principals::run(&cx, command).await,
        Command::Models(command) => models::run(&cx, command).await,
        Command::Server(_) => server::run(&cx).await,
        Command::Mcp(args) => Box::pin(mcp::run(&cx, &connection, args)).await,
        Command::Doctor(_) => doctor::run(&cx).await,
        Command::Version(_) => version::run(&cx).await,
        Command::Completions(args) => completions::print_script(&args).map(|()| Exit::Ok).map_err(Failure::from),
    };
    match ended {
        Ok(exit) => exit.into(),
        Err(failure) => suggest::explain(&cx.client, failure).await.report(&cx.output).into(),
    }
}

/// Prints the overview of all commands.
pub(crate) fn print_overview(command: &clap::Command) {
    output::write_raw(format!("{}\n", overview::text(command)).as_bytes());
}
