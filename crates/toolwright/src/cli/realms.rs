//! Implements `toolwright realms`.

use serde_json::json;
use toolwright_api::wire::RealmView;

use super::Context;
use super::client::{REALMS, parse_name};
use super::exit::Exit;
use super::failure::Failure;
use super::pages::{List, PageArgs};
use super::table::Table;

/// Subcommands of `realms`.
#[derive(clap::Subcommand)]
pub(crate) enum RealmsCommand {
    /// List the realms of the organization
    List,
    /// Create a realm
    Create(CreateArgs),
}

/// Arguments of `realms create`.
#[derive(clap::Args)]
pub(crate) struct CreateArgs {
    /// Name of the realm
    #[arg(value_parser = parse_name)]
    name: String,
}

/// Runs a `realms` subcommand.
pub(super) async fn run(cx: &Context, command: RealmsCommand) -> Result<Exit, Failure> {
    match command {
        RealmsCommand::List => {
            let list = List { collection: REALMS, query: Vec::new(), empty_message: "no realms found" };
            list.show(cx, &PageArgs::default(), table).await?;
        }
        RealmsCommand::Create(args) => {
            let response = cx.client.post(REALMS, &json!({ "name": args.name })).await?;
            if cx.output.json {
                cx.output.document(response.text.trim_end())?;
            } else {
                cx.output.line(format!("{} created    realm {}", cx.output.out.good('✓'), args.name))?;
            }
        }
    }
    Ok(Exit::Ok)
}

fn table(realms: &[RealmView]) -> Table {
    let mut table = Table::new(["NAME", "ID"]);
    for realm in realms {
        table.row([&realm.name, &realm.id]);
    }
    table
}
