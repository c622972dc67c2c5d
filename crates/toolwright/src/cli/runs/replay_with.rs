//! `runs replay --with…`: replays a recorded run on the server against other tools, models or prompts.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};
use toolwright_api::wire::{TrialCallView, TrialReplayView};

use super::fork::show_differences;
use crate::cli::Context;
use crate::cli::client::RUNS;
use crate::cli::exit::Exit;
use crate::cli::failure::Failure;
use crate::cli::output::sanitize_line;
use crate::cli::table::Table;

/// Overrides of a replay. Without any, the replay is local and calls nothing.
#[derive(clap::Args)]
pub(crate) struct ReplayOverrides {
    /// Replace a tool: TOOL@VERSION for another version, TOOL=OTHER@VERSION for another tool; may be repeated
    #[arg(long = "with", value_name = "TOOL@VERSION", value_parser = parse_binding)]
    tools: Vec<(String, String)>,
    /// Replace the model, as PROVIDER/MODEL or MODEL
    #[arg(long, value_name = "MODEL")]
    with_model: Option<String>,
    /// Replace the system prompt with the contents of a file
    #[arg(long, value_name = "FILE")]
    with_prompt: Option<PathBuf>,
}

impl ReplayOverrides {
    /// Returns whether any override is set.
    pub(crate) fn is_set(&self) -> bool {
        !self.tools.is_empty() || self.with_model.is_some() || self.with_prompt.is_some()
    }

    fn body(&self) -> Result<Value, Failure> {
        let mut with = Map::new();
        if !self.tools.is_empty() {
            with.insert("tools".into(), tool_bindings(&self.tools));
        }
        if let Some(model) = &self.with_model {
            with.insert("model".into(), json!(model));
        }
        if let Some(file) = &self.with_prompt {
            with.insert("prompt".into(), json!(read_file(file)?));
        }
        Ok(Value::Object(with))
    }
}

/// Asks the server to replay a bundle with overrides.
pub(crate) async fn replay(cx: &Context, file: &Path, args: &ReplayOverrides) -> Result<Exit, Failure> {
    let body = json!({ "bundle": read_file(file)?, "with": args.body()? });
    let response = cx.client.call(&format!("{RUNS}/replay"), &body).await?;
    let report: TrialReplayView = response.read()?;
    let exit = if report.identical { Exit::Ok } else { Exit::Failed };
    if cx.output.json {
        cx.output.document(response.text.trim_end())?;
        return Ok(exit);
    }
    let TrialReplayView { run_id, replay_of, status, differences, calls, replies, .. } = &report;
    if !calls.is_empty() {
        let mut table = Table::new(["CALL", "VERSION", "RESULT", "ERROR"]);
        for TrialCallView { tool, version, implementation, source, error, .. } in calls {
            let tool = implementation.as_ref().map_or_else(|| tool.clone(), |other| format!("{tool} → {other}"));
            let error = error.map(|code| code.to_string()).unwrap_or_default();
            table.row([&tool, version, source, &error]);
        }
        cx.output.lines(table.lines(cx.output.out, cx.output.width))?;
    }
    cx.output.line(format!("replies: {} recorded, {} new", replies.recorded, replies.made))?;
    show_differences(cx, differences)?;
    cx.output.note(format!("{} replayed {} and ended with {status}", sanitize_line(run_id), sanitize_line(replay_of)));
    Ok(exit)
}

/// Parses `TOOL@VERSION` or `TOOL=OTHER@VERSION`. Returns the tool and the implementation that replaces it.
pub(crate) fn parse_binding(text: &str) -> Result<(String, String), String> {
    let invalid = || "expected TOOL@VERSION or TOOL=OTHER@VERSION, such as hubspot/search-deals@1.2.0".to_owned();
    let (tool, implementation) = match text.find(['=', '@']).map(|at| text.split_at(at)) {
        Some((tool, rest)) if rest.starts_with('@') && rest.len() > 1 => (tool, text),
        Some((tool, rest)) => (tool, rest.trim_start_matches('=')),
        None => return Err(invalid()),
    };
    if tool.is_empty() || implementation.is_empty() || implementation == "@" {
        return Err(invalid());
    }
    Ok((tool.to_owned(), implementation.to_owned()))
}

/// Returns the bindings as JSON for the API.
pub(crate) fn tool_bindings(tools: &[(String, String)]) -> Value {
    tools.iter().map(|(tool, implementation)| (tool.clone(), json!(implementation))).collect::<Map<_, _>>().into()
}

fn read_file(file: &Path) -> Result<String, Failure> {
    std::fs::read_to_string(file).map_err(|error| Failure::Usage(format!("cannot read `{}`: {error}", file.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tool_override_is_parsed_as_a_version_or_another_tool() {
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
