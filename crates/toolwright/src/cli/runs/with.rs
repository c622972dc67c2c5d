//! `runs replay --with`: a recorded run against something new, on the server.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::fork::{Difference, show_differences};
use crate::cli::Context;
use crate::cli::client::RUNS;
use crate::cli::exit::Exit;
use crate::cli::failure::Failure;
use crate::cli::output::plain;
use crate::cli::table::Table;

/// What is new in a replay; without any of it nothing is called.
#[derive(clap::Args)]
pub struct WithArgs {
    /// What a tool is called as: TOOL@VERSION, or TOOL=OTHER@VERSION for another tool in its place
    #[arg(long = "with", value_name = "TOOL@VERSION", value_parser = parse_binding)]
    tools: Vec<(String, String)>,
    /// The model, as PROVIDER/MODEL or MODEL
    #[arg(long, value_name = "MODEL")]
    with_model: Option<String>,
    /// A file with the instructions
    #[arg(long, value_name = "FILE")]
    with_prompt: Option<PathBuf>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Replayed {
    run_id: String,
    replay_of: String,
    status: String,
    identical: bool,
    differences: Vec<Difference>,
    calls: Vec<Call>,
    replies: Replies,
}

#[derive(Deserialize)]
struct Call {
    tool: String,
    version: String,
    implementation: Option<String>,
    source: String,
    error: Option<String>,
}

#[derive(Deserialize)]
struct Replies {
    recorded: u64,
    made: u64,
}

impl WithArgs {
    /// Whether anything is new.
    pub fn any(&self) -> bool {
        !self.tools.is_empty() || self.with_model.is_some() || self.with_prompt.is_some()
    }

    fn body(&self) -> Result<Value, Failure> {
        let mut with = Map::new();
        if !self.tools.is_empty() {
            with.insert("tools".into(), bindings(&self.tools));
        }
        if let Some(model) = &self.with_model {
            with.insert("model".into(), json!(model));
        }
        if let Some(file) = &self.with_prompt {
            with.insert("prompt".into(), json!(read(file)?));
        }
        Ok(Value::Object(with))
    }
}

/// Has the server replay a bundle against something new.
pub async fn replay(cx: &Context, file: &Path, args: &WithArgs) -> Result<Exit, Failure> {
    let body = json!({ "bundle": read(file)?, "with": args.body()? });
    let answer = cx.client.call(&format!("{RUNS}/replay"), &body).await?;
    let replayed: Replayed = answer.read()?;
    if cx.output.json {
        cx.output.line(answer.text.trim_end())?;
        return Ok(replayed.exit());
    }
    let Replayed { run_id, replay_of, status, differences, calls, replies, .. } = &replayed;
    if !calls.is_empty() {
        let mut table = Table::new(["CALL", "VERSION", "RESULT", "ERROR"]);
        for Call { tool, version, implementation, source, error } in calls {
            let tool = implementation.as_ref().map_or_else(|| tool.clone(), |other| format!("{tool} → {other}"));
            table.row([&tool, version, source, error.as_deref().unwrap_or_default()]);
        }
        cx.output.lines(table.lines(cx.output.out, cx.output.width))?;
    }
    cx.output.line(format!("{} replies recorded, {} asked for anew", replies.recorded, replies.made))?;
    show_differences(cx, differences)?;
    cx.output.note(format!("{} replayed {} and ended {status}", plain(run_id), plain(replay_of)));
    Ok(replayed.exit())
}

impl Replayed {
    fn exit(&self) -> Exit {
        if self.identical { Exit::Ok } else { Exit::Failed }
    }
}

/// A tool and what it is bound to.
pub fn parse_binding(text: &str) -> Result<(String, String), String> {
    let wrong = || "write TOOL@VERSION or TOOL=OTHER@VERSION, such as hubspot/search-deals@1.2.0".to_owned();
    let (tool, implementation) = match text.find(['=', '@']).map(|at| text.split_at(at)) {
        Some((tool, rest)) if rest.starts_with('@') && rest.len() > 1 => (tool, text),
        Some((tool, rest)) => (tool, rest.trim_start_matches('=')),
        None => return Err(wrong()),
    };
    if tool.is_empty() || implementation.is_empty() || implementation == "@" {
        return Err(wrong());
    }
    Ok((tool.to_owned(), implementation.to_owned()))
}

/// Bindings as the server takes them.
pub fn bindings(tools: &[(String, String)]) -> Value {
    tools.iter().map(|(tool, implementation)| (tool.clone(), json!(implementation))).collect::<Map<_, _>>().into()
}

fn read(file: &Path) -> Result<String, Failure> {
    std::fs::read_to_string(file).map_err(|error| Failure::Usage(format!("cannot read {}: {error}", file.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_binding_names_a_version_or_another_tool() {
        for (text, tool, implementation) in [
            ("look@2.0.0", "look", "look@2.0.0"),
            ("look@=2.0.0", "look", "look@=2.0.0"),
            ("crm/find=crm/find-fast", "crm/find", "crm/find-fast"),
            ("find=fast@^1", "find", "fast@^1"),
        ] {
            assert_eq!(parse_binding(text), Ok((tool.to_owned(), implementation.to_owned())), "{text}");
        }
        for text in ["look", "", "@1", "=x", "look=", "look@"] {
            assert!(parse_binding(text).is_err(), "{text}");
        }
    }
}
