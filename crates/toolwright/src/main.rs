//! The `toolwright` binary: the server (`toolwright serve`) and the command-line client of its REST API.

mod backup;
mod cli;
mod config;
mod demo;
mod environment;
mod listen;
mod memory;
mod restate;
mod sandbox;
mod serve;
mod telemetry;

use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser, Subcommand};

/// An agent run allocates and frees thousands of small values. For these, mimalloc takes half the time of the system
/// allocator. It does not use huge pages, because they double the memory of an idle server.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A self-hosted runtime for agent tools.
#[derive(Parser)]
#[command(name = "toolwright", version, propagate_version = true)]
struct Cli {
    #[command(flatten)]
    connection: cli::Connection,
    #[command(subcommand)]
    command: Option<TopCommand>,
}

#[derive(Subcommand)]
enum TopCommand {
    /// Start the server.
    Serve(serve::ServeArgs),
    /// Copy the data of a server that uses SQLite.
    Backup(backup::BackupArgs),
    /// Create a data folder from a backup.
    Restore(backup::RestoreArgs),
    #[command(flatten)]
    Client(cli::Command),
}

fn exit_code(result: anyhow::Result<()>) -> ExitCode {
    result.map_or_else(|error| serve::report(&error), |()| ExitCode::SUCCESS)
}

/// The complete command line.
fn command() -> clap::Command {
    Cli::command()
}

/// Prints an error of the command line, or the requested help, and exits. The usage in the message of a missing argument
/// contains all given options. `clap` regards an option that an environment variable sets as given, so the arguments are
/// parsed again without these variables.
fn exit_with(error: &clap::Error) -> ! {
    if error.kind() == ErrorKind::MissingRequiredArgument {
        let without_variables = command().mut_args(|arg| arg.env(None::<&str>));
        if let Err(plain) = without_variables.try_get_matches()
            && plain.kind() == error.kind()
        {
            plain.exit();
        }
    }
    error.exit()
}

fn main() -> ExitCode {
    // This must come first, because a sandbox worker can drop its privileges only while the process has a single
    // thread.
    if let Some(config) = sandbox::worker_config(std::env::args()) {
        return toolwright_sandbox::worker_main(&config, toolwright_sandbox::interpreter_for);
    }
    cli::complete(self::command);
    let Cli { connection, command } = Cli::try_parse().unwrap_or_else(|error| exit_with(&error));
    let Some(command) = command else {
        cli::print_overview(&self::command());
        return ExitCode::SUCCESS;
    };
    // Only the server starts third-party programs, so only the server hides its environment. It does so before the
    // runtime starts threads, because the process executes itself again.
    let environment = match &command {
        TopCommand::Serve(_) => Some(environment::Environment::hide()),
        TopCommand::Backup(_) | TopCommand::Restore(_) | TopCommand::Client(_) => None,
    };
    let environment = match environment.transpose() {
        Ok(environment) => environment,
        Err(error) => return serve::report(&error),
    };
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return serve::report(&anyhow::Error::new(error)),
    };
    runtime.block_on(async {
        match command {
            TopCommand::Serve(args) => exit_code(serve::run(args, environment.unwrap_or_default()).await),
            TopCommand::Backup(args) => exit_code(backup::back_up(args).await),
            TopCommand::Restore(args) => exit_code(backup::restore(args).await),
            TopCommand::Client(command) => cli::run(connection, command).await,
        }
    })
}
