//! `tools get`: a tool as a person reads it.

use serde_json::Value;

use crate::cli::Context;
use crate::cli::client::{TOOLS, parse_name, path};
use crate::cli::exit::Exit;
use crate::cli::facts::{self, revision, text};
use crate::cli::failure::Failure;
use crate::cli::schema::parameters;
use crate::cli::table::Table;

/// Which tool.
#[derive(clap::Args)]
#[command(disable_version_flag = true)]
pub struct GetArgs {
    /// Its refName or id
    #[arg(value_name = "REF", value_parser = parse_name)]
    reference: String,
    /// An exact version; the highest active one when absent
    #[arg(long, value_name = "VERSION")]
    version: Option<String>,
}

/// Shows a tool.
pub async fn run(cx: &Context, args: GetArgs) -> Result<Exit, Failure> {
    let query: Vec<_> = args.version.into_iter().map(|version| ("version", version)).collect();
    let answer = cx.client.get(&path(TOOLS, &args.reference), &query).await?;
    if cx.output.json {
        cx.output.line(answer.text.trim_end())?;
    } else {
        show(cx, &answer.read()?)?;
    }
    Ok(Exit::Ok)
}

fn show(cx: &Context, tool: &Value) -> Result<(), Failure> {
    let out = &cx.output;
    let state = if tool.get("enabled") == Some(&Value::Bool(false)) { "disabled".into() } else { text(tool, "status") };
    out.line(format!("{}  {state}", out.out.good(format!("{}@{}", text(tool, "refName"), text(tool, "version")))))?;
    let description = text(tool, "description");
    if !description.is_empty() {
        out.line(format!("{description}\n"))?;
    }
    facts::show(out, &facts(tool))?;
    let parameters = parameters(tool);
    if !parameters.is_empty() {
        let mut table = Table::new(["PARAMETER", "TYPE", "REQUIRED", "DESCRIPTION"]);
        for parameter in &parameters {
            let required = if parameter.required { "yes" } else { "no" };
            table.row([&parameter.name, &parameter.kind, required, &parameter.description]);
        }
        out.line("")?;
        out.lines(table.lines(out.out, out.width))?;
    }
    Ok(())
}

fn facts(tool: &Value) -> [(&'static str, String); 7] {
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
