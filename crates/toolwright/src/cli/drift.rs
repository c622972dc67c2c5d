//! `toolwright drift …`: where systems differ from what their tools say.

use serde::Deserialize;
use serde_json::Value;

use super::Context;
use super::client::{DRIFT, parse_name, path};
use super::exit::Exit;
use super::failure::Failure;
use super::output::plain;
use super::pages::{List, PageArgs};
use super::table::Table;
use super::time::minute;

/// How many differences of a finding a table shows.
const SHOWN: usize = 3;

/// What can be done with findings.
#[derive(clap::Subcommand)]
pub enum DriftCommand {
    /// List the findings, the newest first
    List(ListArgs),
    /// Say that a finding is known
    Accept(AcceptArgs),
}

/// Which.
#[derive(clap::Args)]
pub struct ListArgs {
    #[command(flatten)]
    page: PageArgs,
    /// Only those of this tool
    #[arg(long, value_name = "REF")]
    tool: Option<String>,
    /// Only those that are open, or accepted
    #[arg(long, value_parser = ["open", "accepted"])]
    status: Option<String>,
}

/// Which one.
#[derive(clap::Args)]
pub struct AcceptArgs {
    /// Its id
    #[arg(value_name = "ID", value_parser = parse_name)]
    id: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    id: String,
    tool_ref: String,
    source: String,
    status: String,
    count: u64,
    last_seen: toolwright_types::Timestamp,
    differences: Vec<Difference>,
}

#[derive(Deserialize)]
struct Difference {
    path: String,
    change: String,
    expected: Option<String>,
    found: Option<String>,
}

/// Runs one of them.
pub async fn run(cx: &Context, command: DriftCommand) -> Result<Exit, Failure> {
    match command {
        DriftCommand::List(args) => {
            let query = [("toolRef", args.tool), ("status", args.status)];
            let query = query.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
            let list = List { collection: DRIFT, query, empty: "no drift was seen" };
            list.show(cx, &args.page, table).await?;
        }
        DriftCommand::Accept(args) => {
            let answer = cx.client.post(&format!("{}/accept", path(DRIFT, &args.id)), &Value::Null).await?;
            if cx.output.json {
                cx.output.line(answer.text.trim_end())?;
            } else {
                cx.output.line(cx.output.out.good(format!("✓ accepted  {}", plain(&args.id))))?;
            }
        }
    }
    Ok(Exit::Ok)
}

fn table(items: &[Value]) -> Table {
    let mut table = Table::new(["ID", "TOOL", "SOURCE", "STATUS", "COUNT", "LAST SEEN", "DIFFERENCES"]);
    for row in items.iter().filter_map(|item| Row::deserialize(item).ok()) {
        let mut told: Vec<String> = row.differences.iter().take(SHOWN).map(told).collect();
        if row.differences.len() > SHOWN {
            told.push(format!("and {} more", row.differences.len() - SHOWN));
        }
        let (count, last_seen, told) = (row.count.to_string(), minute(row.last_seen), told.join(", "));
        table.row([&row.id, &row.tool_ref, &row.source, &row.status, &count, &last_seen, &told]);
    }
    table
}

fn told(difference: &Difference) -> String {
    let place = plain(&difference.path);
    match (&difference.expected, &difference.found) {
        (Some(expected), Some(found)) => format!("{place} {}→{}", plain(expected), plain(found)),
        _ => format!("{place} {}", plain(&difference.change)),
    }
}
