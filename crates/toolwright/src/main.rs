//! The one binary: the server and the client that talks to it.

mod cli;
mod config;
mod demo;
mod listen;
mod restate;
mod sandbox;
mod serve;
mod telemetry;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

/// A run of an agent makes and drops thousands of small values; this allocator does that in half the time.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A self-hosted runtime for agent tools.
#[derive(Parser)]
#[command(name = "toolwright", version, propagate_version = true)]
struct Cli {
    #[command(flatten)]
    connection: cli::Connection,
    #[command(subcommand)]
    command: Top,
}

#[derive(Subcommand)]
enum Top {
    /// Start the server.
    Serve(serve::ServeArgs),
    #[command(flatten)]
    Client(cli::Command),
}

fn main() -> ExitCode {
    // Before anything else: a worker gives up what it has while it is alone in its process.
    if let Some(assignment) = sandbox::assignment(std::env::args()) {
        return toolwright_sandbox::worker_main(&assignment, toolwright_sandbox::interpreter);
    }
    let parsed = Cli::parse();
    if let Top::Client(cli::Command::Completions(args)) = &parsed.command {
        cli::print_completions(args, Cli::command());
        return ExitCode::SUCCESS;
    }
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return serve::report(&anyhow::Error::new(error)),
    };
    runtime.block_on(async {
        match parsed.command {
            Top::Serve(args) => match serve::run(args).await {
                Ok(()) => ExitCode::SUCCESS,
                Err(error) => serve::report(&error),
            },
            Top::Client(command) => cli::run(parsed.connection, command).await,
        }
    })
}
