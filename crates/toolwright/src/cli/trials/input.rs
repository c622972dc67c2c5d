//! Parses the libraries, inputs and recorded runs of a trial.

use std::path::Path;

use serde_json::{Value, json};

use crate::cli::failure::Failure;
use crate::cli::input::{parse_json_argument, read_stdin};
use crate::cli::runs::bundles::bundle_files;
use crate::cli::runs::replay_with::{parse_binding, tool_bindings};

/// Parses a library into JSON for the API.
pub(super) fn parse_library(option: &str, text: &str) -> Result<Value, Failure> {
    if let Some(file) = text.strip_prefix('@') {
        let name = Path::new(file).file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
        return Ok(json!({ "name": name, "tools": parse_json_argument(option, text)? }));
    }
    if !text.contains(['=', '@']) {
        return Ok(json!(text));
    }
    let tools: Result<Vec<_>, String> = text.split(',').map(|binding| parse_binding(binding.trim())).collect();
    let tools = tools.map_err(|error| Failure::Usage(format!("{option}: {error}")))?;
    Ok(json!({ "name": text, "tools": tool_bindings(&tools) }))
}

/// Reads user messages. Each line is a JSON string, or an object with `userMessage`.
pub(super) fn read_inputs(file: &Path) -> Result<Value, Failure> {
    let text = if file == Path::new("-") { read_stdin()? } else { read_file(file)? };
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let items: Result<Vec<Value>, Failure> = lines
        .map(|(index, line)| {
            match serde_json::from_str(line) {
                Ok(Value::String(message)) => Ok(json!({ "userMessage": message })),
                Ok(input @ Value::Object(_)) => Ok(input),
                Ok(_) => Err("expected a string or an object with `userMessage`".to_owned()),
                Err(error) => Err(error.to_string()),
            }
            .map_err(|error| Failure::Usage(format!("{}, line {}: {error}", file.display(), index + 1)))
        })
        .collect();
    Ok(Value::Array(items?))
}

/// Returns the request field and value for recorded runs: run IDs, or the bundles of a directory.
pub(super) fn recorded_runs(runs: &[String]) -> Result<(&'static str, Value), Failure> {
    let [directory] = runs else { return Ok(("runs", json!(runs))) };
    let directory = Path::new(directory);
    if !directory.is_dir() {
        return Ok(("runs", json!(runs)));
    }
    let files = bundle_files(directory)?;
    let bundles: Result<Vec<String>, Failure> = files.iter().map(|file| read_file(file)).collect();
    Ok(("bundles", json!(bundles?)))
}

fn read_file(file: &Path) -> Result<String, Failure> {
    std::fs::read_to_string(file).map_err(|error| Failure::Usage(format!("cannot read `{}`: {error}", file.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn library_argument_is_parsed_as_a_name_or_tool_bindings() {
        assert_eq!(parse_library("--a", "fast").unwrap(), json!("fast"));
        assert_eq!(
            parse_library("--a", "find@2.0.0, get=fast").unwrap(),
            json!({ "name": "find@2.0.0, get=fast", "tools": { "find": "find@2.0.0", "get": "fast" } })
        );
        assert!(parse_library("--a", "find@").is_err() && parse_library("--a", "@no such file").is_err());
    }
}
