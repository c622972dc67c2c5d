//! Compiles workflows with the definitions that decide what their steps do.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;
use toolwright_machine::workflow::{WorkflowGraph, WorkflowIssue, WorkflowSource};
use toolwright_store::DocumentRef;
use toolwright_tools::Schema;
use toolwright_types::{
    ConditionBinding, Document, DocumentKind, RealmScope, StepRegistration, ToolStatus, WorkflowDefinition,
    step_handlers,
};

use crate::catalog::{Catalog, select_version};
use crate::toolset::VersionedRef;
use crate::{BoxError, Unavailable};

/// A workflow that is ready to run.
#[derive(Debug)]
pub struct CompiledWorkflow {
    /// The definition with its id, revision and content hash.
    pub document: Document<WorkflowDefinition>,
    /// The graph of the steps.
    pub graph: Arc<WorkflowGraph>,
    /// The schema of the input.
    pub input: Option<Arc<Schema>>,
}

impl CompiledWorkflow {
    /// Whether the workflow can be started: it is enabled, and this version is not blocked.
    pub fn is_runnable(&self) -> bool {
        let WorkflowDefinition { enabled, status, .. } = self.document.body;
        enabled && status != ToolStatus::Blocked
    }
}

impl Catalog {
    /// Returns the workflow that `name` refers to. `name` is the name or the id of the workflow, such as `fulfil`,
    /// optionally with a version requirement, such as `fulfil@^1.2`.
    pub async fn workflow(
        &self,
        realm: &RealmScope,
        name: &str,
    ) -> Result<Option<Result<Arc<CompiledWorkflow>, Vec<WorkflowIssue>>>, Unavailable> {
        if let Some(found) = self.cached_workflow(realm, name) {
            return Ok(Some(Ok(found)));
        }
        // The cache is selected before the definitions are read. So a workflow that was compiled from old definitions
        // is never inserted into the cache for new ones.
        let insert = self.workflow_inserter(realm, name);
        let versions = self.workflow_versions(realm, name).await?;
        let version_req = VersionedRef::parse(name).and_then(|reference| reference.version_req);
        let Some(document) = select_version(&versions, version_req.as_ref()).cloned() else { return Ok(None) };
        Ok(Some(self.compile_workflow(realm, document).await?.map(|workflow| insert(Arc::new(workflow)))))
    }

    /// Returns the versions of a workflow, highest first. Empty if the workflow does not exist.
    pub async fn workflow_versions(
        &self,
        realm: &RealmScope,
        name: &str,
    ) -> Result<Vec<Document<WorkflowDefinition>>, Unavailable> {
        let Some(VersionedRef { name, .. }) = VersionedRef::parse(name) else { return Ok(Vec::new()) };
        let reference = DocumentRef::parse(DocumentKind::Workflow, name);
        let documents = self.store().definitions(realm).versions(DocumentKind::Workflow, &reference).await?;
        documents.into_iter().map(parse).collect()
    }

    /// Compiles a workflow with the current step registrations and condition bindings. Returns all issues of a workflow
    /// that cannot run.
    pub async fn compile_workflow(
        &self,
        realm: &RealmScope,
        document: Document<WorkflowDefinition>,
    ) -> Result<Result<CompiledWorkflow, Vec<WorkflowIssue>>, Unavailable> {
        let source = self.workflow_source(realm, document.body.clone()).await?;
        let schema = document.body.input_schema.clone();
        let compile = move || {
            let graph = Arc::new(WorkflowGraph::compile(source)?);
            let input = schema.map(|schema| compile_schema("/inputSchema", schema)).transpose()?;
            if let Some(schema) = document.body.output_schema.clone() {
                compile_schema("/outputSchema", schema)?;
            }
            Ok(CompiledWorkflow { document, graph, input })
        };
        Ok(toolwright_budget::offload(compile).await.unwrap_or_else(|stopped| {
            Err(vec![WorkflowIssue::error("too_large", "", format!("the workflow cannot be compiled: {stopped}"))])
        }))
    }

    /// Reads the step registrations and condition bindings that a workflow refers to.
    async fn workflow_source(
        &self,
        realm: &RealmScope,
        definition: WorkflowDefinition,
    ) -> Result<WorkflowSource, Unavailable> {
        let handlers: BTreeSet<&str> = definition.steps.iter().map(|step| step.handler_ref.as_str()).collect();
        let mut registrations = BTreeMap::new();
        for name in handlers.into_iter().filter(|name| !step_handlers::ALL.contains(name) && !name.contains('@')) {
            let found: Option<StepRegistration> = self.definition(realm, DocumentKind::StepRegistration, name).await?;
            registrations.extend(found.filter(|found| found.enabled).map(|found| (name.to_owned(), found)));
        }
        let mut conditions = BTreeMap::new();
        let names: BTreeSet<&str> = definition.steps.iter().filter_map(|step| step.condition_ref.as_deref()).collect();
        for name in names {
            let found: Option<ConditionBinding> = self.definition(realm, DocumentKind::ConditionBinding, name).await?;
            conditions.extend(found.map(|found| (name.to_owned(), found.condition)));
        }
        Ok(WorkflowSource { definition: Arc::new(definition), registrations, conditions })
    }

    async fn definition<T: serde::de::DeserializeOwned>(
        &self,
        realm: &RealmScope,
        kind: DocumentKind,
        name: &str,
    ) -> Result<Option<T>, Unavailable> {
        let reference = DocumentRef::parse(kind, name);
        let found = self.store().definitions(realm).get(kind, &reference).await?;
        found.map(parse).transpose().map(|found| found.map(|document| document.body))
    }
}

fn parse<T: serde::de::DeserializeOwned>(document: Document<Value>) -> Result<Document<T>, Unavailable> {
    let invalid = |source: BoxError| Unavailable::new("a stored definition is not valid in this release", source);
    document.try_map(serde_json::from_value).map_err(|error: serde_json::Error| invalid(Box::new(error)))
}

fn compile_schema(path: &str, schema: Value) -> Result<Arc<Schema>, Vec<WorkflowIssue>> {
    let compiled = Schema::compile(schema).map(Arc::new);
    compiled.map_err(|violation| {
        vec![WorkflowIssue::error("schema", format!("{path}{}", violation.path), violation.message)]
    })
}
