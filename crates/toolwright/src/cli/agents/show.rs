//! Implements `agents get`, which is also called `agents show`.

use serde_json::Value;

use crate::cli::Context;
use crate::cli::client::{AGENTS, parse_name, path};
use crate::cli::exit::Exit;
use crate::cli::failure::Failure;
use crate::cli::fields::{self, revision, text};
use crate::cli::output::{sanitize, wrap};

/// Arguments of `agents get`.
#[derive(clap::Args)]
pub(crate) struct ShowArgs {
    /// refName or ID of the agent
    #[arg(value_name = "REF", value_parser = parse_name)]
    reference: String,
}

/// Shows an agent.
pub(super) async fn run(cx: &Context, args: ShowArgs) -> Result<Exit, Failure> {
    let response = cx.client.get(&path(AGENTS, &args.reference), &[]).await?;
    if cx.output.json {
        cx.output.document(response.text.trim_end())?;
    } else {
        show(cx, &response.read()?)?;
    }
    Ok(Exit::Ok)
}

fn show(cx: &Context, agent: &Value) -> Result<(), Failure> {
    let out = &cx.output;
    let state = if agent.get("enabled") == Some(&Value::Bool(false)) { "  disabled" } else { "" };
    out.line(format!("{}{state}", out.out.good(text(agent, "refName"))))?;
    let description = text(agent, "description");
    if !description.is_empty() {
        out.line(format!("{}\n", wrap(&description, out.width, 0)))?;
    }
    fields::print_labeled(out, &labeled_fields(agent))?;
    if let Some(prompt) = agent.get("systemPrompt").and_then(Value::as_str) {
        out.line(format!("\n{}", wrap(sanitize(prompt).trim_end(), out.width, 0)))?;
    }
    Ok(())
}

fn labeled_fields(agent: &Value) -> [(&'static str, String); 11] {
    let approval = if agent.get("requiresApproval") == Some(&Value::Bool(true)) { "required for writes" } else { "" };
    let limits = [
        ("policy", "maxToolCalls"),
        ("policy", "maxTokens"),
        ("policy", "maxCostUsd"),
        ("executionConfig", "maxIterations"),
    ];
    let limits = limits.iter().filter_map(|(group, name)| {
        let limit = text(agent.get(group)?, name);
        (!limit.is_empty()).then(|| format!("{name} {limit}"))
    });
    [
        ("model", model(agent)),
        ("tools", text(agent, "toolRefs")),
        ("categories", text(agent, "toolCategories")),
        ("tags", text(agent, "toolTags")),
        ("excluded", text(agent, "excludedToolRefs")),
        ("delegates", text(agent, "delegateAgentRefs")),
        ("approval", approval.to_owned()),
        ("limits", limits.collect::<Vec<_>>().join(", ")),
        ("principal", text(agent, "principalRef")),
        ("fragments", text(agent, "systemPromptRefs")),
        ("revision", revision(agent)),
    ]
}

/// Formats the model of an agent's definition.
pub(super) fn model(agent: &Value) -> String {
    let config = agent.get("llmConfig").cloned().unwrap_or_default();
    let (provider, model) = (text(&config, "provider"), text(&config, "model"));
    match (provider.is_empty(), model.is_empty()) {
        (true, true) => "server default".into(),
        (false, false) => format!("{provider}/{model}"),
        _ => format!("{provider}{model}"),
    }
}
