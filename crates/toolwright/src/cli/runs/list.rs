//! `runs list`.

use serde_json::Value;
use toolwright_types::RunStatus;

use crate::cli::Context;
use crate::cli::client::RUNS;
use crate::cli::exit::Exit;
use crate::cli::facts::{moment, text};
use crate::cli::failure::Failure;
use crate::cli::live::{dollars, duration};
use crate::cli::pages::{List, PageArgs};
use crate::cli::table::Table;
use crate::cli::time::minute;

/// Which runs.
#[derive(clap::Args)]
pub struct ListArgs {
    #[command(flatten)]
    page: PageArgs,
    /// Only those that stand there, such as running or awaiting_approval; may be repeated
    #[arg(long, value_parser = parse_status)]
    status: Vec<RunStatus>,
    /// Only those of this agent
    #[arg(long, value_name = "REF")]
    agent: Option<String>,
    /// Only direct calls of this tool
    #[arg(long, value_name = "REF", conflicts_with = "agent")]
    tool: Option<String>,
    /// Only runs of agents, or only direct calls of tools
    #[arg(long, value_parser = ["agent", "tool"])]
    kind: Option<String>,
    /// Only those of this conversation
    #[arg(long, value_name = "ID")]
    conversation: Option<String>,
}

/// Lists runs.
pub async fn run(cx: &Context, args: ListArgs) -> Result<Exit, Failure> {
    let list = List { collection: RUNS, query: args.query(), empty: "there are no such runs" };
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
        query.extend(self.kind.clone().map(|kind| ("kind", kind)));
        query.extend(self.conversation.clone().map(|conversation| ("conversationId", conversation)));
        query
    }
}

fn parse_status(text: &str) -> Result<RunStatus, String> {
    let wanted = text.to_uppercase().replace('-', "_");
    RunStatus::ALL.into_iter().find(|status| status.as_str() == wanted).ok_or_else(|| {
        let all: Vec<String> = RunStatus::ALL.iter().map(|status| status.as_str().to_lowercase()).collect();
        format!("there is no such status; there are {}", all.join(", "))
    })
}

fn table(items: &[Value]) -> Table {
    let mut table = Table::new(["RUN", "STATUS", "BEGAN", "TOOK", "TOKENS", "COST", "OF"]);
    for run in items {
        let (began, ended) = (moment(run, "startedAt"), moment(run, "endedAt"));
        let took = began.zip(ended).map(|(began, ended)| duration(ended.millis_since(began))).unwrap_or_default();
        let cost =
            run.get("costUsd").and_then(Value::as_f64).filter(|cost| *cost > 0.0).map(dollars).unwrap_or_default();
        let began = began.map(minute).unwrap_or_default();
        let (id, status, tokens) = (text(run, "id"), text(run, "status"), text(run, "tokensUsed"));
        let trial = run.get("trial").map(|trial| format!(" ({} {})", text(trial, "kind"), text(trial, "arm")));
        let subject = format!("{} {}{}", text(run, "kind"), text(run, "subject"), trial.unwrap_or_default());
        table.row([&id, &status, &began, &took, &tokens, &cost, &subject]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_written_in_any_case() {
        assert_eq!(parse_status("awaiting-approval"), Ok(RunStatus::AwaitingApproval));
        assert_eq!(parse_status("COMPLETED"), Ok(RunStatus::Completed));
        assert!(parse_status("done").unwrap_err().contains("completed"));
    }
}
