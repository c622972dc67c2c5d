//! Implements `workflows list`.

use serde_json::Value;

use crate::cli::Context;
use crate::cli::client::WORKFLOWS;
use crate::cli::exit::Exit;
use crate::cli::failure::Failure;
use crate::cli::fields::text;
use crate::cli::pages::{List, PageArgs};
use crate::cli::table::Table;

/// Arguments of `workflows list`.
#[derive(clap::Args)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    page: PageArgs,
}

/// Lists workflows.
pub(super) async fn run(cx: &Context, args: ListArgs) -> Result<Exit, Failure> {
    let list = List { collection: WORKFLOWS, query: Vec::new(), empty_message: "no workflows found" };
    list.show(cx, &args.page, table).await?;
    Ok(Exit::Ok)
}

fn table(items: &[Value]) -> Table {
    let mut table = Table::new(["NAME", "VERSION", "STEPS", "STATUS", "DESCRIPTION"]);
    for view in items {
        let steps = view.get("steps").and_then(Value::as_array).map(Vec::len).unwrap_or_default();
        table.row([
            &text(view, "refName"),
            &text(view, "version"),
            &steps.to_string(),
            &status(view),
            &text(view, "description"),
        ]);
    }
    table
}

/// The life cycle status, or `disabled`.
pub(super) fn status(view: &Value) -> String {
    match view.get("enabled") {
        Some(Value::Bool(false)) => "disabled".to_owned(),
        _ => text(view, "status"),
    }
}
