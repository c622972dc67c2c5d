//! Implements the `delete` subcommands. They delete resources one after the other and continue after failures.

use serde_json::json;
use toolwright_api::wire::DeletionView;

use super::Context;
use super::client::{parse_name, path};
use super::exit::Exit;
use super::failure::Failure;
use super::suggest;

/// Arguments of the `delete` subcommands.
#[derive(clap::Args)]
pub(crate) struct DeleteArgs {
    /// refName or ID; may be repeated
    #[arg(value_name = "REF", required = true, value_parser = parse_name)]
    references: Vec<String>,
}

/// Deletes resources of a collection.
pub(super) async fn run(cx: &Context, collection: &str, args: DeleteArgs) -> Result<Exit, Failure> {
    let mut exit = Exit::Ok;
    let mut results = Vec::new();
    for reference in &args.references {
        match cx.client.delete(&path(collection, reference), &[]).await {
            Ok(response) => {
                let warnings = match response.status {
                    200 => response.read::<DeletionView>()?.warnings,
                    _ => Vec::new(),
                };
                if !cx.output.json {
                    cx.output.line(format!("{} deleted    {reference}", cx.output.out.good('✓')))?;
                    for warning in &warnings {
                        cx.output.note(cx.output.err.warn(format!("  warning: {warning}")));
                    }
                }
                results.push(match warnings.is_empty() {
                    true => json!({ "ref": reference, "outcome": "deleted" }),
                    false => json!({ "ref": reference, "outcome": "deleted", "warnings": warnings }),
                });
            }
            Err(Failure::Refused(refusal)) => {
                results.push(json!({ "ref": reference, "outcome": "failed", "problem": refusal.document() }));
                let failure = suggest::explain(&cx.client, Failure::Refused(refusal)).await;
                exit = exit.or(failure.print(&cx.output));
            }
            Err(other) => return Err(other),
        }
    }
    if cx.output.json {
        cx.output.document(json!({ "items": results }))?;
    }
    Ok(exit)
}
