//! `tools delete`: one after the other, whatever becomes of the others.

use serde_json::json;

use crate::cli::Context;
use crate::cli::client::{TOOLS, parse_name, path};
use crate::cli::exit::Exit;
use crate::cli::failure::Failure;

/// Which tools.
#[derive(clap::Args)]
pub struct DeleteArgs {
    /// Their refNames or ids
    #[arg(value_name = "REF", required = true, value_parser = parse_name)]
    references: Vec<String>,
}

/// Deletes tools.
pub async fn run(cx: &Context, args: DeleteArgs) -> Result<Exit, Failure> {
    let mut exit = Exit::Ok;
    let mut results = Vec::new();
    for reference in &args.references {
        match cx.client.delete(&path(TOOLS, reference), &[]).await {
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
