//! Implements the `uses` subcommands, which list the definitions that use a tool or a provider.

use serde_json::{Map, Value};
use toolwright_api::wire::UseView;

use super::Context;
use super::client::{parse_name, path};
use super::exit::Exit;
use super::failure::Failure;
use super::table::Table;

/// Arguments of the `uses` subcommands.
#[derive(clap::Args)]
pub(crate) struct UsesArgs {
    /// refName or ID
    #[arg(value_name = "REF", value_parser = parse_name)]
    reference: String,
}

/// Lists the definitions that use a tool or a provider. A newer server may list further kinds of definitions.
pub(super) async fn run(cx: &Context, collection: &str, args: UsesArgs) -> Result<Exit, Failure> {
    let response = cx.client.get(&format!("{}/uses", path(collection, &args.reference)), &[]).await?;
    if cx.output.json {
        cx.output.document(response.text.trim_end())?;
        return Ok(Exit::Ok);
    }
    let uses: Map<String, Value> = response.read()?;
    let mut table = Table::new(["NAME", "KIND", "USED BY"]);
    let mut is_empty = true;
    for (kind, users) in &uses {
        let users: Vec<UseView> = serde_json::from_value(users.clone()).unwrap_or_default();
        is_empty &= users.is_empty();
        for user in users {
            table.row([&user.ref_name, kind.trim_end_matches('s'), &user.by.join(", ")]);
        }
    }
    if is_empty {
        cx.output.note("no definition uses it");
        return Ok(Exit::Ok);
    }
    cx.output.lines(table.lines(cx.output.out, cx.output.width))?;
    if uses.get("truncated") == Some(&Value::Bool(true)) {
        cx.output.note(cx.output.err.dim("there are more; only the first 200 of each kind are listed"));
    }
    Ok(Exit::Ok)
}
