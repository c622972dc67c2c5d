//! Shell completions that know the names of definitions and runs.
//!
//! The script of a shell runs this program with the variable `COMPLETE`, and the program prints the candidates. Names
//! come from the server of `TOOLWRIGHT_URL`. If the server does not answer in time, no names are offered and no error
//! is printed.

use std::ffi::OsStr;
use std::time::Duration;

use clap_complete::engine::{ArgValueCompleter, CompletionCandidate};
use clap_complete::env::Shells;
use serde_json::Value;
use toolwright_api::wire::PageView;

use super::Connection;
use super::client::{
    AGENTIC_TOOLS, AGENTS, ApiClient, CONDITION_BINDINGS, FRAGMENTS, PROVIDERS, RUNS, STEP_REGISTRATIONS, TOOLS, TYPES,
    WORKFLOW_INSTANCES, WORKFLOWS,
};
use super::failure::Failure;
use super::fields::text;
use super::output::write_raw;
use super::suggest;

/// How long a completion waits for the server.
const TIMEOUT: Duration = Duration::from_secs(1);
/// The environment variable that requests candidates. Its value is the name of the shell.
const VARIABLE: &str = "COMPLETE";
/// The commands that take names as arguments, each with the REST collection that contains these names.
const NAMED: [(&str, &str); 12] = [
    ("tools", TOOLS),
    ("agentic-tools", AGENTIC_TOOLS),
    ("agents", AGENTS),
    ("providers", PROVIDERS),
    ("prompt-fragments", FRAGMENTS),
    ("types", TYPES),
    ("workflows", WORKFLOWS),
    ("workflow-instances", WORKFLOW_INSTANCES),
    ("step-registrations", STEP_REGISTRATIONS),
    ("condition-bindings", CONDITION_BINDINGS),
    ("runs", RUNS),
    ("approvals", RUNS),
];
/// The ids of the arguments whose values are names in the collection that [`NAMED`] gives for the command.
const NAME_ARGUMENTS: [&str; 4] = ["reference", "references", "run", "other"];
/// The ids of the arguments whose values are names in another collection, with that collection.
const OTHER_NAMES: [(&str, &str); 2] = [("execution", EXECUTIONS), ("allocated", TOOLS)];
/// The path of the executions of all agentic tools.
const EXECUTIONS: &str = "/api/v1/ai/runs?kind=agentic-tool";

/// Arguments of `completions`.
#[derive(clap::Args)]
pub(crate) struct CompletionsArgs {
    /// Shell to generate completions for
    shell: clap_complete::Shell,
}

/// Completes a command line and exits the process, if the shell asks for a completion. Otherwise returns.
pub(crate) fn complete(command: fn() -> clap::Command) {
    clap_complete::CompleteEnv::with_factory(move || with_names(command())).var(VARIABLE).complete();
}

/// Prints the script that connects a shell with the completions of this program.
pub(crate) fn print_script(args: &CompletionsArgs) -> std::io::Result<()> {
    let mut script = Vec::new();
    let name = args.shell.to_string();
    if let Some(shell) = Shells::builtins().completer(&name) {
        shell.write_registration(VARIABLE, "toolwright", "toolwright", "toolwright", &mut script)?;
    }
    write_raw(&script);
    Ok(())
}

/// Adds the completion of names to the arguments whose values are names.
fn with_names(command: clap::Command) -> clap::Command {
    NAMED.into_iter().fold(command, |command, (noun, collection)| {
        command.mut_subcommand(noun, |noun| noun.mut_subcommands(|verb| with_names_of(verb, collection)))
    })
}

fn with_names_of(verb: clap::Command, collection: &'static str) -> clap::Command {
    let verb = verb.mut_subcommands(|verb| with_names_of(verb, collection));
    verb.mut_args(|argument| {
        let id = argument.get_id().as_str();
        let other = OTHER_NAMES.into_iter().find(|(other, _)| *other == id).map(|(_, collection)| collection);
        match other.or(NAME_ARGUMENTS.contains(&id).then_some(collection)) {
            Some(names) => argument.add(ArgValueCompleter::new(move |typed: &OsStr| candidates(typed, names))),
            None => argument,
        }
    })
}

/// Returns the names that begin with the typed text; none if the server does not answer.
fn candidates(typed: &OsStr, collection: &str) -> Vec<CompletionCandidate> {
    let typed = typed.to_string_lossy();
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return Vec::new() };
    let names = runtime.block_on(async { tokio::time::timeout(TIMEOUT, names(collection)).await });
    let names = names.ok().and_then(Result::ok).unwrap_or_default();
    names.into_iter().filter(|name| name.starts_with(&*typed)).map(CompletionCandidate::new).collect()
}

async fn names(collection: &str) -> Result<Vec<String>, Failure> {
    let client = ApiClient::new(&Connection::from_environment())?;
    if ![RUNS, EXECUTIONS, WORKFLOW_INSTANCES].contains(&collection) {
        return Ok(suggest::names(&client, collection).await);
    }
    let page: PageView<Value> = client.get(collection, &[("limit", "100".to_owned())]).await?.read()?;
    Ok(page.items.iter().map(|run| text(run, "id")).collect())
}
