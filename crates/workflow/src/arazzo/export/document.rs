//! The document: sources, workflows and the schemas that they share.

use serde_json::{Map, Value, json};
use toolwright_types::WorkflowDefinition;

use super::super::problem::Problems;
use super::super::{Operation, Problem};
use super::{ArazzoVersion, workflow};

pub(super) type OperationOf<'f> = &'f dyn Fn(&str) -> Option<Operation>;

/// What the workflows of a document share.
pub(super) struct Document<'d> {
    pub version: ArazzoVersion,
    pub workflows: &'d [&'d WorkflowDefinition],
    /// The names and URLs of the sources.
    pub sources: Vec<(String, String)>,
    /// The schemas under `components.inputs`.
    pub schemas: Map<String, Value>,
    pub problems: Problems,
}

pub(super) fn export(
    workflows: &[&WorkflowDefinition],
    version: ArazzoVersion,
    operation_of: OperationOf<'_>,
) -> Result<Value, Vec<Problem>> {
    let mut document =
        Document { version, workflows, sources: Vec::new(), schemas: Map::new(), problems: Problems::default() };
    let Some(first) = workflows.first() else { return Err(vec![Problem::new("", "must have at least one workflow")]) };
    // The sources decide how operations are named, so that they are collected first.
    document.collect_sources(operation_of);
    let mut written = Vec::with_capacity(workflows.len());
    for (at, definition) in workflows.iter().enumerate() {
        let prefix = if workflows.len() > 1 { format!("/{at}") } else { String::new() };
        if workflows.iter().take(at).any(|other| other.ref_name.key() == definition.ref_name.key()) {
            document.problems.add(format!("{prefix}/refName"), "another workflow of the document has the same name");
        }
        written.push(workflow::export(&mut document, definition, &prefix, operation_of));
    }
    let sources: Vec<Value> =
        document.sources.iter().map(|(name, url)| json!({ "name": name, "url": url, "type": "openapi" })).collect();
    if sources.is_empty() {
        document.problems.add("/steps", "no step calls an operation of an API, so that there is nothing to describe");
    }
    if !document.problems.list.is_empty() {
        return Err(document.problems.list);
    }
    let title = first.name.as_deref().unwrap_or(first.ref_name.as_str());
    let mut out = json!({
        "arazzo": version.as_str(),
        "info": { "title": title, "version": first.version.to_string() },
        "sourceDescriptions": sources,
        "workflows": written.into_iter().flatten().collect::<Vec<Value>>(),
    });
    if let (false, Some(fields)) = (document.schemas.is_empty(), out.as_object_mut()) {
        fields.insert("components".to_owned(), json!({ "inputs": document.schemas }));
    }
    Ok(out)
}

impl Document<'_> {
    fn collect_sources(&mut self, operation_of: OperationOf<'_>) {
        for (at, definition) in self.workflows.iter().enumerate() {
            for (index, step) in definition.steps.iter().enumerate() {
                if step.handler_ref.starts_with(toolwright_types::step_handlers::PREFIX) {
                    continue;
                }
                let Some(operation) = operation_of(&step.handler_ref) else { continue };
                let Operation { source_name, source_url, .. } = operation;
                let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
                let prefix = if self.workflows.len() > 1 { format!("/{at}") } else { String::new() };
                let path = format!("{prefix}/steps/{index}/handlerRef");
                match self.sources.iter().find(|(name, _)| *name == source_name) {
                    Some((_, url)) if *url == source_url => {}
                    Some((name, url)) => {
                        self.problems.add(path, format!("source `{name}` has two URLs, `{url}` and `{source_url}`"));
                    }
                    None if source_name.is_empty() || !source_name.chars().all(is_name) => {
                        self.problems.add(path, format!("`{source_name}` cannot be the name of a source"));
                    }
                    None => self.sources.push((source_name, source_url)),
                }
            }
        }
    }

    /// The workflow that a step executes.
    pub(crate) fn workflow(&self, name: &str) -> Option<&WorkflowDefinition> {
        self.workflows.iter().find(|workflow| workflow.ref_name.as_str() == name).copied()
    }
}
