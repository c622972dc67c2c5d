//! Implements `runs tree`, which prints a run and its child runs.

use toolwright_api::wire::{RunNodeView, RunTreeView};

use super::RunArg;
use crate::cli::Context;
use crate::cli::client::{RUNS, path};
use crate::cli::exit::Exit;
use crate::cli::failure::Failure;
use crate::cli::follow::{format_usd, pluralize};
use crate::cli::output::sanitize_line;

/// Prints the tree of a run.
pub(super) async fn run(cx: &Context, target: &RunArg) -> Result<Exit, Failure> {
    let response = cx.client.get(&format!("{}/tree", path(RUNS, &target.run)), &[]).await?;
    if cx.output.json {
        cx.output.document(response.text.trim_end())?;
        return Ok(Exit::Ok);
    }
    let tree: RunTreeView = response.read()?;
    let mut lines = Vec::new();
    push_node(&tree.root, "", "", &mut lines);
    cx.output.lines(lines)?;
    if tree.truncated {
        cx.output.note("the tree has more runs; `toolwright runs tree` of a child run shows its part");
    }
    Ok(Exit::Ok)
}

/// Adds the two lines of a run, and the lines of its child runs. The id has its own line, so that it fits into a narrow
/// terminal.
fn push_node(node: &RunNodeView, first: &str, rest: &str, lines: &mut Vec<String>) {
    let run = &node.run;
    let version = run.agent_version.as_deref().map(|version| format!("@{version}")).unwrap_or_default();
    let subject = sanitize_line(&format!("{}{version}", run.origin.subject));
    lines.push(format!("{first}{}", run.origin.id));
    let bar = if node.children.is_empty() { "  " } else { "│ " };
    let tokens = pluralize(node.total_tokens, "token");
    let cost = if node.total_cost_usd > 0.0 { format!("  {}", format_usd(node.total_cost_usd)) } else { String::new() };
    lines.push(format!("{rest}{bar}{subject}  {}  {tokens}{cost}", run.status.as_str()));
    let last = node.children.len().saturating_sub(1);
    for (index, child) in node.children.iter().enumerate() {
        let (branch, below) = if index == last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
        push_node(child, &format!("{rest}{branch}"), &format!("{rest}{below}"), lines);
    }
}
