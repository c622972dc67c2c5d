//! Implements `tools get`.

use serde_json::Value;

use crate::cli::Context;
use crate::cli::client::{TOOLS, parse_name, path};
use crate::cli::exit::Exit;
use crate::cli::failure::Failure;
use crate::cli::fields::{self, revision, text};
use crate::cli::output::wrap;
use crate::cli::schema::parameters;
use crate::cli::table::Table;

/// Arguments of `tools get`.
#[derive(clap::Args)]
#[command(disable_version_flag = true)]
pub(crate) struct GetArgs {
    /// refName or ID of the tool
    #[arg(value_name = "REF", value_parser = parse_name)]
    reference: String,
    /// Exact version [default: the highest active version]
    #[arg(long, value_name = "VERSION")]
    version: Option<String>,
}

/// Shows a tool.
pub(super) async fn run(cx: &Context, args: GetArgs) -> Result<Exit, Failure> {
    let query: Vec<_> = args.version.into_iter().map(|version| ("version", version)).collect();
    let response = cx.client.get(&path(TOOLS, &args.reference), &query).await?;
    if cx.output.json {
        cx.output.document(response.text.trim_end())?;
    } else {
        show(cx, &response.read()?)?;
    }
    Ok(Exit::Ok)
}

fn show(cx: &Context, tool: &Value) -> Result<(), Failure> {
    let out = &cx.output;
    let state = if tool.get("enabled") == Some(&Value::Bool(false)) { "disabled".into() } else { text(tool, "status") };
    out.line(format!("{}  {state}", out.out.good(format!("{}@{}", text(tool, "refName"), text(tool, "version")))))?;
    let description = text(tool, "description");
    if !description.is_empty() {
        out.line(format!("{}\n", wrap(&description, out.width, 0)))?;
    }
    fields::print_labeled(out, &fields(tool))?;
    let parameters = parameters(tool);
    if !parameters.is_empty() {
        let mut table = Table::new(["PARAMETER", "TYPE", "REQUIRED", "DESCRIPTION"]);
        for parameter in &parameters {
            let required = if parameter.required { "yes" } else { "no" };
            table.row([&parameter.name, &parameter.type_name, required, &parameter.description]);
        }
        out.line("")?;
        out.lines(table.lines(out.out, out.width))?;
    }
    Ok(())
}

fn fields(tool: &Value) -> [(&'static str, String); 7] {
    let idempotent = if tool.get("idempotent") == Some(&Value::Bool(true)) { ", idempotent" } else { "" };
    [
        ("type", text(tool, "toolType")),
        ("provider", text(tool, "providerRef")),
        ("effects", format!("{}{idempotent}", text(tool, "sideEffects"))),
        ("cache", text(tool, "cache")),
        ("category", text(tool, "category")),
        ("tags", text(tool, "tags")),
        ("revision", revision(tool)),
    ]
}
