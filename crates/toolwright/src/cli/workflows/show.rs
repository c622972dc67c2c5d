//! Implements `workflows get`, which is also called `workflows show`.

use serde_json::Value;

use super::list::status;
use crate::cli::Context;
use crate::cli::client::{WORKFLOWS, parse_name, path};
use crate::cli::exit::Exit;
use crate::cli::failure::Failure;
use crate::cli::fields::{self, revision, text};
use crate::cli::output::{sanitize_line, wrap};
use crate::cli::table::Table;

/// Arguments of `workflows get`.
#[derive(clap::Args)]
pub(crate) struct ShowArgs {
    /// refName or ID of the workflow, optionally with a version requirement: name@^1.2
    #[arg(value_name = "REF", value_parser = parse_name)]
    reference: String,
}

/// Shows a workflow.
pub(super) async fn run(cx: &Context, args: ShowArgs) -> Result<Exit, Failure> {
    let response = cx.client.get(&path(WORKFLOWS, &args.reference), &[]).await?;
    if cx.output.json {
        cx.output.document(response.text.trim_end())?;
        return Ok(Exit::Ok);
    }
    let view: Value = response.read()?;
    let out = &cx.output;
    let name = format!("{}@{}", text(&view, "refName"), text(&view, "version"));
    out.line(format!("{}  {}", out.out.good(name), status(&view)))?;
    let description = text(&view, "description");
    if !description.is_empty() {
        out.line(format!("{}\n", wrap(&description, out.width, 0)))?;
    }
    let durable = if view.get("durable") == Some(&Value::Bool(false)) { "no" } else { "yes" };
    let labeled = [
        ("durable", durable.to_owned()),
        ("effects", text(&view, "sideEffects")),
        ("limits", limits(&view)),
        ("revision", revision(&view)),
    ];
    fields::print_labeled(out, &labeled)?;
    let steps = view.get("steps").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    out.line("")?;
    out.lines(table(steps).lines(out.out, out.width))?;
    Ok(Exit::Ok)
}

fn limits(view: &Value) -> String {
    let limits = view.get("limits").and_then(Value::as_object).into_iter().flatten();
    let limits = limits.map(|(name, value)| match value.as_str() {
        Some(text) => format!("{name} {text}"),
        None => format!("{name} {value}"),
    });
    sanitize_line(&limits.collect::<Vec<_>>().join(", "))
}

fn table(steps: &[Value]) -> Table {
    let mut table = Table::new(["STEP", "HANDLER", "AFTER", "CONDITION", "ON ERROR"]);
    for step in steps {
        let conditions = [text(step, "condition"), text(step, "conditionRef")];
        let conditions: Vec<String> = conditions.into_iter().filter(|condition| !condition.is_empty()).collect();
        table.row([
            &text(step, "name"),
            &text(step, "handlerRef"),
            &text(step, "dependsOn"),
            &conditions.join(" and "),
            &text(step, "onError"),
        ]);
    }
    table
}
