//! Implements `toolwright principals`.

use toolwright_api::wire::PrincipalView;

use super::Context;
use super::client::PRINCIPALS;
use super::exit::Exit;
use super::failure::Failure;
use super::pages::{List, PageArgs};
use super::table::Table;
use super::time::format_minute;

/// Subcommands of `principals`.
#[derive(clap::Subcommand)]
pub(crate) enum PrincipalsCommand {
    /// List the principals of the organization
    List(ListArgs),
}

/// Arguments of `principals list`.
#[derive(clap::Args)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    page: PageArgs,
    /// Filter by home realm
    #[arg(long, value_name = "REALM")]
    home: Option<String>,
    /// Filter by role
    #[arg(long, value_parser = ["admin", "member"])]
    role: Option<String>,
}

/// Runs a `principals` subcommand.
pub(super) async fn run(cx: &Context, command: PrincipalsCommand) -> Result<Exit, Failure> {
    let PrincipalsCommand::List(args) = command;
    let query = [("realm", args.home), ("role", args.role)];
    let query = query.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
    let list = List { collection: PRINCIPALS, query, empty_message: "no principals found" };
    list.show(cx, &args.page, table).await?;
    Ok(Exit::Ok)
}

fn table(principals: &[PrincipalView]) -> Table {
    let mut table = Table::new(["NAME", "ROLES", "HOME", "KEYS", "LAST KEY"]);
    for principal in principals {
        let roles: Vec<&str> = principal.roles.iter().map(|role| role.as_str()).collect();
        let last_key = principal.last_key_at.map_or_else(|| "-".to_owned(), format_minute);
        table.row([&principal.name, &roles.join(", "), &principal.home_realm, &principal.keys.to_string(), &last_key]);
    }
    table
}
