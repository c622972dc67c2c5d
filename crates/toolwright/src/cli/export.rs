//! The `export` subcommands: print a definition in a form that `apply` can read from a file.

use serde::de::DeserializeOwned;
use serde_json::Value;
use toolwright_gram::{Pattern, print};
use toolwright_notation::{write_agent, write_tool};
use toolwright_types::{AgentDefinition, ToolDefinition};

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

/// Prints the fields of a definition that its author writes, in a form that `apply` accepts.
pub(super) async fn run(cx: &Context, kind: ResourceKind, args: ExportArgs) -> Result<Exit, Failure> {
    let response = cx.client.get(&path(kind.collection(), &args.reference), &[]).await?;
    let fields = exportable_fields(&response)?;
    if !args.gram {
        let text = serde_json::to_string_pretty(&fields).map_err(|error| unexpected(&response, &error))?;
        cx.output.line(text)?;
        return Ok(Exit::Ok);
    }
    let mut patterns = vec![to_pattern(kind, &response, fields)?];
    if args.with_tools {
        patterns.extend(referenced_tools(cx, &patterns).await?);
    }
    cx.output.print(&print(&Pattern::from_members(patterns)))?;
    Ok(Exit::Ok)
}

/// Fetches the tools that the agents refer to. Leaves out built-in tools and tools that do not exist.
async fn referenced_tools(cx: &Context, agents: &[Pattern]) -> Result<Vec<Pattern>, Failure> {
    let mut found = Vec::new();
    for name in agents.iter().flat_map(|agent| &agent.elements).map(Pattern::identity) {
        match cx.client.get(&path(TOOLS, name), &[]).await {
            Ok(response) if response.read::<Value>()?.get("source").is_none_or(|source| source != "built-in") => {
                found.push(to_pattern(ResourceKind::Tool, &response, exportable_fields(&response)?)?);
            }
            Ok(_) => {}
            Err(Failure::Refused(refusal)) if refusal.problem.status == 404 => {}
            Err(other) => return Err(other),
        }
    }
    Ok(found)
}

fn to_pattern(kind: ResourceKind, response: &ApiResponse, fields: Value) -> Result<Pattern, Failure> {
    match kind {
        ResourceKind::Agent => parse_definition::<AgentDefinition>(response, fields).map(|agent| write_agent(&agent)),
        _ => parse_definition::<ToolDefinition>(response, fields).map(|tool| write_tool(&tool)),
    }
}

/// Returns the fields that authors write, without the fields that are derived from others.
fn exportable_fields(response: &ApiResponse) -> Result<Value, Failure> {
    let view: Value = response.read()?;
    let mut fields = authored_fields(&view).unwrap_or_default();
    if let Some(fields) = fields.as_object_mut() {
        if fields.get("name") == fields.get("refName") {
            fields.shift_remove("name");
        }
        // `sideEffects` contains the same information as this field.
        if fields.contains_key("sideEffects") {
            fields.shift_remove("hasSideEffects");
        }
    }
    Ok(fields)
}

fn parse_definition<T: DeserializeOwned>(response: &ApiResponse, fields: Value) -> Result<T, Failure> {
    serde_json::from_value(fields).map_err(|error| unexpected(response, &error))
}

fn unexpected(response: &ApiResponse, error: &serde_json::Error) -> Failure {
    Failure::Unexpected { url: response.url.clone(), cause: error.to_string() }
}
