//! `… delete`: one after the other, whatever becomes of the others.

use serde_json::json;

use super::Context;
use super::client::{parse_name, path};
use super::exit::Exit;
use super::failure::Failure;

/// Which of them.
#[derive(clap::Args)]
pub struct DeleteArgs {
    /// Their refNames or ids
    #[arg(value_name = "REF", required = true, value_parser = parse_name)]
    references: Vec<String>,
}

/// Deletes from a collection.
pub async fn run(cx: &Context, collection: &str, args: DeleteArgs) -> Result<Exit, Failure> {
    let mut exit = Exit::Ok;
    let mut results = Vec::new();
    for reference in &args.references {
        match cx.client.delete(&path(collection, reference), &[]).await {
            Ok(_) => {
                results.push(json!({ "ref": reference, "outcome": "deleted" }));
                if !cx.output.json {
                    cx.output.line(format!("{} deleted    {reference}", cx.output.out.good('✓')))?;
                }
            }
            Err(Failure::Refused(problem)) => {
                results.push(json!({ "ref": reference, "outcome": "failed", "problem": problem.document() }));
                exit = exit.or(Failure::Refused(problem).tell(&cx.output));
            }
            Err(other) => return Err(other),
        }
    }
    if cx.output.json {
        cx.output.line(json!({ "items": results }))?;
    }
    Ok(exit)
}
