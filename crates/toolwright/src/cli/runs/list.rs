//! Implements `runs list`.

use toolwright_api::wire::{RunOriginView, RunSummaryView};
use toolwright_types::{RunStatus, Timestamp};

use crate::cli::Context;
use crate::cli::client::RUNS;
use crate::cli::exit::Exit;
use crate::cli::failure::Failure;
use crate::cli::follow::{format_duration, format_usd};
use crate::cli::pages::{List, PageArgs};
use crate::cli::table::Table;
use crate::cli::time::format_minute;

/// Arguments of `runs list`.
#[derive(clap::Args)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    page: PageArgs,
    /// Filter by status, such as running or awaiting_approval; may be repeated
    #[arg(long, value_parser = parse_status)]
    status: Vec<RunStatus>,
    /// Filter by agent
    #[arg(long, value_name = "REF")]
    agent: Option<String>,
    /// Filter by tool of a direct call
    #[arg(long, value_name = "REF", conflicts_with = "agent")]
    tool: Option<String>,
    /// Filter by tool that the run called, of agents or direct calls
    #[arg(long, value_name = "REF")]
    called_tool: Option<String>,
    /// Filter by the principal that the run acts as
    #[arg(long, value_name = "NAME")]
    principal: Option<String>,
    /// Only runs that started at this time or later, such as 2026-11-18T09:30:00Z
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    started_after: Option<Timestamp>,
    /// Only runs that started before this time
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    started_before: Option<Timestamp>,
    /// Only runs that cost at least this amount
    #[arg(long, value_name = "USD")]
    min_cost: Option<f64>,
    /// Only runs that cost at most this amount
    #[arg(long, value_name = "USD")]
    max_cost: Option<f64>,
    /// Only runs with this text in the name of the agent or tool, the beginning of the user message, or the message
    /// about the end
    #[arg(long)]
    text: Option<String>,
    /// Filter by kind: runs of agents, direct calls to tools, runs of agentic or composite tools, or runs of workflows
    #[arg(long, value_parser = ["agent", "tool", "agentic-tool", "composite-tool", "workflow"])]
    kind: Option<String>,
    /// Filter by conversation
    #[arg(long, value_name = "ID")]
    conversation: Option<String>,
}

/// Lists runs.
pub(super) async fn run(cx: &Context, args: ListArgs) -> Result<Exit, Failure> {
    let list = List { collection: RUNS, query: args.query(), empty_message: "no runs found" };
    list.show(cx, &args.page, table).await?;
    Ok(Exit::Ok)
}

impl ListArgs {
    fn query(&self) -> Vec<(&'static str, String)> {
        let status: Vec<&str> = self.status.iter().map(|status| status.as_str()).collect();
        let mut query = Vec::new();
        query.extend((!status.is_empty()).then(|| ("status", status.join(","))));
        query.extend(self.agent.clone().map(|agent| ("agentRef", agent)));
        query.extend(self.tool.clone().map(|tool| ("toolRef", tool)));
        query.extend(self.called_tool.clone().map(|tool| ("calledToolRef", tool)));
        query.extend(self.principal.clone().map(|name| ("principal", name)));
        query.extend(self.started_after.map(|time| ("startedAfter", time.to_string())));
        query.extend(self.started_before.map(|time| ("startedBefore", time.to_string())));
        query.extend(self.min_cost.map(|cost| ("minCostUsd", cost.to_string())));
        query.extend(self.max_cost.map(|cost| ("maxCostUsd", cost.to_string())));
        query.extend(self.text.clone().map(|text| ("text", text)));
        query.extend(self.kind.clone().map(|kind| ("kind", kind)));
        query.extend(self.conversation.clone().map(|conversation| ("conversationId", conversation)));
        query
    }
}

/// Parses the status of a run in any case.
pub(crate) fn parse_status(text: &str) -> Result<RunStatus, String> {
    let status_name = text.to_uppercase().replace('-', "_");
    RunStatus::ALL.into_iter().find(|status| status.as_str() == status_name).ok_or_else(|| {
        let all: Vec<String> = RunStatus::ALL.iter().map(|status| status.as_str().to_lowercase()).collect();
        format!("unknown status; must be one of {}", all.join(", "))
    })
}

fn parse_time(text: &str) -> Result<Timestamp, String> {
    text.parse().map_err(|_| "expected a time such as 2026-11-18T09:30:00Z".to_owned())
}

fn table(runs: &[RunSummaryView]) -> Table {
    let mut table = Table::new(["RUN", "STATUS", "SUBJECT", "STARTED", "DURATION", "TOKENS", "COST"]);
    for run in runs {
        let RunOriginView { id, kind, subject, trial, started_at, ended_at, .. } = &run.origin;
        let took = ended_at.map(|ended| format_duration(ended.millis_since(*started_at))).unwrap_or_default();
        let cost = if run.cost_usd > 0.0 { format_usd(run.cost_usd) } else { String::new() };
        let trial = trial.as_ref().map(|trial| format!(" ({} {})", trial.kind.as_str(), trial.arm)).unwrap_or_default();
        let (started, tokens) = (format_minute(*started_at), run.tokens_used.to_string());
        table.row([id, run.status.as_str(), &format!("{kind} {subject}{trial}"), &started, &took, &tokens, &cost]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run_status_is_parsed_in_any_case_with_dashes_or_underscores() {
        assert_eq!(parse_status("awaiting-approval"), Ok(RunStatus::AwaitingApproval));
        assert_eq!(parse_status("COMPLETED"), Ok(RunStatus::Completed));
        assert!(parse_status("done").unwrap_err().contains("completed"));
    }
}
