//! The tools that were imported from OpenAPI documents, and the operations that they call.

use std::collections::{BTreeMap, HashMap};

use serde_json::Value;
use toolwright_catalog::Session;
use toolwright_catalog::registry::{Registry, RegistryError};
use toolwright_types::{StepRegistration, ToolDefinition, ToolOrigin, WorkflowDefinition};
use toolwright_workflow::arazzo::{Operation, OperationRef, OperationTool};

use crate::problem::Problem;
use crate::routes::tools::split_reference;

/// The tools for the operations of a document.
pub(super) struct ImportedTools {
    /// The tools of each source description, by its name.
    sources: BTreeMap<String, Vec<ImportedTool>>,
}

#[derive(Clone)]
struct ImportedTool {
    provider: String,
    origin: ToolOrigin,
    tool: OperationTool,
}

impl ImportedTools {
    /// Finds the tools for the source descriptions of a document, among the tools that the session may read.
    pub(super) async fn load(
        registry: &Registry,
        session: &Session,
        document: &Value,
        providers: &BTreeMap<String, String>,
    ) -> Result<Self, Problem> {
        let stored = registry.list_all::<ToolDefinition>(session, Vec::new()).await?;
        let tools: Vec<ImportedTool> = stored.iter().filter_map(|document| ImportedTool::new(&document.body)).collect();
        let descriptions = document.get("sourceDescriptions").and_then(Value::as_array);
        let mut sources = BTreeMap::new();
        for description in descriptions.into_iter().flatten() {
            let text = |key: &str| description.get(key).and_then(Value::as_str);
            if let (Some(name), Some(url)) = (text("name"), text("url")) {
                let provider = providers.get(name).map(String::as_str);
                sources.insert(name.to_owned(), tools_of_source(&tools, name, url, provider));
            }
        }
        let unknown = providers.keys().find(|name| !sources.contains_key(*name));
        match unknown {
            Some(name) => Err(Problem::invalid(
                &format!("/providers/{name}"),
                format!("must be the name of a source description of the document, got `{name}`"),
            )),
            None => Ok(Self { sources }),
        }
    }

    /// Returns the tool that calls an operation. `None` if there is none, or more than one.
    pub(super) fn find(&self, operation: &OperationRef<'_>) -> Option<OperationTool> {
        let source = match operation {
            OperationRef::Id { source, .. } => *source,
            OperationRef::Path { source, .. } => Some(*source),
        };
        let tools = self.sources.iter().filter(|(name, _)| source.is_none_or(|source| source == **name));
        let mut found = tools.flat_map(|(_, tools)| tools).filter(|tool| tool.calls(operation));
        let first = found.next()?;
        found.all(|other| other.tool == first.tool).then(|| first.tool.clone())
    }
}

impl ImportedTool {
    fn new(definition: &ToolDefinition) -> Option<Self> {
        let origin = *definition.origin.clone()?;
        let provider = definition.provider_ref.clone()?;
        Some(Self { provider, origin, tool: OperationTool::from_definition(definition)? })
    }

    fn calls(&self, operation: &OperationRef<'_>) -> bool {
        match operation {
            OperationRef::Id { id, .. } => self.origin.operation_id.as_deref() == Some(*id),
            OperationRef::Path { path, method, .. } => {
                self.origin.path == *path && self.origin.method.eq_ignore_ascii_case(method)
            }
        }
    }
}

/// The tools of the named provider. Without a named provider, the tools that were imported from the URL or the file of the
/// source; if there are none, the tools of the provider with the name of the source.
fn tools_of_source(tools: &[ImportedTool], name: &str, url: &str, provider: Option<&str>) -> Vec<ImportedTool> {
    let of = |selected: &dyn Fn(&ImportedTool) -> bool| -> Vec<ImportedTool> {
        tools.iter().filter(|tool| selected(tool)).cloned().collect()
    };
    if let Some(provider) = provider {
        return of(&|tool| tool.provider.eq_ignore_ascii_case(provider));
    }
    let document = ToolOrigin::document_name(url);
    let same_document = of(&|tool| Some(&tool.origin.document) == document.as_ref());
    if same_document.is_empty() { of(&|tool| source_name(&tool.provider) == name) } else { same_document }
}

/// The operations that the steps of workflows call, by handler.
pub(super) struct Operations(HashMap<String, Operation>);

impl Operations {
    /// Returns the operation that a handler calls.
    pub(super) fn find(&self, handler: &str) -> Option<Operation> {
        self.0.get(handler).cloned()
    }
}

/// Finds the operations that the steps of workflows call. A step registration is no operation, because it can change input
/// and output.
pub(super) async fn operations_of(
    registry: &Registry,
    session: &Session,
    workflows: &[WorkflowDefinition],
) -> Result<Operations, Problem> {
    let mut operations = HashMap::new();
    let steps = workflows.iter().flat_map(|workflow| &workflow.steps);
    for handler in steps.map(|step| step.handler_ref.as_str()).filter(|handler| !super::is_built_in(handler)) {
        let (name, version) = split_reference(handler);
        // Arazzo has no versions of operations.
        if operations.contains_key(handler) || version.is_some() {
            continue;
        }
        match registry.get::<StepRegistration>(session, name, None).await {
            Ok(_) => continue,
            Err(RegistryError::NotFound { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        match registry.get::<ToolDefinition>(session, name, None).await {
            Ok(found) => operations.extend(operation(&found.body).map(|operation| (handler.to_owned(), operation))),
            Err(RegistryError::NotFound { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(Operations(operations))
}

fn operation(definition: &ToolDefinition) -> Option<Operation> {
    let ImportedTool { provider, origin, tool } = ImportedTool::new(definition)?;
    Some(Operation {
        source_name: source_name(&provider),
        source_url: origin.document,
        operation_id: origin.operation_id?,
        tool,
    })
}

/// The name of the source description for the tools of a provider.
fn source_name(provider: &str) -> String {
    let allowed = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
    provider.chars().map(allowed).collect()
}
