//! Implements the `ready` subcommands, which check whether a tool or a provider works for the caller.

use toolwright_api::wire::{CheckView, ReadinessView};

use super::Context;
use super::client::{parse_name, path};
use super::exit::Exit;
use super::failure::Failure;
use super::output::{Output, sanitize_line};

/// Arguments of the `ready` subcommands.
#[derive(clap::Args)]
pub(crate) struct ReadyArgs {
    /// refName or ID
    #[arg(value_name = "REF", value_parser = parse_name)]
    reference: String,
    /// Test the connection of the provider now, instead of using the last test
    #[arg(long)]
    probe: bool,
}

/// Prints the checks of a definition. The exit code is 1 if a check failed.
pub(super) async fn run(cx: &Context, collection: &str, args: ReadyArgs) -> Result<Exit, Failure> {
    let query: Vec<_> = args.probe.then(|| ("probe", "true".to_owned())).into_iter().collect();
    let response = cx.client.get(&format!("{}/readiness", path(collection, &args.reference)), &query).await?;
    let readiness: ReadinessView = response.read()?;
    if cx.output.json {
        cx.output.document(response.text.trim_end())?;
    } else {
        let width = readiness.checks.iter().map(|check| check.check.len()).max().unwrap_or_default();
        cx.output.lines(readiness.checks.iter().map(|check| line(&cx.output, check, width)))?;
    }
    Ok(if readiness.ready { Exit::Ok } else { Exit::Failed })
}

fn line(output: &Output, check: &CheckView, width: usize) -> String {
    let mark = match check.status.as_str() {
        "ok" => output.out.good('✓'),
        "warning" => output.out.warn('!'),
        _ => output.out.bad('✗'),
    };
    let remedy = check.remedy.as_ref().map(|remedy| format!(" → {}", sanitize_line(remedy))).unwrap_or_default();
    format!("{mark} {:<width$}  {}{remedy}", sanitize_line(&check.check), sanitize_line(&check.message))
}
