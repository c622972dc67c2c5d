//! What a trial is given on the command line: libraries, and what they are tried on.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::cli::failure::Failure;
use crate::cli::input::{json_argument, read_stdin};
use crate::cli::runs::with::{bindings, parse_binding};

/// A library as the server takes it.
pub fn library(option: &str, text: &str) -> Result<Value, Failure> {
    if let Some(file) = text.strip_prefix('@') {
        let name = Path::new(file).file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
        return Ok(json!({ "name": name, "tools": json_argument(option, text)? }));
    }
    if !text.contains(['=', '@']) {
        return Ok(json!(text));
    }
    let tools: Result<Vec<_>, String> = text.split(',').map(|one| parse_binding(one.trim())).collect();
    let tools = tools.map_err(|why| Failure::Usage(format!("{option}: {why}")))?;
    Ok(json!({ "name": text, "tools": bindings(&tools) }))
}

/// What users say, one on each line.
pub fn inputs(file: &Path) -> Result<Value, Failure> {
    let text = if file == Path::new("-") { read_stdin()? } else { read(file)? };
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let items: Result<Vec<Value>, Failure> = lines
        .map(|(at, line)| {
            match serde_json::from_str(line) {
                Ok(Value::String(message)) => Ok(json!({ "userMessage": message })),
                Ok(input @ Value::Object(_)) => Ok(input),
                Ok(_) => Err("it is neither a text nor an object with `userMessage`".to_owned()),
                Err(error) => Err(error.to_string()),
            }
            .map_err(|why| Failure::Usage(format!("{}, line {}: {why}", file.display(), at + 1)))
        })
        .collect();
    Ok(Value::Array(items?))
}

/// Recorded runs: their ids, or the bundles of a folder.
pub fn recorded(runs: &[String]) -> Result<(&'static str, Value), Failure> {
    let [folder] = runs else { return Ok(("runs", json!(runs))) };
    let folder = Path::new(folder);
    if !folder.is_dir() {
        return Ok(("runs", json!(runs)));
    }
    let unreadable = |error| Failure::Usage(format!("cannot read {}: {error}", folder.display()));
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder)
        .map_err(unreadable)?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "jsonl"))
        .collect();
    files.sort();
    if files.is_empty() {
        return Err(Failure::Usage(format!("there is no bundle (*.jsonl) in {}", folder.display())));
    }
    let bundles: Result<Vec<String>, Failure> = files.iter().map(|file| read(file)).collect();
    Ok(("bundles", json!(bundles?)))
}

fn read(file: &Path) -> Result<String, Failure> {
    std::fs::read_to_string(file).map_err(|error| Failure::Usage(format!("cannot read {}: {error}", file.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_is_a_name_or_tools() {
        assert_eq!(library("--a", "fast").unwrap(), json!("fast"));
        assert_eq!(
            library("--a", "find@2.0.0, get=fast").unwrap(),
            json!({ "name": "find@2.0.0, get=fast", "tools": { "find": "find@2.0.0", "get": "fast" } })
        );
        assert!(library("--a", "find@").is_err() && library("--a", "@no such file").is_err());
    }
}
