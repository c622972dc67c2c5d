//! `--context`: variables for the prompt.

use serde_json::{Map, Value};

use crate::cli::failure::Failure;
use crate::cli::input::{Parameter, json_argument, parse_parameter};

/// Options that give variables.
#[derive(clap::Args)]
pub struct ContextArgs {
    /// A variable for the prompt, or `@FILE` with a JSON object of them; later ones win. May be repeated
    #[arg(long = "context", value_name = "NAME=VALUE|@FILE", value_parser = parse)]
    parts: Vec<Part>,
}

#[derive(Debug, Clone)]
enum Part {
    File(String),
    One(Parameter),
}

impl ContextArgs {
    /// The variables as one object.
    pub fn read(&self) -> Result<Value, Failure> {
        let mut context = Value::Object(Map::new());
        for part in &self.parts {
            match part {
                Part::One(parameter) => parameter.put_over(&mut context, "--context")?,
                Part::File(file) => match (json_argument("--context", file)?, context.as_object_mut()) {
                    (Value::Object(more), Some(all)) => all.extend(more),
                    _ => return Err(Failure::Usage(format!("--context {file}: there is no JSON object in it"))),
                },
            }
        }
        Ok(context)
    }
}

fn parse(text: &str) -> Result<Part, String> {
    if text.starts_with('@') { Ok(Part::File(text.to_owned())) } else { parse_parameter(text).map(Part::One) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn later_variables_win_over_earlier_ones_and_files() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), r#"{"team": "sales", "limit": 1}"#).unwrap();
        let parts = [&format!("@{}", file.path().display()), "limit=5", "user.name=World"];
        let args = ContextArgs { parts: parts.iter().map(|part| parse(part).unwrap()).collect() };
        assert_eq!(args.read().unwrap(), json!({ "team": "sales", "limit": 5, "user": { "name": "World" } }));
        assert!(parse("nonsense").is_err());
    }
}
