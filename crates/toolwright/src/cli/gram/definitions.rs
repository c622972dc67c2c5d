//! The definitions that gram files hold, for `apply`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::Value;
use toolwright_gram::{Pattern, locate_in};
use toolwright_notation::{Definition as Defined, read_all};

use super::texts::{self, Parsed};
use crate::cli::definitions::{Definition, Kind, Place};
use crate::cli::failure::Failure;

/// Every agent and tool of these files, which know each other's names, or everything that is wrong.
pub fn definitions(files: &[PathBuf]) -> Result<Vec<Definition>, Vec<String>> {
    let texts = texts::parsed(files).map_err(|failure| match failure {
        Failure::Gram(errors) => errors,
        other => vec![other.to_string()],
    })?;
    let patterns: Vec<Pattern> = texts.iter().map(|text| text.pattern.clone()).collect();
    let found = read_all(&patterns).map_err(|problems| {
        problems
            .into_iter()
            .map(|(text, problem)| told(texts.get(text), &problem.path, &problem.message))
            .collect::<Vec<_>>()
    })?;
    let mut counts: BTreeMap<usize, usize> = BTreeMap::new();
    let definitions = found.into_iter().map(|defined| {
        let document = counts.entry(defined.text).or_default();
        *document += 1;
        let file = texts.get(defined.text).map(|text| text.file.clone()).unwrap_or_default();
        let place = Place { file, document: *document };
        let (kind, name, body) = match &defined.definition {
            Defined::Agent(agent) => (Kind::Agent, agent.ref_name.to_string(), serde_json::to_value(agent)),
            Defined::Tool(tool) => (Kind::Tool, tool.ref_name.to_string(), serde_json::to_value(tool)),
        };
        let body: Value = body.map_err(|error| vec![format!("{place}: {error}")])?;
        Ok(Definition { kind, name, body, place })
    });
    definitions.collect()
}

fn told(text: Option<&Parsed>, path: &[usize], message: &str) -> String {
    match text {
        Some(Parsed { file, source, .. }) => format!("{}:{}: {message}", file.display(), locate_in(source, path).1),
        None => message.to_owned(),
    }
}
