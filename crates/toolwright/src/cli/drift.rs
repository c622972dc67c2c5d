//! Implements `toolwright drift`, which lists and accepts differences between the output schemas and the actual outputs
//! of tools.

use serde::Deserialize;
use serde_json::Value;
use toolwright_api::wire::DriftView;
use toolwright_types::SchemaDifference;

use super::Context;
use super::client::{DRIFT, parse_name, path};
use super::exit::Exit;
use super::failure::Failure;
use super::fields::wire_name;
use super::output::sanitize_line;
use super::pages::{List, PageArgs};
use super::table::Table;
use super::time::format_minute;

/// The maximum number of differences that the table shows for one finding.
const MAX_SHOWN_DIFFERENCES: usize = 3;

/// Subcommands of `drift`.
#[derive(clap::Subcommand)]
pub(crate) enum DriftCommand {
    /// List drift findings, most recent first
    List(ListArgs),
    /// Mark a finding as accepted
    Accept(AcceptArgs),
}

/// Arguments of `drift list`.
#[derive(clap::Args)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    page: PageArgs,
    /// Filter by tool
    #[arg(long, value_name = "REF")]
    tool: Option<String>,
    /// Filter by status
    #[arg(long, value_parser = ["open", "accepted"])]
    status: Option<String>,
}

/// Arguments of `drift accept`.
#[derive(clap::Args)]
pub(crate) struct AcceptArgs {
    /// Finding ID
    #[arg(value_name = "ID", value_parser = parse_name)]
    id: String,
}

/// Runs a `drift` subcommand.
pub(super) async fn run(cx: &Context, command: DriftCommand) -> Result<Exit, Failure> {
    match command {
        DriftCommand::List(args) => {
            let query = [("toolRef", args.tool), ("status", args.status)];
            let query = query.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
            let list = List { collection: DRIFT, query, empty_message: "no drift findings" };
            list.show(cx, &args.page, table).await?;
        }
        DriftCommand::Accept(args) => {
            let response = cx.client.post(&format!("{}/accept", path(DRIFT, &args.id)), &Value::Null).await?;
            if cx.output.json {
                cx.output.document(response.text.trim_end())?;
            } else {
                cx.output.line(cx.output.out.good(format!("✓ accepted  {}", sanitize_line(&args.id))))?;
            }
        }
    }
    Ok(Exit::Ok)
}

fn table(findings: &[DriftView]) -> Table {
    let mut table = Table::new(["ID", "TOOL", "SOURCE", "STATUS", "COUNT", "LAST SEEN", "DIFFERENCES"]);
    for finding in findings {
        let found = Vec::<SchemaDifference>::deserialize(&finding.differences).unwrap_or_default();
        let mut differences: Vec<String> = found.iter().take(MAX_SHOWN_DIFFERENCES).map(describe).collect();
        if found.len() > MAX_SHOWN_DIFFERENCES {
            differences.push(format!("and {} more", found.len() - MAX_SHOWN_DIFFERENCES));
        }
        let (count, last_seen, differences) =
            (finding.count.to_string(), format_minute(finding.last_seen), differences.join(", "));
        table.row([&finding.id, &finding.tool_ref, &finding.source, &finding.status, &count, &last_seen, &differences]);
    }
    table
}

fn describe(difference: &SchemaDifference) -> String {
    let path = sanitize_line(&difference.path);
    match (&difference.expected, &difference.found) {
        (Some(expected), Some(found)) => format!("{path} {}→{}", sanitize_line(expected), sanitize_line(found)),
        _ => format!("{path} {}", wire_name(difference.change)),
    }
}
