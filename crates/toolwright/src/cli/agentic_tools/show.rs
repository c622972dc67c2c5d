//! Implements `agentic-tools get`, which is also called `agentic-tools show`.

use serde_json::{Value, json};

use crate::cli::Context;
use crate::cli::client::{AGENTIC_TOOLS, path};
use crate::cli::exit::Exit;
use crate::cli::failure::Failure;
use crate::cli::fields::{self, revision, text};
use crate::cli::output::{sanitize, wrap};
use crate::cli::schema::parameters;
use crate::cli::table::Table;

use super::ReferenceArgs;

/// The limits of an invocation, with the text before and after the number.
const LIMITS: [(&str, &str, &str); 5] = [
    ("maxSteps", "", " steps"),
    ("maxDurationSeconds", "", " s"),
    ("maxTotalCost", "$", ""),
    ("maxItems", "", " items"),
    ("maxTokensPerCall", "", " tokens per reply"),
];

/// Shows an agentic tool.
pub(super) async fn run(cx: &Context, args: &ReferenceArgs) -> Result<Exit, Failure> {
    let response = cx.client.get(&path(AGENTIC_TOOLS, &args.reference), &[]).await?;
    if cx.output.json {
        cx.output.document(response.text.trim_end())?;
    } else {
        show(cx, &response.read()?)?;
    }
    Ok(Exit::Ok)
}

fn show(cx: &Context, tool: &Value) -> Result<(), Failure> {
    let out = &cx.output;
    let name = format!("{}@{}", text(tool, "slug"), text(tool, "version"));
    out.line(format!("{}  {}", out.out.good(name), text(tool, "status")))?;
    let description = text(tool, "description");
    if !description.is_empty() {
        out.line(format!("{}\n", wrap(&description, out.width, 0)))?;
    }
    fields::print_labeled(out, &labeled_fields(tool))?;
    out.line("")?;
    out.lines(tools_table(tool).lines(out.out, out.width))?;
    let schema = json!({ "inputJsonSchema": tool.get("inputSchema") });
    let mut table = Table::new(["PARAMETER", "TYPE", "REQUIRED", "DESCRIPTION"]);
    for parameter in parameters(&schema) {
        let required = if parameter.required { "yes" } else { "no" };
        table.row([&parameter.name, &parameter.type_name, required, &parameter.description]);
    }
    out.line("")?;
    out.lines(table.lines(out.out, out.width))?;
    let prompt = tool.get("systemPrompt").and_then(Value::as_str).unwrap_or_default();
    let origin = if flag(tool, "generatedPrompt") { " (generated)" } else { "" };
    out.line(out.out.dim(format!("\nsystem prompt{origin}")))?;
    Ok(out.line(wrap(sanitize(prompt).trim_end(), out.width, 0))?)
}

fn labeled_fields(tool: &Value) -> [(&'static str, String); 8] {
    let limits = tool.get("safetyLimits").cloned().unwrap_or_default();
    let limits = LIMITS.iter().filter_map(|(name, before, after)| {
        let limit = text(&limits, name);
        (!limit.is_empty()).then(|| format!("{before}{}{after}", limit.trim_end_matches(".0")))
    });
    let data = tool.pointer("/contextConfig/referenceData").and_then(Value::as_array);
    let data =
        data.into_iter().flatten().map(|data| format!("{} {}", text(data, "integrationId"), text(data, "dataTypes")));
    let approval = if flag(tool, "requiresPlanApproval") { "of the plan" } else { "" };
    let durable = if flag(tool, "durable") { "yes" } else { "" };
    [
        ("name", text(tool, "name")),
        ("mode", text(tool, "executionMode")),
        ("model", model(tool)),
        ("limits", limits.collect::<Vec<_>>().join(", ")),
        ("data", data.collect::<Vec<_>>().join("; ")),
        ("approval", approval.to_owned()),
        ("durable", durable.to_owned()),
        ("revision", revision(tool)),
    ]
}

fn tools_table(tool: &Value) -> Table {
    let allocated = allocated_tools(tool);
    if text(tool, "executionMode") == "deterministic" {
        let mut table = Table::new(["STEP", "TOOL", "PURPOSE"]).with_ids(2);
        for entry in allocated {
            table.row([&text(entry, "step"), &tool_reference(entry), &text(entry, "purpose")]);
        }
        return table;
    }
    let mut table = Table::new(["TOOL", "PRIORITY"]);
    for entry in allocated {
        let priority = text(entry, "priority");
        table.row([&tool_reference(entry), if priority.is_empty() { "-" } else { &priority }]);
    }
    table
}

fn flag(tool: &Value, field: &str) -> bool {
    tool.get(field) == Some(&Value::Bool(true))
}

/// Returns the entries of the sequence or of the selection in the tool allocation.
pub(super) fn allocated_tools(tool: &Value) -> Vec<&Value> {
    let lists = ["sequence", "availableTools"];
    let lists = lists.iter().filter_map(|list| tool.get("toolAllocation")?.get(list)?.as_array());
    lists.flatten().collect()
}

/// Returns the name of the tool in an entry, or its id if the entry has no name.
fn tool_reference(entry: &Value) -> String {
    let name = text(entry, "actionSlug");
    if name.is_empty() { text(entry, "actionId") } else { name }
}

/// Formats the embedded model of an agentic tool.
fn model(tool: &Value) -> String {
    let config = tool.get("embeddedLLMConfig").cloned().unwrap_or_default();
    let parts = [text(&config, "provider"), text(&config, "model")];
    let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    if parts.is_empty() { "server default".to_owned() } else { parts.join("/") }
}
