//! Implements `toolwright models`.

use toolwright_api::wire::ModelView;

use super::Context;
use super::client::MODELS;
use super::exit::Exit;
use super::failure::Failure;
use super::pages::{List, PageArgs};
use super::table::Table;

/// Subcommands of `models`.
#[derive(clap::Subcommand)]
pub(crate) enum ModelsCommand {
    /// List the models that the server knows, with prices in US dollars per 1,000 tokens
    List(ListArgs),
}

/// Arguments of `models list`.
#[derive(clap::Args)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    page: PageArgs,
    /// Filter by provider
    #[arg(long)]
    provider: Option<String>,
}

/// Runs a `models` subcommand.
pub(super) async fn run(cx: &Context, command: ModelsCommand) -> Result<Exit, Failure> {
    let ModelsCommand::List(args) = command;
    let query = args.provider.into_iter().map(|provider| ("provider", provider)).collect();
    let list = List { collection: MODELS, query, empty_message: "no models found" };
    list.show(cx, &args.page, table).await?;
    Ok(Exit::Ok)
}

fn table(models: &[ModelView]) -> Table {
    let mut table = Table::new(["NAME", "PROVIDER", "INPUT", "OUTPUT", "CONTEXT", "KEY", "PRICE FROM"]);
    let unknown = || "unknown".to_owned();
    for model in models {
        let price = model.price.as_ref();
        let name = if model.is_default { format!("{} (default)", model.name) } else { model.name.clone() };
        let origin = price.map(|price| {
            let date = price.as_of.as_ref().map(|date| format!(", {date}")).unwrap_or_default();
            format!("{}{date}", price.source.as_deref().unwrap_or("this server"))
        });
        let key = match model.credential_configured {
            None => "-",
            Some(true) => "set",
            Some(false) => "missing",
        };
        table.row([
            &name,
            model.provider.as_deref().unwrap_or("unknown"),
            &price.map_or_else(unknown, |price| price.input.to_string()),
            &price.map_or_else(unknown, |price| price.output.to_string()),
            &model.context_tokens.map_or_else(unknown, |tokens| tokens.to_string()),
            key,
            &origin.unwrap_or_default(),
        ]);
    }
    table
}
