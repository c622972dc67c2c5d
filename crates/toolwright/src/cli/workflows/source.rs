//! Finds workflows in files and on the server.

use std::path::{Path, PathBuf};

use serde_json::Value;
use toolwright_types::WorkflowDefinition;

use crate::cli::Context;
use crate::cli::apply::authored_fields;
use crate::cli::client::{WORKFLOWS, path};
use crate::cli::definitions::{self, FileDefinition, ResourceKind, STDIN};
use crate::cli::failure::Failure;

/// Whether an argument names a file, a directory or standard input, and not a workflow on the server.
pub(super) fn is_file(argument: &str) -> bool {
    let path = Path::new(argument);
    let has_extension =
        path.extension().is_some_and(|extension| ["json", "yaml", "yml"].iter().any(|one| extension == *one));
    argument == STDIN || has_extension || path.exists()
}

/// Reads the workflows of files and directories. Definitions of other kinds are ignored.
pub(super) fn workflows(files: &[PathBuf]) -> Result<Vec<FileDefinition>, Failure> {
    let (definitions, _) = definitions::read(files, None, Some(ResourceKind::Workflow))?;
    let found: Vec<FileDefinition> =
        definitions.into_iter().filter(|definition| definition.kind == ResourceKind::Workflow).collect();
    if found.is_empty() {
        let names: Vec<String> = files.iter().map(|file| format!("`{}`", file.display())).collect();
        return Err(Failure::Usage(format!("{} contains no workflow", names.join(", "))));
    }
    Ok(found)
}

/// Reads the only workflow of a file, or a workflow on the server.
pub(super) async fn workflow(cx: &Context, argument: &str) -> Result<WorkflowDefinition, Failure> {
    if !is_file(argument) {
        let response = cx.client.get(&path(WORKFLOWS, argument), &[]).await?;
        let parsed = parse(&response.read()?);
        return parsed.map_err(|error| Failure::Unexpected { url: response.url, cause: error.to_string() });
    }
    let mut found = workflows(&[PathBuf::from(argument)])?;
    match (found.pop(), found.len()) {
        (Some(definition), 0) => parse(&definition.body)
            .map_err(|error| Failure::InvalidDefinitions(vec![format!("{}: {error}", definition.location)])),
        (_, others) => Err(Failure::Usage(format!("`{argument}` must contain one workflow, got {}", others + 1))),
    }
}

fn parse(body: &Value) -> Result<WorkflowDefinition, serde_json::Error> {
    serde_json::from_value(authored_fields(body).unwrap_or_default())
}
