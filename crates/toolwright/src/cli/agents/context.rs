//! Parses `--context`, which sets variables of the system prompt.

use serde_json::{Map, Value};

use crate::cli::failure::Failure;
use crate::cli::input::{InputParameter, parse_json_argument, parse_parameter};

/// Options that set prompt variables.
#[derive(clap::Args)]
pub(super) struct ContextArgs {
    /// Set a prompt variable, or read a JSON object of variables from `@FILE`; may be repeated, later values win
    #[arg(long = "context", value_name = "NAME=VALUE|@FILE", value_parser = parse)]
    entries: Vec<ContextEntry>,
}

#[derive(Debug, Clone)]
enum ContextEntry {
    File(String),
    Variable(InputParameter),
}

impl ContextArgs {
    /// Returns the variables as one object.
    pub(super) fn read(&self) -> Result<Value, Failure> {
        let mut context = Value::Object(Map::new());
        for entry in &self.entries {
            match entry {
                ContextEntry::Variable(parameter) => parameter.merge_into(&mut context, "--context")?,
                ContextEntry::File(file) => match (parse_json_argument("--context", file)?, context.as_object_mut()) {
                    (Value::Object(more), Some(all)) => all.extend(more),
                    _ => return Err(Failure::Usage(format!("--context {file}: must contain a JSON object"))),
                },
            }
        }
        Ok(context)
    }
}

fn parse(text: &str) -> Result<ContextEntry, String> {
    if text.starts_with('@') {
        Ok(ContextEntry::File(text.to_owned()))
    } else {
        parse_parameter(text).map(ContextEntry::Variable)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn later_prompt_variable_overrides_a_variable_from_a_file() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), r#"{"team": "sales", "limit": 1}"#).unwrap();
        let parts = [&format!("@{}", file.path().display()), "limit=5", "user.name=World"];
        let args = ContextArgs { entries: parts.iter().map(|entry| parse(entry).unwrap()).collect() };
        assert_eq!(args.read().unwrap(), json!({ "team": "sales", "limit": 5, "user": { "name": "World" } }));
        assert!(parse("nonsense").is_err());
    }
}
