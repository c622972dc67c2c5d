//! `… export`: a definition as it goes into a file.

use serde::de::DeserializeOwned;
use serde_json::Value;
use toolwright_gram::{Pattern, print};
use toolwright_notation::{write_agent, write_tool};
use toolwright_types::{AgentDefinition, ToolDefinition};

use super::Context;
use super::apply::authored;
use super::client::{Answer, TOOLS, parse_name, path};
use super::definitions::Kind;
use super::exit::Exit;
use super::failure::Failure;

/// Which definition, and in which language.
#[derive(clap::Args)]
pub struct ExportArgs {
    /// Its refName or id
    #[arg(value_name = "REF", value_parser = parse_name)]
    reference: String,
    /// In gram notation instead of JSON
    #[arg(long)]
    gram: bool,
    /// With the tools that an agent names and the realm defines
    #[arg(long, requires = "gram")]
    with_tools: bool,
}

/// Prints the fields that the author writes, ready for `apply`.
pub async fn run(cx: &Context, kind: Kind, args: ExportArgs) -> Result<Exit, Failure> {
    let answer = cx.client.get(&path(kind.collection(), &args.reference), &[]).await?;
    let fields = written(&answer)?;
    if !args.gram {
        let text = serde_json::to_string_pretty(&fields).map_err(|error| unreadable(&answer, &error))?;
        cx.output.line(text)?;
        return Ok(Exit::Ok);
    }
    let mut patterns = vec![pattern(kind, &answer, fields)?];
    if args.with_tools {
        patterns.extend(tools(cx, &patterns).await?);
    }
    cx.output.part(&print(&Pattern::root_of(patterns)))?;
    Ok(Exit::Ok)
}

/// The tools that the agents name, as far as someone defined them: what is built in needs no definition.
async fn tools(cx: &Context, agents: &[Pattern]) -> Result<Vec<Pattern>, Failure> {
    let mut found = Vec::new();
    for name in agents.iter().flat_map(|agent| &agent.elements).map(Pattern::identity) {
        match cx.client.get(&path(TOOLS, name), &[]).await {
            Ok(answer) if answer.read::<Value>()?.get("source").is_none_or(|source| source != "built-in") => {
                found.push(pattern(Kind::Tool, &answer, written(&answer)?)?);
            }
            Ok(_) => {}
            Err(Failure::Refused(problem)) if problem.status == 404 => {}
            Err(other) => return Err(other),
        }
    }
    Ok(found)
}

fn pattern(kind: Kind, answer: &Answer, fields: Value) -> Result<Pattern, Failure> {
    match kind {
        Kind::Agent => read::<AgentDefinition>(answer, fields).map(|agent| write_agent(&agent)),
        _ => read::<ToolDefinition>(answer, fields).map(|tool| write_tool(&tool)),
    }
}

/// The author's fields, less those that only repeat what follows from the others.
fn written(answer: &Answer) -> Result<Value, Failure> {
    let view: Value = answer.read()?;
    let mut fields = authored(&view).unwrap_or_default();
    if let Some(fields) = fields.as_object_mut() {
        if fields.get("name") == fields.get("refName") {
            fields.shift_remove("name");
        }
        // `sideEffects` says it too, and more.
        if fields.contains_key("sideEffects") {
            fields.shift_remove("hasSideEffects");
        }
    }
    Ok(fields)
}

fn read<T: DeserializeOwned>(answer: &Answer, fields: Value) -> Result<T, Failure> {
    serde_json::from_value(fields).map_err(|error| unreadable(answer, &error))
}

fn unreadable(answer: &Answer, error: &serde_json::Error) -> Failure {
    Failure::Unexpected { url: answer.url.clone(), cause: error.to_string() }
}
