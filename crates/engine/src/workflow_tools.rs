//! Tools with which agents write workflows: one checks a definition and compares it with the stored one, the other saves
//! it. Only agents with `canCreateWorkflows` have them.

use std::sync::{Arc, OnceLock};

use futures::future::BoxFuture;
use serde_json::{Value, json};
use toolwright_catalog::registry::RegistryError;
use toolwright_catalog::{PROPOSE_WORKFLOW, Registry, SAVE_WORKFLOW, Session};
use toolwright_machine::workflow::{IssueSeverity, WorkflowIssue};
use toolwright_tools::{DynTool, Library, ToolCx, ToolFailure, ToolSpec};
use toolwright_types::{DefinitionSource, ErrorCode, SideEffects, WorkflowDefinition};
use toolwright_workflow::diff;

/// The registry that the tools use. It is set after the library is built, because the registry depends on the library.
pub(crate) type RegistrySlot = Arc<OnceLock<Registry>>;

/// Adds the tools to a library.
pub(crate) fn with_workflow_tools(library: Library, registry: &RegistrySlot) -> Library {
    [false, true].into_iter().fold(library, |library, saves| {
        library.with_dyn(Arc::new(WorkflowTool { spec: spec(saves), saves, registry: Arc::clone(registry) }))
    })
}

struct WorkflowTool {
    spec: ToolSpec,
    /// Whether the tool saves the definition.
    saves: bool,
    registry: RegistrySlot,
}

fn spec(saves: bool) -> ToolSpec {
    let (name, description, side_effects) = if saves {
        let description = "Saves a workflow definition. A person must confirm it. Check the definition with `workflow_propose` first.";
        (SAVE_WORKFLOW, description, SideEffects::Writes)
    } else {
        let description = "Checks a workflow definition and compares it with the stored version. Saves nothing.";
        (PROPOSE_WORKFLOW, description, SideEffects::Reads)
    };
    let definition = json!({ "type": "object", "description": "The definition: `refName`, `steps` and, if needed, `version`, \
        `description`, `inputSchema`, `outputSchema` and `output`. Each step has `name`, `handlerRef` (a tool) and `input`." });
    ToolSpec {
        input_schema: json!({ "type": "object", "additionalProperties": false, "required": ["definition"],
            "properties": { "definition": definition } }),
        output_schema: json!({ "type": "object" }),
        side_effects,
        requires_confirmation: saves,
        category: "workflows".to_owned(),
        ..ToolSpec::new(name, description)
    }
}

impl DynTool for WorkflowTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn call<'a>(&'a self, cx: &'a ToolCx<'a>, mut input: Value) -> BoxFuture<'a, Result<Value, ToolFailure>> {
        Box::pin(async move {
            let registry = self.registry.get().ok_or_else(|| {
                ToolFailure::fatal(ErrorCode::PolicyDenied, "workflows are not available here").reason("no_registry")
            })?;
            let session = Session::new(cx.call.principal.clone(), cx.call.realm.clone());
            let definition = input.get_mut("definition").map(Value::take).unwrap_or_default();
            let proposal = propose(registry, &session, definition.clone()).await.map_err(|error| failure(&error))?;
            if self.saves { save(registry, &session, definition, proposal).await } else { Ok(proposal.report()) }
        })
    }
}

/// A definition that was checked.
struct Proposal {
    issues: Vec<WorkflowIssue>,
    /// The stored definition with the same name, and the differences to it.
    stored: Option<(WorkflowDefinition, Value)>,
}

impl Proposal {
    fn is_valid(&self) -> bool {
        !self.issues.iter().any(WorkflowIssue::is_error)
    }

    fn issues(&self) -> Value {
        let issues = self.issues.iter().map(|issue| {
            let severity = if issue.severity == IssueSeverity::Error { "error" } else { "warning" };
            json!({ "severity": severity, "code": issue.code, "path": issue.path, "message": issue.message, "hint": issue.hint })
        });
        issues.collect()
    }

    /// The output of `workflow_propose`.
    fn report(&self) -> Value {
        let (stored, changes) = self.stored.as_ref().map(|(stored, changes)| (stored, changes)).unzip();
        json!({
            "valid": self.is_valid(),
            "issues": self.issues(),
            "storedVersion": stored.map(|stored| stored.version.to_string()),
            "changes": changes,
        })
    }
}

/// Checks a definition as a save does, and compares it with the stored one.
async fn propose(registry: &Registry, session: &Session, definition: Value) -> Result<Proposal, RegistryError> {
    let issues = registry.check_workflow(session, definition.clone()).await?;
    let Ok(proposed) = Registry::parse_workflow(definition) else { return Ok(Proposal { issues, stored: None }) };
    let stored = registry.find::<WorkflowDefinition>(session, &proposed.ref_name).await?;
    let stored = stored.map(|stored| {
        let changes = serde_json::to_value(diff(&stored.body, &proposed)).unwrap_or_default();
        (stored.body, changes)
    });
    Ok(Proposal { issues, stored })
}

/// Saves a definition that has no errors.
async fn save(
    registry: &Registry,
    session: &Session,
    definition: Value,
    proposal: Proposal,
) -> Result<Value, ToolFailure> {
    if !proposal.is_valid() {
        let mut failure =
            ToolFailure::invalid("the workflow is not valid; correct its issues").reason("invalid_workflow");
        failure.error = failure.error.detail("issues", proposal.issues());
        return Err(failure);
    }
    let name = definition.get("refName").or_else(|| definition.get("name"));
    let name = name.and_then(Value::as_str).unwrap_or_default().to_owned();
    let saved = match proposal.stored {
        Some(_) => registry.replace(session, &name, None, definition, DefinitionSource::Manual).await,
        None => registry.create(session, definition, DefinitionSource::Manual).await,
    };
    let saved = saved.map_err(|error| failure(&error))?;
    let document: toolwright_types::Document<WorkflowDefinition> = saved.document;
    Ok(json!({
        "saved": true,
        "refName": document.meta.ref_name,
        "version": document.body.version.to_string(),
        "revision": document.meta.revision,
        "warnings": saved.warnings,
        "changes": proposal.stored.map(|(_, changes)| changes),
    }))
}

fn failure(error: &RegistryError) -> ToolFailure {
    match error {
        RegistryError::Denied(_) => ToolFailure::fatal(ErrorCode::PolicyDenied, error.to_string()).reason("permission"),
        RegistryError::Unavailable(_) => ToolFailure::fatal(ErrorCode::Unknown, error.to_string()),
        _ => ToolFailure::invalid(error.to_string()),
    }
}
