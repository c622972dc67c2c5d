//! The `export` subcommands: print a definition in a form that `apply` can read from a file.

use serde_json::Value;
use toolwright_gram::{Pattern, parse, print};

use super::Context;
use super::apply::authored_fields;
use super::client::{ApiResponse, TOOLS, parse_name, path};
use super::definitions::ResourceKind;
use super::exit::Exit;
use super::failure::Failure;

/// Arguments of the `export` subcommands.
#[derive(clap::Args)]
pub(crate) struct ExportArgs {
    /// refName or ID of the definition
    #[arg(value_name = "REF", value_parser = parse_name)]
    reference: String,
    /// Print gram notation instead of JSON
    #[arg(long)]
    gram: bool,
    /// Include the tools of an agent that are defined in the realm
    #[arg(long, requires = "gram")]
    with_tools: bool,
}

/// Arguments of the `export` subcommands of kinds without gram notation.
#[derive(clap::Args)]
pub(crate) struct JsonExportArgs {
    /// refName or ID of the definition
    #[arg(value_name = "REF", value_parser = parse_name)]
    pub(super) reference: String,
}

/// Prints a definition as JSON or YAML, in a form that `apply` accepts.
pub(super) async fn run_json(cx: &Context, kind: ResourceKind, args: JsonExportArgs) -> Result<Exit, Failure> {
    let args = ExportArgs { reference: args.reference, gram: false, with_tools: false };
    run(cx, kind, args).await
}

/// Prints a definition in a form that `apply` accepts: the fields that its author writes, or gram notation.
pub(super) async fn run(cx: &Context, kind: ResourceKind, args: ExportArgs) -> Result<Exit, Failure> {
    if args.with_tools {
        let mut patterns = vec![pattern(cx, kind, &args.reference).await?];
        patterns.extend(referenced_tools(cx, &patterns).await?);
        cx.output.print(&print(&Pattern::from_members(patterns)))?;
    } else if args.gram {
        cx.output.print(&gram(cx, kind, &args.reference).await?.text)?;
    } else {
        let response = cx.client.get(&path(kind.collection(), &args.reference), &[]).await?;
        let fields = exportable_fields(&response, kind)?;
        let text = serde_json::to_string_pretty(&fields).map_err(|error| unexpected(&response, &error))?;
        cx.output.document(text)?;
    }
    Ok(Exit::Ok)
}

/// Fetches the tools that the agents refer to. Leaves out built-in tools and tools that do not exist.
async fn referenced_tools(cx: &Context, agents: &[Pattern]) -> Result<Vec<Pattern>, Failure> {
    let mut found = Vec::new();
    for name in agents.iter().flat_map(|agent| &agent.elements).map(Pattern::identity) {
        match cx.client.get(&path(TOOLS, name), &[]).await {
            Ok(response) if response.read::<Value>()?.get("source").is_none_or(|source| source != "built-in") => {
                found.push(pattern(cx, ResourceKind::Tool, name).await?);
            }
            Ok(_) => {}
            Err(Failure::Refused(refusal)) if refusal.problem.status == 404 => {}
            Err(other) => return Err(other),
        }
    }
    Ok(found)
}

async fn gram(cx: &Context, kind: ResourceKind, name: &str) -> Result<ApiResponse, Failure> {
    cx.client.get(&path(kind.collection(), name), &[("format", "gram".to_owned())]).await
}

async fn pattern(cx: &Context, kind: ResourceKind, name: &str) -> Result<Pattern, Failure> {
    let response = gram(cx, kind, name).await?;
    parse(&response.text).map_err(|error| unexpected(&response, &error))
}

/// Returns the fields that authors write, without the fields that are derived from other fields.
fn exportable_fields(response: &ApiResponse, kind: ResourceKind) -> Result<Value, Failure> {
    let view: Value = response.read()?;
    let mut fields = authored_fields(&view).unwrap_or_default();
    if let Some(fields) = fields.as_object_mut() {
        if fields.get("name") == fields.get("refName") {
            let is_stored_as_name = matches!(kind, ResourceKind::StepRegistration | ResourceKind::ConditionBinding);
            fields.shift_remove(if is_stored_as_name { "refName" } else { "name" });
        }
        // `hasSideEffects` only repeats information from `sideEffects`.
        if fields.contains_key("sideEffects") {
            fields.shift_remove("hasSideEffects");
        }
    }
    Ok(fields)
}

fn unexpected(response: &ApiResponse, error: &dyn std::error::Error) -> Failure {
    Failure::Unexpected { url: response.url.clone(), cause: error.to_string() }
}
