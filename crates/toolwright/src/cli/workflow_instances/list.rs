//! Implements `workflow-instances list`.

use toolwright_api::wire::RunSummaryView;
use toolwright_types::RunStatus;

use crate::cli::Context;
use crate::cli::client::WORKFLOW_INSTANCES;
use crate::cli::exit::Exit;
use crate::cli::failure::Failure;
use crate::cli::follow::{format_duration, format_usd};
use crate::cli::pages::{List, PageArgs};
use crate::cli::runs::parse_status;
use crate::cli::table::Table;
use crate::cli::time::format_minute;

/// Arguments of `workflow-instances list`.
#[derive(clap::Args)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    page: PageArgs,
    /// Filter by workflow
    #[arg(long, value_name = "REF")]
    workflow: Option<String>,
    /// Filter by status, such as running, waiting or error; may be repeated
    #[arg(long, value_parser = parse_status)]
    status: Vec<RunStatus>,
}

/// Lists workflow runs.
pub(super) async fn run(cx: &Context, args: ListArgs) -> Result<Exit, Failure> {
    let status: Vec<&str> = args.status.iter().map(|status| status.as_str()).collect();
    let mut query = Vec::new();
    query.extend((!status.is_empty()).then(|| ("status", status.join(","))));
    query.extend(args.workflow.clone().map(|workflow| ("workflowRef", workflow)));
    let list = List { collection: WORKFLOW_INSTANCES, query, empty_message: "no workflow runs found" };
    list.show(cx, &args.page, table).await?;
    Ok(Exit::Ok)
}

fn table(runs: &[RunSummaryView]) -> Table {
    let mut table = Table::new(["RUN", "STATUS", "WORKFLOW", "STARTED", "DURATION", "COST"]);
    for run in runs {
        let origin = &run.origin;
        let took = origin.ended_at.map(|ended| format_duration(ended.millis_since(origin.started_at)));
        let cost = if run.cost_usd > 0.0 { format_usd(run.cost_usd) } else { String::new() };
        let started = format_minute(origin.started_at);
        table.row([&origin.id, run.status.as_str(), &origin.subject, &started, &took.unwrap_or_default(), &cost]);
    }
    table
}
